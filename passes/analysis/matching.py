"""Queries on ops, arguments and types for patterns."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ComplexType, FloatAttr, IntegerAttr, i1
from xdsl.ir import Attribute, SSAValue

from fxc.dialects.attributes.types import dtype_name, is_tensor, sizes
from fxc.dialects.attributes.values import KnownTree, NoneValueAttr, Tree, isa
from fxc.dialects.torch_ops.base import TorchOp

PERMUTES = ("aten.permute.default", "aten.transpose.int", "aten.t.default")
"""Operators that permute dimensions."""

RESHAPES = ("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default")
"""Operators that give a tensor other sizes, which are an argument."""


def producer(tree: Tree, operators: Sequence[str]) -> TorchOp | None:
    """The op that defines the value ``tree``, where its operator is one of ``operators``."""
    owner = tree.owner if isinstance(tree, SSAValue) else None
    return owner if isinstance(owner, TorchOp) and owner.operator in operators else None


def number(tree: Tree) -> int | float | None:
    """The number that is passed as a constant; a bool is 0 or 1."""
    if isa(tree, IntegerAttr):
        return tree.value.data if tree.type != i1 else int(tree.value.data != 0)  # the i1 value true is stored as -1
    return tree.value.data if isinstance(tree, FloatAttr) else None


def integer(tree: Tree) -> int | None:
    return tree.value.data if isa(tree, IntegerAttr) and tree.type != i1 else None


def integers(tree: KnownTree | None) -> list[int] | None:
    """The constant integers of a list argument; None where an element is an SSA value."""
    found = [integer(element) for element in tree] if isinstance(tree, (list, tuple)) else [None]
    return None if None in found else [value for value in found if value is not None]


def is_default(tree: Tree | None) -> bool:
    """Whether a switch has its default: not passed, or passed as none or false."""
    return tree is None or isinstance(tree, NoneValueAttr) or (isinstance(tree, IntegerAttr) and tree.value.data == 0)


def rank(value: SSAValue) -> int | None:
    return len(value.type.get_shape()) if is_tensor(value.type) else None


def dtype(type: Attribute) -> str | None:
    """PyTorch's name for the dtype of a tensor."""
    return dtype_name(type.element_type) if is_tensor(type) else None


def is_complex(type: Attribute) -> bool:
    return is_tensor(type) and isinstance(type.element_type, ComplexType)


def is_floating(type: Attribute) -> bool:
    return (name := dtype(type)) is not None and name.startswith(("float", "bfloat"))


def is_integral(type: Attribute) -> bool:
    """Whether ``type`` is an integer or bool tensor."""
    return (name := dtype(type)) is not None and name.startswith(("int", "uint", "bool"))


def same_type(a: SSAValue, b: SSAValue) -> bool:
    """Whether two tensors are known to have the same shape, dtype, layout and device: no size is an unnamed ``?``."""
    return is_tensor(a.type) and a.type == b.type and "" not in sizes(a.type)


def permutation(op: TorchOp) -> list[int] | None:
    """For each dimension of the result, the dimension of the argument; None where that is not constant."""
    count = rank(op.operands[0])
    if count is None:
        return None
    order = list(range(count))
    if op.operator == "aten.permute.default":
        return _wrapped(integers(op.argument("dims")), count)
    if op.operator == "aten.t.default":
        return order[::-1]
    pair = _wrapped([integer(op.argument("dim0")), integer(op.argument("dim1"))], count)
    if pair is None or count == 0:
        return None
    order[pair[0]], order[pair[1]] = pair[1], pair[0]
    return order


def _wrapped(dims: Sequence[int | None] | None, count: int) -> list[int] | None:
    if dims is None or None in dims:
        return None
    return [dim % count for dim in dims if dim is not None] if count else []
