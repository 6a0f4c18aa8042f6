"""Operators that broadcast their operands, and whether they accept an unexpanded operand."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import Dim, dims_of, is_tensor, sizes
from fxc.dialects.base.effects import aliases
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.effects import EQUAL_SHAPES
from fxc.passes.analysis.matching import dtype, rank


def broadcasts(op: TorchOp) -> bool:
    """Whether ``op`` is elementwise with broadcasting, and has no other effect.

    The flag ``p`` of the operator table marks such operators of ATen; the operators of ``prims`` with this flag take equal
    shapes.
    """
    if "p" not in op.FLAGS or "r" in op.FLAGS or op.operator in EQUAL_SHAPES or not op.operator.startswith("aten."):
        return False
    return not any(aliases(op))


def accepts_smaller(op: TorchOp, large: SSAValue, small: SSAValue) -> bool:
    """Whether the types of the results of ``op`` stay equal where ``small`` replaces ``large``, which is ``small`` expanded."""
    tensors = [small if operand is large else operand for operand in op.operands if is_tensor(operand.type)]
    types = [tensor.type for tensor in tensors if is_tensor(tensor.type)]
    # Whether op certainly computes in the dtype name. A conversion first would give an expanded tensor new strides.
    name = dtype(small.type)
    result = dtype(op.results[0].type)
    converts = name is None or (name.startswith(("int", "uint", "bool")) and result not in (name, "bool"))
    if not (not converts and all(dtype(type) in (name, "bool") for type in types)) or (
        not rank(small) and any(dtype(type) != dtype(small.type) for type in types)
    ):
        return False  # a 0-d tensor has a lower priority in dtype promotion
    added = len(dims_of(large)) - (rank(small) or 0)
    if 1 in dims_of(large)[:added]:
        return False  # a new dimension of size 1 has a stride, which may become the stride of the result
    shape = broadcast([sizes(type) for type in types])
    return shape is not None and all(is_tensor(r.type) and sizes(r.type) == shape for r in op.results)


def broadcast(shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...] | None:
    """The broadcast shape of ``shapes``; None where a size is unknown or the shapes do not fit."""
    result: list[Dim] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for i, size in enumerate(shape, len(result) - len(shape)):
            if size == "" or (size != 1 and result[i] not in (1, size)):
                return None
            result[i] = result[i] if size == 1 else size
    return tuple(result)
