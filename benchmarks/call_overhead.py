"""What a call of a compiled function costs over running the same FX graph: checking the inputs, finding the plan, no_grad.

    python benchmarks/call_overhead.py [ROUNDS]

All run in turns in one process; the table holds medians in microseconds. ``graph`` is the GraphModule that a plan holds,
called under ``torch.no_grad``; ``cached`` is the same plan found by argument spec (``options={"recompile": True}``), ``other``
a plan that is not the one of the last call. The last column, ``cached`` over ``graph``, must stay under 15. Below
the table: host programs of one kernel, and of fifty that need one another, on tensors of 128 elements.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

import fxc

BOUND = 15.0


def increment(a: Tensor) -> Tensor:
    return a + 1


def add(a: Tensor, n: int) -> Tensor:
    return a + n


def add_product(a: Tensor, b: Tensor, n: int) -> Tensor:
    return a + b * n


def add_nested(a: Tensor, d: dict[str, list[Tensor]]) -> Tensor:
    return a + d["k"][0] + d["k"][1]


def add_ends(many: list[Tensor]) -> Tensor:
    return many[0] + many[31]


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    torch.set_num_threads(1)
    x = torch.randn(4, 4)
    batch = torch.export.Dim("batch", min=2, max=64)
    weights = [torch.randn(4, 4) for _ in range(32)]
    cases: dict[str, tuple[Callable[..., Tensor], tuple[Any, ...], dict[str, Any], Any]] = {
        "1 tensor": (increment, (x,), {}, None),
        "1 tensor, a free size": (increment, (x,), {}, ({0: batch},)),
        "2 tensors, a number": (add_product, (x, x, 3), {}, None),
        "1 tensor, a free number": (add, (x, 3), {}, (None, torch.export.Dim.DYNAMIC)),
        "nested, by keyword": (add_nested, (x,), {"d": {"k": [x, x]}}, None),
        "32 tensors in a list": (add_ends, (weights,), {}, None),
    }
    print(f"{'':24} {'graph':>8} {'compiled':>9} {'cached':>8} {'other':>8} {'overhead':>9}")
    worst = 0.0
    for name, (function, args, kwargs, dynamic) in cases.items():
        base, direct, hit, both = medians(runs_of(function, args, kwargs, dynamic), rounds)
        other = both / 2
        overhead = max(direct, hit) - base
        worst = max(worst, overhead)
        print(f"{name:24} {base:8.1f} {direct:9.1f} {hit:8.1f} {other:8.1f} {overhead:9.1f}")
    for kernels in (1, 50):
        compiled = fxc.compile(chain(kernels), (torch.randn(8, 16),), options={"target": "host"})
        started, x = compiled.plan.stats.launches, torch.randn(8, 16)
        [time] = medians([lambda compiled=compiled, x=x: compiled(x)], rounds)
        print(f"{started} kernels: {time:.1f} us, {time / started:.2f} us a kernel")
    return int(worst >= BOUND)


def chain(length: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Sums of rows and columns in turn: each needs all that the one before made, so that each is a kernel."""

    def function(a: torch.Tensor) -> torch.Tensor:
        for i in range(length):
            a = (a * 2 + i).sum(-1 - i % 2, keepdim=True) + a
        return a

    return function


def runs_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Any
) -> list[Callable[[], Any]]:
    """The graph, the compiled function, the cached plan, and two cached plans in turn."""
    compiled = fxc.compile(function, args, kwargs, dynamic_shapes=dynamic, options={"target": None})
    cached = fxc.compile(function, args, kwargs, dynamic_shapes=dynamic, options={"target": None, "recompile": True})
    graph, no_grad = compiled.plan.module, torch.no_grad
    other, keywords = tree_map_only(torch.Tensor, torch.Tensor.double, (args, kwargs))
    cached(*other, **keywords)

    def run_graph() -> None:
        with no_grad():
            graph(*args, **kwargs)

    def run_both() -> None:
        cached(*other, **keywords)
        cached(*args, **kwargs)

    return [run_graph, lambda: compiled(*args, **kwargs), lambda: cached(*args, **kwargs), run_both]


def medians(runs: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Median microseconds a call, each run once a round."""
    times: list[list[float]] = [[] for _ in runs]
    for i in range(rounds + rounds // 10):
        for run, found in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            if i >= rounds // 10:  # the first rounds warm up
                found.append(time.perf_counter() - start)
    return [statistics.median(found) * 1e6 for found in times]


if __name__ == "__main__":
    sys.exit(main())
