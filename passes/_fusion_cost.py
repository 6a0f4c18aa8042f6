"""What it costs to compute two slices of a program in one kernel: bytes saved against work repeated and parallelism lost.

The loops of a kernel are *rows*, which run in parallel, and what each row does inside. What a reduction gives is there once
its row is done, so only what has the same rows may go on with it. What others do not read is not stored: each stage (a
reduction, or a result of the group) that needs it computes it again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fxc.dialects.target import CpuAttr, TargetAttr

MOST_VALUES = 128
"""How many inputs and outputs a group may have together."""

ROWS = "rows: two reductions that keep other dimensions"
DOMAIN = "domain: one reduces, and the other has other loops than what is reduced"
PARALLELISM = "parallelism: too few rows for what each of them would do"
WORK = "work: what is computed again takes longer than memory does"
ROOM = "room: a kernel has no registers for so many tensors"
SHAPE = "shape: a result and what reads it have other loops"
"""The rules, as remarks say them."""


@dataclass(frozen=True)
class Extent:
    """The loops of a slice: ``shape`` of the largest tensor that it computes or reduces, ones left out.

    Of a slice that reduces, ``reduced`` is the shape of what is reduced and ``kept`` the dimensions that are left.
    """

    shape: tuple[int, ...]
    reduced: tuple[int, ...] | None = None
    kept: tuple[int, ...] = ()
    repeated: float = 0.0
    """Work that is done more than once, in elements times operations."""

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def rows(self) -> tuple[int, ...]:
        assert self.reduced is not None
        return tuple(size for dim in self.kept if (size := self.reduced[dim]) != 1)

    def has_rows_of(self, other: Extent) -> bool:
        return self.rows == other.rows and (self.reduced != other.reduced or self.kept == other.kept)

    def joined(self, other: Extent, repeated: float) -> Extent:
        large = self if self.elements > other.elements else other
        row = self if self.reduced is not None else other
        return Extent(large.shape, row.reduced, row.kept, self.repeated + other.repeated + repeated)


@dataclass(frozen=True)
class CostModel:
    """Numbers of a machine. ``programs``: how many rows keep it busy. ``small``: elements that are too few for a program of
    their own. ``values``: how many tensors a kernel has room for. ``rate``: operations, and ``bandwidth``: bytes of memory, a
    nanosecond. ``launch``: nanoseconds that a kernel costs whatever it does. ``lone``: some operators are kernels alone."""

    programs: int
    small: int
    values: int
    rate: float
    bandwidth: float
    launch: float
    lone: bool

    @classmethod
    def of(cls, target: TargetAttr) -> CostModel:
        """``target`` as numbers: a core adds two vectors in a cycle."""
        machine = target.fields()
        clock, bandwidth, launch = (float(machine[name]) for name in ("clock", "bandwidth", "launch"))
        if isinstance(target, CpuAttr):
            threads = target.threads.value.data
            rate = 2 * target.lanes() * clock / 1000
            programs, small = max(16, 4 * threads), target.l1.value.data // 8
            return cls(programs, small, MOST_VALUES, rate * threads, bandwidth * threads, launch, lone=True)
        processors, most = target.multiprocessors.value.data, target.max_threads.value.data
        rate = processors * target.units.value.data * clock / 1000
        values = min(MOST_VALUES, target.registers.value.data // most)
        return cls(processors, 4 * most, values, rate, bandwidth, launch, lone=False)

    def objection(self, producer: Extent, consumer: Extent, *, stored: bool) -> str | None:
        """The rule that forbids one kernel for both. ``stored``: others read what ``producer`` gives to ``consumer``."""
        if producer.reduced is not None and consumer.reduced is not None:
            return None if producer.has_rows_of(consumer) else ROWS
        if producer.reduced is not None:
            return self._after(producer, consumer)
        if not stored:
            return None
        if consumer.reduced is not None:
            return self._after(consumer, producer)
        if (producer.elements == 1) != (consumer.elements == 1):
            return SHAPE
        return None if _is_within(producer.shape, consumer.shape) or _is_within(consumer.shape, producer.shape) else SHAPE

    def objection_of_siblings(self, a: Extent, b: Extent) -> str | None:
        """The rule that forbids one kernel for two that read the same tensor, but not each other."""
        if a.reduced is not None and b.reduced is not None:
            return None if a.has_rows_of(b) else ROWS
        if a.reduced is None and b.reduced is None:
            return None if a.shape == b.shape else SHAPE
        return self._after(*((a, b) if a.reduced is not None else (b, a)))

    def is_too_much_work(self, extent: Extent, traffic: int) -> bool:
        """Whether what ``extent`` repeats takes longer than a launch, and the ``traffic``, in bytes, of its kernel."""
        return extent.repeated / self.rate > self.launch + traffic / self.bandwidth

    def _after(self, reduction: Extent, other: Extent) -> str | None:
        """The rule that forbids to compute ``other`` row by row of ``reduction``."""
        if not _is_within(reduction.rows, other.shape) or other.elements > max(reduction.elements, self.small):
            return DOMAIN
        rows = math.prod(reduction.rows)
        return PARALLELISM if rows < self.programs and other.elements > self.small * rows else None


def _is_within(part: Sequence[int], whole: Sequence[int]) -> bool:
    """Whether ``part`` is left of ``whole`` where some numbers are left out."""
    rest = iter(whole)
    return all(size in rest for size in part)
