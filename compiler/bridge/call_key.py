"""Cache keys of calls: calls with equal keys have equal results of PyTorch queries."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.dialects.builtin import DictionaryAttr, TupleType
from xdsl.ir import Operation


def call_key(op: Operation, symbols: DictionaryAttr | None) -> Hashable:
    """Return the operator, its constants, equalities of operands, all types, its regions, and the symbols of the module."""
    return question_key(op, symbols), tuple(result.type for result in op.results)


def question_key(op: Operation, symbols: DictionaryAttr | None) -> Hashable:
    """``call_key`` without result types, for queries that infer them."""
    order = list(dict.fromkeys(op.operands))
    return (
        op.name,
        tuple(sorted(op.properties.items())),
        tuple((order.index(value), value.type) for value in op.operands),
        tuple(isinstance(result.type, TupleType) for result in op.results),
        tuple(map(str, op.regions)),
        symbols,
    )
