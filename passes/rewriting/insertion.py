"""Calls of operators put into a block, with the types that PyTorch gives their results."""

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
    """The result of ``build``, which inserts calls in front of ``op``. Where it is None, or the types of a call cannot be
    inferred, the calls are erased again."""
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
    """The first result of ``operator`` called in front of ``before``, at whose place it lies.

    VerifyException where PyTorch refuses the call, CannotInfer where the types say too little.
    """
    named = dict(kwargs or {})
    types = result_types(context, operator, args, named)
    call = torch_op(operator).build_call(list(args), named, types, location=before.location)
    Rewriter.insert_op(call, InsertPoint.before(before))
    return call.results[0]


def result_types(
    context: FxcContext, operator: str, args: Sequence[Tree], kwargs: Mapping[str, Tree] | None = None
) -> Sequence[Attribute]:
    """The types that PyTorch gives the results of a call, one a return."""
    kind = torch_op(operator)
    untyped = kind.build_call(list(args), dict(kwargs or {}), [VALUE] * len(kind.SCHEMA.returns))
    try:
        return context.semantics.infer(untyped)
    finally:
        untyped.erase()  # it counts as a reader of its operands
