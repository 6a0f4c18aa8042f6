"""Replacing in-place operators by functional ones where only their operand refers to the written memory."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.base.effects import aliases, is_random, may_retain, reshapes, writes
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops import TorchOp, torch_op
from fxc.dialects.torch_ops.base import leaves_memory_alone
from fxc.dialects.torch_ops.effects import WITHOUT_DERIVATIVE


def replace_local_writes(ctx: FxcContext, function: FuncOp) -> None:
    """Replace ``aten.relu_`` and similar operators in ``function`` by ``aten.relu``, where nothing shares the written memory.

    The written value must be computed by an op of the same block. Later readers read the new value.
    """
    place = {op: number for number, op in enumerate(function.body.block.ops)}
    for op, number in list(place.items()):
        if isinstance(op, TorchOp) and (functional := _functional(ctx, op)) is not None:
            place[functional] = number
            Rewriter.insert_op(functional, InsertPoint.before(op))
            [old], [new] = op.results, functional.results
            new._name = old._name
            later = [use for use in op.operands[0].uses if place[use.operation] > number]
            for use in later:
                use.operation.operands[use.index] = new
            old.replace_all_uses_with(new)
            Rewriter.erase_op(op)


def _functional(ctx: FxcContext, op: TorchOp) -> TorchOp | None:
    """The functional form of ``op``; None where there is no equivalent one, or where the write is visible elsewhere."""
    namespace, name, overload = op.operator.split(".")
    if namespace != "aten" or not name.endswith("_") or name.endswith("__") or len(op.results) != 1:
        return None
    if is_random(op) or reshapes(op) or writes(op) != [op.operands[0]] or not _is_local(op.operands[0], op):
        return None
    functional = f"{namespace}.{name.removesuffix('_')}.{overload}"
    if functional in WITHOUT_DERIVATIVE:
        return None
    try:
        twin = torch_op(functional)
        if not leaves_memory_alone(twin) or twin.SCHEMA.positional != op.SCHEMA.positional:
            return None
        new = twin.build_call(*twin.divide(op.bound()), op.result_types, location=op.location)
        same = list(ctx.semantics.infer(new)) == [op.operands[0].type]
    except (ValueError, VerifyException):
        return None
    if not same:  # the in-place operator casts back, or preserves another layout
        new.erase()
        return None
    return new


def _is_local(value: SSAValue, writer: TorchOp) -> bool:
    """Whether an op before ``writer`` allocated the memory of ``value``, and only ``writer`` may share or retain it."""
    owner = value.owner
    if isinstance(owner, Block) or owner.parent is not writer.parent or may_retain(owner):
        return False
    if any(owner.results[index] is value for index, _ in aliases(owner)):
        return False
    users = {use.operation for use in value.uses} - {writer}
    return all(user.parent is writer.parent and not _shares(user, value) for user in users)


def _shares(op: Operation, value: SSAValue) -> bool:
    """Whether ``op`` may retain ``value``, or returns a value that may share its memory without writing it."""
    if op.has_trait(IsTerminator):
        return False
    return may_retain(op) or (any(source is value for _, source in aliases(op)) and writes(op) != [value])
