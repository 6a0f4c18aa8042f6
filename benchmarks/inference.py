"""Inference in native kernels against eager and against PyTorch's operators: times, ratios, and what compiling costs.

    python benchmarks/inference.py --models gpt2,resnet --rounds 9

Ways take turns in one process; medians. A second table has single functions on one thread, and the cost of a call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import click
import torch
from torch.nn.functional import gelu

import fxc

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

INPUTS: Mapping[str, Callable[[], tuple[torch.Tensor, ...]]] = {
    "gpt2": lambda: (torch.randint(50257, (1, 128)),),
    "convnext": lambda: (torch.randn(1, 3, 224, 224),),
    "resnet": lambda: (torch.randn(1, 3, 224, 224),),
    "bert": lambda: import_module("examples.models.bert").get_inputs(),
}
FUNCTIONS: Mapping[str, tuple[Callable[..., torch.Tensor], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "gelu(sigmoid(x) * x + b)": (
        lambda x, b: gelu(torch.sigmoid(x) * x + b),
        lambda: (torch.randn(1 << 14, 64), torch.randn(64)),
    ),
    "where(x > y, exp(-x * x) + z, tanh(y) * z)": (
        lambda x, y, z: torch.where(x > y, torch.exp(-x * x) + z, torch.tanh(y) * z),
        lambda: tuple(torch.randn(1 << 20) for _ in range(3)),
    ),
    "sigmoid(x) * x of 64 elements": (lambda x: torch.sigmoid(x) * x, lambda: (torch.randn(64),)),
}


@click.command(help=__doc__)
@click.option("--models", default=",".join(INPUTS), show_default=True)
@click.option("--rounds", default=9, show_default=True)
def main(models: str, rounds: int) -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}")
    for name in models.split(","):
        torch.manual_seed(0)
        report(name, import_module(f"examples.models.{name}").Model().eval(), INPUTS[name](), rounds, 1)
    torch.set_num_threads(1)
    for name, (function, inputs) in FUNCTIONS.items():
        arguments = inputs()
        report(name, function, arguments, rounds, 1 if arguments[0].numel() > 1000 else 10_000)


@torch.no_grad()
def report(name: str, model: Callable[..., Any], inputs: tuple[torch.Tensor, ...], rounds: int, calls: int) -> None:
    """One line; a time is that of one of ``calls``."""
    start = perf_counter()
    kernels = fxc.compile(model, inputs, options={"target": "host"})
    compiling = perf_counter() - start
    ways = {"eager": model, "kernels": kernels, "operators": fxc.compile(model, inputs)}
    torch.testing.assert_close(kernels(*inputs), model(*inputs), rtol=1e-3, atol=1e-4)
    times = {way: list[float]() for way in ways}
    for _ in range(rounds):
        for way, function in ways.items():
            start = perf_counter()
            for _ in range(calls):
                function(*inputs)
            times[way].append((perf_counter() - start) / calls)
    eager = median(times["eager"])
    print(f"{name}: compiled in {compiling:.1f} s", end="")
    for way, found in times.items():
        print(f"; {way} {median(found) * 1e3:.4g} ms ({median(found) / eager:.2f})", end="")
    print(flush=True)


if __name__ == "__main__":
    main()
