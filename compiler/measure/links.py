"""The implementation of ``fxc measure-links``: time collectives between the processes of a run, or local ones."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import perf_counter

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn  # pyright: ignore[reportUnknownVariableType]

from fxc.passes.dist.links import COLLECTIVES, Link

SIZES = 1 << 12, 1 << 24
"""Bytes of the two messages that a latency and a rate are fitted to; float32 of up to 1,024 ranks divide them."""

TIMEOUT = timedelta(seconds=60)
REPEATS = 20


def is_in_a_run() -> bool:
    """Whether a launcher such as torchrun started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def measure_run(axis: str) -> list[Link] | None:
    """The links between the ranks of the run that a launcher started; None on other ranks than the first."""
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if gpu else "gloo", timeout=TIMEOUT)
    try:
        found = measure(torch.device("cuda" if gpu else "cpu"), axis)
        return found if dist.get_rank() == 0 else None
    finally:
        dist.destroy_process_group()


def measure_local(ranks: int, axis: str) -> list[Link]:
    """The links between ``ranks`` processes of this machine, which are started for it."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(_rank, (ranks, axis, folder), nprocs=ranks)
        return [Link(**entry) for entry in json.loads((Path(folder) / "links").read_text(encoding="utf-8"))]


def _rank(rank: int, ranks: int, axis: str, folder: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks, timeout=TIMEOUT)
    found = measure(torch.device("cpu"), axis)
    if rank == 0:
        (Path(folder) / "links").write_text(json.dumps([link._asdict() for link in found]), encoding="utf-8")
    dist.destroy_process_group()


def measure(device: torch.device, axis: str) -> list[Link]:
    """The links between the ranks of the process group of this process, with tensors on ``device``."""
    links = list[Link]()
    for collective in COLLECTIVES:
        (start, small), (_, large) = (_microseconds(collective, bytes, device) for bytes in SIZES)
        rate = (SIZES[1] - SIZES[0]) / max(large - small, large / 100)
        latency = max(small - SIZES[0] / rate, start)
        links.append(Link(collective, dist.get_world_size(), round(latency, 3), round(rate, 3), axis, round(start, 3)))
    return links


def _microseconds(collective: str, bytes: int, device: torch.device) -> tuple[float, float]:
    """How long the start of a message of ``bytes``, and the whole, take on the slowest rank, the medians of several."""
    run, times = _call(collective, torch.zeros(bytes // 4, device=device)), list[torch.Tensor]()
    for _ in range(REPEATS):
        dist.barrier()
        start = perf_counter()
        result = run()
        held = perf_counter() - start
        torch.ops._c10d_functional.wait_tensor(result)
        if device.type == "cuda":
            torch.cuda.synchronize()
        slowest = torch.tensor([held, perf_counter() - start], device=device) * 1e6
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        times.append(slowest)
    held, whole = torch.stack(times[1:]).median(0).values
    return float(held), float(whole)


def _call(collective: str, whole: torch.Tensor) -> Callable[[], torch.Tensor]:
    """A call that starts a collective, as programs do."""
    ops, ranks, world = torch.ops._c10d_functional, dist.get_world_size(), dist.group.WORLD
    assert world is not None
    group, part = world.group_name, whole[: len(whole) // ranks].clone()
    match collective:
        case "all_reduce":
            return lambda: ops.all_reduce(whole, "sum", group)
        case "all_gather":
            return lambda: ops.all_gather_into_tensor(part, ranks, group)
        case "reduce_scatter":
            return lambda: ops.reduce_scatter_tensor(whole, "sum", ranks, group)
        case "all_to_all":
            return lambda: ops.all_to_all_single(whole, [len(part)] * ranks, [len(part)] * ranks, group)
        case _:
            return lambda: ops.broadcast(whole, 0, group)
