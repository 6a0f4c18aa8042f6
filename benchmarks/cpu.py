"""fxc on the CPU against eager PyTorch and Inductor: models, training steps, kernels, starts, calls, and how compiling grows.

    python benchmarks/cpu.py --quick
    python benchmarks/cpu.py --sections inference --only "GPT-2" --rounds 9
    python benchmarks/cpu.py --missing --write

Each model and each kernel has a process of its own, in which all ways to run it take turns; results are kept after each, so
that a long run can be stopped and gone on with (--missing). Measure on a machine that does nothing else.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click
import cpu_tables as tables
from cpu_rows import Item, Row
from cpu_sections import SECTIONS
from cpu_start import last_line

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LIMIT = 4 * 3600
"""Seconds that an item may take."""
Results = dict[str, dict[str, Any]]


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def machine() -> str:
    """One line; results of another machine or of other versions are not mixed with these."""
    versions = f"torch {version('torch')}, fxc {version('fxc')}, Python {platform.python_version()}"
    return f"{cpu_name() or platform.machine()}, {os.cpu_count()} cores; {versions}"


def read(path: Path) -> Results:
    """Results by item; UsageError where they are not of this machine."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    if found["machine"] != machine():
        raise click.UsageError(f"{path} has results of {found['machine']}; this is {machine()}: choose other --results")
    return found["items"]


def write(path: Path, results: Results) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({"machine": machine(), "items": results}, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def measured(item: Item) -> dict[str, Any]:
    """The rows of an item, from a process of its own, and what ended that one early."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        command = [sys.executable, str(HERE / "cpu_item.py"), json.dumps(asdict(item)), str(file)]
        environment = {**os.environ, "FXC_CACHE_DIR": folder}  # what an earlier run chose is not to be found there
        try:
            done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return {"rows": [], "error": f"took more than {LIMIT} seconds"}
        if done.returncode or not file.exists():
            return {"rows": [], "error": f"ended with {done.returncode}: {last_line(done.stderr)}"[:200]}
        return {"rows": json.loads(file.read_text()), "error": ""}


def text_of(section: str, results: Results) -> str:
    """The section's Markdown, in the order of its items."""
    found = [
        results[key] for item in SECTIONS[section].items for key in (item.key, replace(item, tiny=True).key) if key in results
    ]
    rows = [Row(**row) for entry in found for row in entry["rows"]]
    lost = [f"- {key}: {entry['error']}" for key, entry in results.items() if entry["error"] and key.startswith(f"{section}/")]
    text = SECTIONS[section].text(rows) if rows else tables.NOT_MEASURED
    return "\n\n".join(part for part in (machine() if rows else "", text, "\n".join(lost)) if part)


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
@click.option("--missing", is_flag=True, help="only what --results does not have, or has as failed")
@click.option("--no-run", is_flag=True, help="measure nothing: tables of what --results has")
@click.option("--results", type=click.Path(path_type=Path), help="build/cpu.json, build/cpu-quick.json or build/cpu-tiny.json")
@click.option("--write", "writes", is_flag=True, help="put the tables into --page")
@click.option("--page", type=click.Path(path_type=Path), default=ROOT / "docs" / "performance.md")
def main(
    sections: str,
    only: str,
    quick: bool,
    tiny: bool,
    rounds: int | None,
    missing: bool,
    no_run: bool,
    results: Path | None,
    writes: bool,
    page: Path,
) -> None:
    chosen = sections.split(",")
    if unknown := set(chosen) - set(SECTIONS):
        raise click.UsageError(f"there is no section {', '.join(sorted(unknown))}: choose of {', '.join(SECTIONS)}")
    if tiny and writes:
        raise click.UsageError("what --tiny measures is not for a page")
    path = results or ROOT / "build" / f"cpu{'-tiny' if tiny else '-quick' if quick else ''}.json"
    found = read(path)
    for section in chosen if not no_run else ():
        for item in items_of(section, quick, tiny, rounds, only):
            if missing and item.key in found and not found[item.key]["error"]:
                continue
            start = perf_counter()
            found[item.key] = measured(item)
            write(path, found)
            print(f"{item.key}: {perf_counter() - start:.0f} s {found[item.key]['error']}", file=sys.stderr, flush=True)
    for section in chosen:
        text = text_of(section, found)
        print(f"## {section}\n\n{text}\n", flush=True)
        if writes:
            page.write_text(tables.with_section(page.read_text(encoding="utf-8"), section, text), encoding="utf-8")


if __name__ == "__main__":
    main()
