"""Queries on a tensor that its type answers: size, stride, number of elements, rank."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.attributes.types import Dim, IntType, contiguous_strides, is_tensor, layout, sizes, strides
from fxc.dialects.attributes.values import int_attr, isa
from fxc.dialects.torch_ops import TorchOp

_INTEGER = re.compile(r"-?\d+")


def _size(type: TensorType) -> tuple[Dim, ...]:
    return sizes(type)


def _stride(type: TensorType) -> tuple[Dim, ...]:
    known = strides(type)
    if known is not None:
        return known
    shape = [size for size in sizes(type) if isinstance(size, int)]
    return contiguous_strides(shape) if len(shape) == len(sizes(type)) else ("",) * len(sizes(type))


def _numel(type: TensorType) -> tuple[Dim, ...]:
    shape = [size for size in sizes(type) if isinstance(size, int)]
    return (math.prod(shape) if len(shape) == len(sizes(type)) else "",)


def _rank(type: TensorType) -> tuple[Dim, ...]:
    return (len(sizes(type)),)


QUERIES: dict[str, Callable[[TensorType], tuple[Dim, ...]]] = {
    "aten.sym_size.int": _size,
    "aten.size.int": _size,
    "aten.sym_stride.int": _stride,
    "aten.stride.int": _stride,
    "aten.sym_numel.default": _numel,
    "aten.numel.default": _numel,
    "aten.dim.default": _rank,
}
"""Operator -> all answers from the type; the argument ``dim``, where the operator has it, selects one."""


def answer(op: Operation) -> Attribute | None:
    """The static result of a query, or the integer in the type of a result; None where it is not static."""
    if len(op.results) != 1 or not isinstance(type := op.results[0].type, IntType):
        return None
    if _INTEGER.fullmatch(type.expression.data):
        return int_attr(int(type.expression.data))
    if not isinstance(op, TorchOp) or (query := QUERIES.get(op.operator)) is None:
        return None
    tensor, dim = op.argument("self"), op.argument("dim")
    if not isa(tensor, SSAValue) or not is_tensor(tensor.type) or layout(tensor.type) != "strided":
        return None
    found = query(tensor.type)
    index = dim.value.data if isinstance(dim, IntegerAttr) else 0
    if isinstance(dim, SSAValue) or not -len(found) <= index < len(found):
        return None
    size = found[index]
    return int_attr(size) if isinstance(size, int) else None
