"""Which arguments of a function its ops may write, and which values share memory with them."""

from __future__ import annotations

from collections.abc import Container

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import IsTerminator

from fxc.dialects.base.effects import aliases, writes
from fxc.dialects.torch_ops.base import TorchOp, counts_in_storage


def written_arguments(function: FuncOp, *, or_returned: bool = True) -> set[SSAValue]:
    """The arguments whose memory an op of ``function`` may write, also through views.

    An op with unknown effects may write all its operands. ``or_returned``: also the arguments that ``function`` returns, which
    its caller may write.
    """
    sources, found = dict[SSAValue, set[SSAValue]](), set[SSAValue]()
    for op in function.body.block.ops:
        changed = [] if op.has_trait(IsTerminator) and not or_returned else writes(op)
        for value in op.operands if changed is None else changed:
            found |= sources.get(value, {value})
        for index, value in aliases(op):
            sources.setdefault(op.results[index], set()).update(sources.get(value, {value}))
    return found & set(function.args)


def placed_arguments(module: ModuleOp, function: FuncOp) -> set[SSAValue]:
    """The arguments of ``function`` whose storage offset, or that of a view of them, an op reads or may read."""
    if not any(map(_counts, module.walk())):
        return set()
    sources, found = dict[SSAValue, set[SSAValue]](), set[SSAValue]()
    for op in function.body.block.ops:
        if isinstance(op, CallOp) or any(map(_counts, op.walk())):
            for value in op.operands:
                found |= sources.get(value, {value})
        for index, value in aliases(op):
            sources.setdefault(op.results[index], set()).update(sources.get(value, {value}))
    return found & set(function.args)


def _counts(op: Operation) -> bool:
    return isinstance(op, TorchOp) and counts_in_storage(op)


def is_view_of(value: SSAValue, bases: Container[SSAValue]) -> bool:
    """Whether ``value`` may be one of ``bases`` or a view of one."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        current = pending.pop()
        if current in bases:
            return True
        if current not in seen and isinstance(current.owner, Operation):
            pending += [source for index, source in aliases(current.owner) if current.owner.results[index] is current]
        seen.add(current)
    return False
