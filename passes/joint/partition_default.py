"""Mark the values of a joint graph that are saved for the backward: all that it reads and the forward computes.

Assumes  a joint graph at the torch level, as ``lower-to-torch`` leaves it.
Ensures  each value of the forward that the backward reads is saved, or computed again by marked operations. Of a tensor
         of which only sizes are read, these are saved. Idempotent.
Leaves   marks that are there, except that an operation with an effect is not computed again; arguments, which are
         saved without a mark; what only the backward needs, which it computes; modules without a joint graph.
Cost     one walk for each depth of marked operations.

Before:
    func.func @main(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
    attributes {autodiff.forward_results = 1 : i64} {
      %t = torch.aten.tanh.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %y = torch.aten.exp.default(%t) : (tensor<4xf32>) -> tensor<4xf32>
      %e = torch.aten.mul.Tensor(%d, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %g = torch.aten.tanh_backward.default(%e, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output([%y, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
    attributes {autodiff.forward_results = 1 : i64} {
      %t = torch.aten.tanh.default(%x) {autodiff.saved = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
      %y = torch.aten.exp.default(%t) {autodiff.saved = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
      %e = torch.aten.mul.Tensor(%d, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %g = torch.aten.tanh_backward.default(%e, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output([%y, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.passes.analysis.joint_graph import can_be_saved, is_joint, joint_graph, mark_recomputed, mark_saved, must_run
from fxc.passes.analysis.statistics import count


@dataclass(frozen=True)
class PartitionDefaultPass(ModulePass):
    name = "partition-default"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        while is_joint(op) and (missing := joint_graph(op).demand().missing):
            for value in missing:
                owner = value.owner
                assert isinstance(owner, Operation)
                if can_be_saved(value):
                    mark_saved(value)
                    count("values saved")
                elif must_run(owner):
                    message = (
                        f"the backward reads its result of type {value.type}, which can neither be saved nor computed again"
                    )
                    raise OpPassFailedException(message, owner)
                else:
                    mark_recomputed(owner)
