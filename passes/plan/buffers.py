"""The buffers of a block: from where to where each is in use, and whether something outside may see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from fxc.dialects.base.effects import may_keep
from fxc.dialects.plan import AllocOp, ArenaType, aligned, released, stream_of
from fxc.dialects.plan.accesses import only_names
from fxc.dialects.plan.clocks import Clocks
from fxc.dialects.plan.lifetimes import Names, reads
from fxc.passes.plan.offsets import LiveRange


@dataclass(eq=False)
class Buffer:
    """The memory of one ``plan.alloc``.

    ``start``, ``end``: the places in the block of its making and of its last release; ``end`` is None where there is none.
    ``uses``: of each stream that used it, the time of the last op; nothing where there is one stream only. ``over``: the place
    from which on every stream comes after all of these; None where there is none, or no ``end``.
    ``is_seen``: it is returned, or given to what may keep it.
    """

    op: AllocOp
    start: int
    end: int | None = None
    uses: dict[int, int] = field(default_factory=dict[int, int])
    over: int | None = None
    is_seen: bool = False

    @property
    def bytes(self) -> int:
        """How many there are in an arena; none where that is not known before the call."""
        return 0 if self.op.numbers else aligned(self.op.needed())

    @property
    def device(self) -> str:
        return self.op.device

    @property
    def is_part(self) -> bool:
        """Whether it is the arena of a function that is called."""
        return isinstance(self.op.buffer.type, ArenaType)

    @property
    def stream(self) -> int | None:
        """The stream that alone uses it; None where there are several."""
        streams = self.uses.keys() or {0}
        return next(iter(streams)) if len(streams) == 1 else None

    def span(self, length: int, *, on_all: bool = False) -> LiveRange:
        """From when to when it is used in a block of ``length`` ops; ``on_all``: until each stream comes after that."""
        end = self.over if on_all else self.end
        return LiveRange(self.bytes, self.start, length if end is None else end)

    @property
    def is_inside(self) -> bool:
        """Whether its memory is of no use after ``end``."""
        return self.end is not None and not self.is_seen


class Buffers:
    """Follows the buffers of a block; ``walk`` gives each op, before it is counted. ``clocks``: what is over then."""

    def __init__(self) -> None:
        self.found = list[Buffer]()
        self._of = dict[SSAValue, Buffer]()
        """What a ``plan.alloc`` made -> its buffer."""
        self._names = Names(released)
        self.used = set[SSAValue]()
        """The names that an op so far has read or written."""
        self.clocks = Clocks()
        self._streams = {0}
        self._in_use = set[Buffer]()
        """Those that are released while a stream may work on them."""

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
        if op.has_trait(IsTerminator) or may_keep(op):
            for buffer in self._buffers(values):
                buffer.is_seen = True
        for memory in self._names.step(op):
            self._of[memory].end = place
            self._in_use.add(self._of[memory])
        self._settle(place)

    def _settle(self, place: int) -> None:
        """Note which buffers are over."""
        for buffer in [buffer for buffer in self._in_use if all(self.is_over(buffer, stream) for stream in self._streams)]:
            buffer.over = place
            self._in_use.remove(buffer)

    def of(self, value: SSAValue) -> list[Buffer]:
        """The buffers that ``value`` may be in."""
        return [self._of[memory] for memory in self._names.memory.get(value, ())]

    def is_only_name(self, value: SSAValue, buffer: Buffer) -> bool:
        """Whether nothing but ``value`` may be in ``buffer``, but for what is released."""
        return self._names.open[buffer.op.buffer] == {value}

    def rename(self, value: SSAValue, view: SSAValue) -> None:
        """``view`` is the name of the memory of ``value`` from here on."""
        self._names.share(view, value)
        for memory in self._names.memory.get(value, ()):
            self._names.open[memory].discard(value)

    def is_over(self, buffer: Buffer, stream: int) -> bool:
        """Whether the next op on ``stream`` comes after all uses of ``buffer`` so far."""
        return all(self.clocks.is_over(user, time, stream) for user, time in buffer.uses.items())

    def _buffers(self, values: list[SSAValue]) -> Iterator[Buffer]:
        for value in values:
            yield from self.of(value)


def buffers_of(block: Block) -> list[Buffer]:
    """The buffers of ``block``, in the order in which they are made."""
    buffers = Buffers()
    for _ in buffers.walk(block):
        pass
    return buffers.found
