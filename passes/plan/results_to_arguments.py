"""results-to-arguments: functions compute their results into memory that the caller gives.

Assumes:    the plan level (``convert-to-plan``), before buffers have their places (``plan-memory``).
Guarantees: where a private function returns a buffer that it makes itself, it takes that as an argument and returns it no more;
            each call has a ``plan.alloc`` before it, which is the result from then on. So the caller says where it lies. Calls
            of functions that neither keep nor return memory of an argument are marked ``plan.borrows``: what they are given is
            the caller's alone again when they are over.
Keeps:      results that operators allocate, views, what is returned twice or has sizes that are not known. Functions that
            something else than a plan calls, or that are called once, when the plan is made.
Cost:       a walk.

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

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, UnitAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from fxc.dialects.marks import BORROWS
from fxc.dialects.plan import AllocOp
from fxc.dialects.plan.calls import borrows
from fxc.dialects.syntax import copy_names
from fxc.passes._statistics import count
from fxc.passes.plan._calls import Callee, callees


@dataclass(frozen=True)
class ResultsToArgumentsPass(ModulePass):
    name = "results-to-arguments"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for callee in callees(op):
            end = callee.block.last_op
            if isinstance(end, ReturnOp):
                for place in reversed(range(len(end.operands))):
                    if _is_made_for(end.operands[place], end):
                        callee = _give(callee, end, place)
                        count("results")
            if borrows(callee.block):
                for call in callee.calls:
                    call.attributes[BORROWS] = UnitAttr()


def _is_made_for(value: SSAValue, end: ReturnOp) -> bool:
    """Whether ``value`` is a buffer of static sizes, made in the block that ``end`` ends and returned once."""
    made = value.owner
    return (
        isinstance(made, AllocOp)
        and made.parent is end.parent
        and made.arena is None
        and not made.numbers
        and [*end.operands].count(value) == 1
    )


def _give(callee: Callee, end: ReturnOp, place: int) -> Callee:
    """The result at ``place`` is an argument from now on, and what calls give for it is that result."""
    buffer = end.operands[place]
    assert isinstance(buffer.owner, AllocOp)
    end.operands = [value for index, value in enumerate(end.operands) if index != place]
    _forget_result(callee.function, place)
    callee = Callee(callee.function, tuple(_without_result(call, place) for call in callee.calls))
    given = iter([call.prev_op.results[0] for call in callee.calls if call.prev_op is not None])
    argument = callee.add_argument(buffer.type, lambda call: next(given))
    copy_names([buffer], [argument])
    Rewriter.replace_op(buffer.owner, [], [argument])
    return callee


def _forget_result(function: FuncOp, place: int) -> None:
    inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
    function.function_type = FunctionType.from_lists(inputs, [*outputs[:place], *outputs[place + 1 :]])
    if (attributes := function.res_attrs) is not None:
        function.res_attrs = ArrayAttr([*attributes.data[:place], *attributes.data[place + 1 :]])


def _without_result(call: CallOp, place: int) -> CallOp:
    """``call`` without its result at ``place``: a buffer made before it takes that part."""
    result = call.results[place]
    buffer = AllocOp.of(result.type)
    buffer.location = call.location
    rest = [each for each in call.results if each is not result]
    made = CallOp(call.callee, call.operands, [each.type for each in rest])
    made.attributes, made.location = dict(call.attributes), call.location
    copy_names([result], [buffer.buffer])
    copy_names(rest, made.results)
    new = [*made.results[:place], buffer.buffer, *made.results[place:]]
    Rewriter.replace_op(call, [buffer, made], new, safe_erase=False)
    return made
