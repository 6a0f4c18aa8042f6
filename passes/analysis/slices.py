"""Slices: sets of ops that can run together, grown from their last op."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence, Set

from xdsl.ir import Operation, SSAValue

from fxc.dialects.base.effects import is_random
from fxc.passes.analysis.contraction import Contraction


def reads(op: Operation) -> Iterator[SSAValue]:
    """The operands of ``op`` and of the ops in its regions."""
    for inner in op.walk():
        yield from inner.operands


class Slices:
    """The dependence graph of straight-line ops whose only side effects are random numbers.

    An op depends on its operands, and a random op also on the previous random op. A slice is legal where no path leaves it and
    enters it again; other slices count as single ops.
    """

    def __init__(self, ops: Sequence[Operation], mergeable: Set[Operation], is_start: Callable[[Operation], bool]) -> None:
        self.ops, self.mergeable, self.is_start = ops, mergeable, is_start
        self.index = {op: i for i, op in enumerate(ops)}
        self.producers = [self._producers(i) for i in range(len(ops))]
        self.waits_for = self._with_random_operators()
        self.graph = Contraction(self.waits_for)
        self.taken = set[int]()

    def _producers(self, i: int) -> list[int]:
        owners = (self.index.get(value.owner) for value in reads(self.ops[i]) if isinstance(value.owner, Operation))
        return sorted({j for j in owners if j is not None and j != i})

    def _with_random_operators(self) -> list[list[int]]:
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
            if i not in self.taken and self.ops[i] in self.mergeable and self.is_start(self.ops[i]):
                self._grow(i)
        return self._slices()

    def _slices(self) -> list[list[Operation]]:
        found = dict[int, list[Operation]]()
        for i in sorted(self.taken):
            found.setdefault(self.graph.find(i), []).append(self.ops[i])
        return list(found.values())

    def _grow(self, start: int) -> None:
        """Add producers, last first, until none can be added. A rejected producer is retried after others were added."""
        self.taken.add(start)
        pending, refused, grown = list[int](), list[int](), True
        self._push(self.graph.members(start), pending)
        while grown:
            grown = False
            while pending:
                j = -heapq.heappop(pending)
                if self.graph.find(j) == self.graph.find(start):
                    continue
                members = list(self.graph.members(j))
                if self._merge(j, start):
                    grown = True
                    self._push(members, pending)
                elif j not in refused:
                    refused.append(j)
            pending, refused = [-j for j in sorted(refused, reverse=True)], []

    def _push(self, members: Sequence[int], pending: list[int]) -> None:
        for i in members:
            for j in self.producers[i]:
                if self.ops[j] in self.mergeable:
                    heapq.heappush(pending, -j)

    def _merge(self, producer: int, consumer: int) -> bool:
        """Merge the slices of two ops where the result is legal."""
        if not self.graph.merge(producer, consumer):
            return False
        self.taken.add(producer)
        return True

    def order(self, slices: Sequence[list[Operation]]) -> list[list[Operation]]:
        """All ops in an order in which each of ``slices`` is contiguous: the given lists, and lists of one op."""
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
