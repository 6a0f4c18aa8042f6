"""Result files: ``benchmarks/results/NAME-MACHINE.csv``, and ``machines.json`` beside them, which says how each was measured.

A line is a number: what it is of (``labels``, the first columns), the quantity with its unit, the implementation, and quartiles
where they are known. With a baseline it is a ratio to that implementation, taken round by round, below 1 where it takes less.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from interleaved import Spread, geometric_mean

FOLDER = Path(__file__).resolve().parent / "results"
MACHINES = "machines.json"
FAILED = "failed"
"""The quantity of what could not be measured; the note says why."""


@dataclass(frozen=True)
class Measurement:
    """One line of a file."""

    labels: Mapping[str, str]
    quantity: str
    implementation: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    baseline: str = ""
    note: str = ""

    @classmethod
    def of(
        cls, labels: Mapping[str, str], quantity: str, implementation: str, spread: Spread, baseline: str = ""
    ) -> Measurement:
        return cls(labels, quantity, implementation, spread.median, spread.low, spread.high, baseline)


COLUMNS = ("quantity", "implementation", "baseline", "value", "low", "high", "note")
NUMBERS = ("value", "low", "high")


def read(name: str, folder: Path = FOLDER) -> list[Measurement]:
    """The measurements of a file; none where there is no such file."""
    path = folder / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [_measurement(line) for line in csv.DictReader(file)]


def _measurement(line: Mapping[str, str]) -> Measurement:
    labels = {column: cell for column, cell in line.items() if column not in COLUMNS}
    numbers = {column: float(line[column]) if line[column] else None for column in NUMBERS}
    return Measurement(
        labels, line["quantity"], line["implementation"], **numbers, baseline=line["baseline"], note=line["note"]
    )


def write(name: str, measurements: Sequence[Measurement], about: Mapping[str, Any], folder: Path = FOLDER) -> Path:
    """Write a file and its entry of ``machines.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = list(dict.fromkeys(label for measurement in measurements for label in measurement.labels))
    path = folder / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*labels, *COLUMNS])
        for measurement in measurements:
            cells = [measurement.labels.get(label, "") for label in labels]
            writer.writerow([*cells, *(_cell(getattr(measurement, column)) for column in COLUMNS)])
    threads = sorted({each.labels["threads"] for each in measurements if each.labels.get("threads")})
    entries = {**machines(folder), name: {**about, **({"threads": threads} if threads else {})}}
    (folder / MACHINES).write_text(json.dumps(dict(sorted(entries.items())), indent=1) + "\n", encoding="utf-8")
    return path


def _cell(value: str | float | None) -> str:
    return value or "" if isinstance(value, str | None) else f"{value:.7g}"


def machines(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """By file: machine, date, versions, and notes."""
    path = folder / MACHINES
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def about(machine: str, *packages: str, notes: str = "") -> dict[str, Any]:
    """An entry of ``machines.json`` for a measurement of today, with the versions of those ``packages`` that are installed."""
    installed = (package for package in packages if find_spec(package))
    versions = {"Python": platform.python_version(), **{each: version(each) for each in ("torch", "fxc", *installed)}}
    return {"machine": machine, "date": date.today().isoformat(), "versions": versions, "notes": notes}


def write_json(path: Path | None, found: Any) -> None:
    """Write what a script found, with machine, date and versions; nothing without a path."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**about(cpu()[1]), "results": found}, indent=1) + "\n", encoding="utf-8")


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor()) or platform.machine()


def cpu() -> tuple[str, str]:
    """This CPU for the name of a file, as in ``intel-avx512``, and for people."""
    import torch

    name, vectors = cpu_name(), torch.backends.cpu.get_cpu_capability()
    maker = re.split(r"\W", name)[0]
    return f"{maker}-{vectors}".lower().replace(" ", "-"), f"{name}, {os.cpu_count()} cores, {vectors}"


Labels = tuple[str, ...]


def ratios(measurements: Iterable[Measurement], quantity: str, implementation: str, baseline: str) -> dict[Labels, float]:
    """Ratios by labels: those that were taken round by round, else quotients of ratios to eager, else of the numbers."""
    found = dict[Labels, dict[tuple[str, str], float]]()
    for each in measurements:
        if each.quantity.partition(",")[0] == quantity and each.value is not None:
            found.setdefault(tuple(each.labels.values()), {})[each.implementation, each.baseline] = each.value
    quotients = ((labels, _ratio(values, implementation, baseline)) for labels, values in found.items())
    return {labels: quotient for labels, quotient in quotients if quotient is not None}


def _ratio(values: Mapping[tuple[str, str], float], implementation: str, baseline: str) -> float | None:
    if (implementation, baseline) in values:
        return values[implementation, baseline]
    for base in ("eager", ""):
        above, below = (values.get((name, base)) for name in (implementation, baseline))
        if above and below:  # a peak of no memory has no ratio
            return above / below
    return None


@dataclass(frozen=True)
class Summary:
    """Of ratios that weigh the same."""

    rows: int
    mean: float
    worst: float
    where: Labels

    @classmethod
    def of(cls, found: Mapping[Labels, float]) -> Summary:
        where = max(found, key=lambda labels: found[labels])
        return cls(len(found), geometric_mean(list(found.values())), found[where], where)


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
