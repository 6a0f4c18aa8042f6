"""Reductions, conversions and constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators.record import Operator, each
from fxc.passes.operators.rules import Constant, Conversion, Reduction, python_arguments, shape_of, tensors
from fxc.passes.operators.scalars import INTEGERS, Scalar, computation_dtype, machine_type


def dimensions(op: TorchOp) -> list[int]:
    """The dimensions that ``op`` reduces, ascending."""
    rank = len(shape_of(tensors(op)[0]))
    arguments = python_arguments(op)
    dims: int | list[int] | None = arguments.get("dim", arguments.get("dims"))
    if dims is None or dims == []:
        return list(range(rank))
    return sorted({dim % rank if rank else 0 for dim in (dims if isinstance(dims, list) else [dims])} if rank else [])


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
    """The signed dtype in which ``dtype`` is compared: unsigned numbers are widened, since combining is signed."""
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


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("sum.default sum.dim_IntList", SUM, is_lone=True),
        **each("prims.sum.default", SUM),
        **each("mean.default mean.dim", MEAN, is_lone=True),
        **each("prod.default prod.dim_int", PRODUCT),
        **each("amax.default prims.amax.default", MAXIMUM),
        **each("amin.default prims.amin.default", MINIMUM),
        **each("max.default", replace(MAXIMUM, of_some=True)),
        **each("min.default", replace(MINIMUM, of_some=True)),
        **each("var.correction prims.var.default", VARIANCE),
        **each("std.correction", DEVIATION),
        **each("argmax.default", ARGMAX, is_lone=True),
        **each("argmin.default", ARGMIN, is_lone=True),
        **each("any.default any.dim any.dims", ANY),
        **each("all.default all.dim all.dims", ALL),
        **each("_to_copy.default to.dtype type_as.default prims.convert_element_type.default", Conversion()),
        **each("zeros.default zeros_like.default new_zeros.default", Constant(0)),
        **each("ones.default ones_like.default new_ones.default", Constant(1)),
        **each("full.default full_like.default new_full.default scalar_tensor.default", Constant()),
    }
)
"""Operator -> its record."""
