"""Where each name of a block is used last."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.types import is_mutable
from fxc.dialects.base.effects import aliases
from fxc.dialects.plan import FreeOp, is_boxed
from fxc.dialects.plan.lifetimes import reads
from fxc.dialects.torch_ops.constant import ConstantOp


def insert_releases(block: Block) -> None:
    """Put a ``plan.free`` behind the last use of each value that ``block`` makes, or takes to keep, and does not return."""
    for op, values in last_uses(block).items():
        Rewriter.insert_op(FreeOp.of(values), InsertPoint.after(op))


def last_uses(block: Block) -> dict[Operation, list[SSAValue]]:
    """Op -> the values of ``block`` whose last use it is, or whose only trace it is, one result of several."""
    found, seen = dict[Operation, list[SSAValue]](), set[SSAValue]()
    for op in reversed(block.ops):
        ends = op.has_trait(IsTerminator)
        for value in (*reads(op), *_unused(op)):
            if value in seen:
                continue
            seen.add(value)
            if not ends and (_is_made_in(block, value) or _is_owned(block, value)):
                found.setdefault(op, []).append(value)
    return found


def _unused(op: Operation) -> Iterator[SSAValue]:
    """The results that nothing reads, of an op with several: a name is bound to each. Not those that are operands."""
    if len(op.results) > 1:
        shared = {index for index, _ in aliases(op)}
        yield from (result for result in op.results if result.first_use is None and result.index not in shared)


def _is_made_in(block: Block, value: SSAValue) -> bool:
    owner = value.owner
    return (
        isinstance(owner, Operation) and owner.parent is block and not isinstance(owner, ConstantOp) and is_mutable(value.type)
    )


def _is_owned(block: Block, value: SSAValue) -> bool:
    """Whether ``value`` is an argument that nobody else holds, of a function that takes them in a list."""
    return value.owner is block and is_boxed(block) and is_mutable(value.type)
