"""Merge collectives of one kind and group into few messages of limited size.

Assumes  ``sink-waits`` ran; every rank has this text but for the names of its groups, so that all decide alike.
Ensures  reductions in the order of their starts, and gathers in that of their first waits, are merged into collectives
         of several operands with together at most ``bytes``. A merged one starts when its last operand is computed;
         what computes an operand from an argument alone, as a cast or a padding, moves there.
Leaves   single operands of more bytes; collectives that need the result of another, and those between which memory is
         written. It holds for ``all_reduce``, ``reduce_scatter`` and ``all_gather``.
Cost     one walk, and the users of each collective.

Before:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>, %y: tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
      %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
      %e = torch.aten.exp.default(%y) : (tensor<6xf32>) -> tensor<6xf32>
      %s = dist.all_reduce "sum" over @dp (%e) : (tensor<6xf32>) -> tensor<6xf32>
      %u = dist.wait %r : tensor<4xf32>
      %v = dist.wait %s : tensor<6xf32>
      fx.output(%u, %v) : (tensor<4xf32>, tensor<6xf32>) -> ()
    }
After:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>, %y: tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
      %e = torch.aten.exp.default(%y) : (tensor<6xf32>) -> tensor<6xf32>
      %r, %s = dist.all_reduce "sum" over @dp (%x, %e) : (tensor<4xf32>, tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>)
      %u = dist.wait %r : tensor<4xf32>
      %v = dist.wait %s : tensor<6xf32>
      fx.output(%u, %v) : (tensor<4xf32>, tensor<6xf32>) -> ()
    }
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.attributes.types import device, is_tensor
from fxc.dialects.dist import AllGatherOp, AllReduceOp, CollectiveOp, ReduceScatterOp
from fxc.dialects.text.syntax import copy_names
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.analysis.statistics import count
from fxc.passes.dist.moves import bodies, chain, first_user, in_block, is_barrier, message_bytes, positions


@dataclass(frozen=True)
class BucketCollectivesPass(ModulePass):
    """Merge collectives of one kind and group into few messages of limited size.

    ``bytes``: the most bytes of a message: of the operands of a reduction, or of the results of a gather.
    """

    name = "bucket-collectives"
    bytes: int = field(default=25 << 20, metadata={"minimum": 0})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for block in bodies(op):
            _Buckets(block, HintedSizes(op), self.bytes).run()


class _Span(NamedTuple):
    """The bytes of collectives, and positions: of their first and last start, of the last op that computes an operand, and of
    the first wait."""

    bytes: int
    first: int
    last: int
    computed: int
    need: int

    @property
    def place(self) -> int:
        """Where one collective would stand."""
        return max(self.first, self.computed + 1)

    def joined(self, other: _Span) -> _Span:
        bytes, first, last = self.bytes + other.bytes, min(self.first, other.first), max(self.last, other.last)
        return _Span(bytes, first, last, max(self.computed, other.computed), min(self.need, other.need))


class _Buckets:
    def __init__(self, block: Block, sizes: HintedSizes, limit: int) -> None:
        self.block, self.sizes, self.limit = block, sizes, limit
        self.ops, self.order = list(block.ops), positions(block)
        self.moved = set[Operation]()
        self.barriers = [self.order[op] for op in self.ops if is_barrier(op)]

    def run(self) -> None:
        alike = dict[Hashable, list[CollectiveOp]]()
        for op in self.ops:
            if isinstance(op, (AllReduceOp, AllGatherOp, ReduceScatterOp)) and (key := _key(op)) is not None:
                alike.setdefault(key, []).append(op)
        merged = list[CollectiveOp]()
        for ops in alike.values():
            if isinstance(ops[0], AllGatherOp):
                ops.sort(key=self.need)
            bucket, span = list[CollectiveOp](), self.span(ops[0])
            for op in ops:
                joined = span.joined(self.span(op)) if bucket else self.span(op)
                if bucket and not self.fits(joined):
                    merged += self.merge(bucket, span)
                    bucket, joined = [], self.span(op)
                bucket.append(op)
                span = joined
            merged += self.merge(bucket, span)
        for op in merged:
            Rewriter.erase_op(op)

    def need(self, op: CollectiveOp) -> int:
        """The position of the first wait for ``op``; the end of the block where there is none."""
        user = first_user(op.values, self.block, self.order)
        return len(self.ops) - 1 if user is None else self.order[user]

    def chain(self, op: CollectiveOp) -> list[Operation]:
        """What computes the operand of a gather from an argument, if nothing before is a barrier."""
        return [] if bisect_left(self.barriers, self.order[op]) else chain(op)

    def span(self, op: CollectiveOp) -> _Span:
        owners = [] if self.chain(op) else [operand.owner for operand in op.inputs]
        made = [in_block(owner, self.block) for owner in owners if isinstance(owner, Operation)]
        computed = max((self.order[each] for each in made if each is not None), default=-1)
        return _Span(message_bytes(op, self.sizes), self.order[op], self.order[op], computed, self.need(op))

    def fits(self, span: _Span) -> bool:
        """Whether one collective can do what those of ``span`` do."""
        is_free = bisect_left(self.barriers, span.first) == bisect_left(self.barriers, span.last)
        return span.bytes <= self.limit and is_free and span.place <= span.need

    def merge(self, ops: list[CollectiveOp], span: _Span) -> list[CollectiveOp]:
        """Insert one collective for ``ops``, and return those that it replaces."""
        if len(ops) == 1:
            return []
        results = [result for op in ops for result in op.values]
        more = {name: value for name, value in ops[0].properties.items() if name != "group"}
        inputs: list[SSAValue] = [operand for op in ops for operand in op.inputs]
        made = type(ops[0]).of(ops[0].group.root_reference.data, inputs, [each.type for each in results], **more)
        made.location = ops[0].location
        moved = dict.fromkeys(each for op in ops for each in self.chain(op) if self.order[each] >= span.place)
        self.moved.update(moved)
        place = next(each for each in self.ops[span.place :] if each not in self.moved)
        for each in moved:
            each.detach()
            self.block.insert_op_before(each, place)
        self.block.insert_op_before(made, place)
        copy_names(results, made.values)
        for old, new in zip(results, made.values, strict=True):
            old.replace_all_uses_with(new)
        self.order[made] = span.place
        count("collectives merged", len(ops))
        return ops


def _key(op: CollectiveOp) -> Hashable | None:
    """Equal for collectives that one message can do; None where no message can have another operand."""
    types = {(value.type.element_type, device(value.type)) for value in op.inputs if is_tensor(value.type)}
    return (type(op), op.group, op.properties.get("reduction"), *types) if len(types) == 1 else None
