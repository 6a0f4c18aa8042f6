"""Statistics of each pass: ops before and after, and the counters of ``fxc.passes.analysis.statistics.count``."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field

from fxc.driver.instrumentation import PassRun
from fxc.passes.analysis.statistics import recording


@dataclass
class PassStatistics:
    """One run of one pass. ``ops_after``: None where it failed; ``seconds``: wall time, verification included."""

    name: str
    ops_before: int
    ops_after: int | None = None
    seconds: float = 0.0
    counters: Counter[str] = field(default_factory=Counter[str])


@dataclass
class Statistics:
    """An instrumentation that records a ``PassStatistics`` for every pass run, in order."""

    runs: list[PassStatistics] = field(default_factory=list[PassStatistics])
    _start: float = field(default=0.0, init=False, repr=False)
    _recording: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    def before_pass(self, run: PassRun) -> None:
        statistics = PassStatistics(run.name, _count_ops(run))
        self.runs.append(statistics)
        self._recording.enter_context(recording(statistics.counters))
        self._start = time.perf_counter()

    def after_pass(self, run: PassRun) -> None:
        self.runs[-1].seconds = time.perf_counter() - self._start
        self._recording.close()
        self.runs[-1].ops_after = _count_ops(run)

    def after_failure(self, run: PassRun, error: BaseException) -> None:
        self._recording.close()

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Pass, ops before, ops after, counters."""
        return [
            (
                run.name,
                str(run.ops_before),
                "failed" if run.ops_after is None else f"{run.ops_after} ({run.ops_after - run.ops_before:+})",
                ", ".join(f"{what} {amount}" for what, amount in sorted(run.counters.items()) if amount),
            )
            for run in self.runs
        ]


def _count_ops(run: PassRun) -> int:
    return sum(1 for _ in run.subject.walk())
