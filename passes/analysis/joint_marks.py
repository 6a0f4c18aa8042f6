"""The marks of a joint graph as a user may write them: which attribute may be where, with which value."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, TupleType, UnitAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from fxc.dialects.autodiff import FORWARD_RESULTS, HELD, OFFLOADED, PART, RECOMPUTED, SAVED, TANGENT, WRITTEN
from fxc.dialects.entry import argument_attributes
from fxc.dialects.text.diagnostics import OpPassFailedException

_OF_OPERATIONS, _OF_ARGUMENTS = (SAVED, RECOMPUTED, PART, OFFLOADED), (TANGENT, WRITTEN, HELD)
_MARKS = (*_OF_OPERATIONS, *_OF_ARGUMENTS)


def check_marks(function: FuncOp) -> int:
    """The number of results of the forward. OpPassFailedException for a mark of ``function`` that no pass would obey."""
    if not isinstance(count := function.attributes.get(FORWARD_RESULTS), IntegerAttr):
        raise OpPassFailedException(f"{FORWARD_RESULTS} is {count}, but an integer is expected", function)
    for argument, attributes in zip(function.args, argument_attributes(function), strict=True):
        for name, value in attributes.data.items():
            if name in _OF_OPERATIONS:
                hint = f"remove {name}, as a primal that the backward reads is always saved"
                raise OpPassFailedException(f"the argument %{argument.name_hint} cannot be marked: {hint}", function)
            if name in _OF_ARGUMENTS:
                _check_unit(name, value, function)
    for op in function.body.walk():
        for name, value in op.attributes.items():
            if name in _OF_ARGUMENTS or (name.startswith("autodiff.") and _is_misspelled(name)):
                raise OpPassFailedException(f"{name} is no mark of an operation; {', '.join(_OF_OPERATIONS)} are", op)
            if name in _OF_OPERATIONS:
                if op.parent_op() is not function:
                    raise OpPassFailedException(f"{name} is in a region; mark the operation around it", op)
                _check_mark(name, value, op)
    return count.value.data


def _check_mark(name: str, value: Attribute, op: Operation) -> None:
    if name == RECOMPUTED:
        _check_unit(name, value, op)
    elif name == PART and value not in (StringAttr("forward"), StringAttr("backward")):
        raise OpPassFailedException(f'{PART} is {value}, but "forward" or "backward" is expected', op)
    elif name in (SAVED, OFFLOADED):
        indices = _indices(value)
        is_tuple = len(op.results) == 1 and isinstance(op.results[0].type, TupleType)
        if min(indices, default=0) < 0 or (not is_tuple and max(indices, default=-1) >= len(op.results)):
            message = f"{name} is {value}, but an array<i64> of indices of the {len(op.results)} results is expected"
            raise OpPassFailedException(message, op)
        if name == OFFLOADED and not set(indices) <= set(_indices(op.attributes.get(SAVED))):
            raise OpPassFailedException(f"{OFFLOADED} is {value}, but not all of these results are marked {SAVED}", op)


def _indices(value: Attribute | None) -> list[int]:
    """The numbers of an array<i64>; -1 for another attribute."""
    if isinstance(value, DenseArrayBase) and value.elt_type == i64:
        return [int(i) for i in value.get_values()]
    return [-1]


def _check_unit(name: str, value: Attribute, op: Operation) -> None:
    if not isinstance(value, UnitAttr):
        raise OpPassFailedException(f"{name} has no value, but here it is {value}; remove the value, or the mark", op)


def _is_misspelled(name: str) -> bool:
    """Whether ``name`` is nearly that of a mark. Other attributes of the dialect have other users."""
    return name not in _MARKS and any(name.startswith(mark[:-1]) or mark.startswith(name) for mark in _OF_OPERATIONS)
