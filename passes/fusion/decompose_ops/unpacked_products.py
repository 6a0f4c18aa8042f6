"""Products with a matrix that kernels compute from fewer bytes become sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import Tree, dtype_attr, int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype
from fxc.passes.operators.unpacked import unpacked_product
from fxc.passes.rewriting.insertion import insert_call, put_in_place
from fxc.passes.rewriting.matrix_products import transposed


def split_unpacked_product(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """mm(x, t(w)) -> sum(x * w, 2) on the CPU, in float32, if x has few rows and only ``op`` reads w, which kernels compute

    Where n numbers are unpacked from one, those at the same place in it are multiplied together, and where halves are joined,
    those at the same place in each: sum(x[:, ::2] * w[:, ::2] + x[:, 1::2] * w[:, 1::2], 2). Of w with one column per output
    each row is a sum of columns, of one kernel: stack([sum(x[0] * w, 0), sum(x[1] * w, 0)]).
    """
    found = unpacked_product(op)
    if found is None or found.is_linear or not (is_tensor(found.rows.type) and found.rows.type.get_num_dims() == 2):
        return []  # until it is an mm
    rows, pieces, name = found.rows, found.pieces, dtype(op.results[0].type) or ""

    def call(operator: str, *args: Tree, **kwargs: Tree) -> SSAValue:
        return insert_call(ctx, f"aten.{operator}", args, op, kwargs)

    def converted(value: SSAValue, to: str) -> SSAValue:
        return value if name == "float32" else call("_to_copy.default", value, dtype=dtype_attr(to))

    def wide(value: SSAValue, dim: int, piece: tuple[int, int, int]) -> SSAValue:
        """The columns ``piece`` of ``value`` in float32, with a dimension more."""
        value = call("slice.Tensor", value, *map(int_attr, (1, *piece))) if len(pieces) > 1 else value
        return call("unsqueeze.default", converted(value, "float32"), int_attr(dim))

    def row_product(row: int) -> SSAValue:
        factor = converted(call("select.int", rows, int_attr(0), int_attr(row)), "float32")
        product = call("mul.Tensor", call("unsqueeze.default", factor, int_attr(1)), converted(found.matrix, "float32"))
        return call("sum.dim_IntList", product, [int_attr(0)])

    if found.is_turned:
        matrix = transposed(found.matrix, op)
        products = [call("mul.Tensor", wide(rows, 1, each), wide(matrix, 0, each)) for each in pieces]
        total = call("sum.dim_IntList", reduce(lambda a, b: call("add.Tensor", a, b), products), [int_attr(2)])
    else:
        total = call("stack.default", [row_product(row) for row in range(found.count)])
    for value in found.bias:
        total = call("add.Tensor", total, value)
    total = converted(total, name)
    put_in_place(op, [], [(op.results[0], total)])
    return [part for part in [total.owner] if isinstance(part, TorchOp)]
