"""What ``benchmarks/cpu.py`` measures and what it finds: plain data, as it is kept in the file of results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Labels = Mapping[str, str | int]


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
        """What results are kept under; the same however long it was measured."""
        return f"{self.section}/{self.name}/{self.dtype}/{self.batch}/{self.threads}{'/tiny' * self.tiny}"


@dataclass
class Row:
    """What was found: seconds by way and round, what failed by way and why, and other ``facts`` by way."""

    labels: Labels
    times: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    facts: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])


def failure(error: BaseException) -> str:
    """An error in one line."""
    text = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}".strip()[:200]


def item_of(data: Mapping[str, Any]) -> Item:
    """From JSON."""
    fields: dict[str, Any] = {**data, "sizes": tuple(data["sizes"])}
    return Item(**fields)
