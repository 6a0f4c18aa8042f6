"""The GPU that is here: its description as a target, and which kernels it runs."""

from __future__ import annotations

from typing import Any

import torch

from fxc.codegen.triton.ahead_of_time import triton_version
from fxc.codegen.triton.targets import TritonTarget
from fxc.dialects.target import GpuAttr, presets
from fxc.errors import KernelError, PipelineError

FORWARD_COMPATIBLE = range(7, 9)
"""Major versions of NVIDIA's architectures: a kernel runs on later minor ones. From 9 on kernels use what one alone has."""


def device_target(device: int | None = None) -> GpuAttr:
    """The GPU of this number, or the current one. PipelineError where there is none."""
    if not torch.cuda.is_available():
        raise PipelineError("this machine has no GPU", hint="name one to compile for, as cuda:sm_90")
    found = torch.cuda.get_device_properties(torch.cuda.current_device() if device is None else device)
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
    """The preset of the architecture, or of the one before it; what PyTorch does not say of a device is as there."""
    known = {target.arch.data: target for target in presets(GpuAttr).values()}
    alike = sorted((each for each in known if each.startswith("gfx") == arch.startswith("gfx")), key=_number)
    return known[next((each for each in reversed(alike) if _number(each) <= _number(arch)), alike[0])]


def _number(arch: str) -> int:
    """``sm_90`` is 90, ``gfx942`` 0x942."""
    return int(arch.removeprefix("gfx"), 16) if arch.startswith("gfx") else int(arch.removeprefix("sm_"))


def compile_target(target: GpuAttr) -> str:
    """The name of ``target`` for ``ahead_of_time``: ``cuda:sm_90``."""
    arch = target.arch.data
    return f"{'rocm' if arch.startswith('gfx') else 'cuda'}:{arch}"


def target_here() -> TritonTarget:
    """The current device, as Triton's driver sees it. KernelError where it sees none, or is not installed."""
    triton_version()
    from triton.runtime import driver

    drivers: Any = driver
    try:
        found = drivers.active.get_current_target()
    except Exception as error:  # no driver, no device, or a broken one: whatever Triton raises is the reason
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
