"""``python -m tests.fuzz --seconds 60 --seed 7 [--mode dynamic] [--examples N] [--device cuda]``.

Prints a test for each difference between fxc and eager, and one line of counts for each mode; exit status 1 where there is a
difference, or where no program ran. With ``--examples`` the same programs run for the same seed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from time import monotonic, process_time

import click
import torch

from tests.fuzz.check import MODES, check
from tests.fuzz.crashes import search
from tests.fuzz.search import Counts, Failure

START = monotonic() - process_time()
"""When the process began, about."""


@click.command()
@click.option("--seconds", type=float, help="For all modes together; 60 where no --examples are given.")
@click.option("--seed", type=int, default=0)
@click.option("--mode", "modes", type=click.Choice(list(MODES)), multiple=True, help="All, without it.")
@click.option("--examples", type=int, help="Programs of each mode.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", help="Where the programs run.")
def main(seconds: float | None, seed: int, modes: tuple[str, ...], examples: int | None, device: str) -> None:
    if seconds is None and examples is None:
        seconds = 60.0
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # the other check makes CUDA unusable in child processes
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Dynamo begins to use a GPU that it sees, which no child process then can
    if device == "cuda" and not torch.cuda.is_available():
        raise click.UsageError("this machine has no GPU")
    chosen, counts = modes or tuple(MODES), list[Counts]()
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        os.environ["FXC_CACHE_DIR"], os.environ["FXC_CACHE_PLANS"] = str(Path(folder, "cache")), "0"
        torch.set_num_threads(1)
        for route in {"compile" if mode in ("compile", "dynamic") else "static" for mode in chosen if device == "cpu"}:
            # What is imported now need not be in each process. Dynamo begins to use a GPU, which no child process then can.
            check(route, lambda x: (x.relu(),), lambda: [torch.ones(3)])
        for i, mode in enumerate(chosen):
            share = None if seconds is None else (START + seconds - monotonic()) / (len(chosen) - i)
            counts.append(search(mode, seed, share, examples, Path(folder), report, device))
    for count in counts:
        print(count)
    sys.exit(any(count.failures or not count.programs for count in counts))


def report(failure: Failure) -> None:
    print(f"{failure}\n", flush=True)


if __name__ == "__main__":
    main()
