"""Elementary functions of floats, and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from fxc.passes.operators.arithmetic import arithmetic
from fxc.passes.operators.record import Activation, Operator, each
from fxc.passes.operators.rules import Formula, Pointwise
from fxc.passes.operators.scalars import Scalar, where


def function(name: str) -> Pointwise:
    return arithmetic(lambda x: x.math(name))


def rounding(name: str) -> Pointwise:
    return arithmetic(lambda x: x.math(name) if x.is_float else x)


def round_decimals(x: Scalar, decimals: int = 0) -> Scalar:
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
    """x * f(y), which is 0 if x is 0, unless y is NaN."""

    def formula(x: Scalar, y: Scalar) -> Scalar:
        return where(y.is_nan(), math.nan, where(x.eq(0), 0, x * y.math(name)))

    return formula


def logaddexp(exp: str, log: Callable[[Scalar], Scalar]) -> Formula:
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


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("rsqrt.default prims.rsqrt.default", function("rsqrt"), cost=4),
        **each("sqrt.default prims.sqrt.default", function("sqrt"), cost=4),
        **each("exp.default prims.exp.default", function("exp"), cost=16),
        **each("exp2.default special_exp2.default", function("exp2"), cost=16),
        **each("expm1.default special_expm1.default", function("expm1"), cost=16),
        **each("log.default prims.log.default", function("log"), cost=16),
        **each("log2.default", function("log2"), cost=16),
        **each("log10.default", function("log10"), cost=16),
        **each("log1p.default special_log1p.default", function("log1p"), cost=16),
        **each("sin.default", function("sin"), cost=16),
        **each("cos.default", function("cos"), cost=16),
        **each("tan.default", function("tan"), cost=16),
        **each("sinh.default", function("sinh"), cost=16),
        **each("cosh.default", function("cosh"), cost=16),
        **each("tanh.default", function("tanh"), cost=16, onednn=Activation("tanh")),
        **each("asin.default arcsin.default", function("asin"), cost=16),
        **each("acos.default arccos.default", function("acos"), cost=16),
        **each("atan.default arctan.default", function("atan"), cost=16),
        **each("asinh.default arcsinh.default", function("asinh"), cost=16),
        **each("acosh.default arccosh.default", function("acosh"), cost=16),
        **each("atanh.default arctanh.default", function("atanh"), cost=16),
        **each("atan2.default arctan2.default", arithmetic(lambda x, y: x.math("atan2", y)), cost=16),
        **each("erf.default special_erf.default", function("erf"), cost=24),
        **each("erfc.default special_erfc.default", function("erfc"), cost=24),
        **each("erfinv.default special_erfinv.default", function("erfinv"), cost=24),
        **each("lgamma.default special_gammaln.default", function("lgamma"), cost=24),
        **each("ceil.default", rounding("ceil")),
        **each("floor.default", rounding("floor")),
        **each("trunc.default fix.default", rounding("trunc")),
        **each("round.default", rounding("roundeven")),
        **each("round.decimals special_round.default", arithmetic(round_decimals)),
        **each("frac.default", arithmetic(frac)),
        **each("sigmoid.default special_expit.default", arithmetic(sigmoid), cost=16, onednn=Activation("sigmoid")),
        **each("logit.default special_logit.default", arithmetic(logit), cost=16),
        **each("xlogy.Tensor xlogy.Scalar_Other xlogy.Scalar_Self", arithmetic(product_with("log")), cost=16),
        **each("special_xlogy.default special_xlogy.other_scalar", arithmetic(product_with("log")), cost=16),
        **each("special_xlogy.self_scalar", arithmetic(product_with("log")), cost=16),
        **each("special_xlog1py.default special_xlog1py.other_scalar", arithmetic(product_with("log1p"))),
        **each("special_xlog1py.self_scalar", arithmetic(product_with("log1p"))),
        **each("logaddexp.default", arithmetic(logaddexp("exp", lambda x: x.math("log1p"))), cost=16),
        **each("logaddexp2.default", arithmetic(logaddexp("exp2", lambda x: x.math("log1p") * (1 / math.log(2))))),
        **each("sinc.default special_sinc.default", arithmetic(sinc)),
        **each("special_ndtr.default", arithmetic(lambda x: ((x * math.sqrt(0.5)).math("erf") + 1) * 0.5)),
        **each("ldexp.Tensor", arithmetic(lambda x, y: x * x.constant(2).math("powf", y))),
        **each("angle.default", arithmetic(angle)),
        **each("special_entr.default", arithmetic(entropy)),
        **each("deg2rad.default", arithmetic(lambda x: x * (math.pi / 180))),
        **each("rad2deg.default", arithmetic(lambda x: x * (180 / math.pi))),
    }
)
"""Operator -> its record."""
