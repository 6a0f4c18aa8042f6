"""``tile`` kernels as Triton: source that people can read, binaries made without a GPU, and launches.

printer.py         tile.kernel -> KernelSource, one file of Python
ahead_of_time.py   KernelSource -> CompiledKernel for a named target
launch.py          tile.launch -> a function on tensors of a GPU; ``launch_runner`` is what fxc/codegen/contract.py asks for
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fxc.dialects import plan
from fxc.dialects.target import GpuAttr
from fxc.dialects.tile import LaunchOp


def launch_runner(op: LaunchOp | plan.LaunchOp, target: GpuAttr) -> Callable[..., list[Any]] | None:
    """Takes the operands of ``op`` and gives its results. None where a tensor is on no GPU.

    Where the GPU is not ``target``, the first call on real tensors raises KernelError.
    """
    from fxc.codegen.triton.launch import compile_launch

    return compile_launch(op, target)
