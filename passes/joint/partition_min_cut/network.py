"""Minimum cuts of a flow network with infinite capacities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, cast

import networkx as nx

SOURCE, SINK = 0, 1

_Cut: TypeAlias = "tuple[int, tuple[set[int], set[int]]]"
"""The value of a cut, and the nodes on the sides of source and sink."""


class UnboundedCut(Exception):
    """Each cut is infinite; ``path`` leads from the source to the sink along infinite capacities."""

    def __init__(self, path: Sequence[int]) -> None:
        super().__init__("the cut is unbounded")
        self.path = path


class Network:
    """Nodes are numbers from 0; an edge has an integer capacity, or None for an infinite one."""

    def __init__(self) -> None:
        self._next: list[dict[int, int | None]] = [{}, {}]

    def node(self) -> int:
        self._next.append({})
        return len(self._next) - 1

    def add(self, start: int, end: int, capacity: int | None) -> None:
        """Add an edge; the capacities of parallel edges add up."""
        _join(self._next[start], end, capacity)

    def sink_side(self) -> set[int]:
        """The nodes on the side of the sink, of the minimum cut that is nearest to the sink. Raises ``UnboundedCut``."""
        if (path := self._infinite_path()) is not None:
            raise UnboundedCut(path)
        merged = _Merged(self._next)
        return {node for node, on in enumerate(merged.sink_side()) if on}

    def _infinite_path(self) -> list[int] | None:
        """A shortest path of infinite capacities from the source to the sink."""
        before = {SOURCE: SOURCE}
        for node in (waiting := [SOURCE]):
            for end, capacity in self._next[node].items():
                if capacity is None and end not in before:
                    before[end] = node
                    waiting.append(end)
        if SINK not in before:
            return None
        path = [SINK]
        while path[-1] != SOURCE:
            path.append(before[path[-1]])
        return path[::-1]


class _Merged:
    """A network in which nodes that are on the same side of the cut are one node.

    These are nodes with an infinite edge from the source or to the sink, nodes with one incoming edge, which is infinite, and
    nodes with one outgoing edge, which is infinite. The components that remain without source and sink are independent.
    """

    def __init__(self, edges: Sequence[dict[int, int | None]]) -> None:
        self._node = list(range(len(edges)))
        self._next = [dict(ends) for ends in edges]
        self._before: list[dict[int, int | None]] = [{} for _ in edges]
        for start, ends in enumerate(edges):
            for end, capacity in ends.items():
                self._before[end][start] = capacity
        for end in self._before[SOURCE]:
            del self._next[end][SOURCE]
        for start in self._next[SINK]:
            del self._before[start][SINK]
        self._before[SOURCE], self._next[SINK] = {}, {}
        self._waiting = list(range(2, len(edges)))
        while self._waiting:
            self._simplify(self._waiting.pop())

    def _simplify(self, node: int) -> None:
        if node in (SOURCE, SINK) or self._node[node] != node:
            return
        into, out = self._before[node], self._next[node]
        if SOURCE in into and into[SOURCE] is None:
            self._merge(node, SOURCE)
        elif SINK in out and out[SINK] is None:
            self._merge(node, SINK)
        elif not into or not out:
            self._merge(node, SINK if out and not into else SOURCE)
        elif len(into) == 1 and None in into.values():
            self._merge(node, next(iter(into)))
        elif len(out) == 1 and None in out.values():
            self._merge(node, next(iter(out)))

    def _merge(self, node: int, other: int) -> None:
        """Make ``node`` a part of ``other``."""
        self._node[node] = other
        into, out = self._before[node], self._next[node]
        self._before[node], self._next[node] = {}, {}
        for start, capacity in into.items():
            del self._next[start][node]
            if start != other and other != SOURCE and start != SINK:
                _join(self._next[start], other, capacity)
                _join(self._before[other], start, capacity)
            self._waiting.append(start)
        for end, capacity in out.items():
            del self._before[end][node]
            if end != other and other != SINK and end != SOURCE:
                _join(self._next[other], end, capacity)
                _join(self._before[end], other, capacity)
            self._waiting.append(end)
        self._waiting.append(other)

    def sink_side(self) -> Iterator[bool]:
        """For each node of the original network, whether it is on the side of the sink."""
        on_side = {SINK}
        for part in self._parts():
            on_side |= self._cut(part)
        for node in range(len(self._node)):
            while self._node[node] != node:
                node = self._node[node]
            yield node in on_side

    def _parts(self) -> Iterator[list[int]]:
        graph: nx.Graph[int] = nx.Graph()
        for node in range(2, len(self._node)):
            if self._node[node] == node:
                graph.add_node(node)
                graph.add_edges_from((node, end) for end in self._next[node] if end != SINK)
        for part in nx.connected_components(graph):
            yield sorted(part)

    def _cut(self, part: Sequence[int]) -> set[int]:
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from((SOURCE, SINK))
        for node in part:
            if SOURCE in self._before[node]:
                graph.add_edge(SOURCE, node, capacity=self._before[node][SOURCE])
            for end, capacity in self._next[node].items():
                graph.add_edge(node, end, **({} if capacity is None else {"capacity": capacity}))
        _, (_, side) = cast(_Cut, nx.minimum_cut(graph, SOURCE, SINK))  # the stubs state no result
        return side


def _join(ends: dict[int, int | None], end: int, capacity: int | None) -> None:
    known = ends.get(end, 0)
    ends[end] = None if known is None or capacity is None else known + capacity
