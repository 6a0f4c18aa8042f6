"""Rewrite a batched matrix product of several batch dimensions as one ``bmm``.

A ``bmm`` can write into a given buffer, and a copied operand can be released before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from xdsl.ir import SSAValue

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import enum_attr, int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import torch_op
from fxc.passes.rewriting.decomposition import put_in_place
from fxc.passes.rewriting.insertion import insert_call
from fxc.passes.rewriting.matrix_products import static_sizes


def split_stacked_product(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """matmul(x, y) -> view(bmm(view(x), view(y))), if both are stacks of as many matrices

    A stack whose matrices are not at a constant stride is copied.
    """
    if not _are_stacks(op):
        return []
    left, right = (_as_one_stack(ctx, value, op) for value in op.operands)
    [result] = op.results
    product = insert_call(ctx, "aten.bmm.default", [left, right], op)
    shape = [int_attr(size) for size in static_sizes(result.type)]
    view = torch_op("aten.view.default").build_call([product, shape], {}, [result.type], location=op.location)
    put_in_place(op, [view], [(result, view.results[0])])
    return [view]


def _are_stacks(op: TorchOp) -> bool:
    """Whether ``op`` multiplies two non-empty stacks of equal, several batch dimensions, and its result is dense."""
    left, right = (static_sizes(value.type) for value in op.operands)
    if not all(len(_steps(value)) == len(static_sizes(value.type)) for value in op.operands):
        return False
    alike = len(left) == len(right) > 3 and left[:-2] == right[:-2] and 0 not in left and 0 not in right
    result = op.results[0].type
    return alike and is_tensor(result) and types.strides(result) is None and len(static_sizes(result)) == len(left)


def _as_one_stack(ctx: FxcContext, value: SSAValue, before: TorchOp) -> SSAValue:
    """``value`` with a single batch dimension: a view, or a copy that retains the layout of each matrix."""
    sizes, steps = static_sizes(value.type), _steps(value)
    turn = [int_attr(-1), int_attr(-2)]
    is_turned = steps[-1] != 1 and steps[-2] == 1
    if not _have_one_stride(sizes[:-2], steps[:-2]):
        if is_turned:
            value = insert_call(ctx, "aten.transpose.int", [value, *turn], before)
        order = {"memory_format": enum_attr("contiguous_format")}
        value = insert_call(ctx, "aten.clone.default", [value], before, order)
        if is_turned:
            value = insert_call(ctx, "aten.transpose.int", [value, *turn], before)
    one = [int_attr(size) for size in (prod(sizes[:-2]), *sizes[-2:])]
    return insert_call(ctx, "aten.view.default", [value, one], before)


def _steps(value: SSAValue) -> tuple[int, ...]:
    """The static strides of a tensor of static sizes."""
    assert is_tensor(value.type)
    steps = types.strides(value.type) or types.contiguous_strides(static_sizes(value.type))
    return tuple(step for step in steps if isinstance(step, int))


def _have_one_stride(sizes: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    """Whether these dimensions have a constant stride, so that they can be merged into one."""
    pairs = [(size, step) for size, step in zip(sizes, steps, strict=True) if size != 1]
    return all(outer == size * step for (_, outer), (size, step) in pairwise(pairs))
