"""Operators that update an operand where nothing uses it later."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter

from fxc.dialects.base.effects import aliases, is_pure
from fxc.dialects.plan import FreeOp
from fxc.dialects.torch_ops import TorchOp, op_class
from fxc.dialects.torch_ops.effects import FORGETFUL_NAMESPACES, RESHAPED_IN_PLACE
from fxc.passes.analysis.statistics import count
from fxc.passes.plan.last_uses import ends_with, unrelease


def update_dying_operands(block: Block) -> None:
    """Let operators of ``block`` that allocate a result of the type of an operand update that, where PyTorch has such a
    variant, nothing else has its memory, and it is released right behind."""
    for op in list(block.ops):
        update = update_of(op) if isinstance(op, TorchOp) and isinstance(op.next_op, FreeOp) else None
        if isinstance(op, TorchOp) and update is not None and ends_with(update.operand, op):
            _update(op, update)
            count("operators in place")


class Update(NamedTuple):
    """An operator that computes what another does into ``operand``."""

    variant: type[TorchOp]
    operand: SSAValue


def update_of(op: TorchOp) -> Update | None:
    """``add_`` of ``add``: what computes the same into one argument, of the type of the result; None if nothing does."""
    namespace, name, overload = op.operator.split(".")
    if namespace not in FORGETFUL_NAMESPACES or f"{name}_" in RESHAPED_IN_PLACE:
        return None
    if len(op.results) != 1 or not is_pure(op) or any(aliases(op)):
        return None
    cls = op_class(f"torch.{namespace}.{name}_.{overload}")
    if cls is None or not issubclass(cls, TorchOp):
        return None
    written = [argument.name for argument in cls.SCHEMA.arguments if argument.writes]
    mine, theirs = op.SCHEMA.by_name, cls.SCHEMA.by_name
    if len(written) != 1 or mine.keys() != theirs.keys():
        return None
    if any(theirs[each] != mine[each] for each in mine if each != written[0]):
        return None
    operand = op.bound().get(written[0])
    return Update(cls, operand) if isinstance(operand, SSAValue) and operand.type == op.results[0].type else None


def _update(op: TorchOp, update: Update) -> None:
    """The operand takes the place of the result of ``op``; it is released when that was."""
    unrelease(update.operand)
    arguments = update.variant.divide(op.bound())
    call = update.variant.build_call(*arguments, op.result_types, attributes=op.attributes, location=op.location)
    Rewriter.replace_op(op, call, [update.operand], safe_erase=False)
