"""Assign offsets to buffers that share a block of memory, so that buffers with overlapping live ranges do not overlap.

A buffer is live from step ``start`` to before step ``end``. If all sizes are multiples of an alignment, so are all offsets.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

MOST_PAIRS = 32
"""The maximum average number of overlapping live ranges per buffer for ``by_size``, which visits each of them."""


@dataclass(frozen=True)
class LiveRange:
    """The size of a buffer in bytes, its first step, and the step before which it ends."""

    size: int
    start: int
    end: int


@dataclass(frozen=True)
class MemoryPlan:
    """An offset for each buffer, and the end of the last buffer."""

    offsets: tuple[int, ...]
    peak: int


def lower_bound(spans: Sequence[LiveRange]) -> int:
    """The maximum number of live bytes at one step, which is a lower bound for all layouts."""
    live = highest = 0
    for _, change in sorted([(span.start, span.size) for span in spans] + [(span.end, -span.size) for span in spans]):
        live += change
        highest = max(highest, live)
    return highest


def best_layout(spans: Sequence[LiveRange]) -> MemoryPlan:
    """The smallest of three layouts: best fit in order of time, in reverse order, and by size if that is not too slow."""
    bound, best = lower_bound(spans), None
    for layout in _layouts(spans):
        if best is None or layout.peak < best.peak:
            best = layout
        if best.peak == bound:
            break
    assert best is not None
    return best


def _layouts(spans: Sequence[LiveRange]) -> Iterator[MemoryPlan]:
    yield by_time(spans)
    yield by_time([LiveRange(span.size, -span.end, -span.start) for span in spans])
    if (others := _in_use_together(spans, MOST_PAIRS * len(spans))) is not None:
        yield by_size(spans, others)


def by_time(spans: Sequence[LiveRange]) -> MemoryPlan:
    """Place buffers in order of time: each in the smallest gap that fits, else at the end, which grows."""
    gaps, offsets, ends = _Gaps(), [0] * len(spans), list[tuple[int, int]]()
    for i in sorted(range(len(spans)), key=lambda i: (spans[i].start, -spans[i].size, i)):
        while ends and ends[0][0] <= spans[i].start:
            _, gone = heappop(ends)
            gaps.give(offsets[gone], spans[gone].size)
        offsets[i] = gaps.take(spans[i].size)
        heappush(ends, (spans[i].end, i))
    return MemoryPlan(tuple(offsets), gaps.end)


def by_size(spans: Sequence[LiveRange], others: Sequence[Sequence[int]]) -> MemoryPlan:
    """Place buffers from the largest: each in the smallest gap between its placed ``others``, else after them."""
    offsets: list[int] = [-1] * len(spans)
    for i in sorted(range(len(spans)), key=lambda i: (-spans[i].size, spans[i].start, i)):
        placed = sorted((offsets[j], offsets[j] + spans[j].size) for j in others[i] if offsets[j] >= 0)
        offsets[i] = _smallest_gap(placed, spans[i].size)
    return MemoryPlan(tuple(offsets), max((o + span.size for o, span in zip(offsets, spans, strict=True)), default=0))


def _smallest_gap(placed: Sequence[tuple[int, int]], size: int) -> int:
    """The start of the smallest gap of at least ``size`` between ``placed``; the end of the last range if there is none."""
    reached, best, width = 0, -1, 0
    for start, end in placed:
        if start - reached >= size and (best < 0 or start - reached < width):
            best, width = reached, start - reached
        reached = max(reached, end)
    return reached if best < 0 else best


def _in_use_together(spans: Sequence[LiveRange], limit: int) -> list[list[int]] | None:
    """For each buffer the buffers with overlapping live ranges; None if there are more than ``limit`` pairs."""
    others: list[list[int]] = [[] for _ in spans]
    live, ends, pairs = set[int](), list[tuple[int, int]](), 0
    for i in sorted(range(len(spans)), key=lambda i: spans[i].start):
        while ends and ends[0][0] <= spans[i].start:
            live.discard(heappop(ends)[1])
        pairs += len(live)
        if pairs > limit:
            return None
        for j in live:
            others[i].append(j)
            others[j].append(i)
        live.add(i)
        heappush(ends, (spans[i].end, i))
    return others


class _Gaps:
    """The free bytes below ``end``, as gaps indexed by size and by position. Adjacent gaps are merged."""

    def __init__(self) -> None:
        self.end = 0
        self.by_size = list[tuple[int, int]]()
        self.size_at, self.start_before = dict[int, int](), dict[int, int]()

    def take(self, size: int) -> int:
        """Allocate ``size`` bytes and return their start."""
        index = bisect_left(self.by_size, (size, -1))
        if index < len(self.by_size):
            width, start = self.by_size[index]
            self._remove(start, width)
            if width > size:
                self._add(start + size, width - size)
            return start
        start = self.start_before.get(self.end, self.end)  # a gap at the end grows
        if start < self.end:
            self._remove(start, self.end - start)
        self.end = start + size
        return start

    def give(self, start: int, size: int) -> None:
        """Free ``size`` bytes at ``start``."""
        if (before := self.start_before.get(start)) is not None:
            self._remove(before, start - before)
            start, size = before, size + start - before
        if (after := self.size_at.get(start + size)) is not None:
            self._remove(start + size, after)
            size += after
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        insort(self.by_size, (size, start))
        self.size_at[start], self.start_before[start + size] = size, start

    def _remove(self, start: int, size: int) -> None:
        del self.by_size[bisect_left(self.by_size, (size, start))]
        del self.size_at[start], self.start_before[start + size]
