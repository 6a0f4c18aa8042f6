"""Elementary functions of floats, and rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from fxc.passes.operators.arithmetic import arithmetic, named
from fxc.passes.operators.record import Activation, Operator, each
from fxc.passes.operators.rules import Formula, Pointwise
from fxc.passes.operators.scalars import Scalar, where


def function(name: str) -> Pointwise:
    return arithmetic(lambda x: x.math(name))


def functions(cost: int, names: str) -> dict[str, Operator]:
    """Records of operators that have the name of their function, or that name after a prefix, as ``special_erf``."""
    stems = ((name, name.removeprefix("prims.").removeprefix("special_").replace("arc", "a")) for name in names.split())
    records = (each(f"{name}.default", function(stem), cost=cost) for name, stem in stems)
    return {overload: record for record_of in records for overload, record in record_of.items()}


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
        **named(frac, angle),
        **functions(4, "rsqrt prims.rsqrt sqrt prims.sqrt"),
        **functions(16, "exp prims.exp exp2 special_exp2 expm1 special_expm1 sin cos tan sinh cosh"),
        **functions(16, "log prims.log log2 log10 log1p special_log1p"),
        **functions(16, "asin arcsin acos arccos atan arctan asinh arcsinh acosh arccosh atanh arctanh"),
        **functions(24, "erf special_erf erfc special_erfc erfinv special_erfinv"),
        **each("tanh.default", function("tanh"), cost=16, onednn=Activation("tanh")),
        **each("atan2.default arctan2.default", arithmetic(lambda x, y: x.math("atan2", y)), cost=16),
        **each("lgamma.default special_gammaln.default", function("lgamma"), cost=24),
        **each("ceil.default", rounding("ceil")),
        **each("floor.default", rounding("floor")),
        **each("trunc.default fix.default", rounding("trunc")),
        **each("round.default", rounding("roundeven")),
        **each("round.decimals special_round.default", arithmetic(round_decimals)),
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
        **each("special_entr.default", arithmetic(entropy)),
        **each("deg2rad.default", arithmetic(lambda x: x * (math.pi / 180))),
        **each("rad2deg.default", arithmetic(lambda x: x * (180 / math.pi))),
    }
)
