"""Selections from the packed results of calls: ``fx.call_function @operator.getitem(%t, 0)`` of a tuple value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import IntegerAttr, TupleType, i1
from xdsl.ir import Operation, SSAValue

from fxc.dialects.attributes.values import NoneValueAttr, Tree, isa
from fxc.dialects.fx import CallFunctionOp

_GETITEM = frozenset(["operator.getitem", "_operator.getitem"])


def selected_index(op: Operation) -> int | slice | None:
    """The constant index or slice that ``op`` selects from a tuple; None for any other op, and where it is out of range."""
    if not isinstance(op, CallFunctionOp) or op.call_target() not in _GETITEM or len(op.operands) != 1:
        return None
    source = op.operands[0].type
    args, kwargs = op.trees()
    if not isinstance(source, TupleType) or kwargs or len(args) != 2 or args[0] is not op.operands[0]:
        return None
    count = len(source.types.data)
    if isa(args[1], slice):
        bounds = [_bound(bound) for bound in (args[1].start, args[1].stop, args[1].step)]
        return None if False in bounds or bounds[2] == 0 else slice(*bounds)
    index = _bound(args[1])
    if index is None or index is False:
        return None
    return index % count if -count <= index < count else None


def selections(tuple_value: SSAValue) -> list[tuple[Operation, int]] | None:
    """The ops that select one element of ``tuple_value``, directly or through slices, with the index of the element.

    None where ``tuple_value`` has any other use.
    """
    elements = range(len(tuple_value.type.types.data)) if isinstance(tuple_value.type, TupleType) else range(0)
    try:
        return list(_selections(tuple_value, elements))
    except _OtherUse:
        return None


class _OtherUse(Exception):
    """The tuple is used as a whole."""


def _selections(value: SSAValue, elements: Sequence[int]) -> Iterator[tuple[Operation, int]]:
    for use in list(value.uses):
        index = selected_index(use.operation)
        if index is None:
            raise _OtherUse
        if isinstance(index, slice):
            if use.operation.results[0].first_use is None:
                raise _OtherUse  # an unused slice is dead code, which dce removes
            yield from _selections(use.operation.results[0], elements[index])
        else:
            yield use.operation, elements[index]


def _bound(tree: Tree) -> int | bool | None:
    """An integer; None for ``none``; False for anything else."""
    if isinstance(tree, NoneValueAttr):
        return None
    if isa(tree, IntegerAttr) and tree.type != i1:
        return tree.value.data
    return False
