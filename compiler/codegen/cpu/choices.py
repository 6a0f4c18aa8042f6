"""Choose the instruction set of a kernel, and whether it runs on one thread or several."""

from __future__ import annotations

from math import prod

from fxc.dialects.target import CpuAttr
from fxc.dialects.tile import KernelOp
from fxc.dialects.tile.kernel import SIZE
from fxc.runtime.host_cpu import CpuFeatures, features_named, host_features

SHARED_FROM = 1 << 15
"""Minimum number of elements of the largest tensor for which a kernel runs on several threads: the threshold of ATen's loops.

On idle cores threads pay from half of this size on. On busy cores they cost milliseconds at any size, in ATen, too.
"""


def shares_work(kernel: KernelOp) -> bool:
    """Whether calls of ``kernel`` use the OpenMP thread pool."""
    if kernel.is_dynamic:
        return True
    if any(SIZE in kernel.argument_attributes(argument) for argument in kernel.indices()):
        return prod(kernel.programs) >= FEWEST_PROGRAMS
    largest = max((kernel.elements(argument) or 0 for argument in kernel.body.block.args), default=0)
    return prod(kernel.programs) > 1 and largest >= SHARED_FROM


FEWEST_PROGRAMS = 8
"""Minimum number of programs for which a kernel of dynamic size uses threads; each program has a few thousand elements."""


def features_of(target: CpuAttr | None) -> CpuFeatures | None:
    """The instructions that code for ``target`` may use; None if the target does not specify them."""
    return features_named(target.features.data) if target is not None and target.features.data else None


def usable_features(target: CpuAttr | None) -> CpuFeatures | None:
    """The instructions that code for ``target`` may use on this CPU; None if this CPU does not support all of them."""
    wanted, here = features_of(target), host_features()
    if wanted is not None and not wanted.names <= here.names:
        return None
    return wanted or here
