"""A test function in several processes of one group: ``run(worker, 2)`` calls ``worker()`` on each of two ranks.

A worker is a function of a module of ``tests``, and fails by raising. It finds an initialized process group, whose collectives
fail after 100 seconds. Ranks are forks of a process that has imported PyTorch and fxc, which takes longer than most workers.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.synchronize import Event
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # a fork finds this module there
IMPORTED = (
    "pytest torch.distributed.tensor.debug torch.distributed.fsdp torch._dynamo.backends.common fxc.torch_compile".split()
)
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(IMPORTED)


def run(worker: Callable[[], None], world_size: int, timeout: float = 280) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "WORLD_SIZE": str(world_size), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        printed = [Path(folder, str(rank)) for rank in range(world_size)]
        ended = FORKS.Event()
        ranks = [
            FORKS.Process(
                target=_rank, args=(worker.__module__, worker.__name__, os.environ | place, rank, printed[rank], ended)
            )
            for rank in range(world_size)
        ]
        for rank in ranks:
            rank.start()
        until = monotonic() + timeout
        try:
            for rank in reversed(ranks):
                if rank is ranks[0]:
                    ended.set()
                rank.join(max(0, until - monotonic()))
        finally:
            for rank in ranks:
                rank.kill()
                rank.join()
        failed = [f"rank {n}:\n{printed[n].read_text()}" for n, rank in enumerate(ranks) if rank.exitcode]
    assert not failed, "\n".join(failed)


def _rank(module: str, name: str, environment: Mapping[str, str], rank: int, printed: Path, ended: Event) -> None:
    """Call the worker, print to a file, and end at once, without the end of the interpreter.

    Rank 0 has the store, from which others read what it called when it fails: it ends after the others have ``ended``.
    """
    os.environ |= environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.chdir(ROOT)
    with printed.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        from fxc.distributed import process_group

        with process_group(timeout=100):
            getattr(importlib.import_module(module), name)()
    except BaseException:
        traceback.print_exc()
        if rank == 0:
            ended.wait(10)
        os._exit(1)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
