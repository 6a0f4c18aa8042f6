"""What ``benchmarks/cpu.py`` measures and what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from interleaved import Spread, ratio
from results import FAILED, Measurement

MODEL = ("model", "type", "batch", "threads")
LABELS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "inference": MODEL,
    "training": MODEL,
    "kernels": ("kernel", "type", "threads"),
    "starts": ("model", "batch", "threads"),
    "step-starts": ("model", "batch", "threads"),
    "commands": ("command",),
    "calls": ("function",),
    "growth": ("layers",),
})  # fmt: skip
"""By section: the columns that tell its items apart."""
UNITS: Mapping[str, float] = MappingProxyType({"s": 1.0, "ms": 1e3, "us": 1e6})


@dataclass(frozen=True)
class Item:
    """What to measure: ``name`` of ``section``. ``rounds`` at most, in about ``seconds``; ``sizes``: elements of kernels."""

    section: str
    name: str
    dtype: str = "float32"
    batch: int = 1
    threads: int = 1
    rounds: int = 15
    seconds: float = 60.0
    sizes: tuple[int, ...] = ()
    tiny: bool = False

    @property
    def key(self) -> str:
        """For people."""
        return f"{self.section}/{self.name}/{self.dtype}/{self.batch}/{self.threads}"

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its rows; the same however long it was measured."""
        values = {"type": self.dtype, "batch": str(self.batch), "threads": str(self.threads)}
        return {label: values.get(label, self.name) for label in LABELS[self.section]}


@dataclass
class Row:
    """What was found: seconds by way and round, what failed by way and why, and other ``facts`` by way."""

    labels: Mapping[str, str]
    times: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    facts: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])

    def measurements(self, unit: str, pairs: Sequence[tuple[str, str]]) -> list[Measurement]:
        """Times in ``unit``, the ratios of ``pairs``, facts, and failures."""
        times = {way: Spread.of([second * UNITS[unit] for second in found]) for way, found in self.times.items()}
        ratios = {pair: found for pair in pairs if (found := ratio(self.times, *pair)) is not None}
        return [
            *(Measurement.of(self.labels, f"time, {unit}", way, spread) for way, spread in times.items()),
            *(Measurement.of(self.labels, "time", way, spread, base) for (way, base), spread in ratios.items()),
            *(Measurement(self.labels, fact, way, value) for fact, of in self.facts.items() for way, value in of.items()),
            *(Measurement(self.labels, FAILED, way, note=why) for way, why in self.failed.items()),
        ]


def with_better(row: Row, ways: Sequence[str]) -> Row:
    """``row`` with one way more, where it has all of ``ways``: the one that took the least in each round."""
    if not ways or not row.times.keys() >= set(ways):
        return row
    least = [min(times) for times in zip(*(row.times[way] for way in ways), strict=False)]
    return replace(row, times={**row.times, better_name(ways): least})


def better_name(ways: Sequence[str]) -> str:
    return f"better of {' and '.join(ways)}"


def failure(error: BaseException) -> str:
    """An error in one line."""
    text = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}".strip()[:200]


def item_of(data: Mapping[str, Any]) -> Item:
    """From JSON."""
    fields: dict[str, Any] = {**data, "sizes": tuple(data["sizes"])}
    return Item(**fields)
