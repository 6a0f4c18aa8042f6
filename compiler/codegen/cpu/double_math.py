"""Functions on float32 that are computed in float64 and rounded once: errors are close to half a unit in the last place.

They use Taylor series with enough terms for 40 bits. At this precision no compensation is necessary, and each formula is a
textbook formula. The cost is half the lanes per instruction, for functions that are rarely hot.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, inf, log, nan, pi, tan

from fxc.codegen.cpu.builder import Builder, constant
from fxc.codegen.cpu.float_math import at_least, at_most, logarithm_of_special, polynomial
from fxc.codegen.cpu.types import Value

_EXPM1 = tuple(1 / factorial(k) for k in range(10, 0, -1))
_ATANH = tuple(2 / (2 * k + 1) for k in range(7, -1, -1))
_SIN = tuple((-1) ** k / factorial(2 * k + 1) for k in range(6, -1, -1))
_COS = tuple((-1) ** k / factorial(2 * k) for k in range(7, -1, -1))
_ATAN = tuple((-1) ** k / (2 * k + 1) for k in range(13, -1, -1))
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
"""pi/2 in three parts. The first two have 33 bits, so their products with quadrants below 2**20 are exact."""


def in_double(function: Callable[..., Value]) -> Callable[..., Value]:
    """The function on float32 that computes ``function`` in float64."""

    def rounded(b: Builder, *arguments: Value) -> Value:
        return b.cast("fptrunc", function(b, *(b.cast("fpext", x, "double") for x in arguments)), "float")

    return rounded


def _power_of_two(b: Builder, n: Value) -> Value:
    """2**n for integral n in [-1022, 1023]."""
    whole = b.cast("sext", b.to_integer(n, "i32"), "i64")
    bits = b.binary("shl", b.add(whole, constant(whole.type, 1023)), constant(whole.type, 52))
    return b.cast("bitcast", bits, "double")


def _exp_parts(b: Builder, x: Value) -> tuple[Value, Value]:
    """(s, e) with exp(x) = s * (1 + e), s a power of two."""
    x = at_most(b, at_least(b, x, -200.0), 200.0)
    n = b.intrinsic("llvm.rint", b.mul(x, constant(x.type, 1 / log(2))))
    r = b.fma(n, constant(x.type, -0.6931471803691238), x)
    r = b.fma(n, constant(x.type, -1.9082149292705877e-10), r)
    return _power_of_two(b, n), b.mul(r, polynomial(b, r, _EXPM1))


def exp(b: Builder, x: Value) -> Value:
    scale, rest = _exp_parts(b, x)
    return b.fma(scale, rest, scale)


def expm1(b: Builder, x: Value) -> Value:
    scale, rest = _exp_parts(b, x)
    result = b.fma(scale, rest, b.sub(scale, constant(x.type, 1.0)))
    return b.intrinsic("llvm.copysign", result, x)  # -0.0


def _log_parts(b: Builder, x: Value) -> tuple[Value, Value]:
    """(n, l) with x = 2**n * exp(l), for positive normal x."""
    bits = b.cast("bitcast", x, "i64")
    offset = b.sub(bits, constant(bits.type, 0x3FE6A09E667F3BCD))  # sqrt(1/2): m is in [sqrt(1/2), sqrt(2))
    exponent = b.binary("ashr", offset, constant(bits.type, 52))
    shifted = b.binary("shl", exponent, constant(bits.type, 52))
    m = b.cast("bitcast", b.sub(bits, shifted), "double")
    n = b.cast("sitofp", b.cast("trunc", exponent, "i32"), "double")
    one = constant(x.type, 1.0)
    s = b.div(b.sub(m, one), b.add(m, one))
    return n, b.mul(s, polynomial(b, b.mul(s, s), _ATANH))


def log_(b: Builder, x: Value) -> Value:
    n, rest = _log_parts(b, x)
    return logarithm_of_special(b, x, b.fma(n, constant(x.type, log(2)), rest))


def log2(b: Builder, x: Value) -> Value:
    n, rest = _log_parts(b, x)
    return logarithm_of_special(b, x, b.fma(rest, constant(x.type, 1 / log(2)), n))


def log10(b: Builder, x: Value) -> Value:
    return b.mul(log_(b, x), constant(x.type, 1 / log(10)))


def log1p(b: Builder, x: Value) -> Value:
    one = constant(x.type, 1.0)
    small = b.mul(x, polynomial(b, x, (-1 / 4, 1 / 3, -1 / 2, 1.0)))
    near = b.compare("olt", b.intrinsic("llvm.fabs", x), constant(x.type, 2.0**-10))
    return b.select(near, small, log_(b, b.add(x, one)))


def sinh(b: Builder, x: Value) -> Value:
    e, half = expm1(b, b.intrinsic("llvm.fabs", x)), constant(x.type, 0.5)
    result = b.mul(half, b.add(e, b.div(e, b.add(e, constant(x.type, 1.0)))))
    return b.intrinsic("llvm.copysign", result, x)


def cosh(b: Builder, x: Value) -> Value:
    e = exp(b, b.intrinsic("llvm.fabs", x))
    return b.mul(constant(x.type, 0.5), b.add(e, b.div(constant(x.type, 1.0), e)))


def asinh(b: Builder, x: Value) -> Value:
    t, one = b.intrinsic("llvm.fabs", x), constant(x.type, 1.0)
    square = b.mul(t, t)
    root = b.intrinsic("llvm.sqrt", b.add(square, one))
    result = log1p(b, b.add(t, b.div(square, b.add(root, one))))
    result = b.select(b.compare("oeq", t, constant(x.type, inf)), t, result)
    return b.intrinsic("llvm.copysign", result, x)


def acosh(b: Builder, x: Value) -> Value:
    one = constant(x.type, 1.0)
    above = b.sub(x, one)
    result = log1p(b, b.add(above, b.intrinsic("llvm.sqrt", b.mul(above, b.add(x, one)))))
    return b.select(b.compare("ult", x, one), constant(x.type, nan), result)


def atanh(b: Builder, x: Value) -> Value:
    t = b.intrinsic("llvm.fabs", x)
    ratio = b.div(b.mul(t, constant(x.type, 2.0)), b.sub(constant(x.type, 1.0), t))
    result = b.mul(constant(x.type, 0.5), log1p(b, ratio))
    return b.intrinsic("llvm.copysign", result, x)


def _quadrant(b: Builder, x: Value) -> tuple[Value, Value]:
    """(q, r) with x = q * pi/2 + r, \\|r\\| <= pi/4, q as i32, for \\|x\\| < 2**20."""
    n = b.intrinsic("llvm.rint", b.mul(x, constant(x.type, 2 / pi)))
    r = x
    for part in _HALF_PI:
        r = b.fma(n, constant(x.type, -part), r)
    r = b.select(b.compare("oeq", n, constant(x.type, 0.0)), x, r)  # -0.0
    return b.to_integer(n, "i32"), r


def _sin_cos(b: Builder, r: Value) -> tuple[Value, Value]:
    square = b.mul(r, r)
    return b.mul(r, polynomial(b, square, _SIN)), polynomial(b, square, _COS)


def _sine_at(b: Builder, x: Value, shift: int) -> Value:
    """sin(x + shift * pi/2)."""
    quadrant, r = _quadrant(b, x)
    quadrant = b.add(quadrant, constant(quadrant.type, shift))
    sine, cosine = _sin_cos(b, r)
    odd = b.compare("ne", b.binary("and", quadrant, constant(quadrant.type, 1)), constant(quadrant.type, 0))
    negative = b.compare("ne", b.binary("and", quadrant, constant(quadrant.type, 2)), constant(quadrant.type, 0))
    result = b.select(odd, cosine, sine)
    return b.select(negative, b.neg(result), result)


def sin(b: Builder, x: Value) -> Value:
    return _sine_at(b, x, 0)


def cos(b: Builder, x: Value) -> Value:
    return _sine_at(b, x, 1)


def tan_(b: Builder, x: Value) -> Value:
    quadrant, r = _quadrant(b, x)
    sine, cosine = _sin_cos(b, r)
    odd = b.compare("ne", b.binary("and", quadrant, constant(quadrant.type, 1)), constant(quadrant.type, 0))
    return b.div(b.select(odd, b.neg(cosine), sine), b.select(odd, sine, cosine))


def _atan_of_ratio(b: Builder, y: Value, x: Value) -> Value:
    """atan(y / x) for 0 <= y <= x, 0 < x."""
    turn = b.compare("ogt", y, b.mul(x, constant(x.type, tan(pi / 8))))  # atan(t) = pi/4 + atan((t - 1) / (t + 1))
    top, bottom = b.select(turn, b.sub(y, x), y), b.select(turn, b.add(y, x), x)
    t = b.div(top, bottom)
    result = b.mul(t, polynomial(b, b.mul(t, t), _ATAN))
    return b.select(turn, b.add(result, constant(x.type, pi / 4)), result)


def atan2(b: Builder, y: Value, x: Value) -> Value:
    ay, ax = b.intrinsic("llvm.fabs", y), b.intrinsic("llvm.fabs", x)
    one, zero = constant(x.type, 1.0), constant(x.type, 0.0)
    infinite = constant(x.type, inf)
    both = b.binary("and", b.compare("oeq", ay, infinite), b.compare("oeq", ax, infinite))
    ay, ax = b.select(both, one, ay), b.select(both, one, ax)
    steep = b.compare("ogt", ay, ax)
    low, high = b.select(steep, ax, ay), b.select(steep, ay, ax)
    high = b.select(b.compare("oeq", high, zero), one, high)
    angle = _atan_of_ratio(b, low, high)
    angle = b.select(steep, b.sub(constant(x.type, pi / 2), angle), angle)
    sign = b.compare("slt", b.cast("bitcast", x, "i64"), constant(x.type.of("i64"), 0))
    angle = b.select(sign, b.sub(constant(x.type, pi), angle), angle)
    angle = b.intrinsic("llvm.copysign", angle, y)
    return b.select(b.compare("uno", x, y), constant(x.type, nan), angle)


def atan(b: Builder, x: Value) -> Value:
    return atan2(b, x, constant(x.type, 1.0))


def _other_leg(b: Builder, x: Value) -> Value:
    """sqrt(1 - x * x)."""
    one = constant(x.type, 1.0)
    return b.intrinsic("llvm.sqrt", b.mul(b.sub(one, x), b.add(one, x)))


def asin(b: Builder, x: Value) -> Value:
    return atan2(b, x, _other_leg(b, x))


def acos(b: Builder, x: Value) -> Value:
    return atan2(b, _other_leg(b, x), x)


def cbrt(b: Builder, x: Value) -> Value:
    t = b.intrinsic("llvm.fabs", x)
    root = exp(b, b.mul(log_(b, t), constant(x.type, 1 / 3)))
    for special in (0.0, inf):
        root = b.select(b.compare("oeq", t, constant(x.type, special)), t, root)
    return b.intrinsic("llvm.copysign", root, x)


def powf(b: Builder, x: Value, y: Value) -> Value:
    one, zero = constant(x.type, 1.0), constant(x.type, 0.0)
    base, power = b.intrinsic("llvm.fabs", x), b.intrinsic("llvm.fabs", y)
    whole = b.compare("oeq", b.intrinsic("llvm.rint", y), y)
    half = b.mul(y, constant(x.type, 0.5))
    odd = b.binary("and", whole, b.compare("one", b.intrinsic("llvm.rint", half), half))
    result = exp(b, b.mul(y, log_(b, base)))
    negative = b.intrinsic("llvm.copysign", result, x)
    result = b.select(odd, negative, result)
    finite = b.compare("olt", base, constant(x.type, inf))
    broken = b.binary(
        "and", b.binary("and", b.compare("olt", x, zero), finite), b.compare("one", b.intrinsic("llvm.floor", y), y)
    )
    result = b.select(broken, constant(x.type, nan), result)
    to_infinity = b.binary("and", b.compare("oeq", base, one), b.compare("oeq", power, constant(x.type, inf)))
    unit = b.binary("or", b.binary("or", b.compare("oeq", y, zero), b.compare("oeq", x, one)), to_infinity)
    return b.select(unit, one, result)


def hypot(b: Builder, x: Value, y: Value) -> Value:
    length = b.intrinsic("llvm.sqrt", b.fma(x, x, b.mul(y, y)))
    infinite = constant(x.type, inf)
    for side in (x, y):
        length = b.select(b.compare("oeq", b.intrinsic("llvm.fabs", side), infinite), infinite, length)
    return length
