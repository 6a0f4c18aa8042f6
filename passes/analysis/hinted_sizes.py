"""Sizes of tensors as numbers, for estimates: a symbolic size has the value that its hints give."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import TensorType, TupleType
from xdsl.ir import Attribute, Operation

from fxc.dialects.attributes.size_polynomials import NO_VALUE, evaluated
from fxc.dialects.attributes.types import Dim, contiguous_strides, element_bytes, is_tensor, sizes, strides
from fxc.dialects.target import toplevel
from fxc.passes.analysis.size_values import facts_of

ANY_SIZE = 1021
"""The assumed value of an unknown size in cost comparisons; a static size is unlikely to be equal to it."""


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
                self._known[text] = max(cast(int, evaluated(text, self._hints.__getitem__)), 0)  # of numbers
            except NO_VALUE:
                self._known[text] = ANY_SIZE
        return self._known[text]
