"""Merge collectives of one kind and group into few messages of limited size.

Assumes  ``sink-waits`` ran; every rank has this text but for the names of its groups, so that all decide alike.
Ensures  reductions in the order of their starts, and gathers in that of their first waits, are merged into collectives
         of several operands with together at most ``bytes``. A merged one starts when its last operand is computed.
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
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.attributes.types import device, is_tensor
from fxc.dialects.dist import AllGatherOp, AllReduceOp, CollectiveOp, ReduceScatterOp
from fxc.dialects.text.syntax import copy_names
from fxc.passes.analysis.hinted_sizes import HintedSizes
from fxc.passes.analysis.statistics import count
from fxc.passes.dist.moves import bodies, first_user, in_block, is_barrier, message_bytes, positions


@dataclass(frozen=True)
class BucketCollectivesPass(ModulePass):
    """Merge collectives of one kind and group into few messages of limited size.

    ``bytes``: the most bytes of a message: of the operands of a reduction, or of the results of a gather.
    """

    name = "bucket-collectives"
    bytes: int = 25 << 20

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for block in bodies(op):
            _Buckets(block, HintedSizes(op), self.bytes).run()


class _Buckets:
    def __init__(self, block: Block, sizes: HintedSizes, limit: int) -> None:
        self.block, self.sizes, self.limit = block, sizes, limit
        self.ops, self.order = list(block.ops), positions(block)
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
            bucket = list[CollectiveOp]()
            for op in ops:
                if bucket and self.place([*bucket, op]) is None:
                    merged += self.merge(bucket)
                    bucket = []
                bucket.append(op)
            merged += self.merge(bucket)
        for op in merged:
            Rewriter.erase_op(op)

    def need(self, op: CollectiveOp) -> int:
        """The position of the first wait for ``op``; the end of the block where there is none."""
        user = first_user(op.values, self.block, self.order)
        return len(self.ops) - 1 if user is None else self.order[user]

    def place(self, ops: Sequence[CollectiveOp]) -> int | None:
        """The position where one collective can stand for ``ops``; None where there is none, or it would be too large."""
        if sum(message_bytes(op, self.sizes) for op in ops) > self.limit:
            return None
        first, last = self.order[ops[0]], self.order[ops[0]]
        computed = -1
        for op in ops:
            first, last = min(first, self.order[op]), max(last, self.order[op])
            for operand in op.inputs:
                made = in_block(operand.owner, self.block) if isinstance(operand.owner, Operation) else None
                computed = max(computed, -1 if made is None else self.order[made])
        place = max(first, computed + 1)
        is_free = bisect_left(self.barriers, first) == bisect_left(self.barriers, last)
        return place if is_free and place <= min(map(self.need, ops)) else None

    def merge(self, ops: list[CollectiveOp]) -> list[CollectiveOp]:
        """Insert one collective for ``ops``, and return those that it replaces."""
        if len(ops) == 1 or (place := self.place(ops)) is None:
            return []
        results = [result for op in ops for result in op.values]
        more = {name: value for name, value in ops[0].properties.items() if name != "group"}
        inputs: list[SSAValue] = [operand for op in ops for operand in op.inputs]
        made = type(ops[0]).of(ops[0].group.root_reference.data, inputs, [each.type for each in results], **more)
        made.location = ops[0].location
        self.block.insert_op_before(made, self.ops[place])
        copy_names(results, made.values)
        for old, new in zip(results, made.values, strict=True):
            old.replace_all_uses_with(new)
        self.order[made] = place
        count("collectives merged", len(ops))
        return ops


def _key(op: CollectiveOp) -> Hashable | None:
    """Equal for collectives that one message can do; None where no message can have another operand."""
    types = {(value.type.element_type, device(value.type)) for value in op.inputs if is_tensor(value.type)}
    return (type(op), op.group, op.properties.get("reduction"), *types) if len(types) == 1 else None
