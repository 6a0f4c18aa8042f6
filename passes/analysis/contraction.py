"""A graph without cycles whose nodes can be merged while none arises: union-find, and an order that follows the edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle

_GAP = 1 << 64
_SHARE = 1 << 20
"""What moves takes this part of a gap, from its far end: what moves next comes between it and the near end."""


class Contraction:
    """Nodes ``0 .. n-1``; node i has edges from ``sources[i]``, all smaller than i.

    What is merged answers to one of its nodes (``find``). Each has a label, larger than those of its sources, so that a
    search between two nodes stays between their labels. It runs from both ends in turn, which costs twice what the cheaper
    end does, and what it passed moves out from between: the next search does not pass it again.
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
        """The node that ``i`` is now."""
        parent = self._parent
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    def members(self, i: int) -> Sequence[int]:
        """The nodes that ``i`` is one of now, in no order."""
        return self._members[self.find(i)]

    def merge(self, a: int, b: int) -> bool:
        """Make ``a`` and ``b`` one; False, and nothing is changed, where that would make a cycle."""
        low, high = sorted((self.find(a), self.find(b)), key=self._label.__getitem__)
        if low == high:
            return True
        after, before = list[int](), list[int]()
        upwards, downwards = self._search(low, high, self._targets, after), self._search(high, low, self._sources, before)
        for walk in cycle((upwards, downwards)):
            met = next(walk, None)
            if met:
                return False
            if met is None:
                break
        if walk is upwards:
            self._move(after, high, self._next[high], near_end=False)
            self._join(kept=high, gone=low)
        else:
            self._move(before, self._previous[low], low, near_end=True)
            self._join(kept=low, gone=high)
        return True

    def _search(self, start: int, goal: int, edges: Sequence[list[int]], passed: list[int]) -> Iterator[bool]:
        """Walk all ways from ``start`` that stay before ``goal``; each step yields whether it reached the goal by a way of
        more than one edge. ``passed`` gets the nodes between."""
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
        """One node where ``kept`` stands."""
        self._unlink(gone)
        root, other = (kept, gone) if len(self._members[kept]) >= len(self._members[gone]) else (gone, kept)
        if root is gone:
            self._label[root] = self._label[kept]
            self._link(root, self._previous[kept], self._next[kept])
        self._parent[other] = root
        for lists in (self._members, self._sources, self._targets):
            lists[root].extend(lists[other])
            lists[other] = []

    # the order, a linked list with labels

    def _move(self, nodes: list[int], previous: int | None, following: int | None, *, near_end: bool) -> None:
        """Put ``nodes``, in their order, between two neighbours: near the first of them, or near the second."""
        nodes.sort(key=self._label.__getitem__)
        for node in nodes:
            self._unlink(node)
        while not self._relabel(nodes, previous, following, near_end):
            self._spread(following if previous is None else previous)
        for node in nodes:
            self._link(node, previous, following)
            previous = node

    def _relabel(self, nodes: Sequence[int], previous: int | None, following: int | None, near_end: bool) -> bool:
        """Label ``nodes`` between two neighbours; False where there is no room."""
        label = self._label
        low = label[previous] if previous is not None else label[following or 0] - _GAP
        high = label[following] if following is not None else low + _GAP
        step = (high - low) // (len(nodes) + _SHARE)
        first = low + step if near_end else high - step * len(nodes)
        for i, node in enumerate(nodes):
            label[node] = first + i * step
        return step > 0

    def _spread(self, start: int | None) -> None:
        """Make all gaps wide again."""
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
