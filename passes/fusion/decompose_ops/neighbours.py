"""Whether the producers and users of an op are computed by kernels."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.base.effects import aliases
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators.table import has_formula, operator_of
from fxc.passes.rewriting.functions import copy_op


def release_operand(op: TorchOp) -> None:
    """Let a random operator that only uses the type of its operand read another tensor of this type.

    The other tensor, or a view of it, is not computed by a kernel, so the random operator does not wait for one.
    """
    if operator_of(op).reads_type and (origin := _origin(op, op.operands[0])) is not None:
        op.operands[0] = origin


def _origin(draw: TorchOp, value: SSAValue) -> SSAValue | None:
    """A tensor of the type of ``value`` from which ``value`` is computed; views of it are inserted before ``draw``."""
    op = value.owner
    if not isinstance(op, TorchOp):
        return None
    if is_computed_by_kernels(op):
        same = next((operand for operand in op.operands if operand.type == value.type), None)
        return None if same is None else _origin(draw, same) or same
    if not list(_views(op)) or (origin := _origin(draw, op.operands[0])) is None:
        return None
    view = copy_op(op, {op.operands[0]: origin})
    Rewriter.insert_op(view, InsertPoint.before(draw))
    return view.results[0]


def is_beside_kernels(op: TorchOp) -> bool:
    """Whether kernels compute operands of ``op`` or read its results."""
    sources = (value.owner for value in op.operands if isinstance(value.owner, Operation))
    return any(map(is_read_by_kernels, op.results)) or any(map(is_computed_by_kernels, sources))


def is_read_by_kernels(value: SSAValue) -> bool:
    """Whether an operator that kernels compute reads ``value``, or a view of it."""
    return any(is_computed_by_kernels(user) or any(map(is_read_by_kernels, _views(user))) for user in _users(value))


def _users(value: SSAValue) -> Iterator[Operation]:
    return iter(dict.fromkeys(use.operation for use in value.uses))


def _views(op: Operation) -> Iterator[SSAValue]:
    if isinstance(op, TorchOp) and any(aliases(op)) and len(op.results) == 1:
        yield op.results[0]


def is_computed_by_kernels(op: Operation) -> bool:
    return isinstance(op, TorchOp) and has_formula(op) and not any(aliases(op))
