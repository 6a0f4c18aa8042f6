"""Growing slices: sets of ops that can be run in one piece, as sets of bits."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence, Set

from xdsl.ir import Operation, SSAValue

from fxc.dialects.effects import is_random


def reads(op: Operation) -> Iterator[SSAValue]:
    """What ``op`` reads, in its regions too."""
    for inner in op.walk():
        yield from inner.operands


class Slices:
    """The ops of one straight line without side effects but draws, as a graph: an op depends on what it reads, and a random
    one on the random one before it. A slice is legal where no way leads out of it and back in, other slices taken as one
    op each."""

    def __init__(self, ops: Sequence[Operation], mergeable: Set[Operation], is_start: Callable[[Operation], bool]) -> None:
        self.ops, self.mergeable, self.is_start = ops, mergeable, is_start
        self.index = {op: i for i, op in enumerate(ops)}
        self.producers = [self._producers(i) for i in range(len(ops))]
        self.waits_for = self._with_draws()
        self.before = [0] * len(ops)
        self.after = [0] * len(ops)
        for i, found in enumerate(self.waits_for):
            for j in found:
                self.before[i] |= self.before[j] | 1 << j
        for i in range(len(ops)):
            for j in _bits(self.before[i]):
                self.after[j] |= 1 << i
        self.slice_of = dict[int, int]()

    def _producers(self, i: int) -> list[int]:
        owners = (self.index.get(value.owner) for value in reads(self.ops[i]) if isinstance(value.owner, Operation))
        return sorted({j for j in owners if j is not None and j != i})

    def _with_draws(self) -> list[list[int]]:
        found, last = list[list[int]](), list[int]()
        for i, op in enumerate(self.ops):
            if any(is_random(inner) for inner in op.walk()):
                found.append([*self.producers[i], *last])
                last = [i]
            else:
                found.append(self.producers[i])
        return found

    def groups(self) -> list[list[Operation]]:
        """The slices, each in the order of its ops."""
        for i in reversed(range(len(self.ops))):
            if i not in self.slice_of and self.ops[i] in self.mergeable and self.is_start(self.ops[i]):
                self._set(1 << i)
                self._grow(i)
        masks = dict.fromkeys(self.slice_of[i] for i in sorted(self.slice_of))
        return [[self.ops[i] for i in _bits(mask)] for mask in masks]

    def _set(self, mask: int) -> None:
        for i in _bits(mask):
            self.slice_of[i] = mask

    def _grow(self, start: int) -> None:
        """Take in producers, the last first, until none can be."""
        grown = True
        while grown:
            grown, mask = False, self.slice_of[start]
            producers = {j for i in _bits(mask) for j in self.producers[i] if not mask >> j & 1}
            for j in sorted(producers, reverse=True):
                mask = self.slice_of[start]
                if not mask >> j & 1 and self.ops[j] in self.mergeable and self._merge(mask | self.slice_of.get(j, 1 << j)):
                    grown = True

    def _merge(self, mask: int) -> bool:
        """Make the ops of ``mask`` one slice, where it is legal."""
        before = after = 0
        for i in _bits(mask):
            before |= self.before[i]
            after |= self.after[i]
        if before & after & ~mask:
            return False
        for i in _bits(before | mask):
            self.after[i] |= after | mask
        for i in _bits(after | mask):
            self.before[i] |= before | mask
        self._set(mask)
        return True

    def order(self, slices: Sequence[list[Operation]]) -> list[list[Operation]]:
        """All ops in an order in which each of ``slices`` is in one piece: the lists that are given, and lists of one op."""
        piece_of = {self.index[op]: piece for piece in slices for op in piece}
        pieces = {id(piece): piece for piece in slices}
        owner = [id(piece_of[i]) if i in piece_of else i for i in range(len(self.ops))]
        first, waits, feeds = dict[int, int](), dict[int, set[int]](), dict[int, set[int]]()
        for i, key in enumerate(owner):
            first.setdefault(key, i)
            for j in self.waits_for[i]:
                if owner[j] != key:
                    waits.setdefault(key, set()).add(owner[j])
                    feeds.setdefault(owner[j], set()).add(key)
        ready = [(i, key) for key, i in first.items() if key not in waits]
        heapq.heapify(ready)
        ordered = list[list[Operation]]()
        while ready:
            i, key = heapq.heappop(ready)
            ordered.append(pieces[key] if i in piece_of else [self.ops[i]])
            for consumer in feeds.get(key, ()):
                waits[consumer].discard(key)
                if not waits[consumer]:
                    heapq.heappush(ready, (first[consumer], consumer))
        assert sum(map(len, ordered)) == len(self.ops), "slices that depend on each other"
        return ordered


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
