"""Verify lifetimes in a block of the ``plan`` level: no name is used after its release, no two live buffers share bytes.

The check is independent of how offsets were chosen: it follows buffers in program order, through views, until their last name
is released.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from fxc.dialects.base.effects import aliases
from fxc.dialects.text.diagnostics import OpVerifyException


def reads(op: Operation) -> Iterator[SSAValue]:
    """The values that ``op`` reads, including those read in its regions."""
    yield from op.operands
    for region in op.regions:
        for inner in region.walk():
            yield from inner.operands


def check_releases(block: Block, released: Callable[[Operation], Sequence[SSAValue]]) -> None:
    """Raise OpVerifyException where a name is used after an op that releases it."""
    gone = set[SSAValue]()
    for op in block.ops:
        for value in reads(op):
            if value in gone:
                raise OpVerifyException(f"{op.name}: %{_name(value)} is used after its release", op)
        gone.update(released(op))


class MemoryNames:
    """Tracks the names of memory through a block: the defining value and views, until all are released."""

    def __init__(self, released: Callable[[Operation], Sequence[SSAValue]]) -> None:
        self.released = released
        self.memory = dict[SSAValue, dict[SSAValue, None]]()
        """Name -> the memory that it may refer to, as the values that define it."""
        self.open = dict[SSAValue, set[SSAValue]]()
        """Memory -> its names that are not released yet."""

    def make(self, value: SSAValue) -> None:
        """Add new memory with the name ``value``."""
        self.memory[value], self.open[value] = {value: None}, {value}

    def share(self, name: SSAValue, other: SSAValue) -> None:
        """``name`` may refer to the memory of ``other``."""
        for memory in self.memory.get(other, ()):
            self.memory.setdefault(name, {})[memory] = None
            self.open[memory].add(name)

    def step(self, op: Operation) -> Iterator[SSAValue]:
        """Process ``op``, the next one of the block. Yields the memory whose last name it releases."""
        for index, operand in aliases(op):
            if op.results[index].first_use is not None:
                self.share(op.results[index], operand)
        for name in self.released(op):
            for memory in self.memory.get(name, ()):
                self.open[memory].discard(name)
                if not self.open[memory]:
                    yield memory


class ArenaCheck:
    """Tracks the buffers of one arena through a block, op by op."""

    def __init__(self, released: Callable[[Operation], Sequence[SSAValue]]) -> None:
        self.names = MemoryNames(released)
        self.places = list[tuple[int, int]]()
        """First byte and end of each live buffer, sorted; they do not overlap."""
        self.place_of = dict[SSAValue, tuple[int, int]]()

    def place(self, op: Operation, buffer: SSAValue, start: int, end: int) -> None:
        """Add ``buffer`` at these bytes, for ``op``. OpVerifyException where it overlaps a live buffer."""
        self.names.make(buffer)
        if start == end:
            return
        index = bisect_left(self.places, (start, end))
        for other in self.places[max(index - 1, 0) : index + 1]:
            if other[0] < end and start < other[1]:
                [owner] = [value for value, place in self.place_of.items() if place == other]
                text = f"%{_name(buffer)} at bytes {start} to {end} meets %{_name(owner)} at {other[0]} to {other[1]}"
                raise OpVerifyException(f"{op.name}: {text}, which is still in use", op)
        insort(self.places, (start, end))
        self.place_of[buffer] = (start, end)

    def step(self, op: Operation) -> None:
        """Process ``op``, the next one of the block, which is not a ``plan.alloc`` in this arena."""
        if op.has_trait(IsTerminator):
            for value in reads(op):
                if value in self.names.memory:
                    raise OpVerifyException(f"{op.name}: %{_name(value)} is in an arena, which does not outlive the call", op)
        for buffer in self.names.step(op):
            if (place := self.place_of.pop(buffer, None)) is not None:
                self.places.remove(place)


def _name(value: SSAValue) -> str:
    return value._name or "its operand"
