"""Let private functions release arguments that all their callers release after the call.

Assumes  the plan level (``convert-to-plan``), after ``write-in-place`` and before ``plan-memory``.
Ensures  a private function that only plans call, and in whose calls an operand has its last use, is marked
         ``plan.boxed``: it takes its arguments in a list, and releases such an argument after its last use.
Leaves   functions that something else calls; arguments that a caller reads later. Idempotent.
Cost     one walk over these functions and their calls.

Before:
    func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %m = plan.alloc : tensor<4xf32>
      %0 = torch.aten.exp.out(%x, out = %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %y = torch.aten.relu.default(%m) : (tensor<4xf32>) -> tensor<4xf32>
      plan.free %m : tensor<4xf32>
      func.return %y : tensor<4xf32>
    }
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = torch.aten.sin.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %b = func.call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
      plan.free %a : tensor<4xf32>
      fx.output((%b,)) : (tensor<4xf32>) -> ()
    }
After:
    func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {plan.boxed} {
      %m = plan.alloc : tensor<4xf32>
      %0 = torch.aten.exp.out(%x, out = %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      plan.free %x : tensor<4xf32>
      %y = torch.aten.relu.default(%m) : (tensor<4xf32>) -> tensor<4xf32>
      plan.free %m : tensor<4xf32>
      func.return %y : tensor<4xf32>
    }
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = torch.aten.sin.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %b = func.call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
      plan.free %a : tensor<4xf32>
      fx.output((%b,)) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import CallOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.plan import BOXED, FreeOp, released
from fxc.passes.analysis.statistics import count
from fxc.passes.plan.calls import Callee, callees
from fxc.passes.plan.convert_to_plan import last_uses


@dataclass(frozen=True)
class ReleaseArgumentsPass(ModulePass):
    """A buffer of a caller's arena is released there, too, since its bytes are reused after the call."""

    name = "release-arguments"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for callee in callees(op):
            if BOXED not in callee.function.attributes:
                _release(callee)


def _release(callee: Callee) -> None:
    ended = [argument for argument in callee.block.args if all(_ends(call, argument.index) for call in callee.calls)]
    if not ended:
        return
    callee.function.attributes[BOXED] = UnitAttr()
    for op, values in last_uses(callee.block).items():
        if gone := [value for value in values if value in ended]:
            Rewriter.insert_op(FreeOp.of(gone), InsertPoint.after(op))
            count("arguments released", len(gone))


def _ends(call: CallOp, place: int) -> bool:
    """Whether the memory of an operand is released immediately after ``call``."""
    return call.next_op is not None and call.operands[place] in released(call.next_op)
