"""Plans under a budget of memory.

The plans to choose from do not depend on the budget. Each saves at least as much as those before it, has no lower simulated
peak, and is faster. So a smaller budget never has a higher peak.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fxc.passes.joint.partition_min_cut.dataflow import FAR
from fxc.passes.joint.partition_min_cut.knapsack import best_choices, evenly
from fxc.passes.joint.partition_min_cut.minimum_cut import Partition, minimum_cut
from fxc.passes.joint.partition_min_cut.peak import peak_of
from fxc.passes.joint.partition_min_cut.recomputation import Policy, Recomputation
from fxc.passes.joint.partition_min_cut.segments import ends_of_segments

CHOICES = 16
"""The number of choices of expensive operations to recompute that are compared."""

SEGMENTS = (2, 4, 8, 16, 32, 64)
"""The numbers of segments that are compared."""

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
        if found is None:
            raise ValueError(f"a budget is a fraction from 0 to 1, or bytes such as 1.5e9, 64MB or 64MiB, not {given}")
        number, unit = float(found[1]), found[2]
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
    return [*found, default]
