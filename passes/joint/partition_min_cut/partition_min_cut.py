"""Mark the values of a joint graph that are saved for the backward so that they take little memory.

Assumes  a joint graph at the torch level, as ``lower-to-torch`` leaves it; dead operations are removed.
Ensures  each value of the forward that the backward reads is saved, an argument, or marked to be computed again; the
         saved ones are a minimum cut, or the fastest plan whose bytes or simulated peak are under ``budget``.
Leaves   marks that are there; modules without a joint graph. Random operators and those with effects are not computed
         again, nor are products, convolutions and unknown calls without a budget. Views are never saved.
Cost     a minimum cut; with a budget one, and a simulation of the memory, for each of up to 24 plans.

Before:
    func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %d: tensor<4x4xf32> {autodiff.tangent})
    attributes {autodiff.forward_results = 1 : i64} {
      %h = torch.aten.mm.default(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %t = torch.aten.tanh.default(%h) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %y = torch.aten.exp.default(%t) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %e = torch.aten.mul.Tensor(%d, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %g = torch.aten.tanh_backward.default(%e, %t) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      fx.output([%y, %g, none]) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %d: tensor<4x4xf32> {autodiff.tangent})
    attributes {autodiff.forward_results = 1 : i64} {
      %h = torch.aten.mm.default(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %t = torch.aten.tanh.default(%h) {autodiff.saved = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %y = torch.aten.exp.default(%t) {autodiff.recomputed} : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %e = torch.aten.mul.Tensor(%d, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %g = torch.aten.tanh_backward.default(%e, %t) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      fx.output([%y, %g, none]) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from fxc.passes.analysis.constants import is_constant
from fxc.passes.analysis.joint_graph import is_joint, is_number, joint_graph, mark_recomputed, mark_saved
from fxc.passes.analysis.statistics import count
from fxc.passes.joint.partition_min_cut.budgets import Budget, plan_under
from fxc.passes.joint.partition_min_cut.dataflow import Dataflow, Recomputation


@dataclass(frozen=True)
class PartitionMinCutPass(ModulePass):
    """``budget``: bytes of peak memory without arguments; or a fraction from 0, the lowest peak, to 1, no recomputation that
    may cost time.
    """

    name = "partition-min-cut"

    budget: float | str = field(default=1.0, metadata={"minimum": 0})

    def __post_init__(self) -> None:
        Budget.of(self.budget)  # reject an invalid one when the pipeline is created

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not is_joint(op):
            return
        flow = Dataflow(joint_graph(op))
        plan = plan_under(Budget.of(self.budget), Recomputation(flow))
        for value in plan.saved:
            mark_saved(value)
        forward = joint_graph(op).forward
        for number in plan.recomputed:
            if needs_mark(flow.ops[number], in_forward=flow.ops[number] in forward):
                mark_recomputed(flow.ops[number])
        count("values saved", len(plan.saved))
        count("operations computed again", len(plan.recomputed))


def needs_mark(op: Operation, *, in_forward: bool) -> bool:
    """Whether the backward computes ``op`` only if it is marked. It saves numbers instead of the tensors that they are from."""
    reads_sizes = any(map(is_number, op.results)) and not all(map(is_number, op.operands))
    return not is_constant(op) and (in_forward or reads_sizes)
