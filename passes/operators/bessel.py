"""Bessel and Airy functions as arithmetic formulas, from Cephes like PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from fxc.passes.operators import special_tables as tables
from fxc.passes.operators.arithmetic import arithmetic
from fxc.passes.operators.record import Operator, each
from fxc.passes.operators.rules import Formula
from fxc.passes.operators.scalars import Scalar, where
from fxc.passes.operators.special import chebyshev, polynomial

_SERIES = 14
"""Number of terms of Airy's power series: enough for double precision up to 2.09."""


def _first_kind(x: Scalar, small: Sequence[float], large: Sequence[float]) -> tuple[Scalar, Scalar]:
    """|x|, and the scaled function of it. Up to 8, the factor x of I1 is missing."""
    size = x.abs()
    near, far = chebyshev(size * 0.5 - 2, small), chebyshev(32 / size - 2, large) / size.math("sqrt")
    return size, where(size <= 8, near, far)


def i0e(x: Scalar) -> Scalar:
    return _first_kind(x, tables.I0_SMALL, tables.I0_LARGE)[1]


def i0(x: Scalar) -> Scalar:
    size, scaled = _first_kind(x, tables.I0_SMALL, tables.I0_LARGE)
    return size.math("exp") * scaled


def i1e(x: Scalar) -> Scalar:
    size, scaled = _first_kind(x, tables.I1_SMALL, tables.I1_LARGE)
    result = where(size <= 8, scaled * size, scaled)
    return where(x < 0, -result, result)


def i1(x: Scalar) -> Scalar:
    return i1e(x) * x.abs().math("exp")


def _second_kind(small: Callable[[Scalar], Scalar], large: Sequence[float], *, scaled: bool) -> Formula:
    """K by the formula ``small`` up to 2 and the series ``large`` beyond. ``scaled``: times exp(x)."""

    def formula(x: Scalar) -> Scalar:
        near = small(x)
        far = chebyshev(8 / x - 2, large) / x.math("sqrt")
        if scaled:
            near = near * x.math("exp")
        else:
            far = far * (-x).math("exp")
        return where(x.eq(0), math.inf, where(x < 0, math.nan, where(x <= 2, near, far)))

    return formula


def _small_k0(x: Scalar) -> Scalar:
    return chebyshev(x * x - 2, tables.K0_SMALL) - (x * 0.5).math("log") * i0(x)


def _small_k1(x: Scalar) -> Scalar:
    return (x * 0.5).math("log") * i1(x) + chebyshev(x * x - 2, tables.K1_SMALL) / x


def _oscillation(x: Scalar, order: int) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Beyond 5, a Bessel function is a sum of cosine and sine of a phase: both factors, the phase and the amplitude."""
    inverse = 5 / x
    square = inverse * inverse
    pp, pq, qp, qq = ((tables.J0_PP, tables.J0_PQ, tables.J0_QP, tables.J0_QQ),
                      (tables.J1_PP, tables.J1_PQ, tables.J1_QP, tables.J1_QQ))[order]  # fmt: skip
    first = polynomial(square, pp) / polynomial(square, pq)
    second = inverse * (polynomial(square, qp) / polynomial(square, qq))
    return first, second, x - (order + 0.5) * (math.pi / 2), math.sqrt(2 / math.pi) / x.math("sqrt")


def _far_j(x: Scalar, order: int) -> Scalar:
    first, second, phase, amplitude = _oscillation(x, order)
    return (first * phase.math("cos") - second * phase.math("sin")) * amplitude


def _far_y(x: Scalar, order: int) -> Scalar:
    first, second, phase, amplitude = _oscillation(x, order)
    return (first * phase.math("sin") + second * phase.math("cos")) * amplitude


def j0(x: Scalar) -> Scalar:
    size = x.abs()
    square = size * size
    near = (square - 5.78318596294678452118) * (square - 30.4712623436620863991)
    near = near * polynomial(square, tables.J0_RP) / polynomial(square, tables.J0_RQ)
    near = where(size < 1e-5, 1 - square * 0.25, near)
    return where(size <= 5, near, _far_j(size, 0))


def j1(x: Scalar) -> Scalar:
    size = x.abs()
    square = size * size
    near = polynomial(square, tables.J1_RP) / polynomial(square, tables.J1_RQ) * size
    near = near * (square - 14.6819706421238932572) * (square - 49.2184563216946036703)
    result = where(size <= 5, near, _far_j(size, 1))
    return where(x < 0, -result, result)


def _y(near: Callable[[Scalar], Scalar], order: int) -> Formula:
    def formula(x: Scalar) -> Scalar:
        small = where(x.eq(0), -math.inf, where(x < 0, math.nan, near(x)))
        return where(x <= 5, small, _far_y(x, order))

    return formula


def _near_y0(x: Scalar) -> Scalar:
    square = x * x
    return polynomial(square, tables.Y0_YP) / polynomial(square, tables.Y0_YQ) + 2 / math.pi * x.math("log") * j0(x)


def _near_y1(x: Scalar) -> Scalar:
    square = x * x
    rational = x * (polynomial(square, tables.Y1_YP) / polynomial(square, tables.Y1_YQ))
    return rational + 2 / math.pi * (j1(x) * x.math("log") - 1 / x)


def spherical_j0(x: Scalar) -> Scalar:
    square = x * x
    series = polynomial(square, [(-1) ** k / math.factorial(2 * k + 1) for k in reversed(range(7))])
    near = where(x.abs() < 0.5, series, x.math("sin") / x)
    return where(x.abs().eq(math.inf), 0, near)


def airy(x: Scalar) -> Scalar:
    size = x.abs()
    root = size.math("sqrt")
    zeta = 2 * size * root / 3
    inverse = 1 / zeta
    scale = 5.64189583547756286948e-01 / root.math("sqrt")
    decaying = scale * 0.5 * polynomial(inverse, tables.AIRY_N) / polynomial(inverse, tables.AIRY_D) / zeta.math("exp")
    square, phase = inverse * inverse, zeta + math.pi / 4
    sine = 1 + square * polynomial(square, tables.AIRY_FN) / polynomial(square, tables.AIRY_FD)
    cosine = inverse * polynomial(square, tables.AIRY_GN) / polynomial(square, tables.AIRY_GD)
    oscillating = scale * (phase.math("sin") * sine - phase.math("cos") * cosine)
    result = where(x < -2.09, oscillating, where(x >= 2.09, decaying, _airy_series(x)))
    return where(size.eq(math.inf), math.nan, where(x > 103.892, 0, result))


def _airy_series(x: Scalar) -> Scalar:
    cube = x * x * x
    f, g = x.constant(1), x
    m, n = f, g
    for k in range(1, _SERIES):
        m, n = m * cube / (3 * k * (3 * k - 1)), n * cube / (3 * k * (3 * k + 1))
        f, g = f + m, g + n
    return 0.355028053887817239260 * f - 0.258819403792806798405 * g


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("i0.default special_modified_bessel_i0.default special_i0.default", arithmetic(i0)),
        **each("special_i0e.default", arithmetic(i0e)),
        **each("special_i1.default special_modified_bessel_i1.default", arithmetic(i1)),
        **each("special_i1e.default", arithmetic(i1e)),
        **each("special_modified_bessel_k0.default", arithmetic(_second_kind(_small_k0, tables.K0_LARGE, scaled=False))),
        **each("special_modified_bessel_k1.default", arithmetic(_second_kind(_small_k1, tables.K1_LARGE, scaled=False))),
        **each("special_scaled_modified_bessel_k0.default", arithmetic(_second_kind(_small_k0, tables.K0_LARGE, scaled=True))),
        **each("special_scaled_modified_bessel_k1.default", arithmetic(_second_kind(_small_k1, tables.K1_LARGE, scaled=True))),
        **each("special_bessel_j0.default", arithmetic(j0)),
        **each("special_bessel_j1.default", arithmetic(j1)),
        **each("special_bessel_y0.default", arithmetic(_y(_near_y0, 0))),
        **each("special_bessel_y1.default", arithmetic(_y(_near_y1, 1))),
        **each("special_spherical_bessel_j0.default", arithmetic(spherical_j0)),
        **each("special_airy_ai.default", arithmetic(airy)),
    }
)
