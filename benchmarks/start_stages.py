"""Where the time from the start of a process to its first result goes: imports, the model, each stage of ``fxc.compile``.

    python benchmarks/start_stages.py --model GPT-2\\ prefill --way warm [--frozen] [--markdown]

Cold, warm and a saved plan are as in ``cpu_start.py``. Each is run ``--rounds`` times; the table holds medians.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click
from cpu_models import MODELS
from cpu_rows import Item
from cpu_start import FOLDERS, LIMIT, last_line, start
from results import table, write_json

Times = dict[str, dict[str, float]]
HERE = Path(__file__).resolve().parent


def one(item: Item, way: str, frozen: bool, folder: Path) -> Times:
    """Seconds of a start by stage, and of what happened within the stages."""
    first, plan, name = folder / "first", folder / "plan", "fxc frozen" if frozen else "fxc"
    if way == "warm":
        start(item, name, first)
    if way == "plan":
        start(item, name, first, save=plan)
    caches = first if way == "warm" else folder / "second"
    folders = {variable: str(caches / variable) for variable in FOLDERS}
    for each in folders.values():
        os.makedirs(each, exist_ok=True)
    facts = {"model": item.name, "threads": item.threads, "tiny": item.tiny, "frozen": frozen}
    request = json.dumps({**facts, "load": str(plan) if way == "plan" else None, "begin": time.monotonic()})
    command = [sys.executable, str(HERE / "start_process.py"), request]
    environment = {variable: value for variable, value in os.environ.items() if variable != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, env={**environment, **folders}, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        raise click.ClickException(last_line(done.stderr) or f"the process ended with {done.returncode}")
    return json.loads(last_line(done.stdout))


def lines(found: list[Times]) -> list[tuple[str, float]]:
    """Name and median milliseconds: the stages with their sum up to the first result, and then what is in them."""

    def medians(kind: str) -> dict[str, float]:
        names = dict.fromkeys(name for times in found for name in times[kind])
        return {name: 1e3 * median(times[kind].get(name, 0.0) for times in found) for name in names}

    stages = medians("stages")
    second = stages.pop("second call")
    within = [(f"of that: {name}", spent) for name, spent in medians("within").items()]
    return [*stages.items(), ("to the first result", sum(stages.values())), ("second call", second), *within]


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--model", type=click.Choice(list(MODELS)), default="ResNet-50", show_default=True)
@click.option("--way", type=click.Choice(["cold", "warm", "plan"]), default="cold", show_default=True)
@click.option("--frozen", is_flag=True, help="With the weights frozen.")
@click.option("--rounds", default=1, show_default=True, help="Starts; each line is the median of them.")
@click.option("--threads", default=2, show_default=True)
@click.option("--tiny", is_flag=True, help="The model at its small size.")
@click.option("--markdown", is_flag=True, help="The table as Markdown.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Also write the lines here.")
def main(model: str, way: str, frozen: bool, rounds: int, threads: int, tiny: bool, markdown: bool, path: Path | None) -> None:
    found = list[Times]()
    for _ in range(rounds):
        with TemporaryDirectory() as folder:
            found.append(one(Item("starts", model, threads=threads, tiny=tiny), way, frozen, Path(folder)))
    title = f"{model}, {way}{', frozen' if frozen else ''}"
    write_json(path, {"start": title, "threads": threads, "ms": dict(lines(found))})
    rows = [(name, f"{spent:.0f}") for name, spent in lines(found)]
    if markdown:
        click.echo(table([title, "ms"], rows))
        return
    click.echo(title)
    for name, spent in rows:
        click.echo(f"{name:28} {spent:>8}")


if __name__ == "__main__":
    main()
