"""How the time of ``fuse`` grows with the program, with and without reductions.

    python benchmarks/fuse.py [--sizes 1250,2500,5000]

Programs: a chain of pointwise ops; softmax after softmax; reductions of one tensor along both dimensions, all of which are
read; transposes between pointwise ops.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from results import write_json

from fxc.dialects.text.syntax import parse_module
from fxc.passes.fusion.fuse.fuse import FusePass
from fxc.program.program import new_context

FULL, ROW, COLUMN = "tensor<64x256xf32>", "tensor<64x1xf32>", "tensor<1x256xf32>"
TURNED = "tensor<256x64xf32, #torch.meta<strides = [1, 256]>>"
Lines = tuple[list[str], int]
"""Ops, and the number of the value that is the result."""


def chain(count: int) -> Lines:
    return [f"%v{i + 1} = torch.aten.sigmoid.default(%v{i}) : ({FULL}) -> {FULL}" for i in range(count)], count


def softmaxes(count: int) -> Lines:
    lines = list[str]()
    for i in range(count // 6):
        lines += [
            f"%a{i} = torch.aten.amax.default(%v{i}, [1], true) : ({FULL}) -> {ROW}",
            f"%s{i} = torch.aten.sub.Tensor(%v{i}, %a{i}) : ({FULL}, {ROW}) -> {FULL}",
            f"%e{i} = torch.aten.exp.default(%s{i}) : ({FULL}) -> {FULL}",
            f"%t{i} = torch.aten.sum.dim_IntList(%e{i}, [1], true) : ({FULL}) -> {ROW}",
            f"%d{i} = torch.aten.div.Tensor(%e{i}, %t{i}) : ({FULL}, {ROW}) -> {FULL}",
            f"%v{i + 1} = torch.aten.add.Tensor(%d{i}, %v{i}) : ({FULL}, {FULL}) -> {FULL}",
        ]
    return lines, count // 6


def siblings(count: int) -> Lines:
    sums, reads = list[str](), list[str]()
    for i in range(count // 2):
        type = ROW if i % 2 else COLUMN
        sums.append(f"%s{i} = torch.aten.sum.dim_IntList(%v0, [{i % 2}], true) : ({FULL}) -> {type}")
        reads.append(f"%v{i + 1} = torch.aten.mul.Tensor(%v{i}, %s{i}) : ({FULL}, {type}) -> {FULL}")
    return sums + reads, count // 2


def views(count: int) -> Lines:
    lines = list[str]()
    for i in range(count // 4):
        lines += [
            f"%t{i} = torch.aten.t.default(%v{i}) : ({FULL}) -> {TURNED}",
            f"%u{i} = torch.aten.neg.default(%t{i}) : ({TURNED}) -> {TURNED}",
            f"%w{i} = torch.aten.t.default(%u{i}) : ({TURNED}) -> {FULL}",
            f"%v{i + 1} = torch.aten.add.Tensor(%w{i}, %v{i}) : ({FULL}, {FULL}) -> {FULL}",
        ]
    return lines, count // 4


def measure(make: Callable[[int], Lines], count: int, reductions: bool) -> tuple[float, int]:
    """Seconds that ``fuse`` takes, and the groups that it makes."""
    context, (lines, last) = new_context(), make(count)
    text = "\n".join([f"func.func @main(%v0: {FULL}) {{", *lines, f"fx.output((%v{last},)) : ({FULL}) -> ()", "}"])
    module = parse_module(context, text)
    start = time.perf_counter()
    FusePass(reductions=reductions).apply(context, module)
    seconds = time.perf_counter() - start
    return seconds, sum(op.name == "fusion.group" for op in module.walk())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1250,2500,5000", help="ops of a program")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    sizes, found = [int(size) for size in options.sizes.split(",")], list[dict[str, Any]]()
    print(f"{'program':10} {'ops':>6} {'pointwise':>10} {'groups':>6} {'reductions':>10} {'groups':>6}")
    for make in (chain, softmaxes, siblings, views):
        for size in sizes:
            plain, full = measure(make, size, False), measure(make, size, True)
            print(f"{make.__name__:10} {size:6} {plain[0]:9.2f}s {plain[1]:6} {full[0]:9.2f}s {full[1]:6}")
            found.append({"program": make.__name__, "ops": size, "pointwise": plain, "reductions": full})
    write_json(options.json, found)


if __name__ == "__main__":
    main()
