"""Merge operations that compute the same value.

Assumes  verified IR.
Ensures  an operation with the same name, operands, properties, attributes and result types as an earlier one that
         dominates it (in its block, or in an enclosing block that its region may read) is erased. Idempotent.
Leaves   operations with effects, random operators, operations with regions; reads of memory with a write in between;
         pairs of which one is written, or both reach the output; commuted operands; constants that differ in a bit.
Cost     two walks, with a dictionary look-up per operation; an alias analysis where there are writes or equal
         operations.

Before:
    func.func @main(%x: tensor<4xf32>) {
      %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %c = torch.aten.add.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%c) : (tensor<4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4xf32>) {
      %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %c = torch.aten.add.Tensor(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%c) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.attribute_numbers import AttributeNumbers
from fxc.dialects.attributes.types import is_mutable
from fxc.dialects.base.effects import is_pure, reads_memory
from fxc.passes.analysis.memory import Memory, Set, is_isolated, is_same_memory, scopes, writes_anything
from fxc.passes.analysis.statistics import count

_Seen: TypeAlias = dict[Hashable, Operation]


@dataclass(frozen=True)
class CsePass(ModulePass):
    """Merge operations that compute the same value.

    Two views of one tensor are merged also where one of them is written. Two tensors that both reach the output are not,
    because the caller may write to one of them. 1, 1.0 and true differ. Isolated regions, such as those of
    ``torch.higher_order``, are processed separately.
    """

    name = "cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        numbers = AttributeNumbers()
        for scope in scopes(op):
            _Search(scope, numbers).run()


class _Search:
    """One walk over one scope.

    ``writes`` counts the writes to each alias set so far. Two reads of a set see the same values where this count is equal.
    """

    def __init__(self, scope: Operation, numbers: AttributeNumbers) -> None:
        self.scope, self.numbers = scope, numbers
        self.has_writes = writes_anything(scope)
        self.writes = Counter[Set]()

    @cached_property
    def memory(self) -> Memory:
        """The alias sets, computed on first use and then updated."""
        return Memory(self.scope)

    def run(self) -> None:
        self.regions(self.scope, [])

    def regions(self, op: Operation, visible: list[_Seen]) -> None:
        for region in op.regions:
            single = region.first_block is region.last_block
            for block in region.blocks:
                self.block(block, [*visible, {}] if single else [{}])

    def block(self, block: Block, visible: list[_Seen]) -> None:
        op = block.first_op
        while op is not None:
            following = op.next_op
            self.count_writes(op)
            if not op.regions:
                self.visit(op, visible)
            elif not is_isolated(op):
                self.regions(op, visible)
                self.count_writes(op)
            op = following

    def count_writes(self, op: Operation) -> None:
        if self.has_writes:
            self.writes.update(self.memory.writes_of(op))

    def visit(self, op: Operation, visible: list[_Seen]) -> None:
        if not op.results or not is_pure(op) or op.has_trait(IsTerminator):
            return
        key = self.key(op)
        for seen in visible:
            if (earlier := seen.get(key)) is not None and self.can_merge(earlier, op):
                for old, new in zip(op.results, earlier.results, strict=True):
                    name = new._name
                    old.replace_all_uses_with(new)
                    new._name = name
                    if is_mutable(new.type):
                        self.memory.replaced(old, new)
                Rewriter.erase_op(op)
                count("ops merged")
                return
        visible[-1].setdefault(key, op)

    def key(self, op: Operation) -> Hashable:
        numbers = self.numbers
        key = (
            op.name,
            tuple([id(operand) for operand in op._operands]),  # ids are unique while the recorded op is alive
            numbers.of_all(op.properties) if op.properties else (),
            numbers.of_all(op.attributes) if op.attributes else (),
            numbers.of_types(op.results),
        )
        if not self.has_writes or not reads_memory(op):
            return key
        return key, tuple([self.writes[self.memory.set_of(operand)] for operand in op._operands])

    def can_merge(self, earlier: Operation, later: Operation) -> bool:
        """Whether the results of two equal ops may be one value."""
        same_memory = is_same_memory(later)
        for a, b in zip(earlier.results, later.results, strict=True):
            if not is_mutable(a.type):
                continue
            memory = self.memory
            if memory.is_returned(a) and memory.is_returned(b):
                return False
            if same_memory:
                continue
            if memory.is_written(a) or memory.is_written(b) or (memory.reaches_output(a) and memory.reaches_output(b)):
                return False
        return True
