"""lower-simple-tuples: give a call one result for each element of the tuple that it returns.

Assumes:    verified IR, nothing more.
Guarantees: no operator or higher-order call is left that returns one tuple of which all uses are ``operator.getitem``
            with a constant index in range, directly or through constant slices. Result i takes the name of the first
            getitem that took it; results that nothing reads have no name. Running it again changes nothing.
Keeps:      tuples that are returned or passed on as a whole, or indexed by a value or out of range; calls that nothing
            uses (``dce``); a tuple inside the tuple stays one value, with its own getitems.
Cost:       one walk.

Before:
    func.func @main(%x: tensor<4xf32>) {
      %t = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
      %v = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xf32>
      fx.output(%v) : (tensor<2xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4xf32>) {
      %v, %0 = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
      fx.output(%v) : (tensor<2xf32>) -> ()
    }
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, TupleType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.values import TupleAttr
from fxc.dialects.fx import OutputOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.higher_order import HigherOrderOp
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.tuples import selections


@dataclass(frozen=True)
class LowerSimpleTuplesPass(ModulePass):
    name = "lower-simple-tuples"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for call in list(op.walk()):
            if isinstance(call, (TorchOp, HigherOrderOp)) and len(call.results) == 1:
                type = call.results[0].type
                if isinstance(type, TupleType) and call.results[0].first_use is not None and _can_have_results(call, type):
                    _unpack(call, type)


def _unpack(call: TorchOp | HigherOrderOp, type: TupleType) -> None:
    packed = call.results[0]
    taken = selections(packed)
    if taken is None or any(op.results[0].type != type.types.data[index] for op, index in taken):
        return
    unpacked = _with_result_types(call, type)
    Rewriter.insert_op(unpacked, InsertPoint.before(call))
    for op, index in _in_order(taken):
        new = unpacked.results[index]
        if new._name is None:
            new._name = op.results[0]._name
        op.results[0].replace_all_uses_with(new)
    _erase_users(packed)
    Rewriter.erase_op(call)
    count("tuples unpacked")


def _can_have_results(call: TorchOp | HigherOrderOp, type: TupleType) -> bool:
    """Whether the results of ``call`` may be these: as many as the operator returns, or the elements of a list."""
    elements = len(type.types.data)
    if isinstance(call, TorchOp):
        returns = call.SCHEMA.returns
        return elements == len(returns) if len(returns) != 1 else "[]" in returns[0].type
    return elements > 1 or (elements == 1 and bool(call.regions) and all(_returns_tuple(r.last_block) for r in call.regions))


def _returns_tuple(block: object) -> bool:
    """A region that returns ``(%a,)``, not ``%a``: so that one result can be told from one tuple of one."""
    last = getattr(block, "last_op", None)
    if not isinstance(last, OutputOp):
        return False
    returned = [template for _, template in last.call_arguments()]
    return len(returned) == 1 and isinstance(returned[0], (TupleAttr, ArrayAttr))


def _with_result_types(call: TorchOp | HigherOrderOp, type: TupleType) -> Operation:
    args, kwargs = call.trees()
    return call.build_call(
        args,
        kwargs,
        type.types.data,
        attributes=call.attributes,
        regions=[call.detach_region(region) for region in list(call.regions)],
        location=call.location,
    )


def _erase_users(packed: SSAValue) -> None:
    """Erase the getitems and slices of ``packed``, whose own results nothing uses any more."""
    for use in list(packed.uses):
        _erase_users(use.operation.results[0])
        Rewriter.erase_op(use.operation)


def _in_order(taken: list[tuple[Operation, int]]) -> list[tuple[Operation, int]]:
    """By place in the block, where an element is taken more than once; the order does not matter elsewhere."""
    if len({index for _, index in taken}) == len(taken):
        return taken
    place = {op: i for block in {op.parent for op, _ in taken if op.parent} for i, op in enumerate(block.ops)}
    return sorted(taken, key=lambda t: place[t[0]])
