"""The peak memory of training steps: eager, Inductor, and fxc under budgets of memory.

    python benchmarks/memory.py [--models GPT-2,ConvNeXt] [--rounds 0] [--device cuda] [--write intel-avx512]

A peak is what PyTorch's allocator hands out at one time during forward and backward, beside parameters and inputs. On a CPU it
does not depend on the machine. With ``--rounds``, all steps run in turns, and their times are ratios to eager. The models are
those of ``examples/models`` with fewer layers, for a CPU also smaller ones. What fails is recorded, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
import torch
from interleaved import Spread, by_turns
from results import FAILED, FOLDER, Measurement, about, cpu, read, write

from fxc.codegen.triton import device as gpu
from fxc.tools.memory import clear_gradients, compiled, on_device, options_of, planned_peak, run_step, step_peak
from fxc.tools.sources import ModelSource, import_source
from fxc.torch_compile import capture_joint

MODELS = Path(__file__).resolve().parents[1] / "examples" / "models"
BUDGETS = "1.0,0.75,0.5,0.25,0"
SECONDS = 120.0
"""The time for the turns of one model."""
FILES: Mapping[str, str] = MappingProxyType(
    {"GPT-2": "gpt2", "ConvNeXt": "convnext", "ResNet-50": "resnet", "Llama-like": "llama"}
)

SIZES: Mapping[str, Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]] = MappingProxyType(
    {
        "cpu": {
            "GPT-2": ({"vocab": 512, "context": 128, "layers": 4, "width": 128, "heads": 4}, {"batch": 4, "vocab": 512}),
            "ConvNeXt": ({"depths": (1, 1, 3, 1), "dims": (16, 32, 64, 128), "classes": 10}, {"size": 96}),
            "ResNet-50": ({"width": 16, "classes": 10}, {"size": 96}),
            "Llama-like": (
                {"vocab": 512, "layers": 4, "width": 128, "heads": 4, "kv_heads": 2, "hidden": 344},
                {"batch": 4, "tokens": 128, "past": 0, "vocab": 512, "layers": 4, "kv_heads": 2, "head_width": 32},
            ),
        },
        "cuda": {
            "GPT-2": ({"layers": 4}, {"batch": 8, "tokens": 1024}),
            "ConvNeXt": ({"depths": (1, 1, 3, 1)}, {"batch": 64}),
            "ResNet-50": ({"depths": (1, 2, 2, 1)}, {"batch": 64}),
            "Llama-like": ({"layers": 4}, {"batch": 4, "tokens": 1024, "past": 0, "context": 1024, "layers": 4}),
        },
    }
)
"""By device and model: arguments of ``Model``, and of ``get_inputs``."""


def source_of(name: str, device: str) -> ModelSource:
    """The model for training, with inputs."""
    module = import_source(str(MODELS / f"{FILES[name]}.py"))
    model, inputs = SIZES[device][name]
    torch.manual_seed(0)
    return on_device(ModelSource(name, module.Model(**model).train(), module.get_inputs(**inputs)), device)


def measured(name: str, budgets: Sequence[str], rounds: int, device: str) -> Iterator[Measurement]:
    """The measurements of a model. ``rounds``: of times; 0 for none."""
    source = source_of(name, device)
    torch.compiler.reset()
    joint = cache(lambda: capture_joint(source.model, source.args))
    steps, peaks = dict[tuple[str, str], Callable[[], None]](), list[float]()
    for implementation, budget in (("eager", ""), ("Inductor", ""), *(("fxc", budget) for budget in budgets)):
        labels, options = {"model": name, "budget": budget}, options_of(budget or 1.0, device)
        try:
            call = source.model
            if implementation != "eager":
                call = torch.compile(call) if implementation == "Inductor" else compiled(source, options)
            found = [Measurement(labels, "peak, MiB", implementation, step_peak(source, call, device) / 2**20)]
            steps[implementation, budget] = partial(_step, source, call)
            if implementation == "fxc":
                simulated = planned_peak(joint().copy(), options) / 2**20
                found.append(Measurement(labels, "simulated peak, MiB", implementation, simulated))
        except Exception as error:  # the others are measured
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
            found = [Measurement(labels, FAILED, implementation, note=why)]
        yield from found
        peaks += [each.value for each in found[:1] if each.value and budget]
        shown = ", ".join(f"{each.quantity} {each.note or f'{each.value:.2f}'}" for each in found)
        click.echo(f"{name}: {implementation} {budget}: {shown}")
    click.echo(f"{name}: {'monotone' if is_monotone(peaks) else 'NOT MONOTONE'}")
    if rounds and ("eager", "") in steps:
        for (implementation, budget), spread in _times(steps, rounds, device).items():
            click.echo(f"{name}: {implementation} {budget}: {spread.median:.3f} of eager's time")
            yield Measurement.of({"model": name, "budget": budget}, "time", implementation, spread, "eager")


def _step(source: ModelSource, call: Callable[..., Any]) -> None:
    run_step(call, source.args)
    clear_gradients(source)  # gradients of another implementation may lie otherwise in memory: adding to them would count


def is_monotone(peaks: Sequence[float]) -> bool:
    """Whether a smaller budget never has a higher measured peak."""
    return all(later <= earlier for earlier, later in pairwise(peaks))


def _times(steps: Mapping[tuple[str, str], Callable[[], None]], rounds: int, device: str) -> dict[tuple[str, str], Spread]:
    """Times of steps as ratios to eager."""
    if device == "cuda":
        medians = gpu.by_turns(list(steps.values()), gpu.EventClock(), rounds)
        return {key: Spread.of([time / medians[0]]) for key, time in [*zip(steps, medians, strict=True)][1:]}
    times = by_turns({" ".join(key): step for key, step in steps.items()}, rounds, SECONDS)
    eager, *others = times.values()
    return {
        key: Spread.of([mine / base for mine, base in zip(of_it, eager, strict=True)])
        for key, of_it in zip([*steps][1:], others, strict=True)
    }


@click.command()
@click.option("--models", default=",".join(FILES), show_default=True)
@click.option("--budgets", default=BUDGETS, show_default=True, help="Values of memory_budget, the largest first.")
@click.option("--rounds", default=0, show_default=True, help="Rounds in which all steps run in turns; 0: no times.")
@click.option("--device", type=click.Choice([*SIZES]), default="cpu", show_default=True)
@click.option("--write", "machine", metavar="MACHINE", help="Write memory-MACHINE.csv; other models in it stay.")
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, help="The folder of that file.")
def main(models: str, budgets: str, rounds: int, device: str, machine: str | None, folder: Path) -> None:
    """Show peaks. The file of results is written after each model."""
    torch._dynamo.config.recompile_limit = 100  # each implementation is one of the same code
    for name in models.split(","):
        found = [*measured(name, budgets.split(","), rounds, device)]
        if machine:
            others = [each for each in read(f"memory-{machine}", folder) if each.labels["model"] != name]
            found = sorted([*others, *found], key=lambda each: [*FILES].index(each.labels["model"]))
            described = torch.cuda.get_device_name() if device == "cuda" else cpu()[1]
            notes = f"Models of examples/models with fewer {'layers' if device == 'cuda' else 'and smaller layers'}."
            click.echo(
                write(
                    f"memory-{machine}", found, about(described, *(["triton"] if device == "cuda" else []), notes=notes), folder
                )
            )


if __name__ == "__main__":
    main()
