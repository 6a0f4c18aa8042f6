"""Searches in child processes: the end of one is noticed, and its last program made small."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep, time

import torch

from tests.fuzz.check import Difference, NotCounted
from tests.fuzz.programs import Program
from tests.fuzz.reduction import reductions
from tests.fuzz.search import SHRINK_SECONDS, Counts, Failure, Search, check_program, quiet

HANGS = 600.0
"""Seconds of wall time that a program may take: most take one, and a machine with other work may be many times slower."""


def search(
    mode: str,
    seed: int,
    seconds: float | None,
    examples: int | None,
    folder: Path,
    report: Callable[[Failure], None],
    device: str = "cpu",
) -> Counts:
    """What ``Search`` finds. Where its process dies, the program is a failure, and another process goes on."""
    start = monotonic()
    total = Counts(mode)
    for attempt in range(1000):
        left = None if seconds is None else seconds - (monotonic() - start)
        rest = None if examples is None else examples - total.programs - total.not_counted
        if attempt and ((left is not None and left < 1) or (rest is not None and rest < 1)):
            break
        counts, program, status = _searched(
            Search(mode, seed + 1000 * attempt, left, rest, report=report, device=device), folder
        )
        total.programs += counts.programs
        total.not_counted += counts.not_counted
        total.failures += counts.failures
        if status == 0:
            break
        total.programs += 1
        crash = _crash(program, status, folder)
        if crash.key not in [failure.key for failure in total.failures]:
            total.failures.append(crash)
            report(crash)
    total.seconds = monotonic() - start
    return total


def _searched(looking: Search, folder: Path) -> tuple[Counts, Program | None, int]:
    """What was counted, the last program, and how the process ended."""
    note = folder / "running"
    note.unlink(missing_ok=True)
    looking.before = lambda program: _write(note, (looking.counts, program)) or None

    def child() -> None:
        _write(note, (looking.run(), None))

    status = in_child(child, note)
    counts, program = pickle.loads(note.read_bytes())
    return counts, program, status


def _write(note: Path, value: object) -> None:
    """At once: a process may die before it has written all."""
    new = note.with_suffix(".new")
    new.write_bytes(pickle.dumps(value))
    new.replace(note)


def _crash(program: Program | None, status: int, folder: Path) -> Failure:
    """The smallest program found in some seconds that ends a process in this way."""
    assert program is not None, f"the search itself ended with status {status}"
    end, again = monotonic() + SHRINK_SECONDS / 2, status != -signal.SIGKILL
    while again:
        again = False
        for smaller in reductions(program):
            if monotonic() > end:
                break
            if smaller.complexity < program.complexity and in_child(lambda tried=smaller: _run(tried), folder / "x") == status:
                program, again = smaller, True
                break
    name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return Failure(program, "crash", name, f"crash {name}")


def _run(program: Program) -> None:
    torch.set_num_threads(1)
    with quiet(), suppress(Difference, NotCounted):
        check_program(program)


def in_child(task: Callable[[], object], note: Path) -> int:
    """Runs ``task`` in a copy of this process: its exit status, negative where a signal ended it. Where nobody has written to
    ``note`` for long, it is killed."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            task()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    start = time()
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if max(start, note.stat().st_mtime if note.exists() else start) + HANGS < time():
            os.kill(child, signal.SIGKILL)
        sleep(0.02)
