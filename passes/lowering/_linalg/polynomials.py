"""Orthogonal polynomials of a degree that the program states: the recurrence, written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from fxc.passes.lowering._linalg.arithmetic import arithmetic
from fxc.passes.lowering._linalg.rules import Formula, Pointwise
from fxc.passes.lowering._linalg.scalars import Scalar, Uncovered, where

MOST_STEPS = 32
"""Steps of a recurrence that a kernel writes out."""

Step: TypeAlias = Callable[[Scalar, Scalar, Scalar, int], Scalar]
"""The polynomial of degree k + 1, of x, those of degree k and k - 1, and k."""


def recurrence(x: Scalar, first: Scalar, n: int, step: Step) -> Scalar:
    """The polynomial of degree n, where those of degree 0 and 1 are 1 and ``first``."""
    if n > MOST_STEPS:
        raise Uncovered("a polynomial of high degree")
    if n <= 0:
        return x.constant(0 if n < 0 else 1)
    before, result = x.constant(1), first
    for k in range(1, n):
        before, result = result, step(x, result, before, k)
    return result


@dataclass(frozen=True)
class Chebyshev:
    """A kind of Chebyshev polynomial: its first degree is 2x + ``shift``, or x. ``right`` and ``left``: its values at 1 and -1.
    ``angular`` gives it of the angle whose cosine is x; PyTorch takes that within [-1, 1] from a degree on."""

    first: Formula
    right: Callable[[int], int]
    left: Callable[[int], int]
    angular: Callable[[Scalar, int], Scalar]

    def __call__(self, x: Scalar, n: int, highest: int) -> Scalar:
        """``highest``: the degree up to which the recurrence is taken within [-1, 1]."""
        if n <= 0:
            return recurrence(x, x, n, lambda x, q, p, k: q)
        result = recurrence(x, self.first(x), n, lambda x, q, p, k: (x + x) * q - p)
        if n > highest:
            result = where(x.abs() < 1, self.angular(x.math("acos"), n), result)
        return where(x.eq(1), self.right(n), where(x.eq(-1), self.left(n), result))


def _sign(n: int) -> int:
    return 1 if n % 2 == 0 else -1


KINDS: Mapping[str, tuple[Chebyshev, int, int]] = MappingProxyType(
    {
        "t": (Chebyshev(lambda x: x, lambda n: 1, _sign, lambda a, n: (a * n).math("cos")), 6, 6),
        "u": (
            Chebyshev(
                lambda x: x + x,
                lambda n: n + 1,
                lambda n: _sign(n) * (n + 1),
                lambda a, n: (a * (n + 1)).math("sin") / a.math("sin"),
            ),
            8,
            6,
        ),
        "v": (
            Chebyshev(
                lambda x: x + x - 1,
                lambda n: 1,
                lambda n: _sign(n) * (n + n + 1),
                lambda a, n: (a * (n + 0.5)).math("cos") / (a * 0.5).math("cos"),
            ),
            8,
            6,
        ),
        "w": (
            Chebyshev(
                lambda x: x + x + 1,
                lambda n: n + n + 1,
                _sign,
                lambda a, n: (a * (n + 0.5)).math("sin") / (a * 0.5).math("sin"),
            ),
            8,
            4,
        ),
    }
)
"""Kind -> it, and up to which degree PyTorch takes the recurrence for it, and for the shifted one."""


def hermite_h(x: Scalar, n: int) -> Scalar:
    return recurrence(x, x + x, n, lambda x, q, p, k: (x + x) * q - p * (2 * k))


def hermite_he(x: Scalar, n: int) -> Scalar:
    return recurrence(x, x, n, lambda x, q, p, k: x * q - p * k)


def laguerre(x: Scalar, n: int) -> Scalar:
    result = recurrence(x, 1 - x, n, lambda x, q, p, k: ((2 * k + (1 - x)) * q - p * k) / (k + 1))
    return result if n < 0 else where(x.eq(0), 1, result)


def legendre(x: Scalar, n: int) -> Scalar:
    result = recurrence(x, x, n, lambda x, q, p, k: ((2 * k + 1) * x * q - p * k) / (k + 1))
    return result if n <= 0 else where(x.eq(1), 1, where(x.eq(-1), _sign(n), result))


def _of_degree(formula: Formula) -> Pointwise:
    return arithmetic(lambda x, n: formula(x, int(n)))


def _chebyshev(kind: str) -> dict[str, Pointwise]:
    polynomial, highest, highest_shifted = KINDS[kind]
    name = f"chebyshev_polynomial_{kind}.n_scalar"
    return {
        f"aten.special_{name}": _of_degree(lambda x, n: polynomial(x, n, highest)),
        f"aten.special_shifted_{name}": _of_degree(lambda x, n: polynomial(x + x - 1, n, highest_shifted)),
    }


TABLE: Mapping[str, Pointwise] = MappingProxyType(
    {
        **{name: rule for kind in KINDS for name, rule in _chebyshev(kind).items()},
        "aten.special_hermite_polynomial_h.n_scalar": _of_degree(hermite_h),
        "aten.special_hermite_polynomial_he.n_scalar": _of_degree(hermite_he),
        "aten.special_laguerre_polynomial_l.n_scalar": _of_degree(laguerre),
        "aten.special_legendre_polynomial_p.n_scalar": _of_degree(legendre),
    }
)
"""Operator -> rule."""
