"""Let functions compute their results into memory of the caller.

Assumes  the plan level (``convert-to-plan``), before ``plan-memory``.
Ensures  a private function that returns a buffer that it allocates takes that as an argument instead; each call has a
         ``plan.alloc`` before it, which is the result. Calls of functions that neither save nor return memory of an
         argument are marked ``plan.borrows``: after the call, only the caller uses the operands.
Leaves   results that operators allocate, views, results that are returned twice or have dynamic sizes; functions with a
         call at plan time (``fx.once``) or a use other than a call in a plan.
Cost     one walk.

Before:
    func.func private @f(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> tensor<4x8xf32> {
      %m = plan.alloc : tensor<4x8xf32>
      %0 = torch.aten.mm.out(%x, %y, out = %m) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      func.return %m : tensor<4x8xf32>
    }
    func.func @main(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> tensor<f32> {
      %a = func.call @f(%x, %y) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %s = torch.aten.sum.default(%a) : (tensor<4x8xf32>) -> tensor<f32>
      plan.free %a : tensor<4x8xf32>
      fx.output((%s,)) : (tensor<f32>) -> ()
    }
After:
    func.func private @f(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>, %m: tensor<4x8xf32>) {
      %0 = torch.aten.mm.out(%x, %y, out = %m) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
      func.return
    }
    func.func @main(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> tensor<f32> {
      %a = plan.alloc : tensor<4x8xf32>
      func.call @f(%x, %y, %a) {plan.borrows} : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> ()
      %s = torch.aten.sum.default(%a) : (tensor<4x8xf32>) -> tensor<f32>
      plan.free %a : tensor<4x8xf32>
      fx.output((%s,)) : (tensor<f32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, UnitAttr
from xdsl.dialects.func import CallOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.attributes.discardable import BORROWS
from fxc.dialects.plan import AllocOp
from fxc.dialects.plan.ops import borrows
from fxc.dialects.text.syntax import copy_names
from fxc.passes.analysis.statistics import count
from fxc.passes.plan.calls import Callee, callees

T = TypeVar("T")


@dataclass(frozen=True)
class ResultsToArgumentsPass(ModulePass):
    """``largest``: the size in bytes up to which callers allocate buffers; the function allocates larger ones."""

    name = "results-to-arguments"

    largest: int | None = field(default=None, metadata={"minimum": 0})

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for callee in callees(op):
            end = callee.block.last_op
            if isinstance(end, ReturnOp):
                places = [place for place, value in enumerate(end.operands) if self._is_made_for(value, end)]
                if places:
                    callee = _give(callee, end, places)
                    count("results", len(places))
            if borrows(callee.block):
                for call in callee.calls:
                    call.attributes[BORROWS] = UnitAttr()

    def _is_made_for(self, value: SSAValue, end: ReturnOp) -> bool:
        """Whether ``value`` is a buffer of static sizes, allocated in the block of the terminator ``end`` and returned once."""
        made = value.owner
        return (
            isinstance(made, AllocOp)
            and made.parent is end.parent
            and made.arena is None
            and not made.numbers
            and (self.largest is None or made.needed() <= self.largest)
            and [*end.operands].count(value) == 1
        )


def _give(callee: Callee, end: ReturnOp, places: Sequence[int]) -> Callee:
    """Replace the results at ``places`` by arguments. Calls pass buffers for them, which replace the results of the call."""
    buffers = [end.operands[place] for place in places]
    end.operands = _without(end.operands, places)
    function = callee.function
    inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
    function.function_type = FunctionType.from_lists(inputs, _without(outputs, places))
    if (attributes := function.res_attrs) is not None:
        function.res_attrs = ArrayAttr(_without(attributes.data, places))
    callee = Callee(callee.function, tuple(_without_results(call, places) for call in callee.calls))
    arguments = callee.add_arguments([buffer.type for buffer in buffers])
    copy_names(buffers, arguments)
    for buffer, argument in zip(buffers, arguments, strict=True):
        assert isinstance(buffer.owner, AllocOp)
        Rewriter.replace_op(buffer.owner, [], [argument])
    return callee


def _without_results(call: CallOp, places: Sequence[int]) -> CallOp:
    """``call`` without its results at ``places``. Buffers replace these: allocated before the call, and its last operands."""
    buffers = {place: AllocOp.of(call.results[place].type) for place in places}
    given, rest = [buffer.buffer for buffer in buffers.values()], _without(call.results, places)
    made = CallOp(call.callee, [*call.operands, *given], [each.type for each in rest])
    made.attributes, made.location = dict(call.attributes), call.location
    for place, buffer in buffers.items():
        buffer.location = call.location
        copy_names([call.results[place]], [buffer.buffer])
    copy_names(rest, made.results)
    kept = iter(made.results)
    new = [buffers[place].buffer if place in buffers else next(kept) for place in range(len(call.results))]
    Rewriter.replace_op(call, [*buffers.values(), made], new, safe_erase=False)
    return made


def _without(items: Sequence[T], places: Sequence[int]) -> list[T]:
    return [item for place, item in enumerate(items) if place not in places]
