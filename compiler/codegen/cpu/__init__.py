"""Kernels of the ``tile`` dialect as machine code for CPUs, through LLVM.

``kernel_runner`` and ``launch_runner`` are what ``compiler/codegen/contract.py`` asks a backend for. ``kernel_printer`` makes
LLVM IR text, ``machine_code`` compiles it, ``fxc.runtime`` loads and calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fxc.dialects.target import CpuAttr
from fxc.dialects.tile import KernelOp, LaunchOp


def kernel_runner(kernel: KernelOp, target: CpuAttr | None) -> Callable[[Sequence[Any]], None] | None:
    """Runs ``kernel`` on a tensor for each pointer and a number for each scalar. None where this CPU is not ``target``."""
    from fxc.codegen.cpu.launch import compile_kernel

    return compile_kernel(kernel, target)


def launch_runner(op: LaunchOp, target: CpuAttr | None) -> Callable[..., list[Any]] | None:
    """Takes the operands of ``op`` and gives its results. None where this CPU is not ``target``, or a tensor is elsewhere."""
    from fxc.codegen.cpu.launch import compile_launch

    return compile_launch(op, target, copies=True)
