"""Verify the order of streams: ops that use the same memory, one writing, are on one stream or ordered by events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from fxc.dialects.attributes.discardable import stream_of
from fxc.dialects.plan.accesses import Accesses, Clocks, Touched
from fxc.dialects.plan.ops import AllocOp, ArenaOp, LaunchOp
from fxc.dialects.text.diagnostics import OpVerifyException


def check_order(block: Block) -> None:
    """Raise OpVerifyException, which names both ops, for conflicting ops of ``block`` that may run concurrently.

    Work of the caller, before and after the block, is on stream 0: work of another stream must be between an event of stream 0
    and one that stream 0 waits for. Not checked: ops of other blocks, and that the host waits for data that it reads.
    """
    order = _Order()
    for op in block.ops:
        order.step(op)


@dataclass(frozen=True)
class _Use:
    """An access of ``op`` to ``root``, the ``time``-th op of its stream. ``op`` None: the caller; ``root`` None: any memory."""

    time: int
    op: Operation | None = None
    root: SSAValue | None = None
    writes: bool = True


_Uses = dict[int, _Use]
"""Stream -> its last use."""


class _Order:
    def __init__(self) -> None:
        self.accesses = Accesses()
        self.clocks = Clocks()
        self.readers, self.writers = defaultdict[SSAValue, _Uses](dict), defaultdict[SSAValue, _Uses](dict)
        self.last, self.barriers = _Uses(), _Uses()
        self.last[0] = self.barriers[0] = _Use(self.clocks.run(0))

    def step(self, op: Operation) -> None:
        """Process ``op``, the next one of the block."""
        if not self.clocks.follow(op) and (touched := self.accesses.step(op)) is not None:
            stream = stream_of(op)
            time = self.clocks.run(stream)
            if not isinstance(op, (AllocOp, ArenaOp)):  # allocations start no work
                self._check(op, stream, touched)
                self.last[stream] = _Use(time, op)
            self._note(op, stream, time, touched)

    def _check(self, op: Operation, stream: int, touched: Touched) -> None:
        for mine, uses in self._conflicts(op, touched):
            for other, use in uses.items():
                if not self.clocks.is_over(other, use.time, stream):
                    raise OpVerifyException(_complaint(mine, stream, use, other), op)

    def _note(self, op: Operation, stream: int, time: int, touched: Touched) -> None:
        if touched.is_barrier:
            self.barriers[stream] = _Use(time, op)
        for uses, roots in ((self.readers, touched.reads), (self.writers, touched.writes)):
            for root in roots:
                uses[root][stream] = _Use(time, op, root, uses is self.writers)

    def _conflicts(self, op: Operation, touched: Touched) -> Iterator[tuple[_Use, _Uses]]:
        """The uses of ``op``, each with earlier uses that must have finished."""
        for root in (*touched.writes, *touched.reads):
            mine = _Use(0, op, root, root in touched.writes)
            for other in self.accesses.meets(root):
                yield mine, self.writers.get(other, {})
                if mine.writes:
                    yield mine, self.readers.get(other, {})
        mine = _Use(0, op, next(iter((*touched.writes, *touched.reads)), None), bool(touched.writes))
        yield mine, self.barriers
        if touched.is_barrier:
            yield _Use(0, op), self.last


def _complaint(mine: _Use, stream: int, other: _Use, other_stream: int) -> str:
    assert mine.op is not None
    name = _text(mine.op)
    if other.op is None:
        return f"{name} runs on stream {stream}, which waits for no event of what stream {other_stream} did before the block"
    if mine.op.has_trait(IsTerminator):
        return (
            f"{name} comes while {_text(other.op)} on stream {other_stream} may run: stream {stream} waits for no event of it"
        )
    first = f"{name} on stream {stream} {_verb(mine)}"
    second = f"{_text(other.op)} on stream {other_stream} {'writes' if other.writes else 'reads'}"
    if mine.root is not None and other.root is not None and mine.root is not other.root:
        return f"{first}, which shares bytes with {_name(other.root)}, which {second}, and no event orders them"
    return f"{first}, which {second}, and no event orders them"


def _verb(use: _Use) -> str:
    return f"{'writes' if use.writes else 'reads'} {_name(use.root)}" if use.root is not None else "may use any memory"


def _text(op: Operation) -> str:
    if isinstance(op, LaunchOp):
        return f"{op.name} @{op.callee.root_reference.data}"
    return f"{op.name} of {_name(op.results[0])}" if op.results and op.results[0]._name else op.name


def _name(value: SSAValue) -> str:
    return f"%{value._name}" if value._name else "memory"
