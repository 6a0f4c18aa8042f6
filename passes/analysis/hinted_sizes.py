"""Sizes of tensors as numbers, for estimates: a symbolic size has the value that its hints give."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType

from xdsl.dialects.builtin import TensorType, TupleType
from xdsl.ir import Attribute, Operation

from fxc.dialects.attributes.types import Dim, contiguous_strides, element_bytes, is_tensor, sizes, strides
from fxc.dialects.target import toplevel
from fxc.passes.analysis.size_values import facts_of

ANY_SIZE = 1021
"""The assumed value of an unknown size in cost comparisons; a static size is unlikely to be equal to it."""

_CALLS: Mapping[str, Callable[..., int]] = MappingProxyType({"Max": max, "Min": min, "max": max, "min": min})


class HintedSizes:
    """Sizes and bytes of tensors in the module around ``op``. A size without hints is ``ANY_SIZE``."""

    def __init__(self, op: Operation) -> None:
        self._hints = facts_of(toplevel(op), "hint")
        self._known = dict[str, int]()
        self._bytes = dict[Attribute, int]()

    def shape(self, type: Attribute) -> tuple[int, ...]:
        """The sizes of a tensor; empty for another type."""
        return self._numbers(sizes(type)) if is_tensor(type) else ()

    def elements(self, type: Attribute) -> int:
        """The number of elements of a tensor, or of those of a tuple; 0 for another type."""
        if isinstance(type, TupleType):
            return sum(map(self.elements, type.types))
        return prod(self.shape(type)) if is_tensor(type) else 0

    def bytes(self, type: Attribute) -> int:
        """The bytes of a tensor from its first to its last element, or of those of a tuple; 0 for another type."""
        if isinstance(type, TupleType):
            return sum(map(self.bytes, type.types))
        if not is_tensor(type):
            return 0
        found = self._bytes.get(type)
        if found is None:
            found = self._bytes[type] = self._extent(type)
        return found

    def _extent(self, type: TensorType) -> int:
        shape, given = self.shape(type), strides(type)
        steps = contiguous_strides(shape) if given is None else self._numbers(given)
        width = element_bytes(type.element_type) or 1
        return 0 if 0 in shape else width * (1 + sum((size - 1) * step for size, step in zip(shape, steps, strict=True)))

    def distinct_bytes(self, type: Attribute) -> int:
        """The bytes that the elements of a tensor occupy, or those of a tuple; an expanded tensor has fewer than elements."""
        if isinstance(type, TupleType):
            return sum(map(self.distinct_bytes, type.types))
        width = (element_bytes(type.element_type) or 1) if is_tensor(type) else 0
        return min(self.bytes(type), width * self.elements(type))

    def _numbers(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        return tuple(dim if isinstance(dim, int) else self._number(dim) for dim in dims)

    def _number(self, text: str) -> int:
        if text not in self._known:
            try:
                self._known[text] = max(_value(ast.parse(text, mode="eval").body, self._hints), 0)
            except (SyntaxError, LookupError, ArithmeticError, ValueError):
                self._known[text] = ANY_SIZE
        return self._known[text]


def _value(node: ast.expr, known: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return known[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, known)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(times))) if 0 <= times < 8:
            return _value(left, known) ** times
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left, known) + _value(right, known)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left, known) - _value(right, known)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left, known) * _value(right, known)
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
            return _value(left, known) // _value(right, known)
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            return _value(left, known) % _value(right, known)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _CALLS[name](*(_value(arg, known) for arg in args))
        case _:
            raise ValueError("more than integer arithmetic")
