"""Times of functions that take turns, and statistics of the ratios between them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

LEAST_ROUNDS = 5
"""Rounds that are run even where they take longer than they may."""
BLOCK, MOST_CALLS = 1e-3, 5000
"""Seconds that the calls of one turn should take together, and how many they are at most."""

Times = Mapping[str, Sequence[float]]
"""By name: seconds a call, one for each round."""


@dataclass(frozen=True)
class Spread:
    """Median and quartiles."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of one value, it three times."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        return cls(*statistics.quantiles(values, n=4, method="inclusive"))


def order(names: Sequence[str], index: int) -> list[str]:
    """The order of round ``index``: rotated, and every other time backwards, so that no name always follows the same one."""
    start = index // 2 % len(names)
    turned = [*names[start:], *names[:start]]
    return turned[::-1] if index % 2 else turned


def by_turns(calls: Mapping[str, Callable[[], Any]], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Times of ``calls``, each run once a round, after a first time: at most ``rounds``, and about ``seconds`` in all.

    A turn of short calls is many of them, as many of each.
    """
    repeats = _calls_a_turn(calls)
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = perf_counter() + seconds
    for index in range(rounds):
        for name in order(list(calls), index):
            call, start = calls[name], perf_counter()
            for _ in range(repeats):
                call()
            times[name].append((perf_counter() - start) / repeats)
        if index + 1 >= LEAST_ROUNDS and perf_counter() > end:
            break
    return times


def _calls_a_turn(calls: Mapping[str, Callable[[], Any]]) -> int:
    longest = 0.0
    for call in calls.values():
        call()
        start = perf_counter()
        call()
        longest = max(longest, perf_counter() - start)
    return max(1, min(MOST_CALLS, int(BLOCK / longest)))


def ratio(times: Times, name: str, base: str) -> Spread | None:
    """Of ``name`` to ``base`` round by round, so that what slows the machine in a round meets both; None where one is missing.

    Where one of them failed in a later round, of the rounds that both have.
    """
    found = [mine / theirs for mine, theirs in zip(times.get(name, ()), times.get(base, ()), strict=False)]
    return Spread.of(found) if found else None


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))
