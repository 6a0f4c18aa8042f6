"""Slices: sets of ops that can run together, grown from their last op.

Nodes of an acyclic graph are merged one by one: union-find, and a topological order that is updated with each merge.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import cycle

from xdsl.ir import Operation, SSAValue

from fxc.dialects.base.effects import is_random


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


_GAP = 1 << 64
_SHARE = 1 << 20
"""Moved nodes get labels at the far end of a gap, 1/_SHARE of the gap apart.

Nodes that move later get labels between the near end and these.
"""


class Contraction:
    """Nodes ``0 .. n-1``; node i has edges from ``sources[i]``, all smaller than i.

    Merged nodes have one representative (``find``). The label of a node is larger than the labels of its sources, so a search
    between two nodes visits only labels between theirs. The search runs from both ends in turn, at twice the cost of the
    cheaper end. The nodes that it visited move out of the interval, so the next search does not visit them again.
    """

    def __init__(self, sources: Sequence[Sequence[int]]) -> None:
        count = len(sources)
        self._parent = list(range(count))
        self._members = [[i] for i in range(count)]
        self._sources = [list(found) for found in sources]
        self._targets: list[list[int]] = [[] for _ in range(count)]
        for i, found in enumerate(sources):
            for j in found:
                self._targets[j].append(i)
        self._label = [i * _GAP for i in range(count)]
        self._next: list[int | None] = [*range(1, count), None] if count else []
        self._previous: list[int | None] = [None, *range(count - 1)] if count else []

    def find(self, i: int) -> int:
        """The representative of the merged node that contains ``i``."""
        parent = self._parent
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    def members(self, i: int) -> Sequence[int]:
        """The nodes merged with ``i``, itself included, in no order."""
        return self._members[self.find(i)]

    def merge(self, a: int, b: int) -> bool:
        """Merge ``a`` and ``b``. Returns False, and changes nothing, where the merge would create a cycle."""
        low, high = sorted((self.find(a), self.find(b)), key=self._label.__getitem__)
        if low == high:
            return True
        after, before = list[int](), list[int]()
        upwards, downwards = self._search(low, high, self._targets, after), self._search(high, low, self._sources, before)
        walks = cycle((upwards, downwards))
        while (met := next(walk := next(walks), None)) is not None:
            if met:
                return False
        if walk is upwards:
            self._move(after, high, self._next[high], near_end=False)
            self._join(kept=high, gone=low)
        else:
            self._move(before, self._previous[low], low, near_end=True)
            self._join(kept=low, gone=high)
        return True

    def _search(self, start: int, goal: int, edges: Sequence[list[int]], passed: list[int]) -> Iterator[bool]:
        """Walk all paths from ``start`` whose labels do not pass the label of ``goal``.

        Each step yields whether it reached ``goal`` by a path of more than one edge. ``passed`` collects the nodes on the
        paths.
        """
        label, end = self._label, self._label[goal]
        rising, seen, pending = label[start] < end, {start}, [start]
        while pending:
            node = pending.pop()
            for i in edges[node]:
                other = self.find(i)
                if other != goal and other not in seen and (label[other] < end) == rising:
                    seen.add(other)
                    pending.append(other)
                    passed.append(other)
                yield other == goal and node != start

    def _join(self, kept: int, gone: int) -> None:
        """Merge two nodes at the position of ``kept`` in the order."""
        self._unlink(gone)
        root, other = (kept, gone) if len(self._members[kept]) >= len(self._members[gone]) else (gone, kept)
        if root is gone:
            self._label[root] = self._label[kept]
            self._link(root, self._previous[kept], self._next[kept])
        self._parent[other] = root
        for lists in (self._members, self._sources, self._targets):
            lists[root].extend(lists[other])
            lists[other] = []

    # the order: a linked list with labels

    def _move(self, nodes: list[int], previous: int | None, following: int | None, *, near_end: bool) -> None:
        """Move ``nodes``, in their order, between two neighbours: close to the first one or close to the second."""
        nodes.sort(key=self._label.__getitem__)
        for node in nodes:
            self._unlink(node)
        while not self._relabel(nodes, previous, following, near_end):
            self._spread(following if previous is None else previous)
        for node in nodes:
            self._link(node, previous, following)
            previous = node

    def _relabel(self, nodes: Sequence[int], previous: int | None, following: int | None, near_end: bool) -> bool:
        """Label ``nodes`` between two neighbours; False where the gap is too small."""
        label = self._label
        low = label[previous] if previous is not None else label[following or 0] - _GAP
        high = label[following] if following is not None else low + _GAP
        step = (high - low) // (len(nodes) + _SHARE)
        first = low + step if near_end else high - step * len(nodes)
        for i, node in enumerate(nodes):
            label[node] = first + i * step
        return step > 0

    def _spread(self, start: int | None) -> None:
        """Relabel all nodes at equal distances."""
        assert start is not None
        while (before := self._previous[start]) is not None:
            start = before
        node, label = start, 0
        while node is not None:
            self._label[node] = label
            node, label = self._next[node], label + _GAP

    def _link(self, node: int, previous: int | None, following: int | None) -> None:
        self._previous[node], self._next[node] = previous, following
        if previous is not None:
            self._next[previous] = node
        if following is not None:
            self._previous[following] = node

    def _unlink(self, node: int) -> None:
        previous, following = self._previous[node], self._next[node]
        if previous is not None:
            self._next[previous] = following
        if following is not None:
            self._previous[following] = previous
