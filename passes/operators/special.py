"""Special functions as arithmetic formulas: gamma and normal distribution functions, from Cephes like PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fxc.passes.operators import special_tables as tables
from fxc.passes.operators.arithmetic import arithmetic
from fxc.passes.operators.record import Operator, each
from fxc.passes.operators.scalars import Scalar, iterate, where

_MACHEP = 2.0**-53

_LARGEST_FACTORIALS: Mapping[str, int] = MappingProxyType({"float32": 34, "float64": 170})
"""The largest number whose factorial is finite."""

_STEPS = 10
"""Digamma uses its series from this number on; below, it uses psi(x) = psi(x + 1) - 1/x."""


def polynomial(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Evaluate a polynomial by Horner's rule; the coefficient of the highest power is first."""
    result = x.constant(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


def chebyshev(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Evaluate a Chebyshev series by Clenshaw's recurrence in 2x; the coefficient of the highest degree is first."""
    b0, b1, b2 = x.constant(coefficients[0]), x.constant(0), x.constant(0)
    for coefficient in coefficients[1:]:
        b0, b1, b2 = x * b0 - b1 + coefficient, b0, b1
    return (b0 - b2) * 0.5


def digamma(x: Scalar) -> Scalar:
    negative, whole = x < 0, x.math("roundeven")
    left = x - whole
    positive = _digamma_of_positive(where(negative, 1 - x, x))
    result = where(negative, positive - math.pi / (left * math.pi).math("tan"), positive)
    result = where(negative & left.eq(0), math.nan, result)
    return where(x.eq(0), x.constant(math.inf).math("copysign", -x), where(x.eq(-math.inf), math.nan, result))


def _digamma_of_positive(x: Scalar) -> Scalar:
    total = x.constant(0)
    for _ in range(_STEPS):
        small = x < _STEPS
        total = where(small, total - 1 / x, total)
        x = where(small, x + 1, x)
    square = 1 / (x * x)
    return total + x.math("log") - 0.5 / x - square * polynomial(square, tables.DIGAMMA)


def trigamma(x: Scalar) -> Scalar:
    low = x < 0.5
    sine = (x * math.pi).math("sin")
    total = where(low, -(math.pi**2) / (sine * sine), x.constant(0))
    x = where(low, 1 - x, x)
    for _ in range(6):
        total = total + 1 / (x * x)
        x = x + 1
    square = 1 / (x * x)
    total = total + (1 + 0.5 / x + square * (1 / 6 - square * (1 / 30 - square * (1 / 42)))) / x
    return where(low, -total, total)


def polygamma(n: int, x: Scalar) -> Scalar:
    if n > 1:
        factor = float(math.factorial(n)) if n <= _LARGEST_FACTORIALS[x.dtype] else math.inf
        return zeta(x.constant(n + 1), x) * (factor if n % 2 else -factor)
    return digamma(x) if n == 0 else trigamma(x)


def zeta(x: Scalar, y: Scalar) -> Scalar:
    """Hurwitz's zeta function: the sum of (y + k)^-x, by Euler-Maclaurin from y + 9 on. Computed in float64, like PyTorch."""
    dtype, x, y = x.dtype, x.to("float64"), y.to("float64")
    whole, is_pole = x.eq(x.math("floor")), (y <= 0) & y.eq(y.math("floor"))
    going = ~(x <= 1) & ~is_pole & ((y > 0) | whole)

    def add(a: Scalar, total: Scalar, term: Scalar, k: Scalar, x: Scalar) -> tuple[Scalar, Sequence[Scalar]]:
        a, k = a + 1, k + 1
        term = a.math("powf", -x)
        total = total + term
        return ((k < 9) | (a <= 9)) & ~_is_small(term, total), [a, total, term, k]

    carried = [y, y.math("powf", -x), y.constant(0), y.constant(0)]
    a, total, term, _ = iterate(going, carried, [x], add)
    done = _is_small(term, total)
    total = where(done, total, total + term * a / (x - 1) - 0.5 * term)
    factor = x.constant(1)
    for k, divisor in enumerate(tables.ZETA):
        factor, term = factor * (x + 2 * k), term / a
        part = factor * term / divisor
        total = where(done, total, total + part)
        done = done | ((part / total).abs() < _MACHEP)
        factor, term = factor * (x + (2 * k + 1)), term / a
    total = where(is_pole, math.inf, where((y <= 0) & ~whole, math.nan, total))
    return where(x.eq(1), math.inf, where(x < 1, math.nan, total)).to(dtype)


def _is_small(term: Scalar, total: Scalar) -> Scalar:
    """Whether ``term`` is negligible relative to ``total``."""
    limit = total * _MACHEP
    return (term > -limit) & (term < limit)


def multivariate_lgamma(x: Scalar, p: int) -> Scalar:
    total = x.constant(p * (p - 1) / 4 * math.log(math.pi))
    for step in range(p):
        total = total + (x - step / 2).math("lgamma")
    return total


def erfcx(x: Scalar) -> Scalar:
    """exp(x*x) erfc(x); beyond 50 by the continued fraction, as in Faddeeva."""
    size, square = x.abs(), x * x
    near = square.math("exp") * size.math("erfc")
    middle = polynomial(size, tables.ERFCX_P) / polynomial(size, tables.ERFCX_Q)
    far = polynomial(size, tables.ERFCX_R) / polynomial(size, tables.ERFCX_S)
    tail = 1 / (size * math.sqrt(math.pi))
    fraction = tail * (square * (square + 4.5) + 2) / (square * (square + 5) + 3.75)
    large = where(size > 50, where(size > 5e7, tail, fraction), far)
    positive = where(size < 1, near, where(size < 8, middle, large))
    return where(x < 0, 2 * square.math("exp") - positive, positive)


def log_ndtr(x: Scalar) -> Scalar:
    t = x * math.sqrt(0.5)
    return where(x < -1, (erfcx(-t) * 0.5).math("log") - t * t, (t.math("erfc") * -0.5).math("log1p"))


def ndtri(x: Scalar) -> Scalar:
    tail = 0.13533528323661269189  # exp(-2)
    upper = x > 1 - tail
    y = where(upper, 1 - x, x)
    centre = y - 0.5
    square = centre * centre
    middle = centre + centre * (square * polynomial(square, tables.NDTRI_P0) / polynomial(square, tables.NDTRI_Q0))
    root = (y.math("log") * -2).math("sqrt")
    inverse = 1 / root
    near = inverse * polynomial(inverse, tables.NDTRI_P1) / polynomial(inverse, tables.NDTRI_Q1)
    far = inverse * polynomial(inverse, tables.NDTRI_P2) / polynomial(inverse, tables.NDTRI_Q2)
    quantile = root - root.math("log") / root - where(root < 8, near, far)
    result = where(y > tail, middle * math.sqrt(2 * math.pi), where(upper, quantile, -quantile))
    result = where((x < 0) | (x > 1), math.nan, result)
    return where(x.eq(0), -math.inf, where(x.eq(1), math.inf, result))


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("digamma.default special_digamma.default special_psi.default", arithmetic(digamma), cost=24),
        **each("polygamma.default special_polygamma.default", arithmetic(polygamma)),
        **each("mvlgamma.default special_multigammaln.default", arithmetic(multivariate_lgamma)),
        **each("special_erfcx.default", arithmetic(erfcx)),
        **each("special_log_ndtr.default", arithmetic(log_ndtr)),
        **each("special_ndtri.default", arithmetic(ndtri)),
        **each("special_zeta.default special_zeta.self_scalar special_zeta.other_scalar", arithmetic(zeta)),
    }
)
