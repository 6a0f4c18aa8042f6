"""What a kernel is compiled for: instructions, and one thread or several."""

from __future__ import annotations

from math import prod

from fxc.dialects.target import CpuAttr
from fxc.dialects.tile import KernelOp
from fxc.dialects.tile.kernel import SIZE
from fxc.runtime.cpu_features import CpuFeatures, features_named, host_features

SHARED_FROM = 1 << 15
"""Elements of the largest tensor from which on threads share a kernel's programs: where ATen's own loops start to. With idle
cores threads pay from half of that on; with busy ones they cost milliseconds at any size, ATen's as well."""


def shares_work(kernel: KernelOp) -> bool:
    """Whether calls of ``kernel`` use the threads of OpenMP's pool."""
    if kernel.is_dynamic:
        return True
    if any(SIZE in kernel.argument_attributes(argument) for argument in kernel.indices()):
        return prod(kernel.programs) >= FEWEST_PROGRAMS
    largest = max((kernel.elements(argument) or 0 for argument in kernel.body.block.args), default=0)
    return prod(kernel.programs) > 1 and largest >= SHARED_FROM


FEWEST_PROGRAMS = 8
"""From how many programs on threads share those of a kernel of any size: each has a few thousand elements."""


def features_of(target: CpuAttr | None) -> CpuFeatures | None:
    """What code for ``target`` may use; None where it says nothing of it."""
    return features_named(target.features.data) if target is not None and target.features.data else None


def usable_features(target: CpuAttr | None) -> CpuFeatures | None:
    """What code for ``target`` may use on this CPU; None where it does not have it all."""
    wanted, here = features_of(target), host_features()
    if wanted is not None and not wanted.names <= here.names:
        return None
    return wanted or here
