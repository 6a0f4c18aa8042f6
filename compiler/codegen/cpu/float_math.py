"""exp, log, erf and tanh on float32, scalars or vectors, as instructions. Errors are below 1.5 units in the last place.

The polynomials are the best of several in measured time and error; ``tests/test_cpu_math.py`` checks their errors. Each
function handles special values like the C library and computes all lanes without branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log, nan

from fxc.codegen.cpu.builder import Builder, constant
from fxc.codegen.cpu.lanes import join, pieces
from fxc.codegen.cpu.types import I16, I32, Value


def polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate a polynomial by Horner's rule; the coefficient of the highest power is first."""
    result = constant(x.type, coefficients[0])
    for coefficient in coefficients[1:]:
        result = b.fma(result, x, constant(x.type, coefficient))
    return result


def at_most(b: Builder, x: Value, limit: float) -> Value:
    """min(x, limit); NaN stays NaN."""
    bound = constant(x.type, limit)
    return b.select(b.compare("ogt", x, bound), bound, x)


def at_least(b: Builder, x: Value, limit: float) -> Value:
    """max(x, limit); NaN stays NaN."""
    bound = constant(x.type, limit)
    return b.select(b.compare("olt", x, bound), bound, x)


_ALL, _CURRENT_ROUNDING = Value("-1", I16), Value("4", I32)


def _scaled_register(b: Builder, x: Value, n: Value) -> Value:
    none = Value("zeroinitializer", x.type)
    return b.call("llvm.x86.avx512.mask.scalef.ps.512", x.type, x, n, none, _ALL, _CURRENT_ROUNDING)


def times_power_of_two(b: Builder, x: Value, n: Value) -> Value:
    """x * 2**n for integral n in [-252, 254]; a denormal result is rounded once."""
    if "avx512f" in b.module.features and x.type.lanes is not None and x.type.lanes % 16 == 0:
        parts = [pieces(b, value, x.type.lanes // 16) for value in (x, n)]
        return join(b, [_scaled_register(b, *each) for each in zip(*parts, strict=True)])
    whole = b.to_integer(n, "i32")
    half = b.binary("ashr", whole, constant(whole.type, 1))
    for part in (half, b.sub(whole, half)):
        bits = b.binary("shl", b.add(part, constant(part.type, 127)), constant(part.type, 23))
        x = b.mul(x, b.cast("bitcast", bits, "float"))
    return x


_EXP = (
    1.98527617612853646e-4,
    1.39304355252534151e-3,
    8.33336077630519867e-3,
    4.16664853692054749e-2,
    0.16666667163372040,
    0.5,
)
_LN2 = (0.693145751953125, 1.428606765330187045e-06)
"""ln 2 in two parts. The first has few bits, so its products with exponents are exact."""


def _exp_of_reduced(b: Builder, r: Value) -> Value:
    """exp(r) for \\|r\\| <= ln(2)/2."""
    p = b.fma(b.mul(r, r), polynomial(b, r, _EXP), r)
    return b.add(p, constant(r.type, 1.0))


def exp(b: Builder, x: Value) -> Value:
    x = at_most(b, at_least(b, x, -105.0), 89.0)
    n = b.intrinsic("llvm.rint", b.mul(x, constant(x.type, 1 / log(2))))
    r = b.fma(n, constant(x.type, -_LN2[0]), x)
    r = b.fma(n, constant(x.type, -_LN2[1]), r)
    return times_power_of_two(b, _exp_of_reduced(b, r), n)


def exp2(b: Builder, x: Value) -> Value:
    x = at_most(b, at_least(b, x, -151.0), 129.0)
    n = b.intrinsic("llvm.rint", x)
    r = b.mul(b.sub(x, n), constant(x.type, log(2)))
    return times_power_of_two(b, _exp_of_reduced(b, r), n)


_ERF_LARGE = (-1.72853470e-5, 3.83197126e-4, -3.88396438e-3, 2.42546219e-2, -1.06777877e-1, -6.34846687e-1, -1.28717512e-1)
_ERF_SMALL = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)


def erf(b: Builder, x: Value) -> Value:
    t, q = b.intrinsic("llvm.fabs", x), b.mul(x, x)
    c = [constant(x.type, value) for value in _ERF_LARGE]
    r = b.fma(b.fma(c[0], t, c[1]), q, b.fma(c[2], t, c[3]))
    for coefficient in c[4:]:
        r = b.fma(r, t, coefficient)
    r = b.fma(r, t, b.neg(t))
    large = b.intrinsic("llvm.copysign", b.sub(constant(x.type, 1.0), exp(b, r)), x)
    small = b.fma(polynomial(b, q, _ERF_SMALL), x, x)
    return b.select(b.compare("ogt", t, constant(x.type, 0.927734375)), large, small)


_TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)


def tanh(b: Builder, x: Value) -> Value:
    one, two = constant(x.type, 1.0), constant(x.type, 2.0)
    t, q = b.intrinsic("llvm.fabs", x), b.mul(x, x)
    large = b.sub(one, b.div(two, b.add(exp(b, b.mul(t, two)), one)))
    small = b.fma(b.mul(polynomial(b, q, _TANH), q), t, t)
    return b.intrinsic("llvm.copysign", b.select(b.compare("ogt", t, constant(x.type, 0.625)), large, small), x)


_LOG_EVEN = (-0.130310059, -0.121483512, -0.166846126, -0.249996200)
_LOG_ODD = (0.140869141, 0.139814854, 0.200120345)


def log_(b: Builder, x: Value) -> Value:
    tiny = b.compare("olt", x, constant(x.type, 1.17549435e-38))
    scaled = b.select(tiny, b.mul(x, constant(x.type, 8388608.0)), x)
    bits = b.cast("bitcast", scaled, "i32")
    exponent = b.binary("and", b.sub(bits, constant(bits.type, 0x3F2AAAAB)), constant(bits.type, -8388608))
    m = b.sub(b.cast("bitcast", b.sub(bits, exponent), "float"), constant(x.type, 1.0))
    n = b.cast("sitofp", b.binary("ashr", exponent, constant(bits.type, 23)), "float")
    n = b.add(n, b.select(tiny, constant(x.type, -23.0), constant(x.type, 0.0)))
    q = b.mul(m, m)
    r = b.fma(polynomial(b, q, _LOG_ODD), m, polynomial(b, q, _LOG_EVEN))
    for coefficient in (0.333331972, -0.5):
        r = b.fma(r, m, constant(x.type, coefficient))
    r = b.fma(n, constant(x.type, log(2)), b.fma(r, q, m))
    return logarithm_of_special(b, x, r)


def logarithm_of_special(b: Builder, x: Value, result: Value) -> Value:
    """``result`` with special values: -inf for 0, inf for inf, NaN below 0 and for NaN."""
    result = b.select(b.compare("oeq", x, constant(x.type, inf)), x, result)
    result = b.select(b.compare("oeq", x, constant(x.type, 0.0)), constant(x.type, -inf), result)
    return b.select(b.compare("ult", x, constant(x.type, 0.0)), constant(x.type, nan), result)


def rsqrt(b: Builder, x: Value) -> Value:
    return b.div(constant(x.type, 1.0), b.intrinsic("llvm.sqrt", x))
