"""``--emit=llvm`` and ``--emit=triton``: the kernels of a module. Needs neither PyTorch nor LLVM nor Triton."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from fxc.codegen.cpu.choices import features_of, shares_work
from fxc.codegen.triton.printer import print_kernels
from fxc.dialects.target import CpuAttr, target_of
from fxc.dialects.tile import KernelOp
from fxc.errors import InputError
from fxc.runtime.host_cpu import features_named
from fxc.tools.emitters import EmitOptions


def emit_llvm(module: ModuleOp, options: EmitOptions) -> str:
    """One LLVM module, for the CPU target of the module; without one, for any CPU.

    Raises KernelError for an op that has no code.
    """
    from fxc.codegen.cpu import kernel_printer

    kernels, target = [op for op in module.ops if isinstance(op, KernelOp)], target_of(module)
    features = (features_of(target) if isinstance(target, CpuAttr) else None) or features_named("")
    return _nonempty(kernel_printer.print_kernels(kernels, features, shares_work, sources=True) if kernels else "")


def emit_triton(module: ModuleOp, options: EmitOptions) -> str:
    """Triton source, one Python file for each kernel. Raises KernelError for a kernel that Triton cannot express."""
    return _nonempty("\n\n".join(kernel.source for kernel in print_kernels(module)))


def _nonempty(text: str) -> str:
    if not text:
        raise InputError("the module has no tile.kernel to print", hint="run the passes that make kernels first")
    return text
