"""Simpler forms of reductions, and of sums with the gradient of an embedding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.attributes.types import device, dtype_name, is_tensor, layout, sizes, strides, tensor_of, tensor_type
from fxc.dialects.attributes.values import Tree, bool_attr, int_attr, isa
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import dtype, integer, integers, is_default, is_floating, number, producer
from fxc.passes.operators.rules import Reduction, View
from fxc.passes.operators.table import is_computed_by_kernels, operator_of
from fxc.passes.operators.views import reshape
from fxc.passes.rewriting.insertion import put_in_place

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
        shape = [int_attr(size) for size in tensor_of(result).get_shape()]
        parts.append(torch_op(_VIEW).build_call([instead.results[0], shape], {}, [tensor_of(result)], location=op.location))
    put_in_place(op, parts, [(result, parts[-1].results[0])])


def _shapes(op: TorchOp) -> tuple[tuple[int, ...], list[int]] | None:
    """The shape that ``op`` reduces, and the reduced dimensions; None unless both tensors are contiguous with static sizes."""
    shape, dims = _static_shape(op.operands[0].type), integers(op.bound().get("dim"))
    if shape is None or not dims or not _static_shape(op.results[0].type):
        return None
    return shape, [dim % len(shape) for dim in dims]


def _computed_shape(value: SSAValue) -> tuple[int, ...] | None:
    owner = value.owner
    return _static_shape(value.type) or None if isinstance(owner, Operation) and is_computed_by_kernels(owner) else None


def _static_shape(type: Attribute) -> tuple[int, ...] | None:
    """The sizes of a contiguous, nonempty tensor; None for any other."""
    if not is_tensor(type) or strides(type) is not None or layout(type) != "strided":
        return None
    found = tuple(size for size in sizes(type) if isinstance(size, int) and size > 0)
    return found if len(found) == type.get_num_dims() else None


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


_ADD, _GRADIENT = "aten.add.Tensor", "aten.embedding_dense_backward.default"
_WIDE = frozenset(["float32", "float64"])


def add_rows(op: TorchOp) -> bool:
    """add(x, embedding_dense_backward(g, i)) -> index_add(x, 0, view(i), view(g)), on a CPU; returns whether it matched

    This avoids a tensor of zeros as large as the weights. In half precision the sum stays, because its rows are summed before
    they are added to x.
    """
    if op.operator != _ADD or (op.argument("alpha") is not None and number(op.argument("alpha")) != 1):
        return False
    a, b = op.bound()["self"], op.bound()["other"]
    return any(_add_rows(op, total, producer(rows, (_GRADIENT,))) for total, rows in ((a, b), (b, a)))


def _add_rows(op: TorchOp, total: Tree, gradient: TorchOp | None) -> bool:
    result = op.results[0].type
    if gradient is None or not isa(total, SSAValue) or total.type != result or gradient.results[0].type != result:
        return False
    if dtype(result) not in _WIDE or not is_default(gradient.argument("scale_grad_by_freq")):
        return False
    if len(list(gradient.results[0].uses)) != 1:
        return False
    padding, (rows, indices) = integer(gradient.argument("padding_idx")), gradient.operands[:2]
    shapes = [_static_shape(type) for type in (result, rows.type, indices.type)]
    if padding is None or padding >= 0 or None in shapes or not is_tensor(result) or device(result) != "cpu":
        return False
    count = math.prod(shapes[2] or ())
    parts = [_view(indices, (count,)), _view(rows, (count, math.prod(shapes[1] or ()) // count))]
    values = [total, int_attr(0), *(part.results[0] for part in parts)]
    parts.append(torch_op("aten.index_add.default").build_call(values, {}, [result], location=op.location))
    put_in_place(op, parts, [(op.results[0], parts[-1].results[0])])
    return True


def _view(value: SSAValue, shape: tuple[int, ...]) -> TorchOp:
    type = tensor_type(dtype_name(tensor_of(value).element_type), shape)
    return torch_op("aten.view.default").build_call([value, [*map(int_attr, shape)]], {}, [type])
