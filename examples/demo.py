"""The main job on two real models: capture, readable IR, a pass pipeline, FX graphs back, the same numbers as eager.

GPT-2 (12 layers, 124M parameters) comes from torch.export; ConvNeXt (depths 3, 3, 27, 3) from torch.fx.symbolic_trace, so
that its calls are converted to ATen operators first. Random weights, nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import fxc
from fxc.driver.instrumentation import Statistics
from fxc.driver.runner import RunOptions, run_pipeline
from fxc.pipelines import parse_pipeline

PIPELINE = "lower-to-torch,simplify"
MODELS = Path(__file__).parent / "models"
console = Console(width=118, highlight=False)


def model_and_inputs(name: str) -> tuple[torch.nn.Module, tuple]:
    """The model at its real size, with example inputs."""
    spec = importlib.util.spec_from_file_location(name, MODELS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    return module.Model().eval(), module.get_inputs()


def show_text(title: str, text: str, lines: int) -> None:
    console.rule(f"[bold]{title}")
    for line in text.splitlines()[:lines]:
        console.print(line if len(line) < 116 else line[:113] + "...", markup=False)
    console.print(f"... {max(len(text.splitlines()) - lines, 0)} more lines", style="dim")


def demonstrate(name: str, route: str) -> bool:
    """Runs one model through; True where the numbers are eager's."""
    model, inputs = model_and_inputs(name)
    parameters = sum(p.numel() for p in model.parameters())
    start = time.perf_counter()
    program = fxc.capture(model, inputs, route=route)
    console.rule(
        f"[bold green]{name}: {parameters / 1e6:.0f}M parameters, captured by {route} in {time.perf_counter() - start:.1f} s"
    )
    show_text(f"{name} as captured", str(program), 12)

    result, statistics = program.copy(), Statistics()
    start = time.perf_counter()
    run_pipeline(result.context, result.module, parse_pipeline(PIPELINE), RunOptions(instrumentations=(statistics,)))
    seconds = time.perf_counter() - start
    table = Table("pass", "ops before", "ops after", "ms", "did", title=f"{name}: {PIPELINE} in {seconds:.2f} s")
    for run, row in zip(statistics.runs, statistics.rows(), strict=True):
        table.add_row(row[0], row[1], row[2], f"{run.seconds * 1e3:.0f}", row[3])
    console.print(table)
    show_text(f"{name} after the pipeline", str(result), 10)

    graph = fxc.to_fx(result)
    with torch.no_grad():
        expected, actual = model(*inputs), graph(*inputs)
    difference = max(
        (a - b).abs().max().item() for a, b in zip(*map(torch.utils._pytree.tree_leaves, (expected, actual)), strict=True)
    )
    try:
        torch.testing.assert_close(actual, expected)
        verdict, same = "[bold green]equal to eager", True
    except AssertionError:
        verdict, same = "[bold red]differs from eager", False
    console.print(f"{name}: {len(graph.graph.nodes)} FX nodes, max difference {difference:.1e}: {verdict}\n")
    return same


def main() -> int:
    start = time.perf_counter()
    results = [demonstrate("gpt2", "export"), demonstrate("convnext", "symbolic_trace")]
    console.print(f"{sum(results)} of {len(results)} models equal eager, in {time.perf_counter() - start:.0f} s")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
