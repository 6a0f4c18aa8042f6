"""The kernels of a compiled program: their sources, and the operations and user lines that each computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from fxc.codegen.cpu.choices import features_of, shares_work
from fxc.codegen.cpu.kernel_printer import print_kernels as print_llvm
from fxc.codegen.triton.printer import print_kernel as print_triton
from fxc.dialects.attributes.values import isa
from fxc.dialects.plan import LaunchOp
from fxc.dialects.target import CpuAttr, GpuAttr, target_of
from fxc.dialects.text.syntax import print_module
from fxc.dialects.tile import KernelOp
from fxc.errors import FxcError
from fxc.passes.kernels.source_lines import SOURCE
from fxc.runtime.cpu_features import features_named


@dataclass
class Kernel:
    """``launches``: how often the program starts it. ``lines``: user line -> the nodes of that line that it computes.

    ``tile``: its IR. ``code``: what is compiled, LLVM IR or Triton source; ``language`` names it.
    """

    name: str
    launches: int
    lines: dict[str, list[str]]
    tile: str
    language: str
    code: str


def kernels(module: ModuleOp) -> list[Kernel]:
    """All kernels in ``module``, nested modules included."""
    return [_kernel(op) for op in module.walk() if isinstance(op, KernelOp)]


def _kernel(kernel: KernelOp) -> Kernel:
    around = kernel.parent_op()
    launches = [op for op in around.walk() if isinstance(op, LaunchOp) and op.kernel() is kernel] if around is not None else []
    language, code = _code(kernel, around)
    return Kernel(kernel.sym_name.data, len(launches), _lines([kernel, *launches]), print_module(kernel), language, code)


def _lines(ops: Sequence[Operation]) -> dict[str, list[str]]:
    """User line -> the nodes of that line, from the ``tile.source`` of ``ops``."""
    found = dict[str, dict[str, None]]()
    for op in ops:
        line, listed = "", op.attributes.get(SOURCE)
        for item in listed.data if isa(listed, ArrayAttr) else ():
            if isinstance(item, StringAttr):
                node, _, new = item.data.partition(": ")
                line = new or line
                found.setdefault(line, {})[node] = None
    return {line: list(nodes) for line, nodes in found.items()}


def _code(kernel: KernelOp, around: Operation | None) -> tuple[str, str]:
    """The language of the code that is compiled for the target, and the code or the reason why there is none."""
    target = target_of(around) if isinstance(around, ModuleOp) else None
    try:
        if isinstance(target, GpuAttr):
            return "Triton", print_triton(kernel).source
        features = features_of(target) if isinstance(target, CpuAttr) else None
        return "LLVM IR", print_llvm([kernel], features or features_named(""), shares_work, sources=True)
    except FxcError as error:
        return "no code", error.message
