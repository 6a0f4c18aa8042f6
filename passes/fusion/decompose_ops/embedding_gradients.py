"""Gradients of embeddings that are added to a tensor: their few nonzero rows are added to the tensor directly."""

from __future__ import annotations

import math

from xdsl.ir import Attribute, SSAValue

from fxc.dialects.attributes.types import device, dtype_name, is_tensor, layout, sizes, strides, tensor_type
from fxc.dialects.attributes.values import Tree, int_attr, isa
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, integer, is_default, number, producer, torch_op
from fxc.passes.rewriting.decomposition import put_in_place

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
    shapes = [_shape(type) for type in (result, rows.type, indices.type)]
    if padding is None or padding >= 0 or None in shapes:
        return False
    count = math.prod(shapes[2] or ())
    parts = [_view(indices, (count,)), _view(rows, (count, math.prod(shapes[1] or ()) // count))]
    values = [total, int_attr(0), *(part.results[0] for part in parts)]
    parts.append(torch_op("aten.index_add.default").build_call(values, {}, [result], location=op.location))
    put_in_place(op, parts, [(op.results[0], parts[-1].results[0])])
    return True


def _shape(type: Attribute) -> tuple[int, ...] | None:
    """The sizes of a contiguous, nonempty tensor on a CPU; None for any other."""
    if not is_tensor(type) or strides(type) is not None or device(type) != "cpu" or layout(type) != "strided":
        return None
    found = tuple(size for size in sizes(type) if isinstance(size, int) and size > 0)
    return found if len(found) == type.get_num_dims() else None


def _view(value: SSAValue, shape: tuple[int, ...]) -> TorchOp:
    assert is_tensor(value.type)
    type = tensor_type(dtype_name(value.type.element_type), shape)
    return torch_op("aten.view.default").build_call([value, [*map(int_attr, shape)]], {}, [type])
