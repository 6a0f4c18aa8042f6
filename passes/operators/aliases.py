"""Other names of operators: calls of them are calls of those with a rule, argument for argument."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        f"aten.{alias}": f"aten.{name}"
        for alias, name in (
            ("arccos.default", "acos.default"),
            ("arccosh.default", "acosh.default"),
            ("arcsin.default", "asin.default"),
            ("arcsinh.default", "asinh.default"),
            ("arctan.default", "atan.default"),
            ("arctan2.default", "atan2.default"),
            ("arctanh.default", "atanh.default"),
            ("greater.Scalar", "gt.Scalar"),
            ("greater.Tensor", "gt.Tensor"),
            ("greater_equal.Scalar", "ge.Scalar"),
            ("greater_equal.Tensor", "ge.Tensor"),
            ("less.Scalar", "lt.Scalar"),
            ("less.Tensor", "lt.Tensor"),
            ("less_equal.Scalar", "le.Scalar"),
            ("less_equal.Tensor", "le.Tensor"),
            ("not_equal.Scalar", "ne.Scalar"),
            ("not_equal.Tensor", "ne.Tensor"),
            ("multiply.Scalar", "mul.Scalar"),
            ("subtract.Scalar", "sub.Scalar"),
            ("special_digamma.default", "digamma.default"),
            ("special_erf.default", "erf.default"),
            ("special_erfinv.default", "erfinv.default"),
            ("special_exp2.default", "exp2.default"),
            ("special_expit.default", "sigmoid.default"),
            ("special_expm1.default", "expm1.default"),
            ("special_gammaln.default", "lgamma.default"),
            ("special_i0.default", "i0.default"),
            ("special_log1p.default", "log1p.default"),
            ("special_logit.default", "logit.default"),
            ("special_multigammaln.default", "mvlgamma.default"),
            ("special_polygamma.default", "polygamma.default"),
            ("special_psi.default", "digamma.default"),
            ("special_round.default", "round.decimals"),
            ("special_sinc.default", "sinc.default"),
            ("special_xlogy.default", "xlogy.Tensor"),
            ("special_xlogy.other_scalar", "xlogy.Scalar_Other"),
            ("special_xlogy.self_scalar", "xlogy.Scalar_Self"),
        )
    }
)
"""Operator -> the operator whose rule it has."""
