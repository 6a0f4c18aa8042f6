"""Remove collectives whose result some value already is.

Assumes  every rank has this text but for the names of its groups, so that all decide alike.
Ensures  no wait for a wait; no collective of one rank; no broadcast, or ``max``, ``min``, ``band`` or ``bor``, of what
         is equal on all ranks of the group; no second collective of equal operands. A copy stands where a result was
         new.
Leaves   results of other strides than the operand; equal collectives where memory is written in between; a gather of
         which each rank slices its part, as the text does not state the rank.
Cost     one walk.

Before:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %r = dist.all_reduce "max" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
      %y = dist.wait %r : tensor<4xf32>
      %s = dist.all_reduce "max" over @dp (%y) : (tensor<4xf32>) -> tensor<4xf32>
      %z = dist.wait %s : tensor<4xf32>
      fx.output(%y, %z) : (tensor<4xf32>, tensor<4xf32>) -> ()
    }
After:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %r = dist.all_reduce "max" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
      %y = dist.wait %r : tensor<4xf32>
      %z = torch.aten.clone.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%y, %z) : (tensor<4xf32>, tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.base.effects import is_pure
from fxc.dialects.dist import AllGatherOp, AllReduceOp, BroadcastOp, CollectiveOp, WaitOp
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.statistics import count
from fxc.passes.dist.moves import bodies, is_barrier

_IDEMPOTENT = ("max", "min", "band", "bor")
"""Reductions that return what all operands are."""


@dataclass(frozen=True)
class RemoveRedundantRedistributionsPass(ModulePass):
    name = "remove-redundant-redistributions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for block in bodies(op):
            _visit(block)


def _visit(block: Block) -> None:
    seen = dict[Hashable, list[SSAValue]]()
    for op in list(block.ops):
        if op.parent is None:
            continue  # a wait for a collective that was removed
        if is_barrier(op):
            seen.clear()
        elif isinstance(op, WaitOp):
            made = op.input.owner
            if isinstance(made, WaitOp) or (isinstance(made, Operation) and is_pure(made)):
                count("waits removed")
                Rewriter.replace_op(op, [], [op.input])
        elif isinstance(op, CollectiveOp):
            key = (type(op), tuple(op.inputs), tuple(sorted(op.properties.items(), key=lambda item: item[0])), op.result_types)
            if _is_identity(op):
                _replace(op, op.inputs)
            elif key in seen:
                _replace(op, seen[key])
            else:
                waited = [next((use.operation for use in value.uses), None) for value in op.values]
                seen[key] = [wait.value for wait in waited if isinstance(wait, WaitOp) and wait.parent is block]


def _is_identity(op: CollectiveOp) -> bool:
    """Whether each result of ``op`` is its operand."""
    if op.operand_types != op.result_types:
        return False
    if op.process_group().size == 1:
        return True
    reduction = op.properties.get("reduction")
    repeats = isinstance(op, BroadcastOp) or (isinstance(op, AllReduceOp) and getattr(reduction, "data", None) in _IDEMPOTENT)
    return repeats and all(_is_replicated(operand, op) for operand in op.inputs)


def _is_replicated(value: SSAValue, like: CollectiveOp) -> bool:
    """Whether ``value`` is equal on all ranks of the group of ``like``."""
    made = value.owner.input.owner if isinstance(value.owner, WaitOp) else None
    return isinstance(made, (AllReduceOp, AllGatherOp, BroadcastOp)) and made.group == like.group


def _replace(op: CollectiveOp, values: Sequence[SSAValue]) -> None:
    """Replace the waits for ``op`` by copies of ``values``, if all of these are computed before it."""
    if len(values) != len(op.values) or not all(_is_before(value, op) for value in values):
        return
    for result, value in zip(op.values, values, strict=True):
        waits = [use.operation for use in result.uses]
        copy = torch_op("aten.clone.default").build_call([value], {}, [value.type], location=op.location)
        Rewriter.insert_op(copy, InsertPoint.before(op))
        copy_names((waits[0] if waits else op).results[:1], copy.results)
        for wait in waits:
            Rewriter.replace_op(wait, [], copy.results)
    Rewriter.erase_op(op)
    count("collectives removed")


def _is_before(value: SSAValue, op: Operation) -> bool:
    owner = value.owner
    return isinstance(owner, Block) or owner.parent is not op.parent or owner.is_before_in_block(op)
