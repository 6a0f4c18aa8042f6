"""Decompose a product of one row with a matrix into sums of products, which kernels can fuse."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import contiguous_strides, device, is_tensor, strides
from fxc.dialects.attributes.values import Tree, bool_attr, int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, torch_op
from fxc.passes.rewriting.decomposition import put_in_place
from fxc.passes.rewriting.insertion import insert_call
from fxc.passes.rewriting.matrix_products import dense_like, insert, is_transpose, matrix_shape, transposed

_MOST_ROW_MAJOR, _MOST_COLUMN_MAJOR = 1 << 14, 1 << 20
"""The numbers of multiplications, by layout of the matrix, up to which a CPU kernel is faster than a library call.

From the second number on, ``choose-products`` measures how to compute a product.
"""
_MOST_SHORT, _SHORT = 128, 16
"""The maximum number of sums over fewer than ``_SHORT`` contiguous numbers: a short sum takes a kernel constant time."""


def split_row_product(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """mm(x, t(w)) -> sum(x * [w], 2), mm(x, y) -> sum(t(x) * y, 0), if x is one row on the CPU, and sums are short and few"""
    if not _is_one_row(op):
        return []
    row, matrix = op.operands
    steps, (length, columns) = _steps(matrix), matrix_shape(matrix.type)
    if steps[1] == 1 and length * columns <= _MOST_ROW_MAJOR:
        return [_put_sums(op, [transposed(row, op), matrix], (length, columns), dim=0)]
    if steps[0] == 1 and length * columns < _MOST_COLUMN_MAJOR and (length >= _SHORT or columns <= _MOST_SHORT):
        rows = insert_call(ctx, "aten.unsqueeze.default", [_transposed(matrix, op), int_attr(0)], op)
        return [_put_sums(op, [row, rows], (1, columns, length), dim=2)]
    return []


def _is_one_row(op: TorchOp) -> bool:
    """Whether a kernel may compute ``op``, the product of one row with a matrix that has elements."""
    (rows, _), (length, columns) = (matrix_shape(value.type) or (0, 0) for value in op.operands)
    result = op.results[0].type
    if rows != 1 or not length or not columns or not is_tensor(result):
        return False
    return dtype(result) in ("float32", "float64") and device(result) == "cpu" and strides(result) is None


def _steps(matrix: SSAValue) -> tuple[int | str, ...]:
    assert is_tensor(matrix.type)
    return strides(matrix.type) or contiguous_strides(matrix_shape(matrix.type))


def _transposed(matrix: SSAValue, before: TorchOp) -> SSAValue:
    """A transposed view of ``matrix``, or the source of ``matrix`` if that is a transposed view."""
    owner = matrix.owner
    return owner.operands[0] if isinstance(owner, TorchOp) and is_transpose(owner) else transposed(matrix, before)


def _put_sums(op: TorchOp, factors: list[Tree], shape: tuple[int, ...], *, dim: int) -> TorchOp:
    """Replace ``op`` by the sums along ``dim`` of the products of ``factors``, a tensor of ``shape``."""
    result = op.results[0]
    products = insert("aten.mul.Tensor", factors, dense_like(result.type, shape), op)
    sums = torch_op("aten.sum.dim_IntList").build_call(
        [products, [int_attr(dim)], bool_attr(dim == 0)], {}, [result.type], location=op.location
    )
    put_in_place(op, [sums], [(result, sums.results[0])])
    return sums
