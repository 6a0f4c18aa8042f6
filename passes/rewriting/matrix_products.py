"""Matrices of static size: their types, and insertion of ops on them."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import Dim, is_tensor, tensor_type
from fxc.dialects.attributes.values import Tree
from fxc.dialects.torch_ops import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.matching import integer, integers

_TRANSPOSES = ("torch.aten.t.default", "torch.aten.transpose.int", "torch.aten.permute.default")


def matrix_shape(type: Attribute) -> tuple[int, ...]:
    """The static sizes of a matrix; empty for another type."""
    sizes = static_sizes(type)
    return sizes if len(sizes) == 2 else ()


def static_sizes(type: Attribute) -> tuple[int, ...]:
    """The static sizes of a strided tensor; empty for another type, and where a size is not static."""
    sizes = types.sizes(type) if is_tensor(type) and types.layout(type) == "strided" else ()
    static = tuple(size for size in sizes if isinstance(size, int))
    return static if len(static) == len(sizes) else ()


def dense_like(type: Attribute, sizes: tuple[Dim, ...], strides: tuple[Dim, ...] | None = None) -> TensorType:
    assert is_tensor(type)
    return tensor_type(types.dtype_name(type.element_type), sizes, strides, types.device(type), types.layout(type))


def product_type(left: SSAValue, right: SSAValue) -> Attribute:
    return dense_like(left.type, (matrix_shape(left.type)[0], matrix_shape(right.type)[1]))


def only_user(value: SSAValue) -> Operation | None:
    uses = list(value.uses)
    return uses[0].operation if len(uses) == 1 else None


def is_transpose(op: Operation) -> bool:
    """Whether ``op`` transposes a matrix."""
    if not isinstance(op, TorchOp) or op.name not in _TRANSPOSES:
        return False
    bound = op.bound()
    if "dims" in bound:
        return [dim % 2 for dim in integers(bound["dims"]) or []] == [1, 0]
    dims = [integer(bound.get(name)) for name in ("dim0", "dim1") if name in bound]
    return not dims or (None not in dims and {dim % 2 for dim in dims if dim is not None} == {0, 1})


def transposed(value: SSAValue, before: Operation) -> SSAValue:
    assert is_tensor(value.type)
    steps = types.strides(value.type) or types.contiguous_strides(matrix_shape(value.type))
    return insert(
        "aten.t.default", [value], dense_like(value.type, matrix_shape(value.type)[::-1], tuple(reversed(steps))), before
    )


def insert(operator: str, args: list[Tree], type: Attribute, before: Operation) -> SSAValue:
    op = torch_op(operator).build_call(args, {}, [type], location=before.location)
    Rewriter.insert_op(op, InsertPoint.before(before))
    return op.results[0]
