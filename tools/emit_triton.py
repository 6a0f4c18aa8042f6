"""``--emit=triton``: the kernels of a module as Triton source, one Python file each. Needs neither PyTorch nor Triton."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from fxc.codegen.triton.printer import print_kernels
from fxc.errors import InputError
from fxc.tools.emitters import EmitOptions


def emit_triton(module: ModuleOp, options: EmitOptions) -> str:
    """The sources one after the other. Raises KernelError for a kernel that Triton cannot express."""
    kernels = print_kernels(module)
    if not kernels:
        raise InputError("the module has no tile.kernel to print", hint="run the passes that make kernels first")
    return "\n\n".join(kernel.source for kernel in kernels)
