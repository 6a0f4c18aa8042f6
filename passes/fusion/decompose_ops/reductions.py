"""Simplification of reductions for kernels: none of single elements, and none of views that join or split dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from fxc.dialects.attributes.types import device, dtype_name, is_tensor, sizes, strides, tensor_type
from fxc.dialects.attributes.values import bool_attr, int_attr
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, integers, is_floating, torch_op
from fxc.passes.fusion.decompose_ops.neighbours import is_computed_by_kernels
from fxc.passes.operators.rules import Reduction, View
from fxc.passes.operators.table import operator_of
from fxc.passes.operators.views import reshape
from fxc.passes.rewriting.decomposition import put_in_place

_SUM, _VIEW = "aten.sum.dim_IntList", "aten.view.default"


def simplify_reduction(op: TorchOp) -> bool:
    """Replace the reduction ``op`` by a simpler form. Returns whether there is one."""
    return _reduces_list(op) and (_add_nothing(op) or _reduce_above_view(op))


def _reduces_list(op: TorchOp) -> bool:
    """Whether ``op`` reduces a list of dimensions, and returns no indices."""
    formula, dim = operator_of(op).formula, op.SCHEMA.by_name.get("dim")
    reduces = isinstance(formula, Reduction) and not formula.centred and formula.extreme is None
    return reduces and dim is not None and "[" in dim.type


def _add_nothing(op: TorchOp) -> bool:
    """sum(x) of single elements -> view(x + 0): a sum starts at zero, so the sum of -0.0 is 0.0"""
    if op.operator != _SUM or (found := _shapes(op)) is None:
        return False
    shape, dims = found
    source, result = op.operands[0], op.results[0]
    if any(shape[dim] != 1 for dim in dims) or dtype(source.type) != dtype(result.type) or not is_floating(result.type):
        return False
    total = torch_op("aten.add.Scalar").build_call([source, int_attr(0)], {}, [source.type], location=op.location)
    _put_with_view(op, total)
    return True


def _reduce_above_view(op: TorchOp) -> bool:
    """reduce(view(x), dims) -> view(reduce(x, other dims))

    The view must be of contiguous memory, and not join or split any of ``dims`` with a dimension that remains.
    """
    found, view = _shapes(op), op.operands[0].owner
    if found is None or not isinstance(view, TorchOp) or operator_of(view).formula != View(reshape):
        return False
    if (origin := _computed_shape(view.operands[0])) is None:
        return False
    reduced = _dims_above(origin, *found)
    if reduced is None or origin == found[0]:
        return False
    rest, result = tuple(size for dim, size in enumerate(origin) if dim not in reduced), op.results[0].type
    assert is_tensor(result)
    changed = {"self": view.operands[0], "dim": [*map(int_attr, reduced)], "keepdim": bool_attr(False)}
    _put_with_view(
        op, op.rebuilt({**op.bound(), **changed}, [tensor_type(dtype_name(result.element_type), rest, device=device(result))])
    )
    return True


def _put_with_view(op: TorchOp, instead: TorchOp) -> None:
    """Replace ``op`` by ``instead``, whose elements are the same in the same order, and a view if the shape differs."""
    result, parts = op.results[0], [instead]
    if instead.results[0].type != result.type:
        assert is_tensor(result.type)
        shape = [int_attr(size) for size in result.type.get_shape()]
        parts.append(torch_op(_VIEW).build_call([instead.results[0], shape], {}, [result.type], location=op.location))
    put_in_place(op, parts, [(result, parts[-1].results[0])])


def _shapes(op: TorchOp) -> tuple[tuple[int, ...], list[int]] | None:
    """The shape that ``op`` reduces, and the reduced dimensions; None unless both tensors are contiguous with static sizes."""
    shape, dims = _static_shape(op.operands[0].type), integers(op.bound().get("dim"))
    if shape is None or not dims or _static_shape(op.results[0].type) is None:
        return None
    return shape, [dim % len(shape) for dim in dims]


def _computed_shape(value: SSAValue) -> tuple[int, ...] | None:
    owner = value.owner
    return _static_shape(value.type) if isinstance(owner, Operation) and is_computed_by_kernels(owner) else None


def _static_shape(type: object) -> tuple[int, ...] | None:
    """The static sizes of a contiguous, nonempty tensor with at least one dimension; None for any other."""
    if not is_tensor(type) or strides(type) is not None:
        return None
    found = tuple(size for size in sizes(type) if isinstance(size, int) and size > 0)
    return found if found and len(found) == type.get_num_dims() else None


def _dims_above(origin: Sequence[int], shape: Sequence[int], dims: Sequence[int]) -> list[int] | None:
    """The dimensions of ``origin`` that are ``dims`` of its view of ``shape``; None where one is only partly reduced."""
    found = list[int]()
    for sources, targets in _common_groups(origin, shape):
        going = {dim in dims for dim in targets if shape[dim] != 1}
        if len(going) > 1:
            return None
        if going == {True}:
            found += sources
    return found or None


def _common_groups(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The dimensions of two shapes with equally many elements, in the smallest groups with equally many elements each."""
    i = j = 0
    while i < len(a) or j < len(b):
        left, right = [i] if i < len(a) else [], [j] if j < len(b) else []
        i, j = i + len(left), j + len(right)
        while (size := math.prod(a[dim] for dim in left)) != (other := math.prod(b[dim] for dim in right)):
            if size < other:
                left.append(i)
                i += 1
            else:
                right.append(j)
                j += 1
        yield left, right
