"""What an answer of PyTorch about a call depends on: two calls with one key get the same answer, from a cache."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Operation


def call_key(op: Operation, symbols: DictionaryAttr | None) -> Hashable:
    """The operator, its constants, which operands are one value, all types, its regions, and the symbols of the module."""
    order = list(dict.fromkeys(op.operands))
    return (
        op.name,
        tuple(sorted(op.properties.items())),
        tuple((order.index(value), value.type) for value in op.operands),
        tuple(result.type for result in op.results),
        tuple(map(str, op.regions)),
        symbols,
    )
