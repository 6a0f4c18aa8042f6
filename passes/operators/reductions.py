"""Reductions, conversions and constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators.rules import Constant, Conversion, Reduction, python_arguments, shape_of, tensors
from fxc.passes.operators.scalars import INTEGERS, Scalar, computation_dtype, machine_type


def dimensions(op: TorchOp) -> list[int]:
    """The dimensions that ``op`` reduces, ascending."""
    rank = len(shape_of(tensors(op)[0]))
    arguments = python_arguments(op)
    dims = arguments.get("dim", arguments.get("dims"))
    if dims is None or dims == []:
        return list(range(rank))
    return sorted({dim % rank if rank else 0 for dim in (dims if isinstance(dims, (list, tuple)) else [dims])} if rank else [])


def keeps_dimensions(op: TorchOp) -> bool:
    return bool(python_arguments(op).get("keepdim", False))


def _number(number: int | float | bool) -> Callable[[str], int | float | bool]:
    return lambda dtype: number


def _lowest(dtype: str) -> int | float | bool:
    if dtype not in INTEGERS:
        return -math.inf if dtype != "bool" else False
    return 0 if dtype == "uint8" else -(2 ** (machine_type(dtype).width.data - 1))  # type: ignore[attr-defined]


def _highest(dtype: str) -> int | float | bool:
    if dtype not in INTEGERS:
        return math.inf if dtype != "bool" else True
    return 255 if dtype == "uint8" else 2 ** (machine_type(dtype).width.data - 1) - 1  # type: ignore[attr-defined]


def _sum(a: Scalar, b: Scalar) -> Scalar:
    return a + b


def _maximum(a: Scalar, b: Scalar) -> Scalar:
    return a.maximum(b)


def _minimum(a: Scalar, b: Scalar) -> Scalar:
    return a.minimum(b)


def _signed(dtype: str) -> str:
    """Unsigned numbers are compared as wider ones: what combines has a sign."""
    return "int32" if dtype == "uint8" else computation_dtype(dtype)


def variance(op: TorchOp, total: Scalar, number: int | Scalar) -> Scalar:
    correction = python_arguments(op).get("correction")
    left = number - (1 if correction is None else correction)
    return total / (left.maximum(0) if isinstance(left, Scalar) else max(left, 0))


def deviation(op: TorchOp, total: Scalar, number: int | Scalar) -> Scalar:
    return variance(op, total, number).math("sqrt")


SUM = Reduction(_sum, _number(0))
PRODUCT = Reduction(lambda a, b: a * b, _number(1))
MEAN = Reduction(_sum, _number(0), lambda op, total, number: total / number)
MAXIMUM = Reduction(_maximum, _lowest, accumulation=_signed)
MINIMUM = Reduction(_minimum, _highest, accumulation=_signed)
VARIANCE = Reduction(_sum, _number(0), variance, centred=True)
DEVIATION = Reduction(_sum, _number(0), deviation, centred=True)
ARGMAX = Reduction(_minimum, _highest, extreme=MAXIMUM)
ARGMIN = Reduction(_minimum, _highest, extreme=MINIMUM)
ANY = Reduction(lambda a, b: a | b, _number(False), accumulation=lambda dtype: "bool")
ALL = Reduction(lambda a, b: a & b, _number(True), accumulation=lambda dtype: "bool")


def _each(names: str, rule: Reduction) -> dict[str, Reduction]:
    return {f"aten.{name}": rule for name in names.split()}


TABLE: Mapping[str, Reduction] = MappingProxyType(
    {
        **_each("sum.dim_IntList sum.default", SUM),
        **_each("mean.dim mean.default", MEAN),
        **_each("prod.dim_int prod.default", PRODUCT),
        **_each("amax.default", MAXIMUM),
        **_each("amin.default", MINIMUM),
        **_each("max.default", replace(MAXIMUM, of_some=True)),
        **_each("min.default", replace(MINIMUM, of_some=True)),
        **_each("var.correction", VARIANCE),
        **_each("std.correction", DEVIATION),
        "prims.var.default": VARIANCE,
        "prims.sum.default": SUM,
        "prims.amax.default": MAXIMUM,
        "prims.amin.default": MINIMUM,
        **_each("argmax.default", ARGMAX),
        **_each("argmin.default", ARGMIN),
        **_each("any.default any.dim any.dims", ANY),
        **_each("all.default all.dim all.dims", ALL),
    }
)
"""Operator -> rule."""

_CONVERSIONS = "aten._to_copy.default aten.to.dtype aten.type_as.default prims.convert_element_type.default"
_ZEROS = "zeros.default zeros_like.default new_zeros.default"
_ONES = "ones.default ones_like.default new_ones.default"
_FULL = "full.default full_like.default new_full.default scalar_tensor.default"

SOURCES: Mapping[str, Conversion | Constant] = MappingProxyType(
    {
        **{name: Conversion() for name in _CONVERSIONS.split()},
        **{f"aten.{name}": Constant(0) for name in f"{_ZEROS} {_FULL}".split()},
        **{f"aten.{name}": Constant(1) for name in _ONES.split()},
    }
)
"""Operator -> rule."""
