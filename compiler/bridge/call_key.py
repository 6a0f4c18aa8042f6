"""What an answer of PyTorch about a call depends on: two calls with one key get the same answer, from a cache."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.dialects.builtin import DictionaryAttr, TupleType
from xdsl.ir import Operation


def call_key(op: Operation, symbols: DictionaryAttr | None) -> Hashable:
    """The operator, its constants, which operands are one value, all types, its regions, and the symbols of the module."""
    return question_key(op, symbols), tuple(result.type for result in op.results)


def question_key(op: Operation, symbols: DictionaryAttr | None) -> Hashable:
    """``call_key`` without the types of the results, for what is asked to know them."""
    order = list(dict.fromkeys(op.operands))
    return (
        op.name,
        tuple(sorted(op.properties.items())),
        tuple((order.index(value), value.type) for value in op.operands),
        tuple(isinstance(result.type, TupleType) for result in op.results),
        tuple(map(str, op.regions)),
        symbols,
    )
