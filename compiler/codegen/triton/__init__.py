"""Compile ``tile`` kernels with Triton: readable source, binaries that need no GPU to build, and launches.

printer.py         tile.kernel -> KernelSource, one file of Python
ahead_of_time.py   KernelSource -> CompiledKernel for a named target
launch.py          tile.launch -> a function on GPU tensors; ``launch_runner`` is the interface of fxc/codegen/contract.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fxc.dialects import plan
from fxc.dialects.target import GpuAttr
from fxc.dialects.tile import LaunchOp


def launch_runner(op: LaunchOp | plan.LaunchOp, target: GpuAttr) -> Callable[..., list[Any]] | None:
    """A function that takes the operands of ``op`` and returns its results. None if a tensor is not on a GPU.

    If the GPU does not match ``target``, the first call on real tensors raises KernelError.
    """
    from fxc.codegen.triton.launch import compile_launch

    return compile_launch(op, target)
