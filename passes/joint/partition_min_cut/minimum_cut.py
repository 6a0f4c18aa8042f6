"""The values to save whose bytes are the least, by a minimum cut.

An operation and each of its results is a node. The nodes on the side of the sink are computed in the backward or available to
it: those of operations are recomputed, and those of results whose operation is on the other side are saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import FloatType
from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.dialects.text.syntax import written_name
from fxc.passes.analysis.joint_graph import can_be_saved, is_number
from fxc.passes.joint.partition_min_cut.network import SINK, SOURCE, Network, UnboundedCut
from fxc.passes.joint.partition_min_cut.recomputation import Policy, Recomputation

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
