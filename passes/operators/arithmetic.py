"""Arithmetic, shifts and logic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators.index_expressions import Places
from fxc.passes.operators.record import Operator, each
from fxc.passes.operators.rules import Elements, Formula, Index, Placed, Pointwise, operand_dtype, result_dtype, tensors
from fxc.passes.operators.scalars import HALVES, Operand, Scalar, Uncovered, constant, iterate, where

MOST_MULTIPLICATIONS = 16
"""The maximum exponent for which a kernel unrolls an integer power; larger ones use a loop."""


def arithmetic(formula: Formula, elsewhere: Formula | None = None, *, unrounded: str = "") -> Pointwise:
    return Pointwise(formula, result_dtype, elsewhere, unrounded)


def named(*formulas: Formula, cost: int = 1) -> dict[str, Operator]:
    """Records of operators with a single overload, each with the name of its formula."""
    return {f"aten.{formula.__name__}.default": Operator(arithmetic(formula), cost) for formula in formulas}


def comparison(predicate: str) -> Pointwise:
    return Pointwise(lambda x, y: x.compare(predicate, y), operand_dtype)


def logic(formula: Formula) -> Pointwise:
    return Pointwise(formula, lambda op, arguments: "bool")


def own(formula: Formula) -> Pointwise:
    """A rule that leaves each tensor in its dtype."""
    return Pointwise(formula, None)


def add(x: Scalar, y: Scalar, alpha: float = 1) -> Scalar:
    return x + y * alpha


def sub(x: Scalar, y: Scalar, alpha: float = 1) -> Scalar:
    return x - y * alpha


def divide(x: Scalar, y: Scalar, rounding_mode: str | None = None) -> Scalar:
    if rounding_mode is None:
        return x / y
    if not x.is_float:
        divisor = known_divisor(y)
        quotient = x.quotient(divisor)
        if rounding_mode == "trunc" or x.dtype == "uint8":
            return quotient
        left = x.remainder(divisor)
        return where(left.ne(0) & (left < 0).ne(y < 0), quotient - 1, quotient)
    return (x / y).math("trunc") if rounding_mode == "trunc" else floor_divide(x, y)


def floor_divide(x: Scalar, y: Scalar) -> Scalar:
    """Floor division like PyTorch's: it subtracts the remainder first, so that the quotient is not rounded up."""
    left = x.math("fmod", y)
    quotient = (x - left) / y
    quotient = where(left.ne(0) & (y < 0).ne(left < 0), quotient - 1, quotient)
    floored = quotient.math("floor")
    floored = where(quotient - floored > 0.5, floored + 1, floored)
    rounded = where(quotient.eq(0), x.constant(0).math("copysign", x / y), floored)
    return where(y.eq(0), x / y, rounded)


def remainder(x: Scalar, y: Scalar) -> Scalar:
    """The remainder with the sign of the divisor."""
    if not x.is_float:
        left = _remainder_of_integers(x, y)
        return where(left.ne(0) & (left < 0).ne(y < 0), left + y, left)
    left = x.math("fmod", y)
    return where(left.ne(0) & (left < 0).ne(y < 0), left + y, left)


def fmod(x: Scalar, y: Scalar) -> Scalar:
    return x.math("fmod", y) if x.is_float else _remainder_of_integers(x, y)


def known_divisor(y: Scalar) -> int:
    """The constant value of ``y``. CPUs trap on division by 0 and of the minimum by -1, for which PyTorch raises."""
    number = y.known_number()
    if not isinstance(number, int) or number in (0, -1):
        raise Uncovered("an integer division by what may be 0")
    return number


def _remainder_of_integers(x: Scalar, y: Scalar) -> Scalar:
    return x.remainder(known_divisor(y))


def power(x: Scalar, exponent: Scalar) -> Scalar:
    if x.is_float:
        return x.math("powf", exponent)
    number = exponent.known_number()
    if not isinstance(number, int) or number > MOST_MULTIPLICATIONS:
        return _power_of_integers(x, exponent)
    if number < 0:
        raise Uncovered("a negative integer power")
    result = x.constant(1)
    for _ in range(number):
        result = result * x
    return result


def _power_of_integers(x: Scalar, exponent: Scalar) -> Scalar:
    """Integer power by repeated squaring. A negative power is 0, except for the bases 1 and -1."""

    def step(result: Scalar, square: Scalar, left: Scalar) -> tuple[Scalar, Sequence[Scalar]]:
        result = where((left & 1).ne(0), result * square, result)
        left = left >> 1
        return left.ne(0), [result, square * square, left]

    result, *_ = iterate(exponent > 0, [x.constant(1), x, exponent], [], step)
    ends = where(x.eq(1), 1, where(x.eq(-1), where((exponent & 1).eq(0), x.constant(1), -1), 0))
    return result if x.dtype == "uint8" else where(exponent < 0, ends, result)


def power_by_number(x: Scalar, exponent: Scalar) -> Scalar:
    """Powers for which PyTorch uses a simpler formula, with different results for -0.0 and infinity."""
    simple = {0.5: lambda: x.math("sqrt"), 2.0: lambda: x * x, 3.0: lambda: x * x * x, -2.0: lambda: 1 / (x * x)}
    simple |= {1.0: lambda: x, -1.0: lambda: 1 / x, -0.5: lambda: 1 / x.math("sqrt")}
    formula = simple.get(exponent.known_number() or math.nan) if x.is_float else None
    return power(x, exponent) if formula is None else formula()


def shift_left(x: Scalar, y: Scalar) -> Scalar:
    fits = (y >= 0) & (y < x.bit_width)
    return where(fits, x << where(fits, y, 0), 0)


def shift_right(x: Scalar, y: Scalar) -> Scalar:
    last = x.bit_width - 1
    fits = (y >= 0) & (y < x.bit_width)
    if x.dtype == "uint8":
        return where(fits, x >> where(fits, y, 0), 0)
    return x >> where(fits, y, last)


def negative(x: Scalar) -> Scalar:
    return -x


def at_least(x: Scalar, low: Operand) -> Scalar:
    """The maximum; ``x`` if both are equal, as 0.0 and -0.0 are, or if one is NaN."""
    low = x.constant(low)
    return where(x < low, low, x) if x.is_float else x.maximum(low)


def at_most(x: Scalar, high: Operand) -> Scalar:
    """The minimum; ``x`` if both are equal or one is NaN."""
    high = x.constant(high)
    return where(x > high, high, x) if x.is_float else x.minimum(high)


def maximum(x: Scalar, y: Scalar) -> Scalar:
    """The maximum; ``y`` if both are equal, as in PyTorch's vectorized loops."""
    return at_least(where(x.is_nan(), x, y), x) if x.is_float else x.maximum(y)


def minimum(x: Scalar, y: Scalar) -> Scalar:
    return at_most(where(x.is_nan(), x, y), x) if x.is_float else x.minimum(y)


def fmax(x: Scalar, y: Scalar) -> Scalar:
    """The maximum that ignores NaN; ``x`` if both are equal."""
    return at_least(where(x.is_nan(), y, x), y) if x.is_float else x.maximum(y)


def fmin(x: Scalar, y: Scalar) -> Scalar:
    return at_most(where(x.is_nan(), y, x), y) if x.is_float else x.minimum(y)


def clamp(x: Scalar, low: float | None = None, high: float | None = None) -> Scalar:
    """``x`` clamped between two numbers. A NaN bound makes all elements NaN."""
    if low != low or high != high:
        return x.constant(math.nan)
    x = x if low is None else at_least(x, low)
    return x if high is None else at_most(x, high)


def clamp_max(x: Scalar, high: float) -> Scalar:
    return clamp(x, None, high)


def clamp_by_tensors(x: Scalar, low: Scalar | None = None, high: Scalar | None = None) -> Scalar:
    x = x if low is None else maximum(x, low)
    return x if high is None else minimum(x, high)


def ordered_clamp(x: Scalar, low: Scalar | None = None, high: Scalar | None = None) -> Scalar:
    x = x if low is None else x.maximum(low)
    return x if high is None else x.minimum(high)


def lerp(x: Scalar, end: Scalar, weight: Any) -> Scalar:
    if not isinstance(weight, Scalar):
        return x + weight * (end - x) if abs(weight) < 0.5 else end - (end - x) * (1 - weight)
    return where(weight.abs() < 0.5, x + weight * (end - x), end - (end - x) * (1 - weight))


def addcmul(x: Scalar, tensor1: Scalar, tensor2: Scalar, value: Any = 1) -> Scalar:
    return x + tensor1 * value * tensor2


def fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    return a.math("fma", b, c) if a.is_float else a * b + c


def addcdiv(x: Scalar, tensor1: Scalar, tensor2: Scalar, value: Any = 1) -> Scalar:
    return x + tensor1 * value / tensor2


def sign(x: Scalar) -> Scalar:
    if x.dtype in ("bool", "uint8"):
        return x if x.dtype == "bool" else where(x.ne(0), x.constant(1), 0)
    return where(x > 0, x.constant(1), where(x < 0, x.constant(-1), 0))


def signbit(x: Scalar) -> Scalar:
    return x.bits() < 0 if x.is_float else x < 0


def heaviside(x: Scalar, values: Scalar) -> Scalar:
    return where(x.eq(0), values, where(x > 0, x.constant(1), 0))


def hypot(x: Scalar, y: Scalar) -> Scalar:
    return x.math("hypot", y)


def choose(condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
    return where(condition.to("bool"), x, y)


def masked_fill(x: Scalar, mask: Scalar, value: Scalar) -> Scalar:
    return where(mask, value, x)


def is_finite(x: Scalar) -> Scalar:
    return x.abs() < math.inf if x.is_float else constant(x.body, True, "bool")


def is_infinite(x: Scalar, sign: int = 0) -> Scalar:
    if not x.is_float:
        return constant(x.body, False, "bool")
    return (x.abs() if sign == 0 else x).eq(math.inf if sign >= 0 else -math.inf)


def _number_dtype(op: TorchOp, arguments: Mapping[str, Any]) -> str:
    """The dtype of the result, for shifts and other operators on integers only."""
    dtype = result_dtype(op)
    if "float" in dtype:
        raise Uncovered("an operation on bits of floats")
    return dtype


def _whole_dtype(op: TorchOp, arguments: Mapping[str, Any]) -> str:
    """The dtype of the result, for operators on bits of floats; kernels compute half precision in float32, which has others."""
    dtype = result_dtype(op)
    if dtype in HALVES:
        raise Uncovered("bits of half precision")
    return dtype


def bitwise(formula: Formula) -> Pointwise:
    return Pointwise(formula, _number_dtype)


_PRODUCT = arithmetic(lambda x, y: x * y, unrounded="other")
_QUOTIENT = arithmetic(divide, unrounded="other")
_FLOOR_QUOTIENT = arithmetic(lambda x, y: divide(x, y, "floor"), unrounded="other")


def gcd(x: Scalar, y: Scalar) -> Scalar:
    """The greatest common divisor by Euclid's algorithm."""
    if x.dtype == "uint8":
        return gcd(x.to("int32"), y.to("int32")).to("uint8")
    x, y = x.abs(), y.abs()

    def step(x: Scalar, y: Scalar) -> tuple[Scalar, Sequence[Scalar]]:
        left = y.remainder(x)
        return left.ne(0), [left, x]

    return iterate(x.ne(0), [x, y], [], step)[1]


def lcm(x: Scalar, y: Scalar) -> Scalar:
    """The least common multiple; 0 if one number is 0. It is computed in at least 32 bits, as in C."""
    wide = "int64" if x.dtype == "int64" else "int32"
    divisor, a, b = gcd(x, y).to(wide), x.to(wide), y.to(wide)
    return where(divisor.eq(0), 0, (a.quotient(divisor) * b).abs()).to(x.dtype)


_FLOATS: Mapping[str, tuple[int, int, float]] = MappingProxyType(
    {"float32": (23, 8, 2.0**-126), "float64": (52, 11, 2.0**-1022)}
)
"""The number of bits of the mantissa and of the exponent of a float, and the smallest normal number."""

_SHIFT = 64
"""Denormal numbers are multiplied by 2 to this power."""


def frexp(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    """x = m * 2^e with m in [0.5, 1): the first result is m, the second e. If x is 0 or not finite, they are x and 0."""
    [x] = yield [(tensors(op)[0], index)]
    digits, width, smallest = _FLOATS[x.dtype]
    most = (1 << width) - 1
    is_small = x.abs() < smallest
    bits = where(is_small, x * 2.0**_SHIFT, x).bits()
    exponent = (bits >> digits) & most
    stays = x.eq(0) | exponent.eq(most)
    if result == 1:
        shift = where(is_small, exponent.constant(_SHIFT), 0)
        return where(stays, 0, exponent - (most // 2 - 1) - shift).to("int32")
    mantissa = ((bits & ~(most << digits)) | ((most // 2 - 1) << digits)).as_float()
    return where(stays, x, mantissa)


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **named(clamp_max, heaviside, hypot, gcd, lcm),
        **each("add.Tensor", arithmetic(add), commutes=True),
        **each("add.Scalar prims.add.default", arithmetic(add)),
        **each("sub.Tensor sub.Scalar subtract.Tensor subtract.Scalar prims.sub.default", arithmetic(sub)),
        **each("rsub.Scalar rsub.Tensor", arithmetic(lambda x, y, alpha=1: y - x * alpha)),
        **each("mul.Tensor multiply.Tensor", _PRODUCT, commutes=True),
        **each("mul.Scalar multiply.Scalar prims.mul.default", _PRODUCT),
        **each("div.Tensor div.Scalar div.Tensor_mode div.Scalar_mode prims.div.default", _QUOTIENT, cost=4),
        **each("divide.Tensor divide.Scalar true_divide.Tensor true_divide.Scalar", _QUOTIENT, cost=4),
        **each("floor_divide.default floor_divide.Scalar", _FLOOR_QUOTIENT, cost=4),
        **each("remainder.Scalar remainder.Tensor remainder.Scalar_Tensor", arithmetic(remainder), cost=4),
        **each("fmod.Scalar fmod.Tensor", arithmetic(fmod), cost=4),
        **each("pow.Tensor_Scalar float_power.Tensor_Scalar", arithmetic(power_by_number), cost=24),
        **each("pow.Tensor_Tensor pow.Scalar float_power.Tensor_Tensor float_power.Scalar", arithmetic(power), cost=24),
        **each("neg.default negative.default prims.neg.default", arithmetic(negative)),
        **each("abs.default absolute.default", arithmetic(lambda x: x.abs())),
        **each("square.default", arithmetic(lambda x: x * x)),
        **each("reciprocal.default", arithmetic(lambda x: 1 / x), cost=4),
        **each("maximum.default max.other", arithmetic(maximum, lambda x, y: x.maximum(y))),
        **each("minimum.default min.other", arithmetic(minimum, lambda x, y: x.minimum(y))),
        **each("fmax.default", arithmetic(fmax, lambda x, y: x.larger_number(y))),
        **each("fmin.default", arithmetic(fmin, lambda x, y: x.smaller_number(y))),
        **each("clamp.default clip.default clamp_min.default", arithmetic(clamp)),
        **each("clamp.Tensor clip.Tensor clamp_min.Tensor clamp_max.Tensor", arithmetic(clamp_by_tensors, ordered_clamp)),
        **each("lerp.Scalar lerp.Tensor", arithmetic(lerp)),
        **each("addcmul.default", arithmetic(addcmul, unrounded="value")),
        **each("prims.fma.default", arithmetic(fma)),
        **each("addcdiv.default", arithmetic(addcdiv, unrounded="value")),
        **each("sign.default sgn.default", arithmetic(sign)),
        **each("copysign.Tensor copysign.Scalar", arithmetic(lambda x, y: x.math("copysign", y))),
        **each("nextafter.default", Pointwise(lambda x, y: x.math("nextafter", y), _whole_dtype)),
        **each("where.self where.ScalarSelf where.ScalarOther where.Scalar", arithmetic(choose)),
        **each("masked_fill.Scalar masked_fill.Tensor", arithmetic(masked_fill)),
        **each("bitwise_and.Tensor __and__.Tensor", bitwise(lambda x, y: x & y), commutes=True),
        **each("bitwise_and.Scalar bitwise_and.Scalar_Tensor __and__.Scalar", bitwise(lambda x, y: x & y)),
        **each("bitwise_or.Tensor __or__.Tensor", bitwise(lambda x, y: x | y), commutes=True),
        **each("bitwise_or.Scalar bitwise_or.Scalar_Tensor __or__.Scalar", bitwise(lambda x, y: x | y)),
        **each("bitwise_xor.Tensor __xor__.Tensor", bitwise(lambda x, y: x ^ y), commutes=True),
        **each("bitwise_xor.Scalar bitwise_xor.Scalar_Tensor __xor__.Scalar", bitwise(lambda x, y: x ^ y)),
        **each("bitwise_not.default", bitwise(lambda x: ~x)),
        **each("bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar", bitwise(shift_left)),
        **each("bitwise_left_shift.Scalar_Tensor __lshift__.Tensor __lshift__.Scalar", bitwise(shift_left)),
        **each("bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar", bitwise(shift_right)),
        **each("bitwise_right_shift.Scalar_Tensor __rshift__.Tensor __rshift__.Scalar", bitwise(shift_right)),
        **each("logical_and.default", logic(lambda x, y: x & y), commutes=True),
        **each("logical_or.default", logic(lambda x, y: x | y), commutes=True),
        **each("logical_xor.default", logic(lambda x, y: x ^ y), commutes=True),
        **each("logical_not.default", logic(lambda x: ~x)),
        **each("eq.Tensor", comparison("eq"), commutes=True),
        **each("eq.Scalar", comparison("eq")),
        **each("ne.Tensor ne.Scalar not_equal.Tensor not_equal.Scalar", comparison("ne")),
        **each("lt.Tensor lt.Scalar less.Tensor less.Scalar", comparison("lt")),
        **each("le.Tensor le.Scalar less_equal.Tensor less_equal.Scalar", comparison("le")),
        **each("gt.Tensor gt.Scalar greater.Tensor greater.Scalar", comparison("gt")),
        **each("ge.Tensor ge.Scalar greater_equal.Tensor greater_equal.Scalar", comparison("ge")),
        **each("isnan.default", own(lambda x: x.is_nan())),
        **each("isinf.default", own(is_infinite)),
        **each("isposinf.default", own(lambda x: is_infinite(x, 1))),
        **each("isneginf.default", own(lambda x: is_infinite(x, -1))),
        **each("isfinite.default", own(is_finite)),
        **each("signbit.default", own(signbit)),
        **each("frexp.Tensor", Placed(frexp)),
    }
)
