"""``python -m tests.fuzz --seconds 60 --seed 7 [--mode dynamic] [--examples N]``.

Prints a test for each difference between fxc and eager, and one line of counts for each mode; exit status 1 where there is a
difference. With ``--examples`` the same programs run for the same seed. Programs run in a child process, whose end is
noticed.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep

import click

from tests.fuzz.check import MODES
from tests.fuzz.search import Counts, Failure, Search

HANGS = 60.0
"""Seconds after which a program is ended."""


@click.command()
@click.option("--seconds", type=float, help="For all modes together; 60 where no --examples are given.")
@click.option("--seed", type=int, default=0)
@click.option("--mode", "modes", type=click.Choice(list(MODES)), multiple=True, help="All, without it.")
@click.option("--examples", type=int, help="Programs of each mode.")
def main(seconds: float | None, seed: int, modes: tuple[str, ...], examples: int | None) -> None:
    if seconds is None and examples is None:
        seconds = 60.0
    chosen = modes or tuple(MODES)
    end = None if seconds is None else monotonic() + seconds
    counts: list[Counts] = []
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        os.environ["FXC_CACHE_DIR"], os.environ["FXC_CACHE_PLANS"] = str(Path(folder, "cache")), "0"
        for attempt in range(20):
            left = chosen[len(counts) :]
            if not left:
                break
            counts += in_child(left, seed + 1000 * attempt, end, examples, Path(folder))
    for count in counts:
        print(count)
    sys.exit(any(count.failures for count in counts))


def in_child(modes: tuple[str, ...], seed: int, end: float | None, examples: int | None, folder: Path) -> list[Counts]:
    """Runs ``modes`` in a process of their own. Where it dies, its last program is a failure, and ends its mode."""
    running, done = folder / "running", folder / "done"
    done.unlink(missing_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            found = [search_of(mode, seed, share(end, len(modes) - i), examples, running, done) for i, mode in enumerate(modes)]
            status = 0 if found else 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    status = wait_for(child, running)
    counts: list[Counts] = pickle.loads(done.read_bytes()) if done.exists() else []
    if status:
        last = pickle.loads(running.read_bytes())
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        failure = Failure(last[1], "crash", name, "crash")
        print(f"{failure}\n", flush=True)
        last[0].failures.append(failure)
        counts.append(last[0])
    return counts


def share(end: float | None, modes: int) -> float | None:
    return None if end is None else max((end - monotonic()) / modes, 0.5)


def search_of(mode: str, seed: int, seconds: float | None, examples: int | None, running: Path, done: Path) -> Counts:
    search = Search(mode, seed, seconds, examples, report=lambda failure: print(f"{failure}\n", flush=True))
    search.before = lambda program: write(running, (search.counts, program))
    counts = search.run()
    write(done, [*(pickle.loads(done.read_bytes()) if done.exists() else []), counts])
    return counts


def write(path: Path, value: object) -> None:
    path.write_bytes(pickle.dumps(value))


def wait_for(child: int, running: Path) -> int:
    """The exit status, negative where a signal ended it. A program that takes too long is ended."""
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if running.exists() and running.stat().st_mtime + HANGS < _now():
            os.kill(child, signal.SIGKILL)
        sleep(0.05)


def _now() -> float:
    import time

    return time.time()


if __name__ == "__main__":
    main()
