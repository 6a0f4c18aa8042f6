"""Joining several groups into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.values import isa
from fxc.dialects.fusion import GroupOp, YieldOp
from fxc.dialects.tile import ScheduleAttr
from fxc.dialects.tile.kernel import SOURCE

SCHEDULE = "tile.schedule"

TENSORS = 48
"""The largest number of tensors that a kernel reads and writes: they are arguments of a call."""


def join(groups: Sequence[GroupOp], schedules: Sequence[ScheduleAttr], before: Operation) -> GroupOp:
    """Replace ``groups``, which are in order, by one group directly before ``before``.

    Its results are theirs, without the values that only these groups read.
    """
    body, inside = Block(), dict[SSAValue, SSAValue]()
    for group in groups:
        inside |= dict(zip(group.results, group.yielded(), strict=True))
        for op in list(group.body.block.ops)[:-1]:
            op.detach()
            body.add_op(op)
    given = [result for result in inside if not result.uses or not all(_is_within(use.operation, body) for use in result.uses)]
    for result, value in inside.items():
        result.replace_uses_with_if(value, lambda use: _is_within(use.operation, body))
    body.add_op(YieldOp.of([inside[result] for result in given]))
    new = GroupOp.of(Region(body))
    new.attributes |= _attributes(groups, schedules)
    new.location = groups[0].location
    Rewriter.insert_op(new, InsertPoint.before(before))
    for old, result in zip(given, new.results, strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    for group in groups:
        Rewriter.erase_op(group)
    return new


def _is_within(op: Operation, block: Block) -> bool:
    return block.find_ancestor_op_in_block(op) is not None


def _attributes(groups: Sequence[GroupOp], schedules: Sequence[ScheduleAttr]) -> Mapping[str, Attribute]:
    sources = [line for group in groups for line in _lines(group)]
    return {SCHEDULE: ArrayAttr(schedules), **({SOURCE: ArrayAttr(sources)} if sources else {})}


def _lines(group: GroupOp) -> Sequence[Attribute]:
    found = group.attributes.get(SOURCE)
    return found.data if isa(found, ArrayAttr) else ()
