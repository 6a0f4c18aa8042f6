"""A test function in several processes of one group: ``run(worker, 2)`` calls ``worker()`` on each of two ranks.

A worker is a function of a module of ``tests``, and fails by raising. It finds an initialized process group, whose collectives
fail after 100 seconds.
"""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parent.parent


def run(worker: Callable[[], None], world_size: int, timeout: float = 280) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": str(world_size), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.ranks", worker.__module__, worker.__name__]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": ROOT}
    ranks = [
        subprocess.Popen(command, env=os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, **pipes)
        for rank in range(world_size)
    ]
    try:
        outputs = [rank.communicate(timeout=timeout)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    failed = [f"rank {n}:\n{text}" for n, (rank, text) in enumerate(zip(ranks, outputs)) if rank.returncode]
    assert not failed, "\n".join(failed)


def leave() -> NoReturn:
    """End this rank without the end of the interpreter, during which threads of gloo have been seen to abort the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    from fxc.distributed import process_group

    module, name = sys.argv[1:]
    with process_group(timeout=100):
        getattr(importlib.import_module(module), name)()
    leave()
