"""The values to save whose bytes are the least, by a minimum cut.

An operation and each of its results is a node. The nodes on the side of the sink are computed in the backward or available to
it: those of operations are recomputed, and those of results whose operation is on the other side are saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import networkx as nx
from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import FloatType
from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.dialects.text.syntax import written_name
from fxc.passes.analysis.joint_graph import can_be_saved, is_number
from fxc.passes.joint.partition_min_cut.dataflow import Policy, Recomputation

SOURCE, SINK = 0, 1

_NetworkCut: TypeAlias = "tuple[int, tuple[set[int], set[int]]]"
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
        _, (_, side) = cast(_NetworkCut, nx.minimum_cut(graph, SOURCE, SINK))  # the stubs state no result
        return side


def _join(ends: dict[int, int | None], end: int, capacity: int | None) -> None:
    known = ends.get(end, 0)
    ends[end] = None if known is None or capacity is None else known + capacity


FARTHEST = 100
"""The distance from which on a value costs no more."""


@dataclass(frozen=True)
class Partition:
    """``saved``: results of operations; ``recomputed``: numbers of operations. Both are in the order of the joint graph."""

    saved: tuple[SSAValue, ...]
    recomputed: tuple[int, ...]


def minimum_cut(recomputation: Recomputation, policy: Policy) -> Partition:
    """The plan of ``policy`` that saves the fewest bytes. OpPassFailedException where there is none."""
    return _Cut(recomputation, policy).plan()


class _Cut:
    def __init__(self, recomputation: Recomputation, policy: Policy) -> None:
        self._rules, self._flow, self._policy = recomputation, recomputation.flow, policy
        self._network = Network()
        self._of_value, self._of_op = dict[SSAValue, int](), dict[int, int]()
        for number in self._flow.ancestors(self._flow.needed):
            self._add(number)
        for value in self._flow.needed:
            self._network.add(self._node(value), SINK, None)

    def _add(self, number: int) -> None:
        """Add an operation and the values that it reads."""
        node = self._of_op[number] = self._network.node()
        if self._rules.banned(number, self._policy) is not None:
            self._network.add(SOURCE, node, None)
            return
        for value in self._flow.reads[number]:
            self._network.add(self._node(value), node, None)

    def _node(self, value: SSAValue) -> int:
        node = self._of_value.get(value)
        if node is None:
            node = self._of_value[value] = self._network.node()
            number = self._flow.owner(value)
            if number is None or value in self._flow.saved[number]:
                is_free = self._flow.owner(value) is not None or value in self._flow.graph.held
                self._network.add(SOURCE, node, 0 if is_free else max(2 * self._flow.bytes(value), 1))
            else:
                self._network.add(self._of_op[number], node, self._cost(value, number))
        return node

    def _cost(self, value: SSAValue, number: int) -> int | None:
        """The cost of saving a result; None where it cannot be saved, or is free to compute.

        A value that is nearer to the backward costs less. Of values that cost the same, those in memory anyway are saved.
        """
        flow = self._flow
        if flow.is_marked[number] or not can_be_saved(value):
            return None
        if self._rules.is_free[number] and self._rules.never(number) is None:
            return None
        if is_number(value):
            return 4 if isinstance(value.type, FloatType) else 1
        bytes = int(flow.bytes(value) * 1.1 ** min(max(flow.distance[number], 1), FARTHEST))
        is_fused = value not in flow.returned and all(self._rules.is_fused(number, user) for user in flow.users[number])
        return 2 * bytes + is_fused

    def plan(self) -> Partition:
        try:
            side = self._network.sink_side()
        except UnboundedCut as unbounded:
            raise self._error(unbounded.path) from unbounded
        saved, recomputed, waiting = set[SSAValue](), set[int](), list(self._flow.needed)
        while waiting:
            value = waiting.pop()
            number = self._flow.owner(value)
            if number is None or number in recomputed:
                continue
            if value in self._flow.saved[number] or self._of_op[number] not in side:
                saved.add(value)
            else:
                recomputed.add(number)
                waiting += self._flow.reads[number]
        ordered = (result for op in self._flow.ops for result in op.results if result in saved)
        return Partition(tuple(ordered), tuple(sorted(recomputed)))

    def _error(self, path: Sequence[int]) -> OpPassFailedException:
        """The path goes from an operation that may not run again through values that cannot be saved."""
        ops = {node: number for number, node in self._of_op.items()}
        values = {node: value for value, node in self._of_value.items()}
        first = ops[path[1]]
        through = [f"%{written_name(values[node]) or '_'}: {values[node].type}" for node in path if node in values]
        message = (
            f"the backward needs {', '.join(through)}, which cannot be saved, and the operation may not run again: "
            f"{self._rules.banned(first, self._policy)}; save what is computed from it: {{autodiff.saved = array<i64: 0>}}"
        )
        return OpPassFailedException(message, self._flow.ops[first])
