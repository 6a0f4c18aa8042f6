"""Functions that a printed kernel may need beside Triton's own. A file holds those that its kernel calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_COMBINE = """
@triton.jit
def {name}(a, b):
    return {expression}
"""

_FLOOR_DIVIDE = """
@triton.jit
def floor_divide(a, b):
    quotient = a // b
    return tl.where((quotient * b != a) & ((a < 0) != (b < 0)), quotient - 1, quotient)
"""

_CEIL_DIVIDE = """
@triton.jit
def ceil_divide(a, b):
    quotient = a // b
    return tl.where((quotient * b != a) & ((a < 0) == (b < 0)), quotient + 1, quotient)
"""

_RANDOM_WORDS = """
@triton.jit
def random_words(seed, offsets):
    counter = offsets.to(tl.uint64, bitcast=True) >> 2
    low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    word_0, word_1, word_2, word_3 = tl.philox(seed, low, high, low * 0, low * 0)
    place = offsets & 3
    words = tl.where(place < 2, tl.where(place == 0, word_0, word_1), tl.where(place == 2, word_2, word_3))
    return words.to(tl.int32, bitcast=True)
"""


def _combine(name: str, expression: str) -> str:
    return _COMBINE.format(name=name, expression=expression)


HELPERS: Mapping[str, str] = MappingProxyType(
    {
        "add": _combine("add", "a + b"),
        "multiply": _combine("multiply", "a * b"),
        "bit_and": _combine("bit_and", "a & b"),
        "bit_or": _combine("bit_or", "a | b"),
        "bit_xor": _combine("bit_xor", "a ^ b"),
        "maximum": _combine("maximum", "tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)"),
        "minimum": _combine("minimum", "tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)"),
        "later_maximum": _combine("later_maximum", "tl.where((a > b) | (a != a), a, b)"),
        "later_minimum": _combine("later_minimum", "tl.where((a < b) | (a != a), a, b)"),
        "floor_divide": _FLOOR_DIVIDE,
        "ceil_divide": _CEIL_DIVIDE,
        "random_words": _RANDOM_WORDS,
    }
)
"""Name -> source. None calls another."""
