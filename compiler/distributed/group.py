"""The process group of a training run: timeouts on every collective, and errors that name the rank and the operation."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.rendezvous import rendezvous  # pyright: ignore[reportUnknownVariableType]

from fxc.errors import CollectiveError

GRACE = timedelta(seconds=2)
"""How long a rank that failed waits for what the others say: they fail at nearly the same time, if they live."""


@contextmanager
def process_group(timeout: float = 300) -> Generator[DeviceMesh]:
    """Join the ranks that torchrun started, as a mesh of one axis. A collective fails after ``timeout`` seconds.

    Raises CollectiveError for a failure, with the rank, the last collective that each rank called, or its exception.
    """
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "16")  # the recorder of collectives, off by default
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    within = timedelta(seconds=timeout)
    store, rank, ranks = next(rendezvous("env://", timeout=within))
    store.set_timeout(within)
    # torchrun's store outlives a restart, with the addresses of the ranks before it
    store = c10d.PrefixStore(f"restart {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=within)
    try:
        yield init_device_mesh(device, (dist.get_world_size(),))
    except Exception as error:
        if isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error)):
            raise _explained(error) from error
        with suppress(RuntimeError):  # the rank that holds the store ended
            _failures().set(str(dist.get_rank()), f"{type(error).__name__}: {error}".partition("\n")[0])
        raise
    else:
        _release_groups()
    finally:
        dist.destroy_process_group()


def _release_groups() -> None:
    """Let no mesh hold a process group.

    Then its destruction joins gloo's threads. One that releases a tensor when the interpreter ends would abort the process.
    """
    for mesh in gc.get_objects():
        if type(mesh) is DeviceMesh:
            vars(mesh).get("_pg_registry", {}).clear()  # not in all versions of PyTorch


def _explained(error: RuntimeError) -> CollectiveError:
    rank, found, store = dist.get_rank(), _last_collective(), _failures()
    others = dict[int, str]()
    with suppress(RuntimeError):  # as above
        store.set(str(rank), found)
        for other in set(range(dist.get_world_size())) - {rank}:
            try:
                store.wait([str(other)], GRACE)
                others[other] = store.get(str(other)).decode()
            except dist.DistStoreError:
                others[other] = "no answer"
    return CollectiveError(
        f"rank {rank}: {found} failed: {error}",
        place="; ".join(f"rank {other}: {said}" for other, said in sorted(others.items())) or None,
        hint="a rank without an answer ended, or is slow (raise the timeout); where collectives differ, so do the programs",
    )


def _failures() -> c10d.Store:
    """What each rank that failed says, by its number."""
    return c10d.PrefixStore("failed", dist.distributed_c10d._get_default_store())


def _last_collective() -> str:
    """The name, number, dtypes and sizes of the collective that this rank called last."""
    dump = getattr(c10d, "_dump_nccl_trace_json" if dist.get_backend() == "nccl" else "_dump_fr_trace_json")
    recorded = json.loads(dump()).get("entries")
    if not recorded:
        return "a collective"
    last = recorded[-1]
    tensors = ", ".join(f"{dtype}{size}" for dtype, size in zip(last["input_dtypes"], last["input_sizes"]))
    return f"{last['profiling_name'].partition(':')[2]} of {tensors} (collective {last['collective_seq_id']})"
