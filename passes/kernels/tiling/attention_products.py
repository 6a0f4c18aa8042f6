"""The two products of an attention, and what is between them and the group of its softmax."""

from __future__ import annotations

from math import prod

from xdsl.ir import Operation, SSAValue

from fxc.dialects.attributes.types import contiguous_strides, is_tensor, strides
from fxc.dialects.base.effects import aliases, is_view
from fxc.dialects.fusion import GroupOp
from fxc.dialects.torch_ops import TorchOp
from fxc.passes.analysis.requires_grad import needs_gradient
from fxc.passes.kernels.tiling.products import BATCH, COLUMN, INNER, ROW, SMALLEST, Product

LONGEST = 256
"""The largest number of columns of queries and values: blocks have all of them."""


def is_plain(product: Product) -> bool:
    """Whether ``product`` is not scaled, needs no gradient, and has factors with at least two elements in each dimension."""
    factors = (product.left, (ROW, INNER)), (product.right, (INNER, COLUMN))
    return (
        product.bias is None
        and not needs_gradient(product.op)
        and product.alpha == 1
        and product.extents[INNER] > 1
        and all(factor.form.factor(loop) for factor, loops in factors for loop in loops)
        and _is_contiguous(product.result)
    )


def fit(scores: Product, output: Product) -> bool:
    """Whether ``scores`` has the extents of the left factor of ``output``, in its order, and blocks have room for them."""
    batch, rows, keys, depth = scores.extents
    left = {loop: step for loop, step in {BATCH: rows * keys, ROW: keys, INNER: 1}.items() if loop != BATCH or batch > 1}
    return (
        (batch, rows, keys) == (output.extents[BATCH], output.extents[ROW], output.extents[INNER])
        and {loop: output.left.form.factor(loop) for loop in left} == left
        and min(rows, keys) >= SMALLEST
        and max(depth, output.extents[COLUMN]) <= LONGEST
    )


def _is_contiguous(value: SSAValue) -> bool:
    assert is_tensor(value.type)
    return strides(value.type) in (None, contiguous_strides(value.type.get_shape()))


def behind_views(value: SSAValue, reader: GroupOp | None = None) -> tuple[SSAValue, list[Operation]] | None:
    """The value of which ``value`` is a view in the same order, and the views; None where one has another reader.

    ``reader`` contains the readers of ``value``, which has one use without it.
    """
    views = list[Operation]()
    while True:
        inside = reader is not None and not views and all(reader.is_ancestor(use.operation) for use in value.uses)
        if not inside and not value.has_one_use():
            return None
        op = value.owner
        source = next((source for _, source in aliases(op)), None) if isinstance(op, TorchOp) and is_view(op) else None
        if source is None or not _is_same_memory(value, source):
            return value, views
        assert isinstance(op, Operation)
        views.append(op)
        value = source


def _is_same_memory(view: SSAValue, source: SSAValue) -> bool:
    """Whether ``view`` has the elements of ``source`` in the same order: both are contiguous, with as many elements."""
    types = view.type, source.type
    if not all(is_tensor(type) and type.has_static_shape() for type in types):
        return False
    elements = {type.element_type for type in types if is_tensor(type)}
    counts = {prod(type.get_shape()) for type in types if is_tensor(type)}
    return len(elements) == len(counts) == 1 and _is_contiguous(view) and _is_contiguous(source)
