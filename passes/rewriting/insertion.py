"""Inserting operator calls with the result types that PyTorch infers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import VALUE
from fxc.dialects.attributes.values import Tree
from fxc.dialects.context import FxcContext
from fxc.dialects.semantics import CannotInfer
from fxc.dialects.torch_ops import torch_op

Built = TypeVar("Built")


def built_before(op: Operation, build: Callable[[], Built | None]) -> Built | None:
    """Return the result of ``build``, which inserts calls before ``op``.

    Where it returns None, or PyTorch cannot infer the types of a call, the inserted calls are erased.
    """
    before = op.prev_op
    try:
        built = build()
    except CannotInfer:
        built = None
    while built is None and (last := op.prev_op) is not before and last is not None:
        Rewriter.erase_op(last)
    return built


def insert_call(
    context: FxcContext, operator: str, args: Sequence[Tree], before: Operation, kwargs: Mapping[str, Tree] | None = None
) -> SSAValue:
    """Insert a call of ``operator`` before ``before``, with the same location, and return its first result.

    VerifyException where PyTorch rejects the call, CannotInfer where the operand types are insufficient.
    """
    named = dict(kwargs or {})
    types = result_types(context, operator, args, named)
    call = torch_op(operator).build_call(list(args), named, types, location=before.location)
    Rewriter.insert_op(call, InsertPoint.before(before))
    return call.results[0]


def result_types(
    context: FxcContext, operator: str, args: Sequence[Tree], kwargs: Mapping[str, Tree] | None = None
) -> Sequence[Attribute]:
    """The types that PyTorch infers for the results of a call, one for each return."""
    kind = torch_op(operator)
    untyped = kind.build_call(list(args), dict(kwargs or {}), [VALUE] * len(kind.SCHEMA.returns))
    try:
        return context.semantics.infer(untyped)
    finally:
        untyped.erase()  # it would count as a user of its operands
