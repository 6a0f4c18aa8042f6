"""Merge kernels that are equal.

Assumes  verified IR.
Ensures  no two kernels of a module are equal but for name and source; launches of a removed one launch the first, with
         their ``tile.source``. Idempotent.
Leaves   kernels that differ in an attribute: grid, access of a pointer, ``tile.in_place``. Names of the kernels left.
Cost     one walk, and a comparison with each kernel of the same arguments, grid and size.

Before:
    tile.kernel @a(%x: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 4>, tile.source = ["p"]} {
      tile.return
    }
    tile.kernel @b(%y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 4>, tile.source = ["q"]} {
      tile.return
    }
    func.func @main(%p: tensor<4xf32>, %q: tensor<4xf32>) {
      plan.launch @a() outs(%p) : () outs(tensor<4xf32>)
      plan.launch @b() outs(%q) : () outs(tensor<4xf32>)
      func.return
    }
After:
    tile.kernel @a(%x: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 4>, tile.source = ["p"]} {
      tile.return
    }
    func.func @main(%p: tensor<4xf32>, %q: tensor<4xf32>) {
      plan.launch @a() outs(%p) : () outs(tensor<4xf32>)
      plan.launch @a() outs(%q) {tile.source = ["q"]} : () outs(tensor<4xf32>)
      func.return
    }
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.passes import ModulePass

from fxc.dialects import plan, tile
from fxc.passes.analysis.call_graph import symbol_users_in
from fxc.passes.analysis.statistics import count

SOURCE = "tile.source"


@dataclass(frozen=True)
class MergeKernelsPass(ModulePass):
    name = "merge-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        merged = _merged(op)
        if not merged:
            return
        for launch in (*symbol_users_in(op, tile.LaunchOp), *symbol_users_in(op, plan.LaunchOp)):
            kernel = merged.get(launch.callee.root_reference.data)
            if kernel is not None:
                _redirect(launch, *kernel)
        for kernel in [kernel for kernel in op.ops if isinstance(kernel, tile.KernelOp) and kernel.sym_name.data in merged]:
            kernel.detach()
            kernel.erase()
            count("kernels merged")


def _merged(module: ModuleOp) -> dict[str, tuple[tile.KernelOp, tile.KernelOp]]:
    """Name of a kernel -> it and the first one that is equal to it."""
    alike, merged = defaultdict[Any, list[tile.KernelOp]](list), dict[str, tuple[tile.KernelOp, tile.KernelOp]]()
    for kernel in module.ops:
        if not isinstance(kernel, tile.KernelOp):
            continue
        others = alike[_facts(kernel)]
        first = next((other for other in others if other.body.is_structurally_equivalent(kernel.body)), None)
        if first is None:
            others.append(kernel)
        else:
            merged[kernel.sym_name.data] = (kernel, first)
    return merged


def _facts(kernel: tile.KernelOp) -> Any:
    """What equal kernels have in common beside their bodies."""
    attributes = frozenset((name, value) for name, value in kernel.attributes.items() if name != SOURCE)
    size = sum(1 for _ in kernel.walk())
    return kernel.function_type, kernel.grid, kernel.arg_attrs, attributes, size


def _redirect(launch: tile.LaunchOp | plan.LaunchOp, kernel: tile.KernelOp, first: tile.KernelOp) -> None:
    source = kernel.attributes.get(SOURCE)
    if source is not None and source != first.attributes.get(SOURCE):
        launch.attributes.setdefault(SOURCE, source)
    launch.properties["callee"] = SymbolRefAttr(first.sym_name.data)
