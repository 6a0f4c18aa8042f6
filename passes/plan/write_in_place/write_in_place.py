"""Let kernels and operators overwrite operands that are dead.

Assumes  the plan level (``convert-to-plan``), after ``assign-streams`` and before ``plan-memory``.
Ensures  an elementwise kernel, or a kernel with one program per row, overwrites a dead input that fills the bytes of
         its output, if its loads and stores allow that. Operators use an in-place variant if PyTorch has one. Calls
         of a function whose result overwrites an argument pass one buffer for both.
Leaves   memory with a live view, that another stream may read, or that leaves the function.
Cost     two walks.

Before:
    tile.kernel @k(
      %x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}
    ) attributes {
      grid = array<i64: 1>,
      schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
    } {
      %zero = arith.constant 0 : index
      %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
      %n = arith.negf %a : vector<32xf32>
      tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
      tile.return
    }
    func.func @main(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> tensor<4xf32> {
      %m = plan.alloc : tensor<4x8xf32>
      %0 = torch.aten.mm.out(%x, %y, out = %m) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      %n = plan.alloc : tensor<4x8xf32>
      plan.launch @k(%m) outs(%n) : (tensor<4x8xf32>) outs(tensor<4x8xf32>)
      plan.free %m : tensor<4x8xf32>
      %s = torch.aten.sum.dim_IntList(%n, [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
      plan.free %n : tensor<4x8xf32>
      fx.output((%s,)) : (tensor<4xf32>) -> ()
    }
After:
    tile.kernel @k(
      %x: !tile.ptr<f32> {tile.access = "read", tile.in_place}, %y: !tile.ptr<f32> {tile.access = "write", tile.in_place}
    ) attributes {
      grid = array<i64: 1>,
      schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
    } {
      %zero = arith.constant 0 : index
      %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
      %n = arith.negf %a : vector<32xf32>
      tile.store %n, %y[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
      tile.return
    }
    func.func @main(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> tensor<4xf32> {
      %m = plan.alloc : tensor<4x8xf32>
      %0 = torch.aten.mm.out(%x, %y, out = %m) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      plan.launch @k(%m) outs(%m) : (tensor<4x8xf32>) outs(tensor<4x8xf32>)
      %s = torch.aten.sum.dim_IntList(%m, [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
      plan.free %m : tensor<4x8xf32>
      fx.output((%s,)) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from fxc.passes.plan.calls import callees
from fxc.passes.plan.last_uses import update_dying_operands
from fxc.passes.plan.write_in_place.overwrite import overwrite_dying_inputs


@dataclass(frozen=True)
class WriteInPlacePass(ModulePass):
    """An input may be a buffer, a result that an operator allocated, or an argument of a private function that no caller
    uses later. If sizes differ, a ``plan.view`` is inserted. A function may overwrite an argument that it no longer reads
    when it first writes the result.
    """

    name = "write-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = {callee.function: callee for callee in callees(op)}
        rest = [function for function in op.ops if isinstance(function, FuncOp) and function not in known]
        for function in (*rest, *reversed(known)):  # callers first: then the dead operands of calls are known
            block = function.body.first_block
            if block is not None and block is function.body.last_block:
                overwrite_dying_inputs(block, known.get(function))
                update_dying_operands(block)
