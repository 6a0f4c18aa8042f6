"""The kernels of a compiled program: their sources, and the operations and user lines that each computes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from fxc.codegen.cpu.choices import features_of, shares_work
from fxc.codegen.cpu.kernel_printer import print_kernels as print_llvm
from fxc.codegen.triton.printer import print_kernel as print_triton
from fxc.dialects.attributes.values import isa
from fxc.dialects.plan import LaunchOp
from fxc.dialects.target import CpuAttr, GpuAttr, target_of
from fxc.dialects.text.syntax import print_module
from fxc.dialects.tile import KernelOp
from fxc.dialects.tile import LaunchOp as TileLaunchOp
from fxc.errors import FxcError
from fxc.passes.kernels.source_lines import SOURCE
from fxc.report.calls import RunCounts
from fxc.runtime.cpu_features import features_named

Launch = LaunchOp | TileLaunchOp


@dataclass
class Kernel:
    """``launches``: how often each call of the program starts it. ``lines``: user line -> the nodes of it that it computes.

    ``tile``: its IR. ``code``: what is compiled, LLVM IR or Triton source; ``language`` names it.
    """

    name: str
    launches: int
    lines: dict[str, list[str]]
    tile: str
    language: str
    code: str


def kernels(module: ModuleOp) -> list[Kernel]:
    """The kernels that ``module`` launches, nested modules included, in the order of their definitions."""
    times, launches = RunCounts(module), defaultdict[KernelOp, list[Launch]](list)
    for op in module.walk():
        if isinstance(op, Launch) and (kernel := op.kernel()) is not None and times.of(op):
            launches[kernel].append(op)
    order = [op for op in module.walk() if isinstance(op, KernelOp) and op in launches]
    return [_kernel(kernel, launches[kernel], sum(map(times.of, launches[kernel]))) for kernel in order]


def _kernel(kernel: KernelOp, launches: Sequence[Launch], count: int) -> Kernel:
    language, code = _code(kernel, kernel.parent_op())
    return Kernel(label(kernel), count, source_lines([kernel, *launches]), print_module(kernel), language, code)


def label(op: KernelOp | FuncOp) -> str:
    """The name of ``op``, behind that of its module if this is nested: ``forward_0: kernel_1``."""
    around = op.parent_op()
    name = around.sym_name.data if isinstance(around, ModuleOp) and around.sym_name is not None else ""
    return f"{name}: {op.sym_name.data}" if name else op.sym_name.data


def source_lines(ops: Sequence[Operation]) -> dict[str, list[str]]:
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
