"""``--emit=llvm``: the kernels of a module as LLVM IR, one LLVM module. Needs neither PyTorch nor LLVM."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from fxc.codegen.cpu.choices import features_of, shares_work
from fxc.dialects.target import CpuAttr, target_of
from fxc.dialects.tile import KernelOp
from fxc.errors import InputError
from fxc.runtime.cpu_features import features_named
from fxc.tools.emitters import EmitOptions


def emit_llvm(module: ModuleOp, options: EmitOptions) -> str:
    """For the CPU target of the module; without one, for any CPU. Raises KernelError for an op that has no code."""
    from fxc.codegen.cpu.kernel_printer import print_kernels

    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    if not kernels:
        raise InputError("the module has no tile.kernel to print", hint="run the passes that make kernels first")
    target = target_of(module)
    features = features_of(target) if isinstance(target, CpuAttr) else None
    return print_kernels(kernels, features or features_named(""), shares_work, sources=True)
