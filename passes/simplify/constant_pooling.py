"""Merge equal constants and move them to the top of their function.

Assumes  verified IR.
Ensures  constants of one operation with equal type, value and attributes are one operation, the first; constants
         precede all other operations of their function, in the order of first appearance. Idempotent.
Leaves   constants of other types or bits, such as 0.0 and -0.0 or two NaNs; constants in isolated regions
         (``torch.higher_order``), which have separate pools; constant tensors that are written, and one of two that are
         both returned.
Cost     one walk; an alias analysis where there are constant tensors.

Before:
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %a = torch.constant([1.0, 2.0]) : tensor<2xf32>
      %y = torch.aten.add.Tensor(%x, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %b = torch.constant([1.0, 2.0]) : tensor<2xf32>
      %z = torch.aten.mul.Tensor(%y, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      func.return %z : tensor<2xf32>
    }
After:
    func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %a = torch.constant([1.0, 2.0]) : tensor<2xf32>
      %y = torch.aten.add.Tensor(%x, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %z = torch.aten.mul.Tensor(%y, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      func.return %z : tensor<2xf32>
    }
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import is_mutable
from fxc.dialects.fusion import GroupOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.analysis.constants import is_constant
from fxc.passes.analysis.memory import Memory, is_isolated, scopes
from fxc.passes.analysis.statistics import count


@dataclass(frozen=True)
class ConstantPoolingPass(ModulePass):
    name = "constant-pooling"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for scope in scopes(op):
            for region in scope.regions:
                if region.blocks:
                    _Pool(scope, region).run()


class _Pool:
    """The constants of one isolated region."""

    def __init__(self, scope: Operation, region: Region) -> None:
        self.scope, self.region = scope, region
        self.top: Block = region.blocks[0]
        self.pooled = dict[Hashable, list[Operation]]()
        self.order = list[Operation]()

    @cached_property
    def memory(self) -> Memory:
        return Memory(self.scope)

    def run(self) -> None:
        for op in list(_ops(self.region)):
            if is_constant(op):
                self.add(op)
        self.hoist()

    def add(self, op: Operation) -> None:
        key = (op.name, op.results[0].type, frozenset(op.properties.items()), frozenset(op.attributes.items()))
        same = self.pooled.setdefault(key, [])
        tensor = isinstance(op, ConstantOp) and is_mutable(op.result.type)
        if tensor and not self.may_move(op):
            return
        for first in same:
            if not tensor or self.may_merge(first, op):
                op.results[0].replace_all_uses_with(first.results[0])
                Rewriter.erase_op(op)
                count("constants merged")
                return
        same.append(op)
        self.order.append(op)

    def may_move(self, op: Operation) -> bool:
        """Whether a constant tensor may be created once, at the top: it is not written, nor returned from an inner region."""
        value = op.results[0]
        return not self.memory.is_written(value) and (op.parent is self.top or not self.memory.reaches_output(value))

    def may_merge(self, first: Operation, op: Operation) -> bool:
        """Whether two equal constants may be merged: false where both are returned, as the caller may write to one of them."""
        kept, gone = first.results[0], op.results[0]
        if self.memory.reaches_output(kept) and self.memory.reaches_output(gone):
            return False
        self.memory.replaced(gone, kept)
        return True

    def hoist(self) -> None:
        if all(op is there for op, there in zip(self.order, self.top.ops, strict=False)):
            return
        for op in self.order:
            op.detach()
        Rewriter.insert_op(self.order, InsertPoint.at_start(self.top))
        count("constants moved")


def _ops(region: Region) -> Iterator[Operation]:
    """The ops of ``region`` in order, without those of isolated regions, and of groups, which yield only what they make."""
    for block in region.blocks:
        for op in block.ops:
            yield op
            if op.regions and not is_isolated(op) and not isinstance(op, GroupOp):
                for inner in op.regions:
                    yield from _ops(inner)
