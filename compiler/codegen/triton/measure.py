"""Measure work on a GPU. Candidates run in alternation, so that a slow phase of the machine affects all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

ROUNDS = 25


class EventClock:
    """A timer for the current stream of the current GPU. ``cache``: bytes, at least the size of its last-level cache."""

    def __init__(self, cache: int = 256 << 20) -> None:
        self._cache = torch.empty(cache // 4, dtype=torch.int32, device="cuda")

    def flush(self) -> None:
        """Empty the caches."""
        self._cache.zero_()

    def mark(self) -> torch.cuda.Event:
        """An event that is reached when all work started so far is complete."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def milliseconds(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """The time between two events; waits for both."""
        end.synchronize()
        return start.elapsed_time(end)


def by_turns(runs: Sequence[Callable[[], Any]], clock: EventClock, rounds: int = ROUNDS) -> list[float]:
    """The time of each of ``runs`` in milliseconds with cold caches: the median of ``rounds``, after a warm-up round."""
    marks: list[list[tuple[Any, Any]]] = [[] for _ in runs]
    for turn in range(rounds + 1):
        for run, found in zip(runs, marks, strict=True):
            clock.flush()
            start = clock.mark()
            run()
            end = clock.mark()
            if turn:
                found.append((start, end))
    return [median(clock.milliseconds(start, end) for start, end in found) for found in marks]
