"""Compile kernels of the ``tile`` dialect to machine code for CPUs through LLVM.

``kernel_runner`` and ``launch_runner`` implement the backend interface of ``compiler/codegen/contract.py``. ``kernel_printer``
prints LLVM IR text, ``machine_code`` compiles it, ``fxc.runtime`` loads and calls the code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fxc.dialects.target import CpuAttr
from fxc.dialects.tile import KernelOp, LaunchOp


def kernel_runner(kernel: KernelOp, target: CpuAttr | None) -> Callable[[Sequence[Any]], None] | None:
    """A function that runs ``kernel`` on a tensor for each pointer and a number for each scalar.

    None if this CPU does not support ``target``.
    """
    from fxc.codegen.cpu.launch import compile_kernel

    return compile_kernel(kernel, target)


def launch_runner(op: LaunchOp, target: CpuAttr | None) -> Callable[..., list[Any]] | None:
    """A function that takes the operands of ``op`` and returns its results.

    None if this CPU does not support ``target``, or if a tensor is not on the CPU.
    """
    from fxc.codegen.cpu.launch import compile_launch

    return compile_launch(op, target, copies=True)
