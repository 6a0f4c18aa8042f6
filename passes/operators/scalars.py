"""Scalars of a kernel body with Python's operators, so that formulas read like mathematics.

A ``Scalar`` has one of PyTorch's dtypes, except half precision: that is computed in float32, and ``rounded`` rounds to it.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partialmethod
from math import copysign, inf, isfinite
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, i1, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from fxc.dialects.attributes.types import element_type
from fxc.dialects.attributes.values import isa
from fxc.dialects.tile import IterateOp, NextOp
from fxc.dialects.tile.blocks import FUNCTIONS, MathOp

FLOATS = frozenset(["float32", "float64"])
HALVES = frozenset(["float16", "bfloat16"])
INTEGERS = frozenset(["int8", "int16", "int32", "int64", "uint8"])
DTYPES = FLOATS | HALVES | INTEGERS | {"bool"}
"""The dtypes that kernels support."""

LARGEST: Mapping[str, float] = MappingProxyType(
    {"float16": 65504.0, "bfloat16": 2.0**128 - 2.0**120, "float32": 2.0**128 - 2.0**104, "float64": sys.float_info.max}
)
"""The largest finite number of each floating dtype of kernels."""

Operand: TypeAlias = "Scalar | int | float | bool"


class Uncovered(Exception):
    """Raised with the reason for a call that no rule covers; its group is not converted."""


def computation_dtype(dtype: str) -> str:
    """The dtype of computations on values of ``dtype`` within a kernel."""
    return "float32" if dtype in HALVES else dtype


@cache
def machine_type(dtype: str) -> Attribute:
    """The type of a scalar of ``dtype``; integers of ``arith`` are signless."""
    type = element_type(dtype)
    return IntegerType(type.width.data) if isa(type, IntegerType) else type


class Scalar:
    """A value of a body and its dtype. Python numbers in an operator become constants of that dtype."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, body: Block, value: SSAValue, dtype: str) -> None:
        self.body, self.value, self.dtype = body, value, dtype

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    def _emit(self, op: Operation, dtype: str | None = None) -> Scalar:
        self.body.add_op(op)
        return Scalar(self.body, op.results[0], dtype or self.dtype)

    def constant(self, number: Operand) -> Scalar:
        """``number`` in the dtype of this scalar."""
        if isinstance(number, Scalar):
            if number.dtype != self.dtype:
                raise Uncovered(f"{number.dtype} beside {self.dtype}")
            return number
        return constant(self.body, number, self.dtype)

    def _binary(self, other: Operand, floats: type[Operation] | None, integers: type[Operation] | None) -> Scalar:
        cls = floats if self.is_float else integers
        if cls is None:
            raise Uncovered(f"an operation that {self.dtype} does not have")
        operands = [self.value, self.constant(other).value]
        return self._emit(cls.create(operands=operands, result_types=[self.value.type], properties=_defaults(cls)))

    def __add__(self, other: Operand) -> Scalar:
        return self._binary(other, arith.AddfOp, arith.OrIOp if self.dtype == "bool" else arith.AddiOp)

    def __sub__(self, other: Operand) -> Scalar:
        return self._binary(other, arith.SubfOp, arith.SubiOp)

    def __mul__(self, other: Operand) -> Scalar:
        if not isinstance(other, Scalar) and other == 1:
            return self
        return self._binary(other, arith.MulfOp, arith.AndIOp if self.dtype == "bool" else arith.MuliOp)

    def __truediv__(self, other: Operand) -> Scalar:
        return self._binary(other, arith.DivfOp, None)

    def __radd__(self, other: Operand) -> Scalar:
        return self.constant(other) + self

    def __rsub__(self, other: Operand) -> Scalar:
        return self.constant(other) - self

    def __rmul__(self, other: Operand) -> Scalar:
        return self * other

    def __rtruediv__(self, other: Operand) -> Scalar:
        return self.constant(other) / self

    def __neg__(self) -> Scalar:
        return self._emit(arith.NegfOp(self.value)) if self.is_float else 0 - self

    def __and__(self, other: Operand) -> Scalar:
        return self._binary(other, None, arith.AndIOp)

    def __or__(self, other: Operand) -> Scalar:
        return self._binary(other, None, arith.OrIOp)

    def __xor__(self, other: Operand) -> Scalar:
        return self._binary(other, None, arith.XOrIOp)

    def __invert__(self) -> Scalar:
        return self ^ (True if self.dtype == "bool" else -1)

    def __lshift__(self, other: Operand) -> Scalar:
        return self._binary(other, None, arith.ShLIOp)

    def __rshift__(self, other: Operand) -> Scalar:
        return self._binary(other, None, arith.ShRUIOp if self._is_unsigned else arith.ShRSIOp)

    @property
    def _is_unsigned(self) -> bool:
        return self.dtype in ("uint8", "bool")

    def compare(self, predicate: str, other: Operand) -> Scalar:
        """Compare by ``predicate``: eq, ne, lt, le, gt or ge. A comparison with NaN is false, except ne."""
        right = self.constant(other).value
        if self.is_float:
            return self._emit(arith.CmpfOp(self.value, right, "une" if predicate == "ne" else f"o{predicate}"), "bool")
        sign = "" if predicate in ("eq", "ne") else "u" if self._is_unsigned else "s"
        properties = {"predicate": _predicate(sign + predicate)}
        return self._emit(arith.CmpiOp.create(operands=[self.value, right], result_types=[i1], properties=properties), "bool")

    __lt__ = partialmethod(compare, "lt")
    __le__ = partialmethod(compare, "le")
    __gt__ = partialmethod(compare, "gt")
    __ge__ = partialmethod(compare, "ge")
    eq = partialmethod(compare, "eq")
    ne = partialmethod(compare, "ne")

    def __bool__(self) -> NoReturn:
        raise TypeError("no element is known when a kernel is made: use where(condition, a, b) instead of a branch")

    def is_nan(self) -> Scalar:
        return self.ne(self) if self.is_float else constant(self.body, False, "bool")

    def maximum(self, other: Operand) -> Scalar:
        """The maximum; NaN if one operand is NaN; 0.0 is larger than -0.0."""
        if self.dtype == "bool":
            return self | other
        return self._binary(other, arith.MaximumfOp, arith.MaxUIOp if self._is_unsigned else arith.MaxSIOp)

    def minimum(self, other: Operand) -> Scalar:
        if self.dtype == "bool":
            return self & other
        return self._binary(other, arith.MinimumfOp, arith.MinUIOp if self._is_unsigned else arith.MinSIOp)

    def abs(self) -> Scalar:
        if self._is_unsigned:
            return self
        return self.math("absf") if self.is_float else self._emit(math.AbsIOp(self.value))

    def math(self, name: str, *others: Operand) -> Scalar:
        """Call the function ``name`` of the math dialect, or of ``tile.math`` if the math dialect has none."""
        values = [self.value, *(self.constant(other).value for other in others)]
        return self._emit(MathOp.of(name, *values) if name in FUNCTIONS else MATH[name](*values))

    def larger_number(self, other: Operand) -> Scalar:
        """The maximum; for floats, if one operand is NaN, the other one."""
        return self._emit(arith.MaxnumfOp(self.value, self.constant(other).value)) if self.is_float else self.maximum(other)

    def smaller_number(self, other: Operand) -> Scalar:
        return self._emit(arith.MinnumfOp(self.value, self.constant(other).value)) if self.is_float else self.minimum(other)

    @property
    def bit_width(self) -> int:
        type = machine_type(self.dtype)
        assert isa(type, IntegerType)
        return type.width.data

    def known_number(self) -> int | float | None:
        """The number of this scalar if it is a constant, else None."""
        owner = self.value.owner
        if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, (IntegerAttr, FloatAttr)):
            return None
        return owner.value.value.data

    def remainder(self, divisor: Operand) -> Scalar:
        """The remainder of an integer division, with the sign of the dividend; undefined for divisor 0."""
        return self._binary(divisor, None, arith.RemUIOp if self._is_unsigned else arith.RemSIOp)

    def quotient(self, divisor: Operand) -> Scalar:
        """The quotient of an integer division, rounded towards zero; undefined for divisor 0."""
        return self._binary(divisor, None, arith.DivUIOp if self._is_unsigned else arith.DivSIOp)

    def bits(self) -> Scalar:
        """The bits of a float as a signed integer."""
        dtype = "int64" if self.dtype == "float64" else "int32"
        return self._emit(arith.BitcastOp(self.value, element_type(dtype)), dtype)

    def as_float(self) -> Scalar:
        """The float that has the bits of this integer of 32 or 64 bits."""
        dtype = "float64" if self.dtype == "int64" else "float32"
        return self._emit(arith.BitcastOp(self.value, element_type(dtype)), dtype)

    def to(self, dtype: str) -> Scalar:
        """This value converted to ``dtype`` like PyTorch; half precision is rounded and represented in float32."""
        if dtype in HALVES:
            return self.to("float32").rounded(dtype)
        if dtype == self.dtype:
            return self
        if dtype == "bool":
            return self.ne(0)
        return self._emit(self._conversion(dtype)(self.value, machine_type(dtype)), dtype)

    def _conversion(self, dtype: str) -> Callable[[SSAValue, Attribute], Operation]:
        if dtype in FLOATS:
            if self.is_float:
                return arith.ExtFOp if dtype == "float64" else arith.TruncFOp
            return arith.UIToFPOp if self._is_unsigned else arith.SIToFPOp  # type: ignore[return-value]
        if self.is_float:
            return arith.FPToSIOp  # type: ignore[return-value]
        old, new = machine_type(self.dtype), machine_type(dtype)
        assert isa(old, IntegerType) and isa(new, IntegerType)
        if old.width == new.width:
            return arith.BitcastOp
        widening = arith.ExtUIOp if self._is_unsigned else arith.ExtSIOp
        return widening if new.width.data > old.width.data else arith.TruncIOp  # type: ignore[return-value]

    def rounded(self, dtype: str) -> Scalar:
        """This float32, rounded to the precision of ``dtype``."""
        if dtype not in HALVES:
            return self
        if (number := self.known_number()) is not None:
            return self.constant(as_half(number, dtype))
        half = self._emit(arith.TruncFOp(self.value, element_type(dtype)))
        return self._emit(arith.ExtFOp(half.value, element_type("float32")))


MATH: dict[str, type[Operation]] = {cls.name.removeprefix("math."): cls for cls in math.Math.operations}
"""The functions of the math dialect by name."""


def constant(body: Block, number: Any, dtype: str) -> Scalar:
    """``number`` as a scalar of ``dtype``; integers wrap around. Uncovered for a size."""
    if not isinstance(number, (int, float)):
        raise Uncovered(f"{number} is a size, not a number")
    value = _number(number, repr(number), dtype)
    op = arith.ConstantOp.create(result_types=[value.type], properties={"value": value})
    body.add_op(op)
    return Scalar(body, op.results[0], dtype)


@lru_cache(maxsize=1 << 12)
def _number(number: float, text: str, dtype: str) -> IntegerAttr | FloatAttr:
    """``number`` as a constant. ``text`` is its Python text, since 0.0 and -0.0 are equal keys, and so are 1 and True."""
    type = machine_type(dtype)
    if isa(type, IntegerType):
        return IntegerAttr(bool(number) if dtype == "bool" else int(number), type, truncate_bits=True)
    try:
        return FloatAttr(float(number), type)  # type: ignore[arg-type]
    except OverflowError as error:  # PyTorch makes it an infinity, or raises an error, depending on the operator
        raise Uncovered(f"{text} is not in the range of {dtype}") from error


@cache
def _defaults(cls: type[Operation]) -> Mapping[str, Attribute]:
    """The default properties of an op of ``cls`` with two operands."""
    either = Block(arg_types=[i1]).args[0]
    return cls(either, either).properties  # type: ignore[call-arg]


@cache
def _predicate(name: str) -> IntegerAttr:
    return IntegerAttr(arith.CMPI_COMPARISON_OPERATIONS.index(name), i64)


def holds(dtype: str, number: float) -> bool:
    """Whether PyTorch converts ``number`` to ``dtype``; it raises an error for larger ones. Negative ones may be unsigned."""
    if dtype == "bool":
        return True
    if dtype in LARGEST:
        return not isfinite(number) or abs(number) <= LARGEST[dtype]
    type = machine_type(dtype)
    assert isa(type, IntegerType)
    most = 2 ** (type.width.data - (dtype[0] != "u")) - 1
    return (-most if dtype[0] == "u" else -most - 1) <= number <= most


def as_half(number: float, dtype: str) -> float:
    """``number``, as a float32, rounded to half precision: to the nearest, and of two to the even one."""
    try:
        [bits] = struct.unpack("I", struct.pack("f", number))
        if dtype == "bfloat16" and bits & 0x7FFFFFFF <= 0x7F800000:
            bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        [single] = struct.unpack("f", struct.pack("I", bits))
        return single if dtype == "bfloat16" else struct.unpack("e", struct.pack("e", single))[0]
    except OverflowError:
        return copysign(inf, number)


def where(condition: Scalar, yes: Operand, no: Operand) -> Scalar:
    """``yes`` if ``condition``, else ``no``. At least one of them is a Scalar, which determines the dtype."""
    model = yes if isinstance(yes, Scalar) else no
    assert isinstance(model, Scalar)
    left, right = model.constant(yes), model.constant(no)
    operands = [condition.value, left.value, right.value]
    return left._emit(arith.SelectOp.create(operands=operands, result_types=[left.value.type]))


def loaded(body: Block, value: SSAValue, dtype: str) -> Scalar:
    """An element loaded from memory, converted for computation."""
    if dtype in HALVES:
        op = arith.ExtFOp(value, element_type("float32"))
    elif dtype == "uint8":
        op = arith.BitcastOp(value, machine_type(dtype))
    else:
        return Scalar(body, value, dtype)
    body.add_op(op)
    return Scalar(body, op.results[0], computation_dtype(dtype))


def stored(scalar: Scalar, dtype: str) -> SSAValue:
    """``scalar`` converted to an element of ``dtype`` in memory."""
    scalar = scalar.to(computation_dtype(dtype))
    if dtype in HALVES:
        return scalar._emit(arith.TruncFOp(scalar.value, element_type(dtype))).value
    return scalar._emit(arith.BitcastOp(scalar.value, element_type(dtype))).value if dtype == "uint8" else scalar.value


def iterate(
    going: Scalar, carried: Sequence[Scalar], given: Sequence[Scalar], step: Callable[..., tuple[Scalar, Sequence[Scalar]]]
) -> list[Scalar]:
    """Repeat ``step`` for each element while it is ``going``, and return the final carried values.

    ``step`` takes the carried values and then the loop invariants ``given``. It returns whether the element continues, and the
    new carried values. It is also computed for elements that have stopped; their results are dropped.
    """
    body = Block(arg_types=[value.value.type for value in carried])
    inside = [Scalar(body, argument, value.dtype) for argument, value in zip(body.args, carried, strict=True)]
    more, new = step(*inside, *(Scalar(body, value.value, value.dtype) for value in given))
    body.add_op(NextOp.of(more.value, [value.value for value in new]))
    op = IterateOp.of(going.value, [value.value for value in carried], body)
    going.body.add_op(op)
    return [Scalar(going.body, result, value.dtype) for result, value in zip(op.results, carried, strict=True)]
