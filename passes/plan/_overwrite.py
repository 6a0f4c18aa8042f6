"""Kernels that write over an input that nothing uses later."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from fxc.dialects.plan import AllocOp, FreeOp, LaunchOp, stream_of
from fxc.dialects.tile import KernelOp
from fxc.dialects.tile.kernel import INIT
from fxc.passes._statistics import count
from fxc.passes.plan._buffers import Buffers
from fxc.passes.plan._in_place import allow, writes_over


def overwrite_dying_inputs(block: Block) -> None:
    """Let launches of ``block`` write over an input of the same type that is released right behind, where their kernel may."""
    buffers, known = Buffers(), _Kernels()
    for op in buffers.walk(block):
        if isinstance(op, LaunchOp) and isinstance(op.next_op, FreeOp) and (kernel := op.kernel()) is not None:
            for place, out in enumerate(list(op.outs)):
                _overwrite(op, kernel, place, out, buffers, known)


class _Kernels:
    """What is known of pairs of pointers: each is looked at once."""

    def __init__(self) -> None:
        self._known = dict[tuple[SSAValue, SSAValue], bool]()

    def may(self, kernel: KernelOp, read: int, written: int) -> bool:
        source, target = kernel.inputs()[read], kernel.outputs()[written]
        if (source, target) not in self._known:
            fresh = INIT not in kernel.argument_attributes(target)
            self._known[source, target] = fresh and writes_over(kernel, source, target)
        return self._known[source, target]


def _overwrite(op: LaunchOp, kernel: KernelOp, place: int, out: SSAValue, buffers: Buffers, known: _Kernels) -> None:
    if not isinstance(out.owner, AllocOp) or out.owner.arena is not None or out in buffers.used or out in op.inputs:
        return
    for index, source in enumerate(op.inputs[: len(kernel.inputs())]):
        if source.type == out.type and _dies(source, op, buffers) and known.may(kernel, index, place):
            allow(kernel, kernel.inputs()[index], kernel.outputs()[place])
            _merge(op, out, source)
            count("launches in place")
            return


def _dies(source: SSAValue, op: LaunchOp, buffers: Buffers) -> bool:
    """Whether ``source`` is a whole buffer that nothing else uses, on no stream, released right behind ``op``."""
    release, found = op.next_op, buffers.of.get(source, [])
    if not isinstance(release, FreeOp) or len(found) != 1 or found[0].op.buffer is not source or found[0].op.arena is not None:
        return False
    alone = found[0].names == {source} and not found[0].is_seen and buffers.is_over(found[0], stream_of(op))
    return alone and source in release.values and [*op.operands].count(source) == 1


def _merge(op: LaunchOp, out: SSAValue, source: SSAValue) -> None:
    """``source`` takes the place of ``out``; it is released when ``out`` was."""
    release, allocation = op.next_op, out.owner
    assert isinstance(release, FreeOp) and isinstance(allocation, Operation)
    rest = [value for value in release.values if value is not source]
    if rest:
        release.operands = rest
    else:
        Rewriter.erase_op(release)
    out.replace_all_uses_with(source)
    Rewriter.erase_op(allocation)
