"""A tree of wall and CPU times: ``with timer.scope("parse"): ...``, nested like the scopes."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class TimedScope:
    """Accumulated times of one name in one parent scope."""

    name: str
    wall: float = 0.0
    cpu: float = 0.0
    calls: int = 0
    children: dict[str, TimedScope] = field(default_factory=dict[str, "TimedScope"])


class Timer:
    """Collects times. A scope costs about a microsecond, so timing is always on."""

    def __init__(self) -> None:
        self.root = TimedScope("total")
        self._stack = [self.root]
        self._start = time.perf_counter(), time.process_time()

    @contextmanager
    def scope(self, name: str) -> Generator[None, None, None]:
        """Time the body under ``name`` in the current scope; times of the same name add up."""
        span = self._stack[-1].children.setdefault(name, TimedScope(name))
        wall, cpu = time.perf_counter(), time.process_time()
        self._stack.append(span)
        try:
            yield
        finally:
            self._stack.pop()
            span.wall += time.perf_counter() - wall
            span.cpu += time.process_time() - cpu
            span.calls += 1

    def rename(self, old: str, new: str) -> None:
        """Rename the outermost scope ``old`` to ``new``."""
        span = self.root.children.pop(old)
        self.root.children[new], span.name = span, new

    def stages(self) -> dict[str, float]:
        """Wall ms of each outermost scope."""
        return {name: span.wall * 1e3 for name, span in self.root.children.items()}

    def rows(self) -> list[tuple[str, float, float, float, int]]:
        """Name (indented), wall ms, share of all wall time, CPU ms, calls; ``rest`` is the time in no child scope."""
        self.root.wall = time.perf_counter() - self._start[0]
        self.root.cpu = time.process_time() - self._start[1]
        rows: list[tuple[str, float, float, float, int]] = []
        self._add(self.root, 0, rows)
        return rows

    def _add(self, span: TimedScope, depth: int, rows: list[tuple[str, float, float, float, int]]) -> None:
        share = span.wall / self.root.wall if self.root.wall else 0.0
        rows.append(("  " * depth + span.name, span.wall * 1e3, share, span.cpu * 1e3, span.calls))
        for child in span.children.values():
            self._add(child, depth + 1, rows)
        if span.children:
            wall = span.wall - sum(child.wall for child in span.children.values())
            cpu = span.cpu - sum(child.cpu for child in span.children.values())
            rows.append(("  " * (depth + 1) + "rest", wall * 1e3, wall / self.root.wall, cpu * 1e3, 0))
