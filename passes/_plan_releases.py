"""Where each name of a block is used last."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from fxc.dialects.effects import aliases
from fxc.dialects.plan import FreeOp
from fxc.dialects.plan.lifetimes import reads
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.dialects.types import is_mutable


def insert_releases(block: Block) -> None:
    """Put a ``plan.free`` behind the last use of each value that ``block`` makes and does not return."""
    for op, values in last_uses(block).items():
        Rewriter.insert_op(FreeOp.of(values), InsertPoint.after(op))


def last_uses(block: Block) -> dict[Operation, list[SSAValue]]:
    """Op -> the values that ``block`` makes whose last use it is, or whose only trace it is, one result of several."""
    found, seen = dict[Operation, list[SSAValue]](), set[SSAValue]()
    for op in reversed(block.ops):
        ends = op.has_trait(IsTerminator)
        for value in (*reads(op), *_unused(op)):
            if value in seen:
                continue
            seen.add(value)
            if not ends and _is_made_in(block, value):
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
