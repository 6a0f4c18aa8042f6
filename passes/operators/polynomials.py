"""Orthogonal polynomials by their recurrence: written out for a degree that the program states, else a loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from fxc.passes.operators.arithmetic import arithmetic
from fxc.passes.operators.iteration import iterate
from fxc.passes.operators.record import Operator, each
from fxc.passes.operators.rules import Formula
from fxc.passes.operators.scalars import Scalar, constant, where

MOST_STEPS = 32
"""Steps of a recurrence that a kernel writes out; it loops where there are more."""

LARGEST_DEGREE = 2.0**62
"""Degrees from here on count as negative, as those that are no number: there the polynomials are 0."""

MOST_OF_HERMITE: Mapping[str, int] = MappingProxyType({"float32": 128, "float64": 512})
"""Beyond this degree PyTorch takes Hermite's polynomials for NaN."""

Number: TypeAlias = "Scalar | int"

Step: TypeAlias = Callable[[Scalar, Scalar, Scalar, Number], Scalar]
"""The polynomial of degree k + 1, of x, those of degree k and k - 1, and k."""


@dataclass(frozen=True)
class Degree:
    """The degree that the program states, or that an element says: an int64."""

    number: Number

    @classmethod
    def of(cls, x: Scalar, n: Scalar | float) -> Degree:
        """``n``, cut to an integer; for polynomials of ``x``."""
        if not isinstance(n, Scalar):
            degree = int(n) if abs(n) < LARGEST_DEGREE else -1
            return cls(degree if degree <= MOST_STEPS else constant(x.body, degree, "int64"))
        return cls(where(n.abs() < LARGEST_DEGREE, n, -1).to("int64"))

    def like(self, x: Scalar) -> Number:
        """The degree to compute with beside ``x``."""
        return self.number.to(x.dtype) if isinstance(self.number, Scalar) else self.number

    def sign(self, x: Scalar) -> Number:
        """1 where the degree is even, else -1."""
        if isinstance(self.number, Scalar):
            return where((self.number & 1).eq(0), x.constant(1), -1)
        return 1 if self.number % 2 == 0 else -1

    def recurrence(self, x: Scalar, first: Scalar, step: Step, taken: Scalar | None = None) -> Scalar:
        """The polynomial of this degree where it is ``taken``; those of degree 0 and 1 are 1 and ``first``, of negative 0."""
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
    """A kind of Chebyshev polynomial: its first degree is 2x + ``shift``, or x. ``right`` and ``left``: its values at 1, and at
    -1 but for the sign, which is that of the degree. ``angular`` gives it of the angle whose cosine is x; PyTorch takes that
    within [-1, 1] from a degree on."""

    first: Formula
    right: Callable[[Number], Number]
    left: Callable[[Number], Number]
    angular: Callable[[Scalar, Number], Scalar]

    def __call__(self, x: Scalar, degree: Degree, highest: int) -> Scalar:
        """``highest``: the degree up to which the recurrence is taken within [-1, 1]."""
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
"""Kind -> it, and up to which degree PyTorch takes the recurrence for it, and for the shifted one."""


def _hermite(first: Formula, step: Step) -> Callable[[Scalar, Degree], Scalar]:
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
"""Operator -> its record."""
