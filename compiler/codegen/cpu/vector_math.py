"""Select the code of elementary functions for each type.

On float32, scalars and vectors, a function is a generated helper that LLVM inlines. On float64, it calls the C library for
each lane.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, nan, pi, sqrt
from types import MappingProxyType

from fxc.codegen.cpu import double_math, float_math
from fxc.codegen.cpu.builder import Builder, constant
from fxc.codegen.cpu.double_math import in_double
from fxc.codegen.cpu.float_math import polynomial
from fxc.codegen.cpu.types import I1, Value


def per_lane(b: Builder, name: str, *arguments: Value) -> Value:
    """Call the C library's function ``name`` for each lane."""
    type = arguments[0].type
    scalar = type.with_lanes(None)
    symbol = f"{name}f" if type.element == "float" else name
    if type.lanes is None:
        return b.call(symbol, scalar, *arguments)
    result = Value("poison", type)
    for lane in range(type.lanes):
        result = b.insert(result, b.call(symbol, scalar, *(b.extract(x, lane) for x in arguments)), lane)
    return result


_CENTER = ((-0.140543331, 0.914624893, -1.645349621, 0.886226899), (0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0))
_TAIL = ((1.641345311, 3.429567803, -1.624906493, -1.970840454), (1.637067800, 3.543889200, 1.0))


def erfinv(b: Builder, x: Value) -> Value:
    """The inverse of erf: a rational approximation of three digits, then three Newton steps on erf."""
    one = constant(x.type, 1.0)
    size, square = b.intrinsic("llvm.fabs", x), b.mul(x, x)
    top, bottom = (polynomial(b, square, coefficients) for coefficients in _CENTER)
    center = b.div(b.mul(size, top), bottom)
    half = b.mul(b.sub(one, size), constant(x.type, 0.5))
    z = b.intrinsic("llvm.sqrt", b.neg(per_lane(b, "log", half)))
    top, bottom = (polynomial(b, z, coefficients) for coefficients in _TAIL)
    y = b.select(b.compare("ole", size, constant(x.type, 0.7)), center, b.div(top, bottom))
    for _ in range(3):
        slope = b.mul(constant(x.type, 2 / sqrt(pi)), per_lane(b, "exp", b.neg(b.mul(y, y))))
        y = b.sub(y, b.div(b.sub(per_lane(b, "erf", y), size), slope))
    y = b.select(b.compare("oeq", size, one), constant(x.type, inf), y)
    y = b.select(b.compare("ule", size, one), y, constant(x.type, nan))
    return b.intrinsic("llvm.copysign", y, x)


_BERNOULLI = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
_SHIFTS = 10


def digamma(b: Builder, x: Value) -> Value:
    """The digamma function: the asymptotic series at x + 10, then psi(x) = psi(x + 1) - 1 / x; below 1/2 by reflection."""
    one, zero = constant(x.type, 1.0), constant(x.type, 0.0)
    low = b.compare("olt", x, constant(x.type, 0.5))
    y = b.select(low, b.sub(one, x), x)
    small = b.compare("olt", y, constant(x.type, float(_SHIFTS)))
    total, z = zero, y
    for _ in range(_SHIFTS):
        total = b.add(total, b.div(one, z))
        z = b.add(z, one)
    z, total = b.select(small, z, y), b.select(small, total, zero)
    inverse = b.div(one, z)
    square = b.mul(inverse, inverse)
    series = b.mul(square, polynomial(b, square, _BERNOULLI))
    psi = b.sub(per_lane(b, "log", z), b.mul(inverse, constant(x.type, 0.5)))
    psi = b.sub(b.sub(psi, series), total)
    fraction = b.sub(x, b.intrinsic("llvm.rint", x))  # exact, since the tangent has period 1
    cotangent = b.div(constant(x.type, pi), per_lane(b, "tan", b.mul(fraction, constant(x.type, pi))))
    psi = b.select(low, b.sub(psi, cotangent), psi)
    negative = b.compare("olt", x, zero)
    pole = b.binary("and", negative, b.compare("oeq", fraction, zero))
    psi = b.select(pole, constant(x.type, nan), psi)
    infinite = b.intrinsic("llvm.copysign", constant(x.type, inf), b.neg(x))
    psi = b.select(b.compare("oeq", x, zero), infinite, psi)
    return b.select(b.compare("oeq", x, constant(x.type, -inf)), constant(x.type, nan), psi)


Function = Callable[..., Value]


def _with_library_beyond(limit: float, name: str, function: Function) -> Function:
    """``function``, but the C library computes all lanes if the magnitude of a finite lane is ``limit`` or more."""

    def guarded(b: Builder, x: Value) -> Value:
        size = b.intrinsic("llvm.fabs", x)
        large = b.compare("oge", size, constant(x.type, limit))
        if large.type.lanes is not None:
            large = b.call(f"llvm.vector.reduce.or.{large.type.suffix}", I1, large)
        b.branch_if(large, "library", "series")
        b.label("library")
        exact = per_lane(b, name, x)
        b.branch("done")
        b.label("series")
        fast = function(b, x)
        b.branch("done")
        b.label("done")
        return b.phi(x.type, (exact, "library"), (fast, "series"))

    return guarded


FLOAT_FUNCTIONS: Mapping[str, Function] = MappingProxyType(
    {
        "exp": float_math.exp,
        "exp2": float_math.exp2,
        "erf": float_math.erf,
        "tanh": float_math.tanh,
        "log": float_math.log_,
        "rsqrt": float_math.rsqrt,
        "sin": _with_library_beyond(2.0**20, "sin", in_double(double_math.sin)),
        "cos": _with_library_beyond(2.0**20, "cos", in_double(double_math.cos)),
        "tan": _with_library_beyond(2.0**20, "tan", in_double(double_math.tan_)),
        "pow": in_double(double_math.powf),
        **{
            name: in_double(getattr(double_math, name))
            for name in "expm1 log1p log2 log10 sinh cosh asin acos atan asinh acosh atanh atan2 cbrt hypot".split()
        },
    }
)
"""On float32: name in the C library -> the function that emits its code. Other functions call the C library for each lane."""

DOUBLE_FUNCTIONS: Mapping[str, Function] = MappingProxyType({"rsqrt": float_math.rsqrt, "erfinv": erfinv, "digamma": digamma})
"""Functions that the C library lacks, on float64; float32 is computed in float64."""


def call_math(b: Builder, name: str, *arguments: Value) -> Value:
    """The function called ``name`` in the C library on float32 or float64, for each lane."""
    type = arguments[0].type
    table = DOUBLE_FUNCTIONS if type.element == "double" or name not in FLOAT_FUNCTIONS else FLOAT_FUNCTIONS
    if name not in table:
        return per_lane(b, name, *arguments)
    function = table[name]
    if table is DOUBLE_FUNCTIONS and type.element == "float":
        function = in_double(function)
    helper = f"fxc.{name}.{type.suffix}"
    b.module.helper(helper, type, [x.type for x in arguments], function)
    return b.call_helper(helper, type, *arguments)
