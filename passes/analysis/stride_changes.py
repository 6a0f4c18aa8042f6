"""Stride changes: update the types of dependent values, or insert a copy for users that need the old strides."""

from __future__ import annotations

from collections import deque
from typing import Any

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import device, is_tensor, layout, sizes
from fxc.dialects.attributes.values import enum_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.text.diagnostics import OpVerifyException
from fxc.dialects.torch_ops import TorchOp, torch_op


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


def settle_strides(value: SSAValue, old: Attribute, context: FxcContext, *, returned: bool) -> None:
    """Infer the types of values that depend on ``value``, whose old type was ``old``, as far as they change.

    An operation gets a copy in the old layout if it rejects the new strides (``view``), or if its types cannot be inferred (a
    call, an operation with regions). ``returned``: whether results of the function may have new strides. OpVerifyException if
    the old layout of a value to copy is not contiguous.
    """
    pending = deque([(value, old)])
    while pending:
        changed, before = pending.popleft()
        for use in list(changed.uses):
            op = use.operation
            if returned and op.has_trait(IsTerminator) and isinstance(op.parent_op(), FuncOp):
                continue
            new = _inferred(op, context)
            if new is None:
                assert is_tensor(before)
                if (strides := types.strides(before)) is not None:
                    raise OpVerifyException(f"the replacement returns other strides, and an op needs {list(strides)}", op)
                contiguous_for(op, changed, before)
                continue
            for result, type in zip(list(op.results), new, strict=True):
                if result.type != type:
                    known = result.type
                    pending.append((Rewriter.replace_value_with_new_type(result, type), known))


def _inferred(op: Operation, context: FxcContext) -> list[Attribute] | None:
    """Return the result types of ``op``; None if they cannot be inferred, or differ in more than strides."""
    if not isinstance(op, TorchOp):
        return None
    try:
        new = list(context.semantics.infer(op))
    except VerifyException:
        return None
    pairs = zip([result.type for result in op.results], new, strict=True)
    return new if all(a == b or only_strides_differ(a, b) for a, b in pairs) else None
