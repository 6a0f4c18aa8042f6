"""Functions of floats, and rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fxc.passes.operators.arithmetic import arithmetic
from fxc.passes.operators.rules import Formula, Pointwise
from fxc.passes.operators.scalars import Scalar, where

_MATH = (
    "acos acosh asin asinh atan atanh cos cosh erf exp exp2 expm1 log log10 log1p log2 rsqrt sin sinh sqrt tan tanh "
    "erfc erfinv lgamma"
)
"""Operators that are the function of the same name."""


def function(name: str) -> Pointwise:
    return arithmetic(lambda x: x.math(name))


def rounding(name: str) -> Pointwise:
    return arithmetic(lambda x: x.math(name) if x.is_float else x)


def round_decimals(x: Scalar, decimals: int) -> Scalar:
    if not x.is_float:
        return x
    factor = 10.0 ** abs(decimals)
    return (x * factor).math("roundeven") / factor if decimals > 0 else (x / factor).math("roundeven") * factor


def frac(x: Scalar) -> Scalar:
    return x - x.math("trunc")


def sigmoid(x: Scalar) -> Scalar:
    return 1 / (1 + (-x).math("exp"))


def logit(x: Scalar, eps: float | None = None) -> Scalar:
    if eps is not None:
        x = where(x < eps, x.constant(eps), where(x > 1 - eps, x.constant(1 - eps), x))
    return (x / (1 - x)).math("log")


def product_with(name: str) -> Formula:
    """x * f(y), which is 0 where x is, but for a y that is NaN."""

    def formula(x: Scalar, y: Scalar) -> Scalar:
        return where(y.is_nan(), math.nan, where(x.eq(0), 0, x * y.math(name)))

    return formula


def logaddexp(exp: str, log: Formula) -> Formula:
    """log(exp(x) + exp(y)), without overflow."""

    def formula(x: Scalar, y: Scalar) -> Scalar:
        same = x.eq(y) & x.abs().eq(math.inf)
        return where(same, x, x.maximum(y) + log((-(x - y).abs()).math(exp)))

    return formula


def sinc(x: Scalar) -> Scalar:
    angle = x * math.pi
    return where(x.eq(0), 1, angle.math("sin") / angle)


def angle(x: Scalar) -> Scalar:
    return where(x.is_nan(), x, where(x < 0, x.constant(math.pi), 0))


def entropy(x: Scalar) -> Scalar:
    return where(x.is_nan(), x, where(x > 0, -x * x.math("log"), where(x.eq(0), x.constant(0), -math.inf)))


def _each(names: str, rule: Pointwise) -> dict[str, Pointwise]:
    return {f"aten.{name}": rule for name in names.split()}


def _log1p_over_log2(x: Any) -> Scalar:
    return x.math("log1p") * (1 / math.log(2))


TABLE: Mapping[str, Pointwise] = MappingProxyType(
    {
        **{f"aten.{name}.default": function(name) for name in _MATH.split()},
        **_each("special_erfc.default", function("erfc")),
        **_each("ceil.default", rounding("ceil")),
        **_each("floor.default", rounding("floor")),
        **_each("trunc.default fix.default", rounding("trunc")),
        **_each("round.default", rounding("roundeven")),
        **_each("round.decimals", arithmetic(round_decimals)),
        **_each("frac.default", arithmetic(frac)),
        **_each("sigmoid.default", arithmetic(sigmoid)),
        **_each("logit.default", arithmetic(logit)),
        **_each("atan2.default", arithmetic(lambda x, y: x.math("atan2", y))),
        **_each("xlogy.Tensor xlogy.Scalar_Other xlogy.Scalar_Self", arithmetic(product_with("log"))),
        **_each("special_xlog1py.default", arithmetic(product_with("log1p"))),
        **_each("special_xlog1py.other_scalar special_xlog1py.self_scalar", arithmetic(product_with("log1p"))),
        **_each("logaddexp.default", arithmetic(logaddexp("exp", lambda x: x.math("log1p")))),
        **_each("logaddexp2.default", arithmetic(logaddexp("exp2", _log1p_over_log2))),
        **_each("sinc.default", arithmetic(sinc)),
        **_each("special_ndtr.default", arithmetic(lambda x: ((x * math.sqrt(0.5)).math("erf") + 1) * 0.5)),
        **_each("ldexp.Tensor", arithmetic(lambda x, y: x * x.constant(2).math("powf", y))),
        **_each("angle.default", arithmetic(angle)),
        **_each("special_entr.default", arithmetic(entropy)),
        **_each("deg2rad.default", arithmetic(lambda x: x * (math.pi / 180))),
        **_each("rad2deg.default", arithmetic(lambda x: x * (180 / math.pi))),
    }
)
"""Operator -> rule."""
