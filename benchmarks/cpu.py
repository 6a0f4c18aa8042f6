"""fxc on the CPU against eager PyTorch and Inductor: models, training steps, kernels, calls, starts, commands, and growth.

    python benchmarks/cpu.py --quick
    python benchmarks/cpu.py --sections inference --only "GPT-2" --rounds 9
    python benchmarks/cpu.py --missing

Each model and each kernel has a separate process, in which all ways to run it take turns. Each section has a file of
results, which is written after each item, so that a long run can be stopped and continued (--missing); ``plots.py`` draws
from these files. Measure on a machine that does nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click
import results
from cpu_rows import LABELS, Item, Row, with_better
from cpu_sections import SECTIONS
from cpu_start import last_line
from results import FAILED, Measurement

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "build"
LIMIT = 4 * 3600
"""Seconds that an item may take."""
Found = dict[tuple[str, ...], list[Measurement]]
"""Measurements by the labels of their item."""


class Results:
    """The file of a section on this machine. UsageError where it holds results of another machine or of other versions."""

    def __init__(self, section: str, folder: Path) -> None:
        slug, machine = results.cpu()
        self.section, self.folder, self.name = section, folder, f"{section}-{slug}"
        before = results.machines(folder).get(self.name, {})
        self.about = results.about(machine, *SECTIONS[section].packages, notes=before.get("notes", ""))
        if before and any(before[key] != self.about[key] for key in ("machine", "versions")):
            raise click.UsageError(
                f"{folder / self.name}.csv is of {before['machine']}, {before['versions']}: choose another --folder"
            )
        self.found = Found()
        for each in results.read(self.name, folder):
            self.found.setdefault(tuple(each.labels[label] for label in LABELS[section]), []).append(each)

    def has(self, item: Item) -> bool:
        """Whether the item was measured, and its process did not fail."""
        found = self.found.get(tuple(item.labels.values()), [])
        return any(each.implementation for each in found)

    def add(self, item: Item, found: list[Measurement]) -> None:
        self.found[tuple(item.labels.values())] = found
        results.write(self.name, [each for of_item in self.found.values() for each in of_item], self.about, self.folder)

    def summary(self) -> str:
        """A line for each pair that is compared."""
        measurements = [each for of_item in self.found.values() for each in of_item]
        lines = list[str]()
        for pair in SECTIONS[self.section].pairs:
            if ratios := results.ratios(measurements, "time", *pair):
                found = results.Summary.of(ratios)
                worst = f"worst {found.worst:.2f} ({', '.join(found.where)})"
                lines.append(f"{' / '.join(pair)}: geometric mean of {found.rows} {found.mean:.2f}, {worst}")
        return "\n".join(lines)


def measured(item: Item) -> list[Measurement]:
    """What an item gives, from a separate process, or why that one failed."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        command = [sys.executable, str(HERE / "cpu_item.py"), json.dumps(asdict(item)), str(file)]
        environment = {**os.environ, "FXC_CACHE_DIR": folder}  # what an earlier run chose is not to be found there
        try:
            done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return [Measurement(item.labels, FAILED, "", note=f"took more than {LIMIT} seconds")]
        if done.returncode or not file.exists():
            why = f"ended with {done.returncode}: {last_line(done.stderr)}"[:200]
            return [Measurement(item.labels, FAILED, "", note=why)]
        return measurements(item, json.loads(file.read_text()))


def measurements(item: Item, rows: Sequence[dict[str, Any]]) -> list[Measurement]:
    section = SECTIONS[item.section]
    found = (with_better(Row(**row), section.better) for row in rows)
    return [each for row in found for each in row.measurements(section.unit, section.pairs)]


def items_of(section: str, quick: bool, tiny: bool, rounds: int | None, only: str) -> list[Item]:
    """What to run of a section; ``only`` is part of the item's key."""
    items: Sequence[Item] = SECTIONS[section].quick if quick or tiny else SECTIONS[section].items
    if tiny:
        items = [replace(item, tiny=True, rounds=2, seconds=0.0, sizes=item.sizes[:1]) for item in items]
    if rounds is not None:
        items = [replace(item, rounds=rounds) for item in items]
    return [item for item in items if only in item.key]


@click.command(help=__doc__)
@click.option("--sections", default=",".join(SECTIONS), show_default=True)
@click.option("--only", default="", help="items whose key, SECTION/NAME/TYPE/BATCH/THREADS, contains this")
@click.option("--quick", is_flag=True, help="float32, batch 1, one number of threads, three sizes, two models' starts")
@click.option("--tiny", is_flag=True, help="models and kernels of no size: to see that all of this works")
@click.option("--rounds", type=click.IntRange(1), help="rounds at most; repeated starts")
@click.option("--missing", is_flag=True, help="only what the files of --folder do not have, or have as failed")
@click.option("--folder", type=click.Path(path_type=Path), help="benchmarks/results; build/quick and build/tiny with these")
def main(sections: str, only: str, quick: bool, tiny: bool, rounds: int | None, missing: bool, folder: Path | None) -> None:
    chosen = sections.split(",")
    if unknown := set(chosen) - set(SECTIONS):
        raise click.UsageError(f"there is no section {', '.join(sorted(unknown))}: choose of {', '.join(SECTIONS)}")
    folder = folder or (BUILD / "tiny" if tiny else BUILD / "quick" if quick else results.FOLDER)
    for section in chosen:
        found = Results(section, folder)
        for item in items_of(section, quick, tiny, rounds, only):
            if missing and found.has(item):
                continue
            start = perf_counter()
            found.add(item, measured(item))
            print(f"{item.key}: {perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        print(f"{found.name} in {folder}\n{found.summary()}", flush=True)


if __name__ == "__main__":
    main()
