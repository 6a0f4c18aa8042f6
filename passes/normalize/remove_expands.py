"""Remove implicit expansions of operands that pointwise operators broadcast.

Assumes  verified IR.
Ensures  no pointwise operator reads an ``aten.expand`` with ``implicit = true``; it reads the operand of the expansion.
         An expansion that only such operators read is erased. Result types are unchanged. Idempotent.
Leaves   expansions by the user; those that are returned, written, or read by operators that do not broadcast; operands
         that determine the shape, strides or dtype of a result (a 0-d tensor ranks lower in type promotion); unnamed
         sizes.
Cost     one walk, and an alias analysis where there is an implicit expansion.

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
from xdsl.ir import Operation, SSAValue
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
    for expand in expands:
        large, small = expand.results[0], expand.operands[0]
        if memory.is_written(large):
            continue
        for user in {use.operation: None for use in large.uses}:
            if isinstance(user, TorchOp) and broadcasts(user) and accepts_smaller(user, large, small):
                _read(user, large, small)
        if large.first_use is None:
            Rewriter.erase_op(expand)
            count("expands removed")


def _read(user: TorchOp, large: SSAValue, small: SSAValue) -> None:
    user.operands = [small if operand is large else operand for operand in user.operands]
