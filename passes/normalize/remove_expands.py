"""Remove implicit expansions of operands that pointwise operators broadcast.

Assumes  verified IR.
Ensures  no pointwise operator reads an ``aten.expand`` with ``implicit = true``; it reads the operand of the expansion.
         An expansion that only such operators read is erased. Result types are unchanged. Idempotent.
Leaves   expansions by the user; those that are returned, written, or read by operators that do not broadcast; operands
         that determine the shape, strides or dtype of a result (a 0-d tensor ranks lower in type promotion); unnamed
         sizes.
Cost     one walk; an alias analysis where there is an implicit expansion, and a round for each one in a chain.

Before:
    func.func @main(%x: tensor<4x4xf32>, %b: tensor<4xf32>) {
      %e = torch.aten.expand.default(%b, [4, 4], implicit = true)
        : (tensor<4xf32>) -> tensor<4x4xf32, #torch.meta<strides = [0, 1]>>
      %y = torch.aten.add.Tensor(%x, %e)
        : (tensor<4x4xf32>, tensor<4x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<4x4xf32>
      fx.output(%y) : (tensor<4x4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4x4xf32>, %b: tensor<4xf32>) {
      %y = torch.aten.add.Tensor(%x, %b) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
      fx.output(%y) : (tensor<4x4xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import is_default
from fxc.passes.analysis.memory import Memory, is_isolated, scopes
from fxc.passes.analysis.statistics import count
from fxc.passes.rewriting.broadcasting import accepts_smaller, broadcasts


@dataclass(frozen=True)
class RemoveExpandsPass(ModulePass):
    name = "remove-expands"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for scope in scopes(op):
            if expands := [inner for inner in _ops(scope) if _is_implicit(inner)]:
                _remove(expands, Memory(scope))


def _ops(scope: Operation) -> Iterator[Operation]:
    """The ops of ``scope``, without those of nested isolated regions."""
    for region in scope.regions:
        for block in region.blocks:
            for op in block.ops:
                yield op
                if op.regions and not is_isolated(op):
                    yield from _ops(op)


def _is_implicit(op: Operation) -> bool:
    return op.name == "torch.aten.expand.default" and isinstance(op, TorchOp) and not is_default(op.argument("implicit"))


def _remove(expands: Sequence[Operation], memory: Memory) -> None:
    """Let users read past ``expands``, until nothing changes: an operand may be an expansion, or state a size of another."""
    changed = True
    while changed:
        changed = any([_read_past(expand) for expand in expands if not memory.is_written(expand.results[0])])
    for expand in reversed(expands):
        if expand.results[0].first_use is None:
            Rewriter.erase_op(expand)
            count("expands removed")


def _read_past(expand: Operation) -> bool:
    """Let the users of ``expand`` that broadcast read its operand. Whether there is such a user."""
    large, small, changed = expand.results[0], expand.operands[0], False
    for user in {use.operation: None for use in large.uses}:
        if isinstance(user, TorchOp) and broadcasts(user) and accepts_smaller(user, large, small):
            user.operands = [small if operand is large else operand for operand in user.operands]
            changed = True
    return changed
