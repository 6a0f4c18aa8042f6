"""Liveness of the buffers of a block, and whether they escape from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from fxc.dialects.base.effects import may_retain
from fxc.dialects.plan import AllocOp, ArenaType, aligned, released, stream_of
from fxc.dialects.plan.accesses import Clocks, only_names
from fxc.dialects.plan.lifetimes import MemoryNames, reads
from fxc.passes.plan.offsets import LiveRange


@dataclass(eq=False)
class Buffer:
    """The memory of one ``plan.alloc``.

    ``start``, ``end``: the positions in the block of its allocation and its last release; ``end`` is None if it has none.
    ``uses``: stream -> the time of its last op that uses the buffer; empty if there is only one stream. ``over``: the position
    from which on every stream is ordered after all uses; None if there is no such position, or no ``end``. ``is_seen``: it is
    returned, or passed to an op that may save it.
    """

    op: AllocOp
    start: int
    end: int | None = None
    uses: dict[int, int] = field(default_factory=dict[int, int])
    over: int | None = None
    is_seen: bool = False

    @property
    def bytes(self) -> int:
        """The size in an arena; 0 if it is not known before the call."""
        return 0 if self.op.numbers else aligned(self.op.needed())

    @property
    def device(self) -> str:
        return self.op.device

    @property
    def is_part(self) -> bool:
        """Whether it is the arena of a called function."""
        return isinstance(self.op.buffer.type, ArenaType)

    @property
    def stream(self) -> int | None:
        """The only stream that uses it; None if there are several."""
        streams = self.uses.keys() or {0}
        return next(iter(streams)) if len(streams) == 1 else None

    def span(self, length: int, *, on_all: bool = False) -> LiveRange:
        """The live range in a block of ``length`` ops. ``on_all``: until every stream is ordered after all uses."""
        end = self.over if on_all else self.end
        return LiveRange(self.bytes, self.start, length if end is None else end)

    @property
    def is_inside(self) -> bool:
        """Whether its memory is dead after ``end``."""
        return self.end is not None and not self.is_seen


class Buffers:
    """Tracks the buffers of a block. ``walk`` yields each op before it is processed. ``clocks``: the order of the streams."""

    def __init__(self) -> None:
        self.found = list[Buffer]()
        self._of = dict[SSAValue, Buffer]()
        """Result of a ``plan.alloc`` -> its buffer."""
        self._names = MemoryNames(released)
        self.used = set[SSAValue]()
        """The values that the ops so far have read or written."""
        self.clocks = Clocks()
        self._streams = {0}
        self._in_use = set[Buffer]()
        """Released buffers that a stream may still access."""

    def walk(self, block: Block) -> Iterator[Operation]:
        self._streams |= set(map(stream_of, block.ops))
        for place, op in enumerate(list(block.ops)):
            if op.parent is block:
                yield op
            if op.parent is block:
                self._step(place, op)

    def _step(self, place: int, op: Operation) -> None:
        if isinstance(op, AllocOp):
            self._of[op.buffer] = Buffer(op, place)
            self.found.append(self._of[op.buffer])
            self._names.make(op.buffer)
            return
        if self.clocks.follow(op):
            self._settle(place)
            return
        values = list(reads(op))
        if len(self._streams) > 1 and not only_names(op):
            stream = stream_of(op)
            time = self.clocks.run(stream)
            for buffer in self._buffers(values):
                buffer.uses[stream] = time
        self.used.update(values)
        if op.has_trait(IsTerminator) or may_retain(op):
            for buffer in self._buffers(values):
                buffer.is_seen = True
        for memory in self._names.step(op):
            self._of[memory].end = place
            self._in_use.add(self._of[memory])
        self._settle(place)

    def _settle(self, place: int) -> None:
        """Record the buffers that all streams have finished using."""
        for buffer in [buffer for buffer in self._in_use if all(self.is_over(buffer, stream) for stream in self._streams)]:
            buffer.over = place
            self._in_use.remove(buffer)

    def of(self, value: SSAValue) -> list[Buffer]:
        """The buffers that ``value`` may alias."""
        return [self._of[memory] for memory in self._names.memory.get(value, ())]

    def is_only_name(self, value: SSAValue, buffer: Buffer) -> bool:
        """Whether ``value`` is the only unreleased alias of ``buffer``."""
        return self._names.open[buffer.op.buffer] == {value}

    def rename(self, value: SSAValue, view: SSAValue) -> None:
        """From here on, ``view`` instead of ``value`` names the memory of ``value``."""
        self._names.share(view, value)
        for memory in self._names.memory.get(value, ()):
            self._names.open[memory].discard(value)

    def is_over(self, buffer: Buffer, stream: int) -> bool:
        """Whether the next op on ``stream`` is ordered after all uses of ``buffer`` so far."""
        return all(self.clocks.is_over(user, time, stream) for user, time in buffer.uses.items())

    def _buffers(self, values: list[SSAValue]) -> Iterator[Buffer]:
        for value in values:
            yield from self.of(value)


def buffers_of(block: Block) -> list[Buffer]:
    """The buffers of ``block``, in order of allocation."""
    buffers = Buffers()
    for _ in buffers.walk(block):
        pass
    return buffers.found
