"""The peak memory of training steps: eager, Inductor, and fxc under budgets of memory.

    python benchmarks/memory.py [--models GPT-2,ConvNeXt] [--rounds 0] [--write intel-avx512]

A peak is what PyTorch's CPU allocator hands out at one time during forward and backward, beside parameters and inputs. It does
not depend on the speed of the machine. With ``--rounds``, all steps run in turns, and their times are ratios to eager. The
models are those of ``examples/models`` with fewer and smaller layers.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
import torch
from interleaved import Spread, by_turns
from results import Measurement, about, cpu, read, write

from fxc.tools.memory import Peak, measure, run_step, step_peak
from fxc.tools.sources import load_source

MODELS = Path(__file__).resolve().parents[1] / "examples" / "models"
BUDGETS = ("1.0", "0.75", "0.5", "0.25", "0")
SECONDS = 120.0
"""The time for the turns of one model."""


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, MODELS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    return module


def gpt2() -> tuple[Any, Any]:
    made = _module("gpt2")
    model = made.Model(vocab=512, context=128, layers=4, width=128, heads=4)
    return model, made.get_inputs(batch=4, tokens=128, vocab=512)


def convnext() -> tuple[Any, Any]:
    made = _module("convnext")
    return made.Model(depths=(1, 1, 3, 1), dims=(16, 32, 64, 128), classes=10), made.get_inputs(batch=4, size=96)


def resnet() -> tuple[Any, Any]:
    made = _module("resnet")
    return made.Model(width=16, classes=10), made.get_inputs(batch=4, size=96)


def llama() -> tuple[Any, Any]:
    made = _module("llama")
    model = made.Model(vocab=512, layers=4, width=128, heads=4, kv_heads=2, hidden=344)
    more = {"vocab": 512, "layers": 4, "kv_heads": 2, "head_width": 32}
    return model, made.get_inputs(batch=4, tokens=128, past=0, context=128, **more)


FACTORIES: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "GPT-2": gpt2,
        "ConvNeXt": convnext,
        "ResNet-50": resnet,
        "Llama-like": llama,
    }
)


def measured(name: str, rounds: int) -> list[Measurement]:
    """The measurements of a model. ``rounds``: of times; 0 for none."""
    text = f"{Path(__file__).resolve()}:{FACTORIES[name].__name__}"
    peaks = measure(text, BUDGETS)
    source = load_source(text, train=True)
    torch.compiler.reset()
    inductor = step_peak(source, torch.compile(source.model))
    found = [
        Measurement({"model": name, "budget": ""}, "peak, MiB", "eager", _mib(peaks[0].measured)),
        Measurement({"model": name, "budget": ""}, "peak, MiB", "Inductor", _mib(inductor)),
    ]
    for each in peaks[1:]:
        found.append(Measurement({"model": name, "budget": each.budget}, "peak, MiB", "fxc", _mib(each.measured)))
        found.append(Measurement({"model": name, "budget": each.budget}, "simulated peak, MiB", "fxc", _mib(each.simulated)))
    click.echo(f"{name}: eager {peaks[0].measured / 2**20:.2f} MiB, Inductor {inductor / 2**20:.2f} MiB")
    for each in peaks[1:]:
        click.echo(f"  fxc {each.budget:5} {each.measured / 2**20:.2f} MiB, simulated {each.simulated / 2**20:.2f} MiB")
    click.echo(f"  {'monotone' if is_monotone(peaks[1:]) else 'NOT MONOTONE'}")
    return [*found, *_times(name, source.model, source.args, rounds)] if rounds else found


def is_monotone(peaks: Sequence[Peak]) -> bool:
    """Whether a smaller budget never has a higher measured peak."""
    return all(later.measured <= earlier.measured for earlier, later in pairwise(peaks))


def _times(name: str, model: Any, args: Sequence[Any], rounds: int) -> list[Measurement]:
    """Times of steps as ratios to eager."""
    torch.compiler.reset()
    calls = {("eager", ""): model, ("Inductor", ""): torch.compile(model)}
    for budget in BUDGETS:
        calls["fxc", budget] = torch.compile(model, backend="fxc", options={"memory_budget": budget})
    times = by_turns({" ".join(key): partial(run_step, call, args) for key, call in calls.items()}, rounds, SECONDS)
    found = list[Measurement]()
    for implementation, budget in [*calls][1:]:
        of_it = times[f"{implementation} {budget}"]
        spread = Spread.of([mine / eager for mine, eager in zip(of_it, times["eager "], strict=True)])
        found.append(Measurement.of({"model": name, "budget": budget}, "time", implementation, spread, "eager"))
    return found


def _mib(bytes: int) -> float:
    return bytes / 2**20


@click.command()
@click.option("--models", default=",".join(FACTORIES), show_default=True)
@click.option("--rounds", default=0, show_default=True, help="Rounds in which all steps run in turns; 0: no times.")
@click.option(
    "--write", "machine", metavar="MACHINE", help="Write benchmarks/results/memory-MACHINE.csv; other models in it stay."
)
def main(models: str, rounds: int, machine: str | None) -> None:
    found = [each for name in models.split(",") for each in measured(name, rounds)]
    if machine:
        others = [each for each in read(f"memory-{machine}") if each.labels["model"] not in models.split(",")]
        found = sorted([*others, *found], key=lambda each: [*FACTORIES].index(each.labels["model"]))
        click.echo(write(f"memory-{machine}", found, about(cpu()[1], notes="Models of examples/models with smaller layers.")))


if __name__ == "__main__":
    main()
