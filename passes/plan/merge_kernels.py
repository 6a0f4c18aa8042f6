"""Merge kernels that are equal.

Assumes  verified IR.
Ensures  no two kernels of a module are equal except for name and source; launches of a removed kernel launch the first
         one, with the removed kernel's ``tile.source``. Idempotent.
Leaves   kernels that differ in an attribute: grid, access of a pointer, ``tile.in_place``; names of the remaining
         kernels.
Cost     one walk, and a key of each kernel.

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

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.passes import ModulePass

from fxc.dialects import plan, tile
from fxc.dialects.attributes.attribute_numbers import AttributeNumbers
from fxc.dialects.tile.kernel import SOURCE
from fxc.passes.analysis.call_graph import symbol_users_in
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.structural_key import StructuralKey


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
    """Name of a duplicate kernel -> the kernel and the first one that is equal to it."""
    numbers, known = AttributeNumbers(), dict[Hashable, tile.KernelOp]()
    merged = dict[str, tuple[tile.KernelOp, tile.KernelOp]]()
    for kernel in module.ops:
        if isinstance(kernel, tile.KernelOp) and (first := known.setdefault(_key(kernel, numbers), kernel)) is not kernel:
            merged[kernel.sym_name.data] = (kernel, first)
    return merged


def _key(kernel: tile.KernelOp, numbers: AttributeNumbers) -> Hashable:
    body, given = StructuralKey(numbers), {**kernel.attributes, **kernel.properties}
    body.block(kernel.body.block)
    return body.key, numbers.of_all({name: value for name, value in given.items() if name not in (SOURCE, "sym_name")})


def _redirect(launch: tile.LaunchOp | plan.LaunchOp, kernel: tile.KernelOp, first: tile.KernelOp) -> None:
    source = kernel.attributes.get(SOURCE)
    if source is not None and source != first.attributes.get(SOURCE):
        launch.attributes.setdefault(SOURCE, source)
    launch.properties["callee"] = SymbolRefAttr(first.sym_name.data)
