"""Reorder operations so that less memory is live at one time.

Assumes  the torch level; after ``split-joint`` the modules ``@forward`` and ``@backward`` are the parts of one step. A
         group runs as one kernel; other values are written to memory.
Ensures  the simulated peak of each function, and of the step, is not higher than before: the order is the best of the
         given one and three list schedules. Effects, random operators and writes stay in order. Idempotent.
Leaves   functions of several blocks, nested regions, and functions where no schedule is better.
Cost     n log n for n operations.

Before:
    func.func @main(%x: tensor<64xf32>) -> tensor<f32> {
      %a = torch.aten.exp.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
      %b = torch.aten.sin.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
      %p = torch.aten.sum.default(%a) : (tensor<64xf32>) -> tensor<f32>
      %q = torch.aten.sum.default(%b) : (tensor<64xf32>) -> tensor<f32>
      %s = torch.aten.add.Tensor(%p, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      func.return %s : tensor<f32>
    }
After:
    func.func @main(%x: tensor<64xf32>) -> tensor<f32> {
      %a = torch.aten.exp.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
      %p = torch.aten.sum.default(%a) : (tensor<64xf32>) -> tensor<f32>
      %b = torch.aten.sin.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
      %q = torch.aten.sum.default(%b) : (tensor<64xf32>) -> tensor<f32>
      %s = torch.aten.add.Tensor(%p, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      func.return %s : tensor<f32>
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from fxc.passes.analysis.size_values import HintedSizes
from fxc.passes.analysis.statistics import count
from fxc.passes.joint.reorder_for_memory.schedules import Schedules, least_growth, releases_first
from fxc.passes.operators.peak_memory import Simulation, TrainingStep, operations_of, returned_by


@dataclass(frozen=True)
class ReorderForMemoryPass(ModulePass):
    name = "reorder-for-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        modules = [module for module in op.walk() if isinstance(module, ModuleOp)]
        steps = {step.backward: step for module in modules if (step := TrainingStep.of(module)) is not None}
        for function in [inner for inner in op.walk() if isinstance(inner, FuncOp)]:
            if len(function.body.blocks) != 1:
                continue
            block, step = function.body.block, steps.get(function)
            if step is None:
                _reorder(block, Simulation(HintedSizes(function)), returned_by(block))
            else:  # after its forward
                _reorder(block, step.before_backward(), step.lasting())


def _reorder(block: Block, before: Simulation, lasting: Sequence[SSAValue | Attribute]) -> None:
    """Reorder ``block``, which runs after what ``before`` has run; ``lasting`` values are not released."""

    def simulated(order: Sequence[Operation]) -> Simulation:
        simulation = before.copy()
        simulation.run(order)
        return simulation

    best, improved = operations_of(block), True
    given, least = best, simulated(best).result(lasting).peak
    while improved:
        current, improved = best, False
        schedules = Schedules(current, simulated(current), lasting)
        for places in (schedules.on_demand(), schedules.in_order_of(releases_first), schedules.in_order_of(least_growth)):
            order = [current[place] for place in places]
            if (peak := simulated(order).result(lasting).peak) < least:
                best, least, improved = order, peak, True
    if best is not given:
        last = block.last_op
        assert last is not None
        for op in best:
            op.detach()
        block.insert_ops_before(best, last)
        count("functions in another order")
