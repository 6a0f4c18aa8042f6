"""Inserting operator calls with the result types that PyTorch infers, and replacing an operator by its decomposition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import VALUE
from fxc.dialects.attributes.values import Tree
from fxc.dialects.base.effects import is_pure
from fxc.dialects.context import FxcContext
from fxc.dialects.semantics import CannotInfer
from fxc.dialects.torch_ops import torch_op
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.statistics import count
from fxc.passes.rewriting.unpacking import unpack_tuples

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


def decompose(ctx: FxcContext, op: TorchOp) -> list[TorchOp]:
    """Replace ``op`` by its decomposition, and return the new ops.

    The list is empty, and nothing changes, where ``op`` has no decomposition, or where that has other result types or returns
    an operand.
    """
    if op.is_packed or not is_pure(op):
        return []
    function = ctx.semantics.decompose(op)
    if function is None:
        return []
    holder = ModuleOp([function])
    unpack_tuples(holder)
    [function] = [inner for inner in holder.body.block.ops if isinstance(inner, FuncOp)]
    *parts, last = function.body.block.ops
    returned = list(last.operands)
    read = [(old, new) for old, new in zip(op.results, returned, strict=True) if old.first_use is not None]
    if any(new.type != old.type or isinstance(new, BlockArgument) for old, new in read):
        return []
    for argument, operand in zip(function.body.block.args, dict.fromkeys(op.operands), strict=True):
        argument.replace_all_uses_with(operand)
    Rewriter.erase_op(last)
    for part in parts:
        part.detach()
        part.location = op.location
    put_in_place(op, parts, read)
    return [part for part in _swept(parts) if isinstance(part, TorchOp)]


def put_in_place(op: TorchOp, parts: Sequence[Operation], read: Sequence[tuple[SSAValue, SSAValue]]) -> None:
    """Replace ``op`` by ``parts``; ``read`` pairs its results with their new values."""
    Rewriter.insert_op(parts, InsertPoint.before(op))
    for old, new in read:
        new._name = old._name
        old.replace_all_uses_with(new)
    Rewriter.erase_op(op)
    count(op.operator)


def _swept(parts: Sequence[Operation]) -> list[Operation]:
    """``parts`` without dead ops, which are erased."""
    kept = list[Operation]()
    for part in reversed(parts):
        if any(result.first_use is not None for result in part.results) or not is_pure(part):
            kept.append(part)
        else:
            Rewriter.erase_op(part)
    return kept
