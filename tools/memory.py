"""The implementation of ``fxc memory``: measure and simulate the peak memory of training steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from xdsl.dialects.builtin import UnitAttr

import fxc
from fxc.api import joint_pipeline, pipeline_for, with_machine
from fxc.codegen.contract import target_named
from fxc.compilation.passes import Passes
from fxc.dialects.plan import BOXED
from fxc.dialects.target import GPU, HOST
from fxc.errors import CaptureError, InputError
from fxc.measure.peak import peak_bytes
from fxc.options import Options
from fxc.passes.operators.peak_memory import TrainingStep
from fxc.pipelines import AOT
from fxc.program.program import Program
from fxc.runtime.units import bytes_text
from fxc.tools.command_line import progress
from fxc.tools.sources import ModelSource, load_source
from fxc.tools.svg_plot import BLUE, GREY, ORANGE, svg_plot
from fxc.torch_compile import capture_joint

_TARGETS = MappingProxyType({"cpu": HOST, "cuda": GPU})


@dataclass(frozen=True)
class Peak:
    """The peak of a training step in bytes. ``budget``: empty for eager mode."""

    budget: str
    measured: int
    simulated: int


def measure(text: str, budgets: Sequence[str], device: str = "cpu") -> list[Peak]:
    """The peaks of SOURCE ``text`` on ``device`` in eager mode, then with each budget."""
    import torch

    source = load_source(text, train=True)
    if isinstance(source.model, torch.export.ExportedProgram):
        raise InputError(f"{text} is a captured program, which is not trained", hint="name the model")
    source = on_device(source, device)
    with progress("running in eager mode"):
        torch.compiler.reset()
        program = capture_joint(source.model, source.args)
        found = [Peak("", step_peak(source, source.model, device), peak_of_eager(program.copy()))]
    for budget in budgets:
        with progress(f"compiling with budget {budget}"):
            options = options_of(budget, device)
            simulated = planned_peak(program.copy(), options)
            torch.compiler.reset()
            found.append(Peak(budget, step_peak(source, compiled(source, options), device), simulated))
    return found


def on_device(source: ModelSource, device: str) -> ModelSource:
    """``source`` with weights and inputs on ``device``, ``cpu`` or ``cuda``. PipelineError where there is no GPU."""
    from torch import Tensor, nn
    from torch.utils._pytree import tree_map_only

    target_named(_TARGETS[device])
    if isinstance(source.model, nn.Module):
        source.model.to(device)
    return replace(source, args=tree_map_only(Tensor, lambda tensor: tensor.to(device), source.args))


def options_of(budget: float | str, device: str) -> Options:
    return Options(memory_budget=budget, target=_TARGETS[device])


def compiled(source: ModelSource, options: Options) -> Callable[..., Any]:
    """The model by ``torch.compile``, with these options."""
    import torch

    given = {"memory_budget": options.memory_budget, "target": options.target}
    return torch.compile(source.model, backend="fxc", options=cast("dict[str, Any]", given))


def planned_peak(joint: Program, options: Options) -> int:
    """The peak of a step as planned for ``options``."""
    Passes(joint_pipeline(options), options).run(joint)
    step = TrainingStep.of(joint.module)
    assert step is not None
    step.backward.attributes[BOXED] = UnitAttr()
    options = with_machine(options, AOT, joint)
    Passes(f"builtin.module(builtin.module({pipeline_for(AOT, options)}))", options).run(joint)
    step = TrainingStep.of(joint.module)
    assert step is not None
    return step.memory().peak


def peak_of_eager(joint: Program) -> int:
    """The peak of a step of the captured graph in its order."""
    Passes("lower-to-torch,partition-default,split-joint", Options()).run(joint)
    step = TrainingStep.of(joint.module)
    assert step is not None
    return step.memory().peak


def run_step(call: Callable[..., Any], args: Sequence[Any]) -> None:
    """Forward, and backward from gradients of ones. CaptureError where no result requires a gradient."""
    import torch
    from torch.utils._pytree import tree_leaves

    results = [leaf for leaf in tree_leaves(call(*args)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not results:
        raise CaptureError("no result of the model requires a gradient", hint="give it parameters that require one")
    torch.autograd.backward(results, [torch.ones_like(result) for result in results])


def clear_gradients(source: ModelSource) -> None:
    """Drop the gradients of parameters and inputs, so that the next step does not add to them."""
    from torch import Tensor, nn
    from torch.utils._pytree import tree_leaves

    parameters = source.model.parameters() if isinstance(source.model, nn.Module) else ()
    for leaf in (*parameters, *tree_leaves(source.args)):
        if isinstance(leaf, Tensor):
            leaf.grad = None


def step_peak(source: ModelSource, call: Callable[..., Any], device: str = "cpu") -> int:
    """The measured peak of the second step of ``call``, in which nothing is compiled."""
    step = partial(run_step, call, source.args)
    step()
    clear_gradients(source)
    fxc.release_memory()
    peak = peak_bytes(step, device)
    clear_gradients(source)
    return peak


def table(peaks: Sequence[Peak]) -> str:
    """The peaks as text."""
    rows = [("", "budget", "measured", "of eager", "simulated", "of measured")]
    for each in peaks:
        of_eager, of_measured = each.measured / peaks[0].measured, each.simulated / each.measured
        cells = bytes_text(each.measured), f"{of_eager:.2f}", bytes_text(each.simulated), f"{of_measured:.2f}"
        rows.append(("fxc" if each.budget else "eager", each.budget, *cells))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [
        [cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    ]
    return "".join("  ".join(row).rstrip() + "\n" for row in aligned)


def draw(peaks: Sequence[Peak], title: str, path: Path) -> None:
    """Write an SVG plot of the peaks over the budgets. InputError without matplotlib."""
    eager, *others = peaks
    with svg_plot(path) as axes:
        axes.axhline(eager.measured / 1e6, color=GREY, linewidth=1, label="eager")
        budgets = [each.budget for each in others]
        axes.plot(budgets, [each.measured / 1e6 for each in others], "o-", color=BLUE, label="fxc, measured")
        axes.plot(budgets, [each.simulated / 1e6 for each in others], "x--", color=ORANGE, label="fxc, simulated")
        axes.set(title=title, xlabel="memory_budget", ylabel="peak of a step, MB", ylim=(0, None))
