"""Plans under a budget of memory.

The plans to choose from do not depend on the budget. Each saves at least as much as those before it, has a higher simulated
peak, and is faster. So a smaller budget never has a higher simulated peak; kernels, which are made later, change peaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import isfinite
from typing import NamedTuple, TypeAlias

from fxc.passes.analysis.joint_graph import at_first_use
from fxc.passes.joint.partition_min_cut.dataflow import FAR, Dataflow, Policy, Recomputation
from fxc.passes.joint.partition_min_cut.minimum_cut import Partition, minimum_cut
from fxc.passes.operators.peak_memory import Simulation

MOST = 4096
"""The number of choices up to which the solution is exact. Of more, some that are evenly distributed by weight remain."""

Items: TypeAlias = "tuple[int, Items] | None"
"""The last item of a choice, and the others."""


class Choice(NamedTuple):
    """Items that are worth more than all others of at most this weight."""

    weight: int
    value: int
    items: Items = None

    def indices(self) -> frozenset[int]:
        found, items = list[int](), self.items
        while items is not None:
            index, items = items
            found.append(index)
        return frozenset(found)


def best_choices(weights: Sequence[int], values: Sequence[int]) -> list[Choice]:
    """The best choices by increasing weight and value. The first items are preferred; those without weight are in each choice.

    For the best choice of a capacity, take the last one that is not heavier.
    """
    front = [Choice(0, 0)]
    for index, (weight, value) in enumerate(zip(weights, values, strict=True)):
        if weight == 0:
            front = [Choice(each.weight, each.value + value, (index, each.items)) for each in front]
            continue
        more = [Choice(each.weight + weight, each.value + value, (index, each.items)) for each in front]
        front = list(_undominated(sorted([*front, *more], key=lambda each: (each.weight, -each.value))))
        if len(front) > MOST:
            front = evenly(front, MOST)
    return front


def evenly(choices: Sequence[Choice], count: int) -> list[Choice]:
    """At most ``count`` of ``choices``, the first and the last among them, at even distances of their weights."""
    lightest, heaviest = choices[0].weight, choices[-1].weight
    found, last = [choices[0]], 0
    for choice in choices[1:-1]:
        step = (choice.weight - lightest) * (count - 1) // max(heaviest - lightest, 1)
        if last < step < count - 1:
            found.append(choice)
            last = step
    return [*found, choices[-1]] if len(choices) > 1 else found


def _undominated(choices: Sequence[Choice]) -> Iterator[Choice]:
    """Of ``choices`` by increasing weight, those that are worth more than all before them."""
    best = -1
    for choice in choices:
        if choice.value > best:
            best = choice.value
            yield choice


def ends_of_segments(flow: Dataflow, is_view: Sequence[bool], count: int) -> frozenset[int]:
    """The operations whose results are live between ``count`` segments of about the same time.

    Each segment ends, within half of its time, where the fewest bytes are live.
    """
    last = _last_uses(flow, is_view)
    changes = [0] * (len(flow.ops) + 1)
    for number, end in last.items():
        bytes = sum(map(flow.bytes, flow.ops[number].results))
        changes[number] += bytes
        changes[end] -= bytes
    live, times = list(accumulate(changes)), list(accumulate(flow.time(n) * flow.in_forward[n] for n in range(len(flow.ops))))
    found = set[int]()
    for segment in range(1, count):
        low, high = (times[-1] * (2 * segment + side) / (2 * count) for side in (-1, 1))
        places = [n for n, time in enumerate(times) if flow.in_forward[n] and low < time <= high]
        if places:
            place = min(places, key=lambda n: live[n])
            found |= {number for number, end in last.items() if number <= place < end}
    return frozenset(found)


def _last_uses(flow: Dataflow, is_view: Sequence[bool]) -> dict[int, int]:
    """Operation of the forward that makes new memory -> the last operation of the forward that reads it or a view of it."""
    memory, found = dict[int, int | None](), dict[int, int]()
    for number in _forward(flow):
        owners = [flow.owner(value) for value in flow.reads[number]]
        for owner in owners:
            if owner is not None and (made := memory.get(owner)) is not None:
                found[made] = number
        first = owners[0] if owners else None
        memory[number] = number if not is_view[number] else None if first is None else memory.get(first)
    return found


def _forward(flow: Dataflow) -> Iterator[int]:
    return (number for number, needed in enumerate(flow.in_forward) if needed)


def peak_of(flow: Dataflow, plan: Partition) -> int:
    """The most bytes that are live at once, without arguments. A value is computed again just before its first use."""
    graph, simulation = flow.graph, Simulation(flow.costs.sizes)
    again = set(plan.recomputed)
    needed = {*flow.ancestors(plan.saved), *(number for number, needed in enumerate(flow.in_forward) if needed)}
    simulation.run([flow.ops[number] for number in sorted(needed)])
    simulation.own(graph.tangents)
    run = [flow.ops[number] for number in sorted(again.union(flow.run_backward))]
    simulation.run(at_first_use(run, {flow.ops[number] for number in again}))
    return simulation.result([*graph.results, *graph.gradients, *graph.tangents]).peak


CHOICES = 16
"""The number of choices of expensive operations to recompute that are compared."""

SEGMENTS = (2, 4, 8, 16, 32, 64)
"""The numbers of segments that are compared."""

MARGIN = 1 / 16
"""Of plans whose simulated peaks differ by less than this part, one remains, the fastest: kernels would change their order.
An estimate."""

_BYTES = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?) *(?:([kKMGT]?)(i?)B)?")


@dataclass(frozen=True)
class Budget:
    """``bytes`` of peak memory; or else a ``fraction`` of the bytes that the default saves more than the smallest plan."""

    fraction: float = 1.0
    bytes: int | None = None

    @classmethod
    def of(cls, given: float | str) -> Budget:
        """``given`` is a fraction up to 1, or bytes with or without a unit. ValueError for anything else."""
        found = _BYTES.fullmatch(str(given))
        if found is None or not isfinite(number := float(found[1])):
            raise ValueError(f"a budget is a fraction from 0 to 1, or bytes such as 1.5e9, 64MB or 64MiB, not {given}")
        unit = found[2]
        if unit is None and number <= 1:
            return cls(fraction=number)
        return cls(bytes=int(number * (1024 if found[3] else 1000) ** " KMGT".index((unit or " ").upper())))


@dataclass(frozen=True)
class Estimated:
    """A plan with the bytes that it saves, its simulated peak, and the time to recompute values."""

    plan: Partition
    saved: int
    peak: int
    time: int


def plan_under(budget: Budget, recomputation: Recomputation) -> Partition:
    """The fastest plan under ``budget``; where none is, the one with the lowest peak."""
    default = minimum_cut(recomputation, Policy())
    if budget.bytes is None and budget.fraction == 1:
        return default
    plans = _chain([_estimated(recomputation, plan) for plan in dict.fromkeys([default, *_smaller(recomputation)])])
    if budget.bytes is not None:
        fitting = [each for each in plans if each.peak <= budget.bytes]
    else:
        least, most = plans[0].saved, plans[-1].saved
        fitting = [each for each in plans if each.saved <= least + budget.fraction * (most - least)]
    return (fitting or plans)[-1 if fitting else 0].plan


def _smaller(recomputation: Recomputation) -> Iterator[Partition]:
    """Plans that recompute more: all cheap operations; expensive ones, too; and all operations, segment by segment."""
    relaxed = Policy(fast=False)
    yield minimum_cut(recomputation, relaxed)
    flow = recomputation.flow
    items = [
        number
        for number in flow.ancestors(flow.needed)
        if recomputation.banned(number, relaxed) and not recomputation.never(number) and flow.distance[number] < FAR
    ]
    items.sort(key=lambda number: (-_weight(recomputation, number), number))
    weights = [_weight(recomputation, number) for number in items]
    values = [_time(recomputation, [number]) for number in items]
    for choice in evenly(best_choices(weights, values), CHOICES):
        saved = choice.indices()
        again = frozenset(number for index, number in enumerate(items) if index not in saved)
        yield minimum_cut(recomputation, replace(relaxed, allowed=again))
    for count in SEGMENTS:
        kept = ends_of_segments(flow, recomputation.is_view, count)
        yield minimum_cut(recomputation, replace(relaxed, kept=kept, allowed=frozenset(items)))


def _weight(recomputation: Recomputation, number: int) -> int:
    return sum(map(recomputation.flow.bytes, recomputation.flow.ops[number].results))


def _time(recomputation: Recomputation, numbers: Sequence[int]) -> int:
    """The time of those of the operations that the forward runs, too."""
    return sum(recomputation.flow.time(number) for number in numbers if recomputation.flow.in_forward[number])


def _estimated(recomputation: Recomputation, plan: Partition) -> Estimated:
    flow = recomputation.flow
    return Estimated(plan, sum(map(flow.bytes, plan.saved)), peak_of(flow, plan), _time(recomputation, plan.recomputed))


def _chain(plans: Sequence[Estimated]) -> list[Estimated]:
    """Of ``plans``, of which the first is the default, those that save less than it, in an order as described above."""
    default = plans[0]
    smaller = [each for each in plans[1:] if each.saved < default.saved and each.peak <= default.peak]
    found = list[Estimated]()
    for each in sorted(smaller, key=lambda each: (each.peak, each.saved, each.time)):
        if not found or (each.time < found[-1].time and each.saved >= found[-1].saved):
            found.append(each)
    chain = [default]
    for each in reversed(found):
        if each.peak <= chain[0].peak * (1 - MARGIN):
            chain.insert(0, each)
    return chain
