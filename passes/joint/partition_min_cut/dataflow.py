"""The operations of a joint graph by number, the values that the backward takes, and which operations may run again in it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.traits import ConstantLike

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.autodiff import RECOMPUTED
from fxc.dialects.base.effects import is_random, is_view
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.effects import is_uninitialized
from fxc.passes.analysis.joint_graph import (
    JointGraph,
    can_be_saved,
    is_number,
    marked_results,
    may_repeat,
    must_run,
    values_read,
)
from fxc.passes.operators.costs import Costs
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import operator_of, role_of

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


LONGEST_CHAIN = 100
"""The number of operations of the forward over which a chain of fusible ones is recomputed at most."""

SMALL = 4
"""A result that is this many times smaller than the operands is saved: recomputing a reduction saves little memory."""


def runs_once(op: Operation) -> str | None:
    """Why a second run of ``op`` may compute something else or have an effect twice; None if it does neither."""
    if is_random(op):
        return "it is random"
    if must_run(op):
        return "it has an effect"
    if is_uninitialized(op):
        return "it returns uninitialized memory"
    if isinstance(op, TorchOp) and "y" in op.FLAGS:
        return "its sizes depend on data"
    return None


def is_cheap(op: Operation) -> bool:
    """Whether ``op`` is pointwise, a view, a reduction, or only moves data, so that a kernel of the backward can compute it.

    Products, convolutions, and calls of which nothing is known are expensive.
    """
    if is_view(op) or op.has_trait(ConstantLike) or not any(is_tensor(result.type) for result in op.results):
        return True
    record = operator_of(op)
    if not isinstance(op, TorchOp) or record.flops is not None:
        return False
    return "p" in op.FLAGS or record.formula is not None or record.parts is not None


@dataclass(frozen=True)
class Policy:
    """Which operations are not recomputed although they could be.

    ``fast``: nor those that the backward reads from memory anyway, and those that would not be fused there; ``kept``: nor
    these, by number; ``allowed``: those that are recomputed nevertheless, even if expensive.
    """

    fast: bool = True
    kept: frozenset[int] = frozenset()
    allowed: frozenset[int] = frozenset()


class Recomputation:
    """The operations of ``flow`` that may run again. Facts of single operations are determined once."""

    def __init__(self, flow: Dataflow) -> None:
        self.flow = flow
        self.is_view = [is_view(op) for op in flow.ops]
        self.is_free = [
            view or all(map(is_number, (*op.operands, *op.results))) for view, op in zip(self.is_view, flow.ops, strict=True)
        ]
        self._cheap = [is_cheap(op) for op in flow.ops]
        self._once = [runs_once(op) for op in flow.ops]
        self._fusible = [cheap or is_random(op) for cheap, op in zip(self._cheap, flow.ops, strict=True)]
        self._concatenates = [role_of(op) is Role.CONCATENATION for op in flow.ops]
        self._is_small = [self._has_small_result(number) for number in range(len(flow.ops))]
        self._slow = self._of_heuristics()

    def never(self, number: int) -> str | None:
        """Why the operation must not run again; None if it may."""
        if self.flow.is_marked[number]:
            return None
        return "it is marked as saved" if self.flow.saved[number] else self._once[number]

    def banned(self, number: int, policy: Policy) -> str | None:
        """Why the operation does not run again; None if it does where that makes the saved values smaller."""
        if (reason := self.never(number)) is not None:
            return reason
        if not self.flow.in_forward[number] or self.is_free[number] or self.flow.is_marked[number]:
            return None
        if not all(map(can_be_saved, self.flow.ops[number].results)):
            return None
        if number in policy.kept:
            return "it is between two segments"
        if number in policy.allowed:
            return None
        if not self._cheap[number]:
            return "it is expensive"
        if self._is_small[number]:
            return "it is small"
        return self._slow.get(number) if policy.fast else None

    def is_fused(self, producer: int, user: int) -> bool:
        """Whether one kernel can compute both operations."""
        if self._concatenates[user]:
            return True
        return self._fusible[producer] and self._fusible[user] and not self._concatenates[producer]

    def _has_small_result(self, number: int) -> bool:
        """Whether saving a result takes much less memory than saving what it is computed from."""
        read = sum(map(self.flow.bytes, self.flow.reads[number]))
        results = (result for result in self.flow.ops[number].results if is_tensor(result.type))
        return any(SMALL * self.flow.bytes(result) < read for result in results)

    def _of_heuristics(self) -> dict[int, str]:
        """Operation -> why a recomputation would cost time although the operation is cheap."""
        flow, found = self.flow, dict[int, str]()
        for number in range(len(flow.ops)):
            if flow.in_forward[number] and self._is_read_from_memory(number):
                found[number] = "the backward reads it from memory"
        for number in range(len(flow.ops)):
            if flow.in_forward[number]:
                found |= dict.fromkeys(self._used_far_apart(number), "another operation is between it and other users")
        for number in self._ends_of_chains(found):
            found[number] = "the chain of operations before it is long"
        return found

    def _is_read_from_memory(self, number: int) -> bool:
        """Whether an operation that only the backward runs reads the result, or a view of it, without being fused."""
        if self.is_view[number]:
            return False
        waiting = [number]
        for current in waiting:
            for user in self.flow.users[current]:
                if not self.flow.in_forward[user] and not self.is_fused(current, user):
                    return True
                if self.is_view[user] and user not in waiting:
                    waiting.append(user)
        return False

    def _used_far_apart(self, number: int) -> Iterator[int]:
        """Users that come after the first operation that is not fused with the users before it."""
        users = [user for user in self.flow.users[number] if self.flow.in_forward[user]]
        if len(users) > 1:
            first = self._first_not_fused(users)
            yield from (user for user in users if user > first and self.is_fused(number, user))

    def _first_not_fused(self, users: Sequence[int]) -> int:
        """The first operation, up to the last of ``users``, that depends on them and is not fused with what it reads."""
        last = max(users)
        waiting = [(user, True) for user in users]
        heapq.heapify(waiting)
        seen = set(waiting)
        while waiting:
            number, fused = heapq.heappop(waiting)
            if not fused:
                return number
            for user in self.flow.users[number]:
                next = user, self.is_fused(number, user)
                if self.flow.in_forward[user] and user <= last and next not in seen:
                    seen.add(next)
                    heapq.heappush(waiting, next)
        return last

    def _ends_of_chains(self, banned: dict[int, str]) -> Iterator[int]:
        """Operations that are fusible with a chain from one that is more than ``LONGEST_CHAIN`` operations before them."""
        seen = set[int]()
        for start in range(len(self.flow.ops)):
            waiting = [start] if self.flow.in_forward[start] else []
            while waiting:
                number = heapq.heappop(waiting)
                if number in seen:
                    continue
                seen.add(number)
                if not waiting and number > start + LONGEST_CHAIN:
                    yield number
                    break
                for user in self.flow.users[number]:
                    if self.flow.in_forward[user] and user not in banned and self.is_fused(number, user):
                        heapq.heappush(waiting, user)
