"""Merge operations that compute the same value.

Assumes  verified IR.
Ensures  an operation with the same name, operands, properties, attributes and result types as an operation that
         dominates it, and that its region may read, is erased. Idempotent.
Leaves   operations with effects, random operators, operations with regions or without results; reads of memory that is
         written in between (for an operation in a nested region or another block: anywhere in the region); pairs of
         which one is written, or both reach the output; commuted operands; constants that differ in a bit.
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

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.attribute_numbers import AttributeNumbers
from fxc.dialects.attributes.types import is_mutable
from fxc.dialects.base.dominators import dominator_tree
from fxc.dialects.base.effects import is_pure, reads_memory
from fxc.dialects.fusion import GroupOp
from fxc.passes.analysis.memory import Memory, Set, is_isolated, is_same_memory, scopes, writes_anything
from fxc.passes.analysis.statistics import count


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
    ``seen`` are the operations that dominate the current one, by key.
    """

    def __init__(self, scope: Operation, numbers: AttributeNumbers) -> None:
        self.scope, self.numbers = scope, numbers
        self.has_writes = writes_anything(scope)
        self.writes = Counter[Set]()
        self.seen = defaultdict[Hashable, list[Operation]](list)

    @cached_property
    def memory(self) -> Memory:
        """The alias sets, computed on first use and then updated."""
        return Memory(self.scope)

    def run(self) -> None:
        self.regions(self.scope)

    def regions(self, op: Operation) -> None:
        for region in op.regions:
            if region.blocks:
                self.blocks_by_dominance(op, region)

    def blocks_by_dominance(self, op: Operation, region: Region) -> None:
        """Visit each block of ``region`` of ``op`` with only the operations of its dominators seen."""
        blocks = list(region.blocks)
        several = len(blocks) > 1
        children = dominator_tree(blocks)
        stack: list[Block | list[list[Operation]]] = [*(block for block in blocks if block not in children), blocks[0]]
        while stack:
            item = stack.pop()
            if isinstance(item, list):
                for operations in item:
                    operations.pop()
                continue
            if several:
                self.count_writes(op)  # those of any block may come between a dominator and this block
            stack += [self.block(item), *children.get(item, ())]

    def block(self, block: Block) -> list[list[Operation]]:
        """Visit the operations of ``block``. Returns the lists of ``seen`` that got one more."""
        extended = list[list[Operation]]()
        op = block.first_op
        while op is not None:
            following = op.next_op
            self.count_writes(op)
            if not op.regions:
                self.visit(op, extended)
            elif isinstance(op, GroupOp):  # it computes what it yields, and computes rather than reads
                around, self.seen = self.seen, defaultdict[Hashable, list[Operation]](list)
                self.regions(op)
                self.seen = around
            elif not is_isolated(op):
                self.regions(op)
                self.count_writes(op)
            op = following
        return extended

    def count_writes(self, op: Operation) -> None:
        if self.has_writes:
            self.writes.update(self.memory.writes_of(op))

    def visit(self, op: Operation, extended: list[list[Operation]]) -> None:
        if not op.results or not is_pure(op) or op.has_trait(IsTerminator):
            return
        equal = self.seen[self.key(op)]
        for earlier in equal:
            if self.can_merge(earlier, op):
                for old, new in zip(op.results, earlier.results, strict=True):
                    name = new._name
                    old.replace_all_uses_with(new)
                    new._name = name
                    if is_mutable(new.type):
                        self.memory.replaced(old, new)
                Rewriter.erase_op(op)
                count("ops merged")
                return
        if not equal or len(op.results) > 1 or (self.is_written(equal[-1]) and not self.is_written(op)):
            equal.append(op)  # otherwise what can be merged with it can also be merged with an earlier one
            extended.append(equal)

    def is_written(self, op: Operation) -> bool:
        return any(self.memory.is_written(result) for result in op.results if is_mutable(result.type))

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
            if memory.reaches_output(a) and memory.reaches_output(b):
                return False
        return same_memory or not (self.is_written(earlier) or self.is_written(later))
