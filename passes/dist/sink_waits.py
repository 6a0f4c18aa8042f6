"""Move waits for collectives down to the first use of their results.

Assumes  verified IR.
Ensures  each wait stands right before the first operation that uses its result, or before an earlier one that
         writes memory or has an effect other than random numbers. So do operations of that result alone with as many
         elements, and views of it: a slice or a cast, as ranks with uneven shards have. Their order is that of before.
Leaves   collectives: their order is the same on every rank.
Cost     one walk, and the users of each wait.

Before:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
      %y = dist.wait %r : tensor<4xf32>
      %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %z = torch.aten.add.Tensor(%e, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%z) : (tensor<4xf32>) -> ()
    }
After:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
      %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %y = dist.wait %r : tensor<4xf32>
      %z = torch.aten.add.Tensor(%e, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%z) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Set
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from fxc.dialects.base.effects import is_pure, is_view
from fxc.dialects.dist import WaitOp
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.analysis.statistics import count
from fxc.passes.dist.moves import bodies, first_user, is_barrier, positions


@dataclass(frozen=True)
class SinkWaitsPass(ModulePass):
    name = "sink-waits"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for block in bodies(op):
            _sink(block, HintedSizes(op))


def _sink(block: Block, sizes: HintedSizes) -> None:
    order = {op: (place, 0) for op, place in positions(block).items()}
    barriers, after = [op for op in order if is_barrier(op)], set[Operation]()
    for op in order:
        if isinstance(op, WaitOp) or _follows(op, after, sizes):
            after.add(op)
    ends, first = dict[Operation, Operation](), dict[Operation, Operation]()
    """Moved op -> the op before which it was moved; that op -> the first one that was moved there."""
    for op in reversed([op for op in order if op in after]):
        stops = barriers[bisect(barriers, order[op], key=order.__getitem__) :][:1]
        if (user := first_user(op.results, block, order)) is not None:
            stops.append(user)
        if not stops:
            continue
        end = min(stops, key=order.__getitem__)
        end = ends[op] = ends.get(end, end)
        place, first[end] = first.get(end, end), op
        order[op] = order[end][0], order.get(place, order[end])[1] - 1
        if op.next_op is not place:
            op.detach()
            block.insert_op_before(op, place)
            count("waits moved", isinstance(op, WaitOp))


def _follows(op: Operation, after: Set[Operation], sizes: HintedSizes) -> bool:
    """Whether ``op`` computes as many elements from the result of one of ``after``, or is a view of it."""
    if len(op.operands) != 1 or op.operands[0].owner not in after or op.regions or not is_pure(op):
        return False
    return is_view(op) or sum(sizes.elements(each) for each in op.result_types) >= sizes.elements(op.operands[0].type)
