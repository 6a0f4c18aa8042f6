"""A test function in several processes of one group: ``run(worker, 2)`` calls ``worker()`` on each of two ranks.

A worker is a function of a module of ``tests``. It finds an initialized process group (gloo, whose collectives fail after 30
seconds), and fails by raising.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(worker: Callable[[], None], world_size: int, timeout: float = 100) -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"WORLD_SIZE": str(world_size), "GROUP": f"file://{folder}/group", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tests.ranks", worker.__module__, worker.__name__]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": ROOT}
        ranks = [subprocess.Popen(command, env=environment | {"RANK": str(rank)}, **pipes) for rank in range(world_size)]
        try:
            outputs = [rank.communicate(timeout=timeout)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    failed = [f"rank {n}:\n{text}" for n, (rank, text) in enumerate(zip(ranks, outputs)) if rank.returncode]
    assert not failed, "\n".join(failed)


if __name__ == "__main__":
    import torch.distributed as dist

    module, name = sys.argv[1:]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", os.environ["GROUP"], rank=rank, world_size=size, timeout=timedelta(seconds=30))
    getattr(importlib.import_module(module), name)()
    dist.destroy_process_group()
