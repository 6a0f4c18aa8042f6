"""Stride changes: update the types of dependent values, or insert a copy for users that need the old strides."""

from __future__ import annotations

from collections import deque

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.context import FxcContext
from fxc.dialects.text.diagnostics import OpVerifyException
from fxc.dialects.torch_ops import TorchOp
from fxc.passes.analysis.stride_changes import contiguous_for, only_strides_differ


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
