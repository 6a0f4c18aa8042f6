"""Save positions, such as those of maxima, as the narrowest integers that represent them all.

Assumes  a joint graph at the torch level, in which a partition pass marked what is saved.
Ensures  saved positions that the forward finds are converted before they are saved, those among 10,000 elements to 16
         bits, and converted back in the backward.
Leaves   positions of less than 64 KiB, that the forward returns, so that its caller holds them, that are marked
         ``autodiff.offloaded``, or that an operation reads which runs in both parts; positions among an unknown number
         of elements.
Cost     one walk for each saved value.

Before:
    func.func @main(%x: tensor<2x256x256xf32>, %d: tensor<2x128x128xf32> {autodiff.tangent})
    attributes {autodiff.forward_results = 1 : i64} {
      %y, %i = torch.aten.max_pool2d_with_indices.default(%x, [2, 2]) {autodiff.saved = array<i64: 1>}
         : (tensor<2x256x256xf32>) -> (tensor<2x128x128xf32>, tensor<2x128x128xi64>)
      %g = torch.aten.max_pool2d_with_indices_backward.default(%d, %x, [2, 2], [2, 2], [0, 0], [1, 1], false, %i)
         : (tensor<2x128x128xf32>, tensor<2x256x256xf32>, tensor<2x128x128xi64>) -> tensor<2x256x256xf32>
      fx.output([%y, %g]) : (tensor<2x128x128xf32>, tensor<2x256x256xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<2x256x256xf32>, %d: tensor<2x128x128xf32> {autodiff.tangent})
    attributes {autodiff.forward_results = 1 : i64} {
      %y, %i = torch.aten.max_pool2d_with_indices.default(%x, [2, 2])
         : (tensor<2x256x256xf32>) -> (tensor<2x128x128xf32>, tensor<2x128x128xi64>)
      %i_1 = torch.aten._to_copy.default(%i, dtype = torch.int32) {autodiff.saved = array<i64: 0>}
         : (tensor<2x128x128xi64>) -> tensor<2x128x128xi32>
      %i_2 = torch.aten._to_copy.default(%i_1, dtype = torch.int64) : (tensor<2x128x128xi32>) -> tensor<2x128x128xi64>
      %g = torch.aten.max_pool2d_with_indices_backward.default(%d, %x, [2, 2], [2, 2], [0, 0], [1, 1], false, %i_2)
         : (tensor<2x128x128xf32>, tensor<2x256x256xf32>, tensor<2x128x128xi64>) -> tensor<2x256x256xf32>
      fx.output([%y, %g]) : (tensor<2x128x128xf32>, tensor<2x256x256xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from fxc.dialects.attributes.types import dtype_name, tensor_of
from fxc.dialects.attributes.values import dtype_attr
from fxc.dialects.autodiff import OFFLOADED
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.joint_graph import (
    JointGraph,
    is_joint,
    joint_graph,
    mark_saved,
    marked_results,
    unmark_saved,
    values_read,
)
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.analysis.statistics import count
from fxc.passes.operators.table import operator_of
from fxc.passes.rewriting.insertion import insert_call

_LEAST = 1 << 16
"""The fewest bytes of saved positions for which two conversions pay."""

_BITS = {"int8": 7, "int16": 15, "int32": 31}
"""The integers that are narrower than positions, and the bits of their largest number."""


@dataclass(frozen=True)
class NarrowPositionsPass(ModulePass):
    name = "narrow-positions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        assert isinstance(ctx, FxcContext)
        if not is_joint(op):
            return
        graph = joint_graph(op)
        demand, sizes = graph.demand(), HintedSizes(graph.function)
        apart = {*graph.results, *(back.value for back in graph.write_backs)}
        apart |= {value for op in demand.ops if op in graph.forward for value in values_read(op)}
        apart |= {value for op in graph.forward for value in marked_results(op, OFFLOADED)}
        for value in demand.saved:
            narrow = _narrowest(value)
            if narrow is not None and value not in apart and sizes.bytes(value.type) >= _LEAST:
                _convert(ctx, graph, value, narrow)
                count("positions narrowed")


def _narrowest(value: SSAValue) -> str | None:
    """The narrowest dtype that represents ``value``; None if it has no positions, or they need all their bits."""
    op = value.owner
    if not isinstance(op, TorchOp) or value is not op.results[-1] or (positions := operator_of(op).positions) is None:
        return None
    number = positions(op)
    return next((dtype for dtype, bits in _BITS.items() if number is not None and number <= 1 << bits), None)


def _convert(ctx: FxcContext, graph: JointGraph, value: SSAValue, narrow: str) -> None:
    op, type = value.owner, tensor_of(value)
    assert isinstance(op, TorchOp) and op.next_op is not None
    first, block = op.next_op, graph.block
    saved = insert_call(ctx, "aten._to_copy.default", [value], first, {"dtype": dtype_attr(narrow)})
    wide = insert_call(ctx, "aten._to_copy.default", [saved], first, {"dtype": dtype_attr(dtype_name(type.element_type))})
    saved._name = wide._name = value._name
    saved.owner.location = wide.owner.location = op.location  # type: ignore[union-attr]
    forward = {*graph.forward, saved.owner}
    value.replace_uses_with_if(wide, lambda use: block.find_ancestor_op_in_block(use.operation) not in forward)
    unmark_saved(value)
    mark_saved(saved)
