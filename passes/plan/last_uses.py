"""Find memory that has its last use at an op, so that the op may overwrite it."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.values import isa
from fxc.dialects.base.effects import aliases, is_pure, may_retain
from fxc.dialects.plan import AllocOp, FreeOp, stream_of
from fxc.dialects.torch_ops import TorchOp, op_class
from fxc.dialects.torch_ops.effects import BORROWING_NAMESPACES, RESHAPED_IN_PLACE
from fxc.passes.analysis.statistics import count


def ends_with(value: SSAValue, op: Operation) -> bool:
    """Whether ``op`` is the last use of the memory ``value``, which is released immediately after it.

    The memory must be allocated for ``value`` alone, outside of arenas, and have no views.
    """
    release = op.next_op
    if not isinstance(release, FreeOp) or value not in release.values or not _is_local(value):
        return False
    makers = [value.owner] if isinstance(value.owner, TorchOp) else []
    return is_only_lent(value, op) and all(stream_of(each) == stream_of(op) for each in makers)


def is_only_lent(value: SSAValue, last: Operation) -> bool:
    """Whether ``last`` is the last user of ``value``, takes it once, and no user aliases or saves it. All use one stream."""
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
    """Whether all users of ``value`` and its views come before ``op`` on the same stream, and do not save it."""
    names = [value]
    for name in names:
        for user in {use.operation for use in name.uses}:
            is_before = user.parent is op.parent and user.is_before_in_block(op) and stream_of(user) == stream_of(op)
            if not is_before or user.regions or may_retain(user):
                return False
            names += [user.results[i] for i, source in aliases(user) if source is name and user.results[i] not in names]
    return True


def _is_local(value: SSAValue) -> bool:
    """Whether ``value`` is memory that its op allocated for it alone, outside of arenas."""
    made = value.owner
    if isinstance(made, AllocOp):
        return made.arena is None
    if not isinstance(made, TorchOp) or not is_pure(made) or may_retain(made):
        return False
    return all(made.results[index] is not value for index, _ in aliases(made))


def _hands_on(op: Operation, value: SSAValue) -> bool:
    """Whether ``op`` has a result that aliases ``value``, or may save or release ``value``."""
    named = (operand is value and op.results[index].first_use is not None for index, operand in aliases(op))
    return isinstance(op, FreeOp) or bool(op.regions) or op.has_trait(IsTerminator) or may_retain(op) or any(named)


def leaves(value: SSAValue) -> bool:
    """Whether ``value`` or a view of it is returned, or passed to an op that may save it."""
    names = [value]
    for name in names:
        for op in {use.operation for use in name.uses}:
            if op.has_trait(IsTerminator) or may_retain(op):
                return True
            names += [op.results[i] for i, source in aliases(op) if source is name and op.results[i] not in names]
    return False


def unrelease(value: SSAValue) -> None:
    """Remove the releases of ``value``."""
    for release in [use.operation for use in value.uses if isinstance(use.operation, FreeOp)]:
        rest = [each for each in release.operands if each is not value]
        if rest:
            release.operands = rest
        else:
            Rewriter.erase_op(release)


# in-place variants of operators, for operands without later uses


def update_dying_operands(block: Block) -> None:
    """Replace operators of ``block`` by in-place variants that update a dead operand of the type of the result.

    The operand must have no aliases and be released immediately after the operator.
    """
    for op in list(block.ops):
        update = update_of(op) if isinstance(op, TorchOp) and isinstance(op.next_op, FreeOp) else None
        if isinstance(op, TorchOp) and update is not None and ends_with(update.operand, op):
            unrelease(update.operand)
            arguments = update.variant.divide(op.bound())
            call = update.variant.build_call(*arguments, op.result_types, attributes=op.attributes, location=op.location)
            Rewriter.replace_op(op, call, [update.operand], safe_erase=False)
            count("operators in place")


class Update(NamedTuple):
    """An in-place variant of an operator, which writes its result to ``operand``."""

    variant: type[TorchOp]
    operand: SSAValue


def update_of(op: TorchOp) -> Update | None:
    """The in-place variant of ``op``, as ``add_`` for ``add``, if it writes one operand of the result's type; else None."""
    namespace, name, overload = op.operator.split(".")
    if namespace not in BORROWING_NAMESPACES or f"{name}_" in RESHAPED_IN_PLACE:
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
    return Update(cls, operand) if isa(operand, SSAValue) and operand.type == op.results[0].type else None
