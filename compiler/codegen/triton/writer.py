"""Write the lines of a kernel's source, and spell its values."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.codegen.triton.index_range import IndexRanges
from fxc.codegen.triton.spelling import constant_value, dtype, full, literal, value_names
from fxc.dialects.text.diagnostics import place_of
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile import KernelOp, SplatOp
from fxc.dialects.tile.types import element_of, shape_of
from fxc.errors import KernelError


class KernelWriter:
    """Collects the body of one kernel. Constants have no line; they are written inline at each use."""

    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        self.ranges = IndexRanges(kernel)
        self.names = value_names(kernel, frozenset(HELPERS))
        self.lines = list[str]()
        self.helpers = dict[str, None]()
        self.unseen = set[SSAValue]()
        """Pointers with stores since the last barrier: other threads of the program need a barrier before loading from them."""
        self._own_names = list[str]()
        self._depth, self._constants = 1, dict[int, int | float | None]()
        """``_constants``: keyed by the identity of values, since hashing a value is a Python call."""

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def indented(self) -> Generator[None, None, None]:
        """Indent the lines that are written inside; an empty block gets ``pass``."""
        self._depth += 1
        before = len(self.lines)
        yield
        if all(line.lstrip().startswith("#") for line in self.lines[before:]):
            self.line("pass")
        self._depth -= 1

    def assign(self, value: SSAValue, expression: str) -> None:
        self.line(f"{self.names[value]} = {expression}")

    def new_name(self, base: str) -> str:
        """``base``, with underscores appended if a value has that name."""
        taken, name = {*self.names.values(), *self._own_names}, base
        while name in taken:
            name += "_"
        self._own_names.append(name)
        return name

    def helper(self, name: str) -> str:
        """``name``, a helper whose definition is added to the file."""
        self.helpers[name] = None
        return name

    def constant(self, value: SSAValue) -> int | float | None:
        """The constant number in all lanes of ``value``; None if it is not constant."""
        if (key := id(value)) not in self._constants:
            self._constants[key] = self._constant(value)
        return self._constants[key]

    def _constant(self, value: SSAValue) -> int | float | None:
        if isinstance(value.type, IndexType):
            low, high = self.ranges.of(value)
            return low if low == high else None
        op = value.owner
        if isinstance(op, arith.ConstantOp):
            return constant_value(op.value)
        return self.constant(op.value) if isinstance(op, SplatOp) else None

    def text(self, value: SSAValue) -> str:
        """``value`` as an operand: a name, or a number whose shape and type come from the other operands."""
        number = self.constant(value)
        text = self.names[value] if number is None else literal(number, element_of(value.type))
        return self.typed(value) if text is None else text

    def typed(self, value: SSAValue) -> str:
        """``value`` with an explicit shape and type."""
        number = self.constant(value)
        if number is None:
            return self.names[value]
        return full(shape_of(value.type), number, element_of(value.type), self.ranges.bits)

    def dtype(self, type: Attribute) -> str:
        """``tl.float32`` for a block of ``f32``."""
        return dtype(element_of(type), self.ranges.bits)


def refusal(op: Operation, message: str, hint: str | None = None) -> KernelError:
    """The error for an ``op`` that cannot be printed."""
    return KernelError(message, op=op_text(op), place=place_of(op), hint=hint)


# helper functions in addition to Triton's; a file contains those that its kernel calls


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

_EXP = """
@triton.jit
def accurate_exp(x):  # tl.exp rounds the exponent of 2, which is many ulp far from 0
    x = tl.minimum(tl.maximum(x, -104.0, propagate_nan=tl.PropagateNan.ALL), 89.0, propagate_nan=tl.PropagateNan.ALL)
    exponent = x * 1.44269504
    rest = tl.fma(x, 1.44269504, -exponent) + x * 1.92596303e-08
    return tl.exp2(exponent) * tl.fma(rest, 0.693147182, 1.0)
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

_CONSECUTIVE_WORDS = """
@triton.jit
def consecutive_words(seed, first, size: tl.constexpr):
    counter = (first >> 2) + tl.arange(0, size // 4)
    low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    word_0, word_1, word_2, word_3 = tl.philox(seed, low, high, low * 0, low * 0)
    words = tl.interleave(tl.interleave(word_0, word_2), tl.interleave(word_1, word_3))
    return words.to(tl.int32, bitcast=True)
"""


def _combine(name: str, expression: str) -> str:
    return _COMBINE.format(name=name, expression=expression)


HELPERS: Mapping[str, str] = MappingProxyType(
    {
        "accurate_exp": _EXP,
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
        "consecutive_words": _CONSECUTIVE_WORDS,
    }
)
"""Name -> source. No helper calls another."""
