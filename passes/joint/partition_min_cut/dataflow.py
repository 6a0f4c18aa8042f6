"""The operations of a joint graph by number, and the values that the backward takes from the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.ir import SSAValue

from fxc.dialects.autodiff import RECOMPUTED
from fxc.passes.analysis.joint_graph import JointGraph, marked_results, may_repeat, must_run, values_read
from fxc.passes.operators.costs import Costs

FAR = 10**9
"""The distance of an operation on whose results nothing in the backward depends."""


class Dataflow:
    """``ops``: the operations in order. The lists that follow have an entry for each of them.

    ``reads``: the values that it reads. ``users``: the operations that read its results. ``in_forward``, ``in_backward``: as in
    ``JointGraph``. ``distance``: the number of operations of the forward from it to one that only the backward runs.
    ``saved``: its results that are marked as saved. ``is_marked``: whether it is marked as recomputed, and may be.
    ``run_backward``: the operations of the backward that something needs. ``needed``: the values that these read, or that are
    gradients, and that none of them computes.
    """

    def __init__(self, graph: JointGraph) -> None:
        self.graph, self.costs = graph, Costs(graph.function)
        self._bytes, self._times = dict[SSAValue, int](), dict[int, int]()
        self.ops = [op for op in graph.block.ops if op is not graph.block.last_op]
        self.number: Mapping[SSAValue, int] = {result: number for number, op in enumerate(self.ops) for result in op.results}
        self.reads = [list(dict.fromkeys(values_read(op))) for op in self.ops]
        self.users = self._users()
        self.in_forward = [op in graph.forward for op in self.ops]
        self.in_backward = [op in graph.backward for op in self.ops]
        self.distance = self._distances()
        self.saved = [marked_results(op) for op in self.ops]
        self.is_marked = [RECOMPUTED in op.attributes and may_repeat(op) for op in self.ops]
        last = graph.block.last_op
        self.returned = set(last.operands if last is not None else ())
        self.run_backward = list[int]()
        self.needed = self._needed()

    def bytes(self, value: SSAValue) -> int:
        if value not in self._bytes:
            self._bytes[value] = self.costs.sizes.bytes(value.type)
        return self._bytes[value]

    def time(self, number: int) -> int:
        """The picoseconds that the operation takes."""
        if number not in self._times:
            self._times[number] = round(1e6 * self.costs.of(self.ops[number]).time)
        return self._times[number]

    def owner(self, value: SSAValue) -> int | None:
        """The number of the operation that defines ``value``; None for an argument."""
        return self.number.get(value)

    def ancestors(self, values: Sequence[SSAValue]) -> list[int]:
        """The operations, outside of the backward, on which ``values`` depend, in order."""
        found, waiting = set[int](), list(values)
        while waiting:
            number = self.number.get(waiting.pop())
            if number is not None and number not in found and not self.in_backward[number]:
                found.add(number)
                waiting += self.reads[number]
        return sorted(found)

    def _users(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.ops]
        for number, values in enumerate(self.reads):
            for maker in {self.number[value] for value in values if value in self.number}:
                found[maker].append(number)
        return found

    def _distances(self) -> list[int]:
        found = [0] * len(self.ops)
        for number in reversed(range(len(self.ops))):
            if self.in_forward[number]:
                found[number] = 1 + min((found[user] for user in self.users[number]), default=FAR)
        return found

    def _needed(self) -> list[SSAValue]:
        backs = [back.value for back in self.graph.write_backs if back.in_backward]
        found = dict.fromkeys([*(leaf for leaf in self.graph.gradients if isinstance(leaf, SSAValue)), *backs])
        for number in reversed(range(len(self.ops))):
            op = self.ops[number]
            if self.in_backward[number] and (must_run(op) or any(result in found for result in op.results)):
                found |= dict.fromkeys(self.reads[number])
                self.run_backward.append(number)
        self.run_backward.reverse()
        return list(self._from_outside(found))

    def _from_outside(self, values: dict[SSAValue, None]) -> Iterator[SSAValue]:
        for value in values:
            number = self.number.get(value)
            if value not in self.graph.tangents and (number is None or not self.in_backward[number]):
                yield value
