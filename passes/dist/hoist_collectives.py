"""Start collectives as early as possible, with a bound on the memory of results that are not awaited yet.

Assumes  every rank has this text but for the names of its groups, so that all decide alike.
Ensures  each collective stands right after what computes its operands, or another one whose result is needed
         earlier, or an operation that writes memory or has an effect. No move lets more than ``bytes`` of results wait.
         What computes the operand of a gather from an argument alone, as the padding of a shard, moves with it.
Leaves   computations, waits, and collectives that more than ``bytes`` wait for where they are.
Cost     one walk, and the operations above each collective.

Before:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>, %p: tensor<2xf32>) -> tensor<4xf32> {
      %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %r = dist.all_gather over @dp (%p) : (tensor<2xf32>) -> tensor<4xf32>
      %w = dist.wait %r : tensor<4xf32>
      %y = torch.aten.mul.Tensor(%e, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%y) : (tensor<4xf32>) -> ()
    }
After:
    dist.group @dp "0" ranks [0, 1]
    func.func @main(%x: tensor<4xf32>, %p: tensor<2xf32>) -> tensor<4xf32> {
      %r = dist.all_gather over @dp (%p) : (tensor<2xf32>) -> tensor<4xf32>
      %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %w = dist.wait %r : tensor<4xf32>
      %y = torch.aten.mul.Tensor(%e, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%y) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from fxc.dialects.dist import CollectiveOp, WaitOp
from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.analysis.statistics import count
from fxc.passes.dist.moves import bodies, chain, first_user, is_barrier, positions


@dataclass(frozen=True)
class HoistCollectivesPass(ModulePass):
    """Start collectives as early as possible, with a bound on the memory of results that are not awaited yet.

    ``bytes``: the most bytes of results of collectives that were started and not awaited.
    """

    name = "hoist-collectives"
    bytes: int = field(default=1 << 30, metadata={"minimum": 0})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for block in bodies(op):
            _hoist(block, HintedSizes(op), self.bytes)


def _hoist(block: Block, sizes: HintedSizes, limit: int) -> None:
    order = positions(block)
    needs = {op: _need(op, block, order) for op in order if isinstance(op, CollectiveOp)}
    waiting = 0
    for op in order:
        if isinstance(op, WaitOp):
            waiting -= _ended(op, sizes)
        elif isinstance(op, CollectiveOp):
            more = sum(sizes.distinct_bytes(value.type) for value in op.values)
            place, moved = _place(op, needs, waiting, limit - more, sizes)
            for each in moved if place is not op else ():
                each.detach()
                block.insert_op_before(each, place)
            count("collectives moved", place is not op)
            waiting += more


def _need(op: CollectiveOp, block: Block, order: dict[Operation, int]) -> int:
    user = first_user(op.values, block, order)
    return len(order) if user is None else order[user]


def _place(
    op: CollectiveOp, needs: dict[CollectiveOp, int], waiting: int, limit: int, sizes: HintedSizes
) -> tuple[Operation, list[Operation]]:
    """The op before which ``op`` can start, and what moves there.

    ``waiting``: the bytes before it of others, of which ``limit`` are allowed.
    """
    fixed, computes = {operand.owner for operand in op.inputs}, chain(op)
    moved: list[Operation] = [op]
    place, above = moved[0], op.prev_op
    while above is not None and (above in computes or above not in fixed) and not is_barrier(above):
        if above in computes:
            moved.insert(0, above)
            above = above.prev_op
            continue
        if isinstance(above, CollectiveOp):
            if needs[above] <= needs[op]:
                break
            waiting -= sum(sizes.distinct_bytes(value.type) for value in above.values)
        elif isinstance(above, WaitOp):
            waiting += _ended(above, sizes)
        if waiting > limit:
            break
        place, above = above, above.prev_op
    return place, moved


def _ended(wait: WaitOp, sizes: HintedSizes) -> int:
    """The bytes that wait no longer after ``wait``: none if it is not the first one."""
    start = wait.input.owner
    if not isinstance(start, CollectiveOp) or any(use.operation.is_before_in_block(wait) for use in wait.input.uses):
        return 0
    return sizes.distinct_bytes(wait.input.type)
