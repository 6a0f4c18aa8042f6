"""Orthogonal polynomials by their recurrence: unrolled for a constant degree, else a loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from fxc.passes.operators.arithmetic import arithmetic
from fxc.passes.operators.record import Operator, each
from fxc.passes.operators.scalars import Scalar, constant, iterate, where

MOST_STEPS = 32
"""The maximum number of steps for which a kernel unrolls a recurrence; longer ones use a loop."""

LARGEST_DEGREE = 2.0**62
"""Degrees from this number on count as negative, as NaN does: their polynomials are 0."""

MOST_OF_HERMITE: Mapping[str, int] = MappingProxyType({"float32": 128, "float64": 512})
"""PyTorch returns NaN for Hermite polynomials beyond this degree."""

Number: TypeAlias = "Scalar | int"

Step: TypeAlias = Callable[[Scalar, Scalar, Scalar, Number], Scalar]
"""Computes the polynomial of degree k + 1 from x, those of degree k and k - 1, and k."""


@dataclass(frozen=True)
class Degree:
    """The degree of a polynomial: a constant of the program, or an int64 element."""

    number: Number

    @classmethod
    def of(cls, x: Scalar, n: Scalar | float) -> Degree:
        """``n`` truncated to an integer, for polynomials in ``x``."""
        if not isinstance(n, Scalar):
            degree = int(n) if abs(n) < LARGEST_DEGREE else -1
            return cls(degree if degree <= MOST_STEPS else constant(x.body, degree, "int64"))
        return cls(where(n.abs() < LARGEST_DEGREE, n, -1).to("int64"))

    def like(self, x: Scalar) -> Number:
        """The degree in the dtype of ``x``."""
        return self.number.to(x.dtype) if isinstance(self.number, Scalar) else self.number

    def sign(self, x: Scalar) -> Number:
        """1 if the degree is even, else -1."""
        if isinstance(self.number, Scalar):
            return where((self.number & 1).eq(0), x.constant(1), -1)
        return 1 if self.number % 2 == 0 else -1

    def recurrence(self, x: Scalar, first: Scalar, step: Step, taken: Scalar | None = None) -> Scalar:
        """The polynomial of this degree for elements that are ``taken``.

        The polynomials of degree 0 and 1 are 1 and ``first``; those of negative degrees are 0.
        """
        n = self.number
        if isinstance(n, int):
            before, result = x.constant(1), x.constant(0 if n < 0 else 1) if n <= 0 else first
            for k in range(1, n):
                before, result = result, step(x, result, before, k)
            return result

        def go_on(before: Scalar, result: Scalar, k: Scalar, x: Scalar, n: Scalar) -> tuple[Scalar, Sequence[Scalar]]:
            following = step(x, result, before, k.to(x.dtype))
            return (k + 1 < n) & ~following.is_nan(), [result, following, k + 1]

        going = (n > 1) & ~first.is_nan()
        _, result, _ = iterate(going if taken is None else going & taken, [x.constant(1), first, n.constant(1)], [x, n], go_on)
        return where(n < 0, 0, where(n.eq(0), 1, result))


@dataclass(frozen=True)
class Chebyshev:
    """A kind of Chebyshev polynomial.

    ``first``: the polynomial of degree 1. ``right`` and ``left``: the values at 1, and at -1 up to the sign of the degree.
    ``angular``: the value from the angle whose cosine is x, which PyTorch uses within [-1, 1] from some degree on.
    """

    first: Callable[[Scalar], Scalar]
    right: Callable[[Number], Number]
    left: Callable[[Number], Number]
    angular: Callable[[Scalar, Number], Scalar]

    def __call__(self, x: Scalar, degree: Degree, highest: int) -> Scalar:
        """The polynomial at ``x``. ``highest``: the maximum degree for which the recurrence is used within [-1, 1]."""
        number, n = degree.number, degree.like(x)
        is_angular = (number > highest) & (x.abs() < 1) if isinstance(number, Scalar) else x.abs() < 1
        taken = ~(is_angular | x.abs().eq(1)) if isinstance(number, Scalar) else None
        result = degree.recurrence(x, self.first(x), lambda x, q, p, k: (x + x) * q - p, taken)
        if isinstance(number, int) and number <= 0:
            return result
        if isinstance(number, Scalar) or number > highest:
            result = where(is_angular, self.angular(x.math("acos"), n), result)
        ends = where(x.eq(1), self.right(n), where(x.eq(-1), degree.sign(x) * self.left(n), result))
        return where(number < 0, 0, ends) if isinstance(number, Scalar) else ends


KINDS: Mapping[str, tuple[Chebyshev, int, int]] = MappingProxyType(
    {
        "t": (Chebyshev(lambda x: x, lambda n: 1, lambda n: 1, lambda a, n: (a * n).math("cos")), 6, 6),
        "u": (
            Chebyshev(
                lambda x: x + x,
                lambda n: n + 1,
                lambda n: n + 1,
                lambda a, n: (a * (n + 1)).math("sin") / a.math("sin"),
            ),
            8,
            6,
        ),
        "v": (
            Chebyshev(
                lambda x: x + x - 1,
                lambda n: 1,
                lambda n: n + n + 1,
                lambda a, n: (a * (n + 0.5)).math("cos") / (a * 0.5).math("cos"),
            ),
            8,
            6,
        ),
        "w": (
            Chebyshev(
                lambda x: x + x + 1,
                lambda n: n + n + 1,
                lambda n: 1,
                lambda a, n: (a * (n + 0.5)).math("sin") / (a * 0.5).math("sin"),
            ),
            8,
            4,
        ),
    }
)
"""Kind -> the polynomial, and the maximum degree for which PyTorch uses the recurrence for it and for the shifted one."""


def _hermite(first: Callable[[Scalar], Scalar], step: Step) -> Callable[[Scalar, Degree], Scalar]:
    def formula(x: Scalar, degree: Degree) -> Scalar:
        n, most = degree.number, MOST_OF_HERMITE[x.dtype]
        if not isinstance(n, Scalar):
            return degree.recurrence(x, first(x), step)
        return where(n > most, math.nan, degree.recurrence(x, first(x), step, n <= most))

    return formula


def laguerre(x: Scalar, degree: Degree) -> Scalar:
    result = degree.recurrence(x, 1 - x, lambda x, q, p, k: ((2 * k + (1 - x)) * q - p * k) / (k + 1), x.ne(0))
    n = degree.number
    if isinstance(n, Scalar):
        return where((n >= 0) & x.eq(0), 1, result)
    return result if n < 0 else where(x.eq(0), 1, result)


def legendre(x: Scalar, degree: Degree) -> Scalar:
    result = degree.recurrence(x, x, lambda x, q, p, k: ((2 * k + 1) * x * q - p * k) / (k + 1), x.abs().ne(1))
    n = degree.number
    if isinstance(n, int) and n <= 0:
        return result
    ends = where(x.eq(1), 1, where(x.eq(-1), degree.sign(x), result))
    return where(n < 0, 0, ends) if isinstance(n, Scalar) else ends


_FORMULAS: Mapping[str, Callable[[Scalar, Degree], Scalar]] = MappingProxyType(
    {
        "hermite_polynomial_h": _hermite(lambda x: x + x, lambda x, q, p, k: (x + x) * q - p * (2 * k)),
        "hermite_polynomial_he": _hermite(lambda x: x, lambda x, q, p, k: x * q - p * k),
        "laguerre_polynomial_l": laguerre,
        "legendre_polynomial_p": legendre,
    }
)


def _chebyshev(kind: str) -> dict[str, Callable[[Scalar, Degree], Scalar]]:
    polynomial, highest, highest_shifted = KINDS[kind]
    name = f"chebyshev_polynomial_{kind}"
    return {
        name: lambda x, n: polynomial(x, n, highest),
        f"shifted_{name}": lambda x, n: polynomial(x + x - 1, n, highest_shifted),
    }


def _overloads(name: str, formula: Callable[[Scalar, Degree], Scalar]) -> dict[str, Operator]:
    names = " ".join(f"special_{name}.{overload}" for overload in ("default", "n_scalar", "x_scalar"))
    return each(names, arithmetic(lambda x, n: formula(x, Degree.of(x, n))))


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        overload: record
        for family in (*map(_chebyshev, KINDS), _FORMULAS)
        for name, formula in family.items()
        for overload, record in _overloads(name, formula).items()
    }
)
