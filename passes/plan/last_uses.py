"""Memory that an op is the last to use, so that it may write there."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.base.effects import aliases, is_pure, may_keep
from fxc.dialects.plan import AllocOp, FreeOp, stream_of
from fxc.dialects.torch_ops import TorchOp


def ends_with(value: SSAValue, op: Operation) -> bool:
    """Whether ``value`` is memory of its own, of no arena, of which there is no view and that ``op`` uses last: it is released
    right behind."""
    release = op.next_op
    if not isinstance(release, FreeOp) or value not in release.values or not _is_own(value):
        return False
    makers = [value.owner] if isinstance(value.owner, TorchOp) else []
    return is_only_lent(value, op) and all(stream_of(each) == stream_of(op) for each in makers)


def is_only_lent(value: SSAValue, last: Operation) -> bool:
    """Whether ``last`` takes ``value`` once, after all others, on their stream, and none gives it another name or keeps it."""
    if [*last.operands].count(value) != 1:
        return False
    others = [use.operation for use in value.uses if use.operation not in (last, last.next_op)]
    return all(
        stream_of(each) == stream_of(last)
        and each.parent is last.parent
        and each.is_before_in_block(last)
        and not _hands_on(each, value)
        for each in others
    )


def is_spent(value: SSAValue, op: Operation) -> bool:
    """Whether all that uses ``value``, or a view of it, comes before ``op``, on its stream, and keeps nothing of it."""
    names = [value]
    for name in names:
        for user in {use.operation for use in name.uses}:
            is_before = user.parent is op.parent and user.is_before_in_block(op) and stream_of(user) == stream_of(op)
            if not is_before or user.regions or may_keep(user):
                return False
            names += [user.results[i] for i, source in aliases(user) if source is name and user.results[i] not in names]
    return True


def _is_own(value: SSAValue) -> bool:
    """Whether ``value`` is memory that the op which made it took for it alone."""
    made = value.owner
    if isinstance(made, AllocOp):
        return made.arena is None
    if not isinstance(made, TorchOp) or not is_pure(made) or may_keep(made):
        return False
    return all(made.results[index] is not value for index, _ in aliases(made))


def _hands_on(op: Operation, value: SSAValue) -> bool:
    """Whether ``op`` gives ``value`` another name, or may keep it."""
    named = (operand is value and op.results[index].first_use is not None for index, operand in aliases(op))
    return isinstance(op, FreeOp) or bool(op.regions) or op.has_trait(IsTerminator) or may_keep(op) or any(named)


def leaves(value: SSAValue) -> bool:
    """Whether ``value``, or a view of it, is returned or given to what may keep it."""
    names = [value]
    for name in names:
        for op in {use.operation for use in name.uses}:
            if op.has_trait(IsTerminator) or may_keep(op):
                return True
            names += [op.results[i] for i, source in aliases(op) if source is name and op.results[i] not in names]
    return False


def unrelease(value: SSAValue) -> None:
    """Drop the releases of ``value``."""
    for release in [use.operation for use in value.uses if isinstance(use.operation, FreeOp)]:
        rest = [each for each in release.operands if each is not value]
        if rest:
            release.operands = rest
        else:
            Rewriter.erase_op(release)
