"""Merge small matrix products into a large one.

Assumes  verified IR with types that are up to date (``propagate-shapes``).
Ensures  a sum of at least ``min-leaves`` products is one product of concatenated matrices; at least ``min-batch``
         products that share a factor, and whose others have one shape of at most ``max-elements``, are one product, a
         ``bmm`` if they share the left one. The types and strides of results are unchanged.
Leaves   products of written matrices or dynamic sizes; products whose results are returned or written, since a caller
         could observe that they share memory; sums of matrices of other shapes than the first, or too large to be
         copied. The order of additions differs, and so do the last bits.
Cost     one walk; an alias analysis if there are enough products.

Before:
    func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>, %c: tensor<2x3xf32>, %d: tensor<3x2xf32>) -> tensor<2x2xf32> {
      %p = torch.aten.mm.default(%a, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
      %q = torch.aten.mm.default(%c, %d) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
      %r = torch.aten.mm.default(%a, %d) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
      %s = torch.aten.mm.default(%c, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
      %t = torch.aten.add.Tensor(%p, %q) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      %u = torch.aten.add.Tensor(%r, %s) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      %v = torch.aten.add.Tensor(%t, %u) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      func.return %v : tensor<2x2xf32>
    }
After:
    func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>, %c: tensor<2x3xf32>, %d: tensor<3x2xf32>) -> tensor<2x2xf32> {
      %0 = torch.aten.cat.default([%a, %c, %a, %c], 1)
         : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x12xf32>
      %1 = torch.aten.cat.default([%b, %d, %d, %b], 0)
         : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<12x2xf32>
      %v = torch.aten.mm.default(%0, %1) : (tensor<2x12xf32>, tensor<12x2xf32>) -> tensor<2x2xf32>
      func.return %v : tensor<2x2xf32>
    }
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import int_attr, isa
from fxc.dialects.torch_ops import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import dtype, integer
from fxc.passes.analysis.memory import Memory, is_isolated, scopes
from fxc.passes.analysis.statistics import count
from fxc.passes.rewriting.matrix_products import (
    dense_like,
    insert,
    is_transpose,
    matrix_shape,
    only_user,
    product_type,
    transposed,
)

MM, ADD = "torch.aten.mm.default", "torch.aten.add.Tensor"


@dataclass(frozen=True)
class BatchMmPass(ModulePass):
    """In a sum, a0 b0 + a1 b1 = [a0 a1] [b0; b1]: sums and transposes in between have one use each, alpha is 1 and nothing
    broadcasts. Products that share the right factor become one product of the left factors, concatenated by rows;
    products that share the left factor become a ``bmm``.
    """

    name = "batch-mm"

    min_leaves: int = field(default=4, metadata={"minimum": 2})
    min_batch: int = field(default=8, metadata={"minimum": 2})
    max_elements: int = field(default=1024 * 2048, metadata={"minimum": 0})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        least = min(self.min_leaves, self.min_batch)
        for scope in scopes(op):
            blocks = [block for block in _blocks(scope) if sum(op.name == MM for op in block.ops) >= max(least, 2)]
            memory = Memory(scope) if blocks else None
            for block in blocks:
                assert memory is not None
                _TreeReduce(block, memory, self.min_leaves).run()
                _BatchSides(block, memory, self.min_batch, self.max_elements).run()


@dataclass(frozen=True)
class _Sum:
    """A sum of products: ``op`` computes ``left`` times ``right``, its transpose, or the sum of two such sums."""

    op: Operation
    size: int
    left: SSAValue | None = None
    right: SSAValue | None = None
    flipped: bool = False
    parts: tuple[_Sum, ...] = ()

    def all(self) -> list[_Sum]:
        """This sum and its nested sums, each before its parts."""
        found = list[_Sum]()
        waiting: list[_Sum] = [self]
        while waiting:
            found.append(sum := waiting.pop())
            waiting += sum.parts[::-1]
        return found


class _TreeReduce:
    def __init__(self, block: Block, memory: Memory, min_leaves: int) -> None:
        self.block, self.memory, self.min_leaves = block, memory, max(min_leaves, 2)
        self.sums, self.joined = dict[SSAValue, _Sum](), set[SSAValue]()

    def run(self) -> None:
        for op in self.block.ops:
            if (found := self.summed(op)) is not None:
                self.sums[op.results[0]] = found
        for root, found in list(self.sums.items()):
            if root not in self.joined and found.size >= self.min_leaves:
                self.reduce(root, found)

    def summed(self, op: Operation) -> _Sum | None:
        """``op`` as a sum: a product, a transposed product, or the addition of two sums that have no other use."""
        if op.name == MM:
            left, right = op.operands
            plain = not self.memory.is_written(op.results[0]) and matrix_shape(left.type) and matrix_shape(right.type)
            free = not self.memory.is_written(left) and not self.memory.is_written(right)
            return _Sum(op, 1, left, right) if plain and free and product_type(left, right) == op.results[0].type else None
        if is_transpose(op):
            below = self.sums.get(op.operands[0])
            if below is None or below.size != 1 or only_user(op.operands[0]) is not op or below.flipped:
                return None
            self.joined.add(op.operands[0])
            return _Sum(op, 1, below.left, below.right, True, (_Sum(below.op, 0),))
        if not isinstance(op, TorchOp) or op.name != ADD or len(op.operands) != 2:
            return None
        bound = op.bound()
        a, b = bound["self"], bound["other"]
        one = "alpha" not in bound or integer(bound["alpha"]) == 1
        if not one or a is b or not (isa(a, SSAValue) and isa(b, SSAValue)) or self.memory.is_written(op.results[0]):
            return None
        first, second = self.sums.get(a), self.sums.get(b)
        if first is None or second is None or only_user(a) is not op or only_user(b) is not op:
            return None
        if matrix_shape(a.type) != matrix_shape(b.type) or dtype(a.type) != dtype(b.type):
            return None
        self.joined |= {a, b}
        return _Sum(op, first.size + second.size, parts=(first, second))

    def reduce(self, root: SSAValue, found: _Sum) -> None:
        made = found.all()
        pairs = [(s.left, s.right, s.flipped) for s in made if s.left is not None and s.right is not None]
        shapes = {
            (matrix_shape(b.type)[::-1], matrix_shape(a.type)[::-1]) if f else (matrix_shape(a.type), matrix_shape(b.type))
            for a, b, f in pairs
        }
        if len(shapes) != 1:
            return
        [((m, k), (_, n))] = shapes
        worth = k < 512 or (m < 256 and n < 256) or (m > 256 and n > 256)
        if not worth or root.type != dense_like(root.type, (m, n)):
            return
        op = found.op
        sides = [(transposed(b, op), transposed(a, op)) if flipped else (a, b) for a, b, flipped in pairs]
        left = insert("aten.cat.default", [[a for a, _ in sides], int_attr(1)], dense_like(root.type, (m, k * len(pairs))), op)
        right = insert("aten.cat.default", [[b for _, b in sides], int_attr(0)], dense_like(root.type, (k * len(pairs), n)), op)
        product = insert("aten.mm.default", [left, right], root.type, op)
        product._name = root._name
        root.replace_all_uses_with(product)
        self.memory.replaced(root, product)
        for dead in made:
            Rewriter.erase_op(dead.op)
        count("sums of products joined")


class _BatchSides:
    def __init__(self, block: Block, memory: Memory, min_batch: int, max_elements: int) -> None:
        self.block, self.memory, self.min_batch, self.max_elements = block, memory, max(min_batch, 2), max_elements

    def run(self) -> None:
        for side in (0, 1):
            shared = dict[tuple[SSAValue, Attribute], list[Operation]]()
            for op in self.block.ops:
                if op.name == MM and self.may_join(op, side):
                    shared.setdefault((op.operands[side], op.operands[1 - side].type), []).append(op)
            for products in shared.values():
                while (batch := self.batch(products, side)) is not None:
                    (self.same_right if side else self.same_left)(batch[0].operands[side], batch)
                    products = [op for op in products if op not in batch]
                    count("products joined", len(batch))

    def batch(self, products: Sequence[Operation], side: int) -> list[Operation] | None:
        """The next products to join. This is computed again after each join, since joining moves results."""
        if len(products) < self.min_batch:
            return None
        return next((batch for batch in self.independent(products, side) if len(batch) >= self.min_batch), None)

    def may_join(self, op: Operation, side: int) -> bool:
        shared, other = op.operands[side], op.operands[1 - side]
        [result] = op.results
        shape = matrix_shape(other.type)
        if shared is other or not matrix_shape(shared.type) or not shape or not 0 < math.prod(shape) <= self.max_elements:
            return False
        seen = self.memory.is_written(result) or self.memory.reaches_output(result)
        written = self.memory.is_written(shared) or self.memory.is_written(other)
        return not seen and not written and product_type(*op.operands) == op.results[0].type

    def independent(self, products: Sequence[Operation], side: int) -> Iterator[list[Operation]]:
        """Runs of products that can be computed before the first use of their results without moving other ops."""
        place = {op: index for index, op in enumerate(self.block.ops)}
        batch, limit = list[Operation](), len(place)
        for op in products:
            owner = op.operands[1 - side].owner
            defined = place.get(owner, -1) if isinstance(owner, Operation) else -1
            if owner in batch or defined >= limit:
                yield batch
                batch, limit = [], len(place)
            batch.append(op)
            limit = min([limit, *(place[self.in_block(use.operation)] for use in op.results[0].uses)])
        yield batch

    def in_block(self, op: Operation) -> Operation:
        while op.parent is not self.block:
            above = op.parent_op()
            assert above is not None
            op = above
        return op

    def place(self, batch: Sequence[Operation]) -> Operation:
        """The insertion point: the first op that reads a result of ``batch``, or the last op of ``batch``."""
        readers = {self.in_block(use.operation) for op in batch for use in op.results[0].uses}
        wanted = readers | {batch[-1]}
        return next(op for op in self.block.ops if op in wanted)

    def same_right(self, right: SSAValue, batch: Sequence[Operation]) -> None:
        """[a0; a1] b = [a0 b; a1 b]: the parts are rows, which are contiguous like the original results."""
        (m, k), (_, n) = matrix_shape(batch[0].operands[0].type), matrix_shape(right.type)
        before, total = self.place(batch), m * len(batch)
        top = insert(
            "aten.cat.default", [[op.operands[0] for op in batch], int_attr(0)], dense_like(right.type, (total, k)), before
        )
        product = insert("aten.mm.default", [top, right], dense_like(right.type, (total, n)), before)
        split = torch_op("aten.split.Tensor").build_call([product, int_attr(m)], {}, [op.results[0].type for op in batch])
        self.put(split, before, batch)

    def same_left(self, left: SSAValue, batch: Sequence[Operation]) -> None:
        """a [b0 b1] as a ``bmm``, so that the results are contiguous like the original ones."""
        (m, k), (_, n) = matrix_shape(left.type), matrix_shape(batch[0].operands[1].type)
        before, size = self.place(batch), len(batch)
        stack = insert("aten.stack.default", [[op.operands[1] for op in batch]], dense_like(left.type, (size, k, n)), before)
        steps = types.strides(left.type) if is_tensor(left.type) else None
        wide = dense_like(left.type, (size, m, k), (0, *(steps or (k, 1))))
        expand = insert("aten.expand.default", [left, [int_attr(size), int_attr(m), int_attr(k)]], wide, before)
        product = insert("aten.bmm.default", [expand, stack], dense_like(left.type, (size, m, n)), before)
        unbind = torch_op("aten.unbind.int").build_call([product], {}, [op.results[0].type for op in batch])
        self.put(unbind, before, batch)

    def put(self, parts: Operation, before: Operation, batch: Sequence[Operation]) -> None:
        parts.location = batch[0].location
        Rewriter.insert_op(parts, InsertPoint.before(before))
        self.memory.add(parts)
        for op, part in zip(batch, parts.results, strict=True):
            part._name = op.results[0]._name
            op.results[0].replace_all_uses_with(part)
            Rewriter.erase_op(op)


def _blocks(op: Operation) -> Iterator[Block]:
    """The blocks in ``op``, except those in nested scopes."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in block.ops:
                if inner.regions and not is_isolated(inner):
                    yield from _blocks(inner)
