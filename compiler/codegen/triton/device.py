"""The GPU of this machine: its description as a target, which kernels it supports, and times of work on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, cast

import torch

from fxc.codegen.triton.ahead_of_time import TritonTarget, triton_version
from fxc.dialects.target import GpuAttr, presets
from fxc.errors import KernelError, PipelineError

FORWARD_COMPATIBLE = range(7, 9)
"""Major NVIDIA architectures whose kernels also run on later minor versions. From 9 on, kernels are specific to one version."""


def device_target() -> GpuAttr:
    """The target of the current GPU. PipelineError if there is no GPU."""
    if not torch.cuda.is_available():
        raise PipelineError("this machine has no GPU", hint="name one to compile for, as cuda:sm_90")
    found = cast(Any, torch.cuda).get_device_properties(torch.cuda.current_device())
    arch = found.gcnArchName.split(":")[0] if torch.version.hip is not None else f"sm_{found.major}{found.minor}"
    known = {
        "arch": arch,
        "warp": found.warp_size,
        "multiprocessors": found.multi_processor_count,
        "shared": getattr(found, "shared_memory_per_block_optin", 0) or found.shared_memory_per_block,
        "registers": found.regs_per_multiprocessor,
    }
    return GpuAttr.of(**_nearest_preset(arch).fields() | known)


def _nearest_preset(arch: str) -> GpuAttr:
    """The preset of ``arch`` or of the closest earlier one. It provides the properties that PyTorch does not report."""
    known = {target.arch.data: target for target in presets(GpuAttr).values()}
    alike = sorted((each for each in known if each.startswith("gfx") == arch.startswith("gfx")), key=_number)
    return known[next((each for each in reversed(alike) if _number(each) <= _number(arch)), alike[0])]


def _number(arch: str) -> int:
    """The number of an architecture: 90 for ``sm_90``, 0x942 for ``gfx942``."""
    return int(arch.removeprefix("gfx"), 16) if arch.startswith("gfx") else int(arch.removeprefix("sm_"))


def compile_target(target: GpuAttr) -> str:
    """The name of ``target`` for ``ahead_of_time``: ``cuda:sm_90``."""
    arch = target.arch.data
    return f"{'rocm' if arch.startswith('gfx') else 'cuda'}:{arch}"


def target_here() -> TritonTarget:
    """The current device according to Triton's driver. KernelError if it finds none or is not installed."""
    triton_version()
    from triton.runtime import driver

    drivers: Any = driver
    try:
        found = drivers.active.get_current_target()
    except Exception as error:  # no driver, no device, or a broken one: report whatever Triton raises
        raise KernelError(f"this machine has no GPU for Triton: {error}", hint="compile for the CPU: target host") from error
    arch = found.arch if found.backend == "hip" else f"sm_{found.arch}"
    return TritonTarget.of(f"{'rocm' if found.backend == 'hip' else 'cuda'}:{arch}")


def runs_on(built: TritonTarget, here: TritonTarget) -> bool:
    """Whether the device ``here`` runs kernels that were compiled for ``built``."""
    if not isinstance(built.arch, int) or not isinstance(here.arch, int):
        return built == here
    (major, minor), (major_here, minor_here) = divmod(built.arch, 10), divmod(here.arch, 10)
    later = major in FORWARD_COMPATIBLE and minor < minor_here
    return major == major_here and (minor == minor_here or later)


ROUNDS = 25


class EventClock:
    """A timer for the current stream of the current GPU. ``cache``: bytes, at least the size of its last-level cache."""

    def __init__(self, cache: int = 256 << 20) -> None:
        self._cache = torch.empty(cache // 4, dtype=torch.int32, device="cuda")

    def flush(self) -> None:
        """Empty the caches."""
        self._cache.zero_()

    def mark(self) -> torch.cuda.Event:
        """An event that is reached when all work started so far is complete."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def milliseconds(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """The time between two events; waits for both."""
        end.synchronize()
        return start.elapsed_time(end)


def by_turns(runs: Sequence[Callable[[], Any]], clock: EventClock, rounds: int = ROUNDS) -> list[float]:
    """The time of each of ``runs`` in milliseconds with cold caches: the median of ``rounds``, after a warm-up round."""
    marks: list[list[tuple[Any, Any]]] = [[] for _ in runs]
    for turn in range(rounds + 1):
        for run, found in zip(runs, marks, strict=True):
            clock.flush()
            start = clock.mark()
            run()
            end = clock.mark()
            if turn:
                found.append((start, end))
    return [median(clock.milliseconds(start, end) for start, end in found) for found in marks]
