"""The regularized incomplete gamma functions; each element uses the same method as in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from types import MappingProxyType

from fxc.passes.operators import special_tables as tables
from fxc.passes.operators.arithmetic import arithmetic
from fxc.passes.operators.record import Operator, each
from fxc.passes.operators.scalars import Scalar, iterate, where
from fxc.passes.operators.special import polynomial

MOST_TERMS = 2000
_LANCZOS_G = 6.024680040776729583740234375
_EPSILON: Mapping[str, float] = MappingProxyType({"float32": 2.0**-24, "float64": 2.0**-53})
_LARGEST_LOG: Mapping[str, float] = MappingProxyType({"float32": 88.72283905206835, "float64": 709.782712893384})
_BIG: Mapping[str, float] = MappingProxyType({"float32": 2.0**24, "float64": 2.0**52})
"""The threshold above which the terms of a continued fraction are scaled down."""

_TERMS: Mapping[str, tuple[int, int]] = MappingProxyType({"float32": (6, 10), "float64": (12, 20)})
"""The number of significant coefficients of Temme's expansion: powers of 1/a for a from 20 on, and of eta up to 0.34."""


@dataclass(frozen=True)
class Pair:
    """The lower and the upper incomplete gamma function of an element."""

    lower: Scalar
    upper: Scalar


def _functions(a: Scalar, x: Scalar, by_series: Scalar, by_fraction: Scalar) -> Pair:
    """Both functions, for 0 < a and 0 < x that are finite.

    If a is large and x is near it, by Temme's expansion. Else ``by_series`` selects the power series of the lower function,
    and ``by_fraction`` selects between the continued fraction and the series of the upper function.
    """
    distance = (x - a).abs() / a
    is_near = ((a > 20) & (a < 200) & (distance < 0.3)) | ((a > 200) & (distance < 4.5 / a.math("sqrt")))
    counts = (a > 0) & (a < math.inf) & (x > 0) & (x < math.inf) & ~is_near
    factor = _factor(a, x)
    lower = _series(a, x, factor, counts & by_series)
    upper = where(by_fraction, _fraction(a, x, factor, counts & by_fraction & ~by_series),
                  _series_of_upper(a, x, counts & ~by_fraction & ~by_series))  # fmt: skip
    near = _near(a, x)
    return Pair(
        where(is_near, near.lower, where(by_series, lower, 1 - upper)),
        where(is_near, near.upper, where(by_series, 1 - lower, upper)),
    )


def igamma(x: Scalar, y: Scalar) -> Scalar:
    a, x = x, y
    is_upper = (x > 1) & (x > a)
    result = _functions(a, x, ~is_upper, x > 1.1).lower
    return _at_edges(a, x, result, at_zero=0, at_infinity=1)


def igammac(x: Scalar, y: Scalar) -> Scalar:
    a, x = x, y
    is_small = where(x <= 0.5, -0.4 / x.math("log"), x * 1.1) < a
    result = _functions(a, x, where(x > 1.1, x < a, is_small), x > 1.1).upper
    return _at_edges(a, x, result, at_zero=1, at_infinity=0)


def _at_edges(a: Scalar, x: Scalar, result: Scalar, *, at_zero: int, at_infinity: int) -> Scalar:
    """``result``, with the special values for an ``a`` or ``x`` that is 0, infinite or negative."""
    result = where(x.eq(math.inf), at_infinity, result)
    result = where(a.eq(math.inf), where(x.eq(math.inf), x.constant(math.nan), at_zero), result)
    result = where(x.eq(0), at_zero, result)
    result = where(a.eq(0), where(x > 0, x.constant(at_infinity), math.nan), result)
    return where((x < 0) | (a < 0), math.nan, result)


def _factor(a: Scalar, x: Scalar) -> Scalar:
    """x^a exp(-x) / gamma(a)."""
    logarithm = a * x.math("log") - x - a.math("lgamma")
    far = where(logarithm < -_LARGEST_LOG[a.dtype], 0, logarithm.math("exp"))
    base = a + (_LANCZOS_G - 0.5)
    scale = (base * math.exp(-1)).math("sqrt") / _lanczos_sum(a)
    distance = (x - a - (_LANCZOS_G - 0.5)) / base
    small = (a - x).math("exp") * (x / base).math("powf", a)
    large = (a * (distance.math("log1p") - distance) + x * (0.5 - _LANCZOS_G) / base).math("exp")
    near = scale * where((a < 200) & (x < 200), small, large)
    return where((a - x).abs() > 0.4 * a.abs(), far, near)


def _lanczos_sum(a: Scalar) -> Scalar:
    """Lanczos' sum for ``a``: a quotient of polynomials, in 1/a for large a."""
    large = a.abs() > 1
    place = where(large, 1 / a, a)

    def value(coefficients: Sequence[float]) -> Scalar:
        result = a.constant(0)
        for low, high in zip(reversed(coefficients), coefficients, strict=True):
            result = result * place + where(large, a.constant(low), high)
        return result

    return value(tables.LANCZOS_P) / value(tables.LANCZOS_Q)


def _series(a: Scalar, x: Scalar, factor: Scalar, taken: Scalar) -> Scalar:
    """The lower function by its power series."""
    epsilon = _EPSILON[a.dtype]

    def add(total: Scalar, term: Scalar, place: Scalar, k: Scalar, x: Scalar) -> tuple[Scalar, Sequence[Scalar]]:
        place, k = place + 1, k + 1
        term = term * (x / place)
        total = total + term
        return (term > total * epsilon) & (k < MOST_TERMS), [total, term, place, k]

    one = a.constant(1)
    total, *_ = iterate(taken & factor.ne(0), [one, one, a, a.constant(0)], [x], add)
    return where(factor.eq(0), 0, total * factor / a)


def _series_of_upper(a: Scalar, x: Scalar, taken: Scalar) -> Scalar:
    """The upper function for small a and x."""
    epsilon = _EPSILON[a.dtype]

    def add(total: Scalar, power: Scalar, k: Scalar, a: Scalar, x: Scalar) -> tuple[Scalar, Sequence[Scalar]]:
        power = power * (-x / k)
        term = power / (a + k)
        total = total + term
        return (term.abs() > total.abs() * epsilon) & (k < MOST_TERMS - 1), [total, power, k + 1]

    total, *_ = iterate(taken, [a.constant(0), a.constant(1), a.constant(1)], [a, x], add)
    exponent = a * x.math("log")
    first = -(exponent - (a + 1).math("lgamma")).math("expm1")
    return first - (exponent - a.math("lgamma")).math("exp") * total


def _fraction(a: Scalar, x: Scalar, factor: Scalar, taken: Scalar) -> Scalar:
    """The upper function by its continued fraction p/q, with recurrences over the last two p and q."""
    epsilon, big = _EPSILON[a.dtype], _BIG[a.dtype]

    def go_on(result: Scalar, p: Scalar, last_p: Scalar, q: Scalar, last_q: Scalar, y: Scalar, z: Scalar, k: Scalar):
        y, z, k = y + 1, z + 2, k + 1
        step = y * k
        new_p, new_q = p * z - last_p * step, q * z - last_q * step
        ratio = new_p / new_q
        there = new_q.ne(0)
        change = where(there, ((result - ratio) / ratio).abs(), 1)
        scale = where(new_p.abs() > big, new_p.constant(1 / big), 1)
        carried = [where(there, ratio, result), new_p * scale, p * scale, new_q * scale, q * scale, y, z, k]
        return (change > epsilon) & (k < MOST_TERMS), carried

    one = a.constant(1)
    y = 1 - a
    z = x + y + 1
    p, q = x + 1, z * x
    result, *_ = iterate(taken & factor.ne(0), [p / q, p, one, q, x, y, z, a.constant(0)], [], go_on)
    return where(factor.eq(0), 0, result * factor)


def _near(a: Scalar, x: Scalar) -> Pair:
    """Temme's expansion (DLMF 8.12.3), in powers of 1/a and of eta: eta^2 / 2 is x/a - 1 - log(x/a)."""
    distance = (x - a) / a
    size = ((distance.math("log1p") - distance) * -2).math("sqrt")
    eta = where(x < a, -size, where(x.eq(a), 0, size))
    rows, columns = _TERMS[a.dtype]
    inverse, total = 1 / a, a.constant(0)
    for row in reversed(range(rows)):
        total = total * inverse + polynomial(eta, [float(number) for number in reversed(_temme(row, columns))])
    rest = (a * eta * eta * -0.5).math("exp") * total / (a * (2 * math.pi)).math("sqrt")
    angle = eta * (a * 0.5).math("sqrt")
    return Pair(0.5 * (-angle).math("erfc") - rest, 0.5 * angle.math("erfc") + rest)


@cache
def _temme(row: int, columns: int) -> list[Fraction]:
    """The first coefficients of a row: DLMF 8.12.10 to 8.12.12."""
    if row == 0:
        return [Fraction(-1, 3), *((n + 2) * _inversion(n + 2) for n in range(1, columns))]
    stirling = math.prod(range(1, 2 * row + 2, 2)) * _inversion(2 * row + 1)
    first, before = _temme(0, columns), _temme(row - 1, columns + 2)
    return [(-1) ** row * stirling * first[n] + (n + 2) * before[n + 2] for n in range(columns)]


@cache
def _inversion(n: int) -> Fraction:
    """The coefficient of eta^n in x/a - 1."""
    if n < 2:
        return Fraction(n)
    known = sum((_inversion(i) * _inversion(n + 1 - i) for i in range(2, n)), Fraction(0))
    return (2 * _inversion(n - 1) / (n + 1) - known) / 2


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {**each("igamma.default", arithmetic(igamma)), **each("igammac.default", arithmetic(igammac))}
)
