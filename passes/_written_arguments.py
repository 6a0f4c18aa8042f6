"""Which arguments of a function its ops write."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from fxc.dialects.effects import aliases, writes


def written_arguments(function: FuncOp) -> set[SSAValue]:
    """The arguments whose memory an op of ``function`` may write, through views too; what an op does not say it may write."""
    sources, found = dict[SSAValue, set[SSAValue]](), set[SSAValue]()
    for op in function.body.block.ops:
        changed = writes(op)
        for value in op.operands if changed is None else changed:
            found |= sources.get(value, {value})
        for index, value in aliases(op):
            sources.setdefault(op.results[index], set()).update(sources.get(value, {value}))
    return found & set(function.args)
