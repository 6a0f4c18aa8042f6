"""What it costs to compute two slices of a program in one kernel: bytes saved against work repeated and parallelism lost.

The loops of a kernel are *rows*, which run in parallel, and what each row does inside. What a reduction gives is there once
its row is done, so only what has the same rows may go on with it. What others do not read is not stored: each stage (a
reduction, or a result of the group) that needs it computes it again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX

from fxc.dialects.attributes.size_polynomials import Steps
from fxc.dialects.target import CpuAttr, TargetAttr

ANY_SIZE = 1021
"""What a size that is not known counts as where costs are compared: no static size is likely to be the same."""

SORTING = 6
"""Launches that take about as long as PyTorch takes to sort updates."""

MOST_VALUES = 128
"""How many inputs and outputs a group may have together."""

MOST_COPIES = 256
"""How many operations a kernel may have more than its group, as several stages compute them, or one at several places."""

MOST_OPERATIONS = 2048
"""How many additions the operations of a group may take as long as: LLVM takes more than twice the time for twice the code."""

ROWS = "rows: two reductions that keep other dimensions"
DOMAIN = "domain: one reduces, and the other has other loops than what is reduced"
PARALLELISM = "parallelism: too few rows for what each of them would do"
WORK = "work: what is computed again takes longer than memory does"
LENGTH = "length: what stages compute again makes a kernel long, and slow to compile"
CODE = "code: a kernel of so many operations is slow to compile"
ROOM = "room: a kernel has no registers for so many tensors"
SHAPE = "shape: a result and what reads it have other loops"
ATOMICS = "updates: programs of a CPU would wait for each other, and PyTorch's call does not"
ORDER = "order: floats that are added in any order differ from run to run, and a program of one order is asked for"
CONTENTION = "contention: so many updates meet an element that to sort them first, as PyTorch does, is faster"
TRAFFIC = "traffic: what is added up in memory of its own is written and read once more, which takes longer than a call"
"""The rules, as remarks say them."""


def assumed(shape: Sequence[Steps]) -> tuple[int, ...]:
    """``shape`` as costs are compared, with ``ANY_SIZE`` for a size that is not known."""
    return tuple(size if isinstance(size, int) and size != DYNAMIC_INDEX else ANY_SIZE for size in shape)


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
    copies: int = 0
    """How many operations a kernel has more than the slice, as several stages compute them, or one at several places."""

    operations: int = 0
    """How many additions its operations take as long as, for one element."""

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def rows(self) -> tuple[int, ...]:
        assert self.reduced is not None
        return tuple(size for dim in self.kept if (size := self.reduced[dim]) != 1)

    def has_rows_of(self, other: Extent) -> bool:
        return self.rows == other.rows and (self.reduced != other.reduced or self.kept == other.kept)

    def joined(self, other: Extent) -> Extent:
        """That of both, of which neither computes more than before."""
        large = self if self.elements > other.elements else other
        row = self if self.reduced is not None else other
        return Extent(
            shape=large.shape,
            reduced=row.reduced,
            kept=row.kept,
            repeated=self.repeated + other.repeated,
            copies=self.copies + other.copies,
            operations=self.operations + other.operations,
        )


@dataclass(frozen=True)
class Updates:
    """``count`` updates of ``elements``, each of ``element_bytes`` where they are combined. ``again``: the result is made of
    what was combined, and is not it. ``sorted``: PyTorch sorts them first. ``adds_floats``: the order says how sums are
    rounded."""

    count: int
    elements: int
    element_bytes: int
    again: bool
    sorted: bool
    adds_floats: bool


@dataclass(frozen=True)
class CostModel:
    """Numbers of a machine. ``programs``: how many rows keep it busy. ``small``: elements that are too few for a program of
    their own. ``values``: how many tensors a kernel has room for. ``rate``: operations, and ``bandwidth``: bytes of memory, a
    nanosecond. ``launch``: nanoseconds that a kernel costs whatever it does. ``lone``: some operators are kernels alone.
    ``atomic``: nanoseconds between two updates of one element; None where programs should not update the same elements.
    ``ordered``: floats are not added in any order."""

    programs: int
    small: int
    values: int
    rate: float
    bandwidth: float
    launch: float
    lone: bool
    atomic: float | None = None
    ordered: bool = False

    @classmethod
    def of(cls, target: TargetAttr, *, ordered: bool = False) -> CostModel:
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
        atomic = float(target.atomic.value.data)
        return cls(processors, 4 * most, values, rate, bandwidth, launch, lone=False, atomic=atomic, ordered=ordered)

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

    def objection_of_updates(self, updates: Updates) -> str | None:
        """The rule that forbids a kernel for ``updates``."""
        if self.atomic is None:
            return ATOMICS
        if self.ordered and updates.adds_floats:
            return ORDER
        saved = self.launch * (SORTING if updates.sorted else 1)
        if updates.sorted and self.atomic * updates.count / max(updates.elements, 1) > saved:
            return CONTENTION
        more = 2 * updates.element_bytes * ((updates.elements if updates.again else 0) - updates.count)
        return TRAFFIC if more / self.bandwidth > saved else None

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
