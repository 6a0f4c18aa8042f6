"""Two processes with gloo: layouts train as in eager mode, one rank compiles for both, and different graphs are an error."""

import os
import subprocess
import sys
import time
from pathlib import Path

import torch.distributed as dist

from tests.distributed_rank import RANKS, SECONDS

ROOT = Path(__file__).parent.parent


def test_two_ranks(tmp_path: Path) -> None:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    command, end = [sys.executable, "-m", "tests.distributed_rank"], time.monotonic() + SECONDS
    logs = [tmp_path / f"rank{rank}.txt" for rank in range(RANKS)]
    ranks = list[subprocess.Popen[bytes]]()
    for rank, log in enumerate(logs):
        environment = {**os.environ, "FXC_CACHE_DIR": str(tmp_path / f"cache{rank}")}
        with log.open("wb") as output:
            arguments = [*command, str(rank), str(server.port)]
            ranks.append(subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=output, stderr=output))
    try:
        codes = [process.wait(max(0, end - time.monotonic())) for process in ranks]
    except subprocess.TimeoutExpired:
        codes = [process.poll() for process in ranks]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    assert codes == [0] * RANKS, "\n".join(log.read_text() for log in logs)
