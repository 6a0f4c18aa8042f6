"""Unpacking: calls that return a tuple become calls of several results."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, TupleType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.values import TupleAttr
from fxc.dialects.fx import OutputOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import HigherOrderOp
from fxc.passes.analysis.statistics import count
from fxc.passes.analysis.tuples import selections


def unpack_tuples(around: Operation) -> None:
    """Let calls in ``around`` return one result for each element, where their tuple is only read by element."""
    for call in list(around.walk()):
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
    """Whether ``call`` may have these results: as many as the operator returns, or the elements of a list."""
    elements = len(type.types.data)
    if isinstance(call, TorchOp):
        returns = call.SCHEMA.returns
        return elements == len(returns) if len(returns) != 1 else "[]" in returns[0].type
    return elements > 1 or (elements == 1 and bool(call.regions) and all(_returns_tuple(r.last_block) for r in call.regions))


def _returns_tuple(block: object) -> bool:
    """Whether a region returns ``(%a,)`` and not ``%a``, so that one result can be told from a tuple of one element."""
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
    """Erase the unused getitems and slices of ``packed``."""
    for use in list(packed.uses):
        _erase_users(use.operation.results[0])
        Rewriter.erase_op(use.operation)


def _in_order(taken: list[tuple[Operation, int]]) -> list[tuple[Operation, int]]:
    """Sort by position in the block where an element is selected more than once; otherwise the order does not matter."""
    if len({index for _, index in taken}) == len(taken):
        return taken
    place = {op: i for block in {op.parent for op, _ in taken if op.parent} for i, op in enumerate(block.ops)}
    return sorted(taken, key=lambda t: place[t[0]])
