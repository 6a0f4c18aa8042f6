"""Adapting a user to a value whose strides changed."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import device, is_tensor, layout, sizes
from fxc.dialects.attributes.values import enum_attr
from fxc.dialects.torch_ops import torch_op


def only_strides_differ(a: Attribute, b: Attribute) -> bool:
    """Whether two types are tensors of the same dtype, sizes, device and layout."""
    if not is_tensor(a) or not is_tensor(b):
        return False
    return a.element_type == b.element_type and all(f(a) == f(b) for f in (sizes, device, layout))


def contiguous_for(op: Operation, value: SSAValue, type: Attribute) -> None:
    """Let ``op`` use a copy of ``value`` with the contiguous type ``type``."""
    copy = _copied(value, type, InsertPoint.before(op), op.location)
    op.operands = [copy if operand is value else operand for operand in op.operands]


def contiguous_copy(value: SSAValue, type: Attribute) -> SSAValue:
    """A copy of ``value`` with the contiguous type ``type``, made directly after it."""
    owner = value.owner
    if isinstance(owner, Block):
        return _copied(value, type, InsertPoint.at_start(owner), None)
    return _copied(value, type, InsertPoint.after(owner), owner.location)


def _copied(value: SSAValue, type: Attribute, where: InsertPoint, location: Any) -> SSAValue:
    arguments = {"memory_format": enum_attr("contiguous_format")}
    copy = torch_op("aten.clone.default").build_call([value], arguments, [type], location=location)
    copy.results[0]._name = value._name
    Rewriter.insert_op(copy, where)
    return copy.results[0]
