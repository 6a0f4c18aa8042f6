"""A training step (forward, backward, AdamW) through ``fxc.compile(training=True)``, against eager, aot_eager and Inductor.

    python benchmarks/training.py [--models gpt2,convnext,resnet] [--rounds 5] [--small] [--json build/training.json]

Every way trains the same parameters with the same optimizer, in turns in one process, so that what else the machine does
meets all of them. Times are medians, with the quartiles as the spread; ratios are to eager, below 1 is better. Memory is the
most that was allocated at once in a step beyond what was there before it (parameters, optimizer state), as PyTorch's CPU
allocator reports to ``torch.profiler``: buffers that Inductor's code allocates past the dispatcher are counted, scratch
memory inside a library's kernel is not.

The compile time is that of a fresh process, pass by pass: capture, the pipeline, which ends in the first derivative,
the export, and what a first step takes over a second one (derivatives are compiled where other gradients arrive).
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import shutil
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import torch
from results import write_json
from rich.console import Console
from rich.table import Table

from fxc.measure.peak import peak_bytes

ROOT = Path(__file__).parent.parent
SIZES: dict[str, dict[str, int]] = {"gpt2": {"batch": 1, "tokens": 64}, "convnext": {"batch": 1}, "resnet": {"batch": 2}}
BOUND = 10_000.0
"""Milliseconds of CPU that the compiler may take for a model with its backward, after its capture."""
console = Console(width=118, highlight=False)
Step = Callable[[], None]


def load(name: str, small: bool) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """The model in train mode at its real size, or the one that the tests use, with inputs."""
    module = runpy.run_path(str(ROOT / "examples" / "models" / f"{name}.py"))
    torch.manual_seed(0)
    model, inputs = module["small"]() if small else (module["Model"](), module["get_inputs"](**SIZES[name]))
    return model.train(), inputs


def step_of(call: Callable[..., Any], inputs: tuple[Any, ...], optimizer: torch.optim.Optimizer) -> Step:
    def step() -> None:
        call(*inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


class Clock:
    """Milliseconds of (wall, CPU) by name."""

    def __init__(self) -> None:
        self.times = dict[str, tuple[float, float]]()

    @contextmanager
    def __call__(self, name: str) -> Generator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.add(name, time.perf_counter() - wall, time.process_time() - cpu)

    def add(self, name: str, wall: float, cpu: float) -> None:
        before = self.times.get(name, (0.0, 0.0))
        self.times[name] = (round(before[0] + wall * 1e3, 1), round(before[1] + cpu * 1e3, 1))


def compile_times(name: str, small: bool) -> dict[str, tuple[float, float]]:
    """What ``fxc.compile(training=True)`` does, stage by stage and pass by pass. For a process where nothing is warm."""
    import fxc
    from fxc.compilation.passes import Passes
    from fxc.pipelines import TRAINING

    torch.set_num_threads(1)  # CPU time is then that of the compiler
    model, inputs = load(name, small)
    clock, optimizer = Clock(), torch.optim.SGD(model.parameters(), lr=0.0)
    step_of(model, inputs, optimizer)()  # so that the memory of a step has been touched
    with clock("capture"):
        program = fxc.capture(model, inputs)
    passes = Passes(TRAINING.text(kernels=False, freeze=False), fxc.Options())
    passes.run(program)
    root = passes.timer.root
    for stage, span in root.children.items():
        clock.add(stage, span.wall, span.cpu)
        for part, inner in span.children.items():
            clock.add(f"  {part} of {stage}", inner.wall, inner.cpu)
    with clock("export"):
        graph = fxc.to_fx(program)
    first, later = Clock(), Clock()
    step = step_of(graph, inputs, optimizer)
    with first("step"):
        step()
    with later("step"):
        step()
    wall, cpu = (max(0.0, a - b) / 1e3 for a, b in zip(first.times["step"], later.times["step"], strict=True))
    clock.add("first step over the second", wall, cpu)
    stages = [times for stage, times in clock.times.items() if not stage.startswith(" ")]
    wall, cpu = (sum(column) / 1e3 for column in zip(*stages, strict=True))
    clock.add("total", wall, cpu)
    clock.add("total without capture", wall - clock.times["capture"][0] / 1e3, cpu - clock.times["capture"][1] / 1e3)
    return clock.times


def ways(model: torch.nn.Module, inputs: tuple[Any, ...]) -> dict[str, Callable[..., Any]]:
    """The callables to compare; Inductor where there is a C++ compiler for its kernels."""
    import fxc

    found: dict[str, Callable[..., Any]] = {
        "eager": model,
        "fxc": fxc.compile(model, inputs, training=True, options={"target": None}),
        "aot_eager": torch.compile(model, backend="aot_eager"),
    }
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler:
        found["inductor"] = torch.compile(model, backend="inductor")
    else:
        console.print("Inductor is left out: there is no g++, and CXX names no other C++ compiler")
    return found


def measure(name: str, small: bool, rounds: int) -> dict[str, dict[str, float]]:
    """By way: milliseconds a step (median and quartiles), megabytes at the peak, seconds of the first step, and ratios."""
    torch.compiler.reset()
    model, inputs = load(name, small)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    steps = {way: step_of(call, inputs, optimizer) for way, call in ways(model, inputs).items()}
    first = {way: seconds(step) for way, step in steps.items()}
    times: dict[str, list[float]] = {way: [] for way in steps}
    for i in range(rounds + 1):
        for way, step in steps.items():
            times[way].append(seconds(step)) if i else step()
    results = dict[str, dict[str, float]]()
    for way, found in times.items():
        low, median, high = statistics.quantiles(found, n=4, method="inclusive")
        results[way] = {"ms": median * 1e3, "low": low * 1e3, "high": high * 1e3, "peak_mb": peak_bytes(steps[way]) / 1e6}
        results[way]["first_step_s"] = first[way]
    pairs = {way: [mine / eager for mine, eager in zip(times[way], times["eager"], strict=True)] for way in times}
    for way, result in results.items():
        result["time_ratio"] = statistics.median(pairs[way])
        result["peak_ratio"] = result["peak_mb"] / results["eager"]["peak_mb"]
    return {way: {key: round(value, 3) for key, value in result.items()} for way, result in results.items()}


def show(name: str, parameters: float, steps: dict[str, dict[str, float]], compiling: dict[str, tuple[float, float]]) -> None:
    table = Table("", "ms a step", "quartiles", "ratio", "peak MB", "ratio", "first step s", title=f"{name}, {parameters:.1f}M")
    for way, r in steps.items():
        numbers = f"{r['ms']:.1f}", f"{r['low']:.1f} to {r['high']:.1f}", f"{r['time_ratio']:.2f}"
        table.add_row(way, *numbers, f"{r['peak_mb']:.1f}", f"{r['peak_ratio']:.2f}", f"{r['first_step_s']:.1f}")
    console.print(table)
    table = Table("compiling, with backward", "ms", "ms of CPU", title=name)
    for stage, (wall, cpu) in compiling.items():
        table.add_row(stage, f"{wall:.1f}", f"{cpu:.1f}")
    console.print(table)


@click.command()
@click.option("--models", default="gpt2,convnext,resnet", show_default=True, help="of examples/models")
@click.option("--rounds", default=5, type=click.IntRange(2), show_default=True, help="measured steps of each way")
@click.option("--small", is_flag=True, help="the small models of the tests, instead of GPT-2 small, ConvNeXt-S and ResNet-50")
@click.option("--json", "path", default=ROOT / "build" / "training.json", type=click.Path(path_type=Path), help="the numbers")
def main(models: str, rounds: int, small: bool, path: Path) -> None:
    """Step time, peak memory and compile time of training; exit status 1 where compiling takes longer than its bound."""
    results = dict[str, Any]()
    for name in models.split(","):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            compiling = pool.apply(compile_times, (name, small))
        steps = measure(name, small, rounds)
        parameters = sum(p.numel() for p in load(name, small)[0].parameters()) / 1e6
        results[name] = {"parameters_millions": round(parameters, 3), "steps": steps, "compile_ms": compiling}
        show(name, parameters, steps, compiling)
    write_json(path, {"threads": torch.get_num_threads(), "models": results})
    console.print(f"wrote {path}")
    if max(found["compile_ms"]["total without capture"][1] for found in results.values()) > BOUND:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
