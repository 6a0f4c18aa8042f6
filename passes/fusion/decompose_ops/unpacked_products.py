"""Products of few rows with a matrix that kernels compute from fewer bytes, such as int8 weights times scales."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod

from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import contiguous_strides, device, element_bytes, is_tensor, strides
from fxc.dialects.attributes.values import Tree, dtype_attr, int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, is_floating
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import has_formula, operator_of, role_of
from fxc.passes.rewriting.decomposition import put_in_place
from fxc.passes.rewriting.insertion import insert_call
from fxc.passes.rewriting.matrix_products import matrix_shape, static_sizes, transposed

_MOST_ROWS = {"float32": 16, "bfloat16": 4}
"""The number of rows, by dtype, up to which it is faster to compute the matrix for each row than to write it to memory."""
_FLOAT8 = 8
"""How much more it costs to compute a matrix from float8 than from int8."""
_MOST_PACKED = 8
"""The most numbers that are packed in one."""


def split_unpacked_product(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """mm(x, t(w)) -> sum(x * w, 2) on the CPU, in float32, if x has few rows and only ``op`` reads w, which kernels compute

    Of w with one column per output x has one row. Where n numbers are unpacked from one, those at the same place in it are
    multiplied together: sum(x[:, ::2] * w[:, ::2] + x[:, 1::2] * w[:, 1::2], 2).
    """
    factors = operator_of(op).factors
    if factors is None or factors.is_turned or not {"alpha", "beta"}.isdisjoint(op.bound()):
        return []
    type = op.results[0].type
    if not is_tensor(type) or device(type) != "cpu":
        return []
    [*bias, rows, matrix], name = op.operands, dtype(type) or ""
    unpacking = list(_unpacking(matrix))
    if name not in _MOST_ROWS or strides(type) is not None or any(role_of(each) is Role.CONCATENATION for each in unpacking):
        return []
    (count, length), shape = (matrix_shape(value.type) or (0, 0) for value in (rows, matrix))
    if not count or 0 in shape or not any(map(_widens, unpacking)):
        return []
    steps = strides(matrix.type) or contiguous_strides(shape)  # type: ignore[arg-type]
    packed = max([1, *map(_last_size, unpacking)]) if (is_turned := steps[1] != 1) else 1
    cost = _FLOAT8 if any(_is_float8(value) for each in unpacking for value in each.operands) else packed
    if length % packed or count > (max(_MOST_ROWS[name] // cost, 1) if is_turned else 1):
        return []

    def call(operator: str, *args: Tree, **kwargs: Tree) -> SSAValue:
        return insert_call(ctx, f"aten.{operator}", args, op, kwargs)

    def wide(value: SSAValue, dim: int, first: int) -> SSAValue:
        """Each ``packed``-th column of ``value`` in float32, with a dimension more."""
        if packed > 1:
            value = call("slice.Tensor", value, *map(int_attr, (1, first, length, packed)))
        value = value if name == "float32" else call("_to_copy.default", value, dtype=dtype_attr("float32"))
        return call("unsqueeze.default", value, int_attr(dim))

    matrix = transposed(matrix, op) if is_turned else matrix
    products = [call("mul.Tensor", wide(rows, 1 if is_turned else 2, first), wide(matrix, 0, first)) for first in range(packed)]
    summed = reduce(lambda a, b: call("add.Tensor", a, b), products)
    total = call("sum.dim_IntList", summed, [int_attr(2 if is_turned else 1)])
    for value in bias:
        total = call("add.Tensor", total, value)
    total = total if name == "float32" else call("_to_copy.default", total, dtype=dtype_attr(name))
    put_in_place(op, [], [(op.results[0], total)])
    return [part for part in [total.owner] if isinstance(part, TorchOp)]


def _unpacking(value: SSAValue) -> Iterator[TorchOp]:
    """The ops by which kernels compute ``value`` from about as many numbers, and whose results nothing else reads."""
    op = value.owner
    if isinstance(op, TorchOp) and has_formula(op) and len(list(value.uses)) == 1:
        yield op
        for operand in _large(op):
            yield from _unpacking(operand)


def _large(op: TorchOp) -> list[SSAValue]:
    size = prod(static_sizes(op.results[0].type))
    return [operand for operand in op.operands if _MOST_PACKED * prod(static_sizes(operand.type)) >= size]


def _widens(op: TorchOp) -> bool:
    return any(0 < _bytes(operand) < _bytes(op.results[0]) for operand in _large(op))


def _is_float8(value: SSAValue) -> bool:
    return is_floating(value.type) and _bytes(value) == 1


def _bytes(value: SSAValue) -> int:
    return (element_bytes(value.type.element_type) or 0) if is_tensor(value.type) else 0


def _last_size(op: TorchOp) -> int:
    """The last size, where it may be the number of numbers that are unpacked from one, else 1."""
    sizes = static_sizes(op.results[0].type)
    return sizes[-1] if len(sizes) > 2 and sizes[-1] <= _MOST_PACKED else 1
