"""The public functions: capture, passes, export, compile. Wiring only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from xdsl.passes import ModulePass

from fxc.backends.fx import to_fx
from fxc.dialects.target import set_target
from fxc.errors import PipelineError, nearest
from fxc.execution_plan import ExecutionPlan, runnable
from fxc.frontends.capture import Model, capture
from fxc.frontends.fx import import_fx
from fxc.instrumentation import Instrumentation
from fxc.named_pipeline import Flow
from fxc.options import Options
from fxc.pass_registry import PassRegistry
from fxc.pipeline import Step, parse_pipeline
from fxc.pipelines import AOT, INFERENCE, TRAINING
from fxc.print_ir import PrintIR
from fxc.program import Program
from fxc.runner import RunOptions, run_pipeline
from fxc.runtime import autocast
from fxc.runtime.cache import PlanCache
from fxc.runtime.compiled import Compiled
from fxc.signature import signature_of, with_constants, with_moves
from fxc.specialization import mark_gradients
from fxc.timing import Timer

if TYPE_CHECKING:
    from torch.fx import GraphModule

__all__ = ["capture", "compile", "import_fx", "run_passes", "to_fx"]


def run_passes(
    program: Program,
    pipeline: str,
    *,
    options: Options | None = None,
    passes: Sequence[type[ModulePass] | str | Path] = (),
) -> Program:
    """A new program: ``program`` after ``pipeline`` (``"canonicalize,cse,dce"``); the given one is not changed.

    ``passes``: passes of your own that the pipeline may name: classes, or Python files with one pass each. Raises
    PipelineError for an unknown pass or option, PassError where a pass fails, NumericsError where ``options.check_numerics``
    finds a pass that changes the numbers.
    """
    result = program.copy()
    chosen = options or Options.from_env()
    run_pipeline_on(result, pipeline, replace(chosen, passes=(*chosen.passes, *passes)))
    return result


def compile(
    model: Model,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    training: bool = False,
    dynamic_shapes: Any = None,
    options: Options | Mapping[str, Any] | None = None,
) -> Compiled:
    """Captures ``model`` at example inputs, runs the pipeline, and gives a callable with ``.ir`` and ``.plan``.

    The callable takes what ``model`` takes, of the dtypes, devices and sizes of the example (``dynamic_shapes``, as
    torch.export has it, frees sizes), and returns what it returns. Parameters stay the model's own: training the model
    trains the callable.
    ``training``: whether results carry gradients. The model's train or eval mode is baked in as it is now, and so are the casts
    of the torch.autocast that this is called in; calls are to be made in the same one. Raises CaptureError where the model
    cannot be captured; calling raises InputError for inputs that do not fit, or captures again for them where ``options`` have
    ``recompile``.
    """
    chosen = run_options(options)
    maker = _PlanMaker(model, training, dynamic_shapes, chosen, _modes(model))
    args, kwargs = tuple(args), dict(kwargs or {})
    if not chosen.recompile:
        return Compiled(maker(args, kwargs))
    cache = PlanCache(chosen.cache_size, maker, gradients=training)
    return Compiled(cache.plan_for(args, kwargs), cache)


@dataclass(frozen=True)
class _PlanMaker:
    """Makes the plan of a call; a later call finds the model in the train or eval mode of the first."""

    model: Model
    training: bool
    dynamic_shapes: Any
    options: Options
    modes: Mapping[str, bool]

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExecutionPlan:
        import torch
        from torch.utils._pytree import tree_map_only

        # a cache has other plans for calls under no_grad
        training = self.training and (not self.options.recompile or torch.is_grad_enabled())
        if not (training and torch.is_inference_mode_enabled()):
            return self._make(args, kwargs, training)
        with torch.inference_mode(False):  # what is made there cannot train elsewhere
            args, kwargs = tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
            return self._make(args, kwargs, training)

    def _make(self, args: tuple[Any, ...], kwargs: dict[str, Any], training: bool) -> ExecutionPlan:
        times, start = dict[str, float](), perf_counter()
        with _in_modes(self.model, self.modes):
            program = capture(self.model, args, kwargs, dynamic_shapes=self.dynamic_shapes)
        signature = with_constants(signature_of(program), args, kwargs)
        if training:
            mark_gradients(program, signature, args, kwargs)
        times["capture"] = (perf_counter() - start) * 1e3
        with autocast.off():  # passes ask PyTorch what operators mean
            pipeline = pipeline_for(TRAINING if training else INFERENCE, self.options)
            timer = run_pipeline_on(program, pipeline + ",bring-inputs" * self.options.move_inputs, self.options)
            signature = with_moves(signature, program)
            times |= {name: span.wall * 1e3 for name, span in timer.root.children.items()}
            plan = ExecutionPlan.of(program, signature, training, times)
        if self.options.move_inputs and plan.host is None:
            raise PipelineError("move_inputs is on, but this plan is no host program", hint="name a target")
        if self.options.cuda_graphs:
            plan.use_cuda_graphs()
        return plan


def _modes(model: Any) -> dict[str, bool]:
    """Train or eval of each submodule, by path; empty for a function."""
    return {path: module.training for path, module in model.named_modules()} if hasattr(model, "named_modules") else {}


@contextmanager
def _in_modes(model: Any, modes: Mapping[str, bool]) -> Iterator[None]:
    before = _modes(model)
    changed = {path: mode for path, mode in modes.items() if before.get(path, mode) != mode}
    try:
        for path, mode in changed.items():
            model.get_submodule(path).training = mode
        yield
    finally:
        for path in changed:
            model.get_submodule(path).training = before[path]


def compile_graph(graph: GraphModule, options: Options) -> Callable[..., Any]:
    """An FX graph after the pipeline that ``options`` name, as a function: what torch.compile's backend does to each graph."""
    return compile_program(import_fx(graph), options)


def compile_program(program: Program, options: Options) -> Callable[..., Any]:
    """The same of a graph as a program, which is changed."""
    run_pipeline_on(program, pipeline_for(AOT, options), options)
    return runnable(program, cuda_graphs=options.cuda_graphs)


def pipeline_for(flow: Flow, options: Options) -> str:
    """The pipeline that ``options`` ask for; else that of ``flow``, down to kernels where there is a target for them."""
    return options.pipeline or flow.text(kernels=options.target is not None, freeze=options.freeze)


def run_options(options: Options | Mapping[str, Any] | None) -> Options:
    """``options`` over what the environment says. PipelineError for a field that Options does not have."""
    if isinstance(options, Options):
        return options
    names = [field.name for field in fields(Options)]
    for name in options or {}:
        if name not in names:
            raise PipelineError(f"fxc has no option {name!r}", hint=nearest(name, names) or f"options: {', '.join(names)}")
    return replace(Options.from_env(), **(options or {}))


def run_pipeline_on(program: Program, pipeline: str, options: Options) -> Timer:
    """Runs pipeline text over ``program`` in place, watched as ``options`` say; gives the times of its passes."""
    registry = PassRegistry()
    for extra in options.passes:
        registry = registry.with_file(Path(extra)) if isinstance(extra, (str, Path)) else registry.with_pass(extra)
    steps: tuple[Step, ...] = tuple(parse_pipeline(pipeline, registry))
    if options.target is not None:
        from fxc.backends.kernels import target_named

        set_target(program.module, target_named(options.target), autotune=options.autotune)
    timer = Timer()
    watchers = list[Instrumentation]()
    if options.print_ir:
        watchers.append(PrintIR(sys.stderr.write, after_change=True))
    if options.check_numerics:
        from fxc.semantics.check_numerics import CheckNumerics

        watchers.append(CheckNumerics(program))
    run_pipeline(
        program.context,
        program.module,
        steps,
        RunOptions(verify_each=options.verify_each, instrumentations=tuple(watchers), timer=timer),
    )
    if options.timing:
        for name, wall, share, cpu, _ in timer.rows():
            print(f"{name:40} {wall:9.1f} ms {share:6.1%} cpu {cpu:9.1f} ms", file=sys.stderr)
    return timer
