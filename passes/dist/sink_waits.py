"""Move waits for collectives down to the first use of their results.

Assumes  verified IR.
Ensures  each wait stands right before the first operation that uses its result, or before the first one on the way that
         writes memory or has an effect other than random numbers. The order of waits at one operation is that of
         before.
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

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from fxc.dialects.dist import WaitOp
from fxc.passes.analysis.statistics import count
from fxc.passes.dist.moves import bodies, first_user, is_barrier, positions


@dataclass(frozen=True)
class SinkWaitsPass(ModulePass):
    name = "sink-waits"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for block in bodies(op):
            _sink(block)


def _sink(block: Block) -> None:
    order = positions(block)
    barriers = [op for op in order if is_barrier(op)]
    before = dict[Operation, list[WaitOp]]()
    for wait in [op for op in order if isinstance(op, WaitOp)]:
        ends = [op for op in barriers if order[op] > order[wait]][:1]
        if (user := first_user([wait.value], block, order)) is not None:
            ends.append(user)
        if ends:
            before.setdefault(min(ends, key=order.__getitem__), []).append(wait)
    for op, waits in before.items():
        for wait in waits if not isinstance(op, WaitOp) else ():
            count("waits moved", wait.next_op not in (op, *waits))
            wait.detach()
            block.insert_op_before(wait, op)
