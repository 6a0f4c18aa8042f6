"""Where starts and waits of collectives may be moved to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from fxc.dialects.base.effects import has_side_effect, is_pure, is_random, writes
from fxc.dialects.dist import AllGatherOp, CollectiveOp, WaitOp
from fxc.passes.analysis.size_values import HintedSizes


def bodies(module: ModuleOp) -> Iterator[Block]:
    """The blocks of ``module`` with a collective or a wait, without those of nested modules."""
    for function in module.ops:
        if isinstance(function, FuncOp):
            blocks = [block for op in function.walk() for region in op.regions for block in region.blocks]
            yield from (block for block in blocks if any(isinstance(op, (CollectiveOp, WaitOp)) for op in block.ops))


def is_barrier(op: Operation) -> bool:
    """Whether no start and no wait is moved across ``op``: it writes memory or has an effect, other than random numbers."""
    if isinstance(op, (CollectiveOp, WaitOp)):
        return False
    return writes(op) != [] or (has_side_effect(op) and not is_random(op))


def in_block(op: Operation, block: Block) -> Operation | None:
    """The op of ``block`` that is ``op`` or contains it; None where there is none."""
    around: Operation | None = op
    while around is not None and around.parent is not block:
        around = around.parent_op()
    return around


def first_user(values: Sequence[SSAValue], block: Block, order: Mapping[Operation, Any]) -> Operation | None:
    """The first op of ``block`` that uses one of ``values``, also in its regions."""
    users = [user for value in values for use in value.uses if (user := in_block(use.operation, block)) is not None]
    return min(users, key=order.__getitem__, default=None)


def chain(op: CollectiveOp) -> list[Operation]:
    """What computes the operand of a gather from an argument, if only that does: a cast, or the padding of a shard."""
    found, value = list[Operation](), op.inputs[0]
    while len(op.inputs) == 1 and isinstance(op, AllGatherOp) and isinstance(owner := value.owner, Operation):
        is_fixed = owner.regions or isinstance(owner, (CollectiveOp, WaitOp)) or not is_pure(owner)
        if is_fixed or len(owner.operands) != 1 or owner.parent is not op.parent:
            return []
        found.append(owner)
        value = owner.operands[0]
    return found[::-1] if value.owner is op.parent else []


def positions(block: Block) -> dict[Operation, int]:
    return {op: index for index, op in enumerate(block.ops)}


def message_bytes(op: CollectiveOp, sizes: HintedSizes) -> int:
    """The bytes of all operands, or of the results of a gather: the size of the whole tensor."""
    return sum(sizes.distinct_bytes(value.type) for value in (op.values if isinstance(op, AllGatherOp) else op.inputs))
