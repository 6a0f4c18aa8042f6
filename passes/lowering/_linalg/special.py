"""Special functions as formulas of arithmetic: gamma and normal distribution functions, after Cephes as PyTorch has them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fxc.passes.lowering._linalg import special_tables as tables
from fxc.passes.lowering._linalg.arithmetic import arithmetic
from fxc.passes.lowering._linalg.rules import Pointwise
from fxc.passes.lowering._linalg.scalars import Scalar, Uncovered, where

_STEPS = 10
"""Digamma's series is taken from here on; below, psi(x) = psi(x + 1) - 1/x leads up to it."""


def polynomial(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """The polynomial by Horner's rule, highest power first."""
    result = x.constant(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


def chebyshev(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """The Chebyshev series by Clenshaw's recurrence, in 2x, highest degree first."""
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
        raise Uncovered("polygamma of order 2 and more: a sum that is as long as an element says")
    return digamma(x) if n == 0 else trigamma(x)


def multivariate_lgamma(x: Scalar, p: int) -> Scalar:
    total = x.constant(p * (p - 1) / 4 * math.log(math.pi))
    for step in range(p):
        total = total + (x - step / 2).math("lgamma")
    return total


def erfcx(x: Scalar) -> Scalar:
    """exp(x*x) erfc(x); beyond 50 the continued fraction, as in Faddeeva."""
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


TABLE: Mapping[str, Pointwise] = MappingProxyType(
    {
        "aten.digamma.default": arithmetic(digamma),
        "aten.polygamma.default": arithmetic(polygamma),
        "aten.mvlgamma.default": arithmetic(multivariate_lgamma),
        "aten.special_erfcx.default": arithmetic(erfcx),
        "aten.special_log_ndtr.default": arithmetic(log_ndtr),
        "aten.special_ndtri.default": arithmetic(ndtri),
    }
)
"""Operator -> rule."""
