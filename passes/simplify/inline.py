"""Replace calls by the body of the function.

Assumes  verified IR.
Ensures  no function with a one-block body is called, except recursive and ``no_inline`` ones; calls in callees are
         inlined first, so one run inlines chains of calls. Inlined operations have their former names and the location
         ``callsite(body at call)``. Private functions that are unused then are erased. Idempotent.
Leaves   recursive functions, directly or through others, and all calls of them; declarations; functions and calls
         marked ``no_inline``; calls whose result types differ from what the body returns.
Cost     one walk, and one copy of a body for each call of it.

Before:
    func.func private @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = torch.aten.gelu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      func.return %y : tensor<4xf32>
    }
    func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %b = func.call @gelu(%a) : (tensor<4xf32>) -> tensor<4xf32>
      func.return %b : tensor<4xf32>
    }
After:
    func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %y = torch.aten.gelu.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
      func.return %y : tensor<4xf32>
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, CallSiteLoc, LocationAttr, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from fxc.dialects.attributes.values import leaves
from fxc.dialects.fx import OutputOp
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.analysis.call_graph import callee_first, calls_in, functions_of
from fxc.passes.analysis.constants import is_host_constant
from fxc.passes.analysis.statistics import count
from fxc.passes.rewriting.outlining import NO_INLINE
from fxc.passes.rewriting.unused_symbols import erase_unused_symbols


@dataclass(frozen=True)
class InlinePass(ModulePass):
    name = "inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for module in [inner for inner in op.walk() if isinstance(inner, ModuleOp)]:
            _inline_in(module)
        erase_unused_symbols(op)


def _inline_in(module: ModuleOp) -> None:
    functions = functions_of(module)
    inlinable = dict[str, Block]()
    for group in callee_first(functions):
        for name in group:
            _inline_calls(functions[name], inlinable)
        if len(group) == 1 and (body := _body(functions[group[0]])) is not None:
            inlinable[group[0]] = body
    for op in module.body.block.ops:
        if not isinstance(op, (FuncOp, ModuleOp)):
            _inline_calls(op, inlinable)


def _body(function: FuncOp) -> Block | None:
    """The block to copy for a call of ``function``; None where its calls are not inlined."""
    name = function.sym_name.data
    if len(function.body.blocks) != 1 or NO_INLINE in function.attributes:
        return None
    if any(call.callee.string_value() == name for call in calls_in(function)):
        return None
    return function.body.block


def _inline_calls(caller: Operation, inlinable: dict[str, Block]) -> None:
    for call in list(calls_in(caller)):
        body = inlinable.get(call.callee.string_value())
        if body is None or NO_INLINE in call.attributes or (returned := _returned(body, call)) is None:
            count("calls left")
        else:
            _splice(call, body, returned)
            count("calls inlined")


def _returned(body: Block, call: CallOp) -> list[SSAValue | Attribute] | None:
    """The values that ``body`` returns for each result of ``call``; None where the types differ.

    ``fx.output`` returns its values in order, and its constants where the call has a result for them.
    """
    last = body.last_op
    values: list[SSAValue | Attribute]
    match last:
        case ReturnOp():
            values = list(last.arguments)
        case OutputOp():
            args, kwargs = last.trees()
            values = list(leaves([*args, *kwargs.values()]))
            if len(values) != len(call.results):
                values = list(last.operands)
        case _:
            return None
    if len(values) != len(call.results):
        return None
    for value, result in zip(values, call.results, strict=True):
        fits = value.type == result.type if isinstance(value, SSAValue) else is_host_constant(value)
        if not fits:
            return None
    return values


def _splice(call: CallOp, body: Block, returned: list[SSAValue | Attribute]) -> None:
    """Replace ``call`` by a copy of ``body``."""
    values: dict[SSAValue, SSAValue] = dict(zip(body.args, call.arguments, strict=True))
    places = dict[LocationAttr, LocationAttr]()
    copies = list[Operation]()
    for op in body.ops:
        if op is not body.last_op:
            copies.append(_copy(op, values, places, call.location))
    results = list[SSAValue]()
    for value, result in zip(returned, call.results, strict=True):
        if isinstance(value, Attribute):
            copies.append(constant := ConstantOp.of(value, result.type))
            constant.location = call.location
            results.append(constant.result)
        else:
            results.append(values.get(value, value))
    block = call.parent
    assert block is not None
    block.insert_ops_before(copies, call)
    for old, new in zip(call.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.detach()
    call.erase()


def _copy(
    op: Operation, values: dict[SSAValue, SSAValue], places: dict[LocationAttr, LocationAttr], caller: LocationAttr
) -> Operation:
    if not op.regions:
        copy = op.clone_without_regions(values, clone_name_hints=False)
        copy_names(op.results, copy.results)
        copy.location = _place(op.location, places, caller)
        return copy
    copy = op.clone(values, clone_name_hints=False)
    for old, new in zip(op.walk(), copy.walk(), strict=True):
        copy_names(old.results, new.results)
        new.location = _place(old.location, places, caller)
        for old_region, new_region in zip(old.regions, new.regions, strict=True):
            for old_block, new_block in zip(old_region.blocks, new_region.blocks, strict=True):
                copy_names(old_block.args, new_block.args)
    return copy


def _place(callee: LocationAttr, places: dict[LocationAttr, LocationAttr], caller: LocationAttr) -> LocationAttr:
    """``callsite(callee at caller)``, or ``callee`` where the location of the call is unknown."""
    if caller == UNKNOWN_LOC:
        return callee
    if callee not in places:
        places[callee] = CallSiteLoc(callee, caller)
    return places[callee]
