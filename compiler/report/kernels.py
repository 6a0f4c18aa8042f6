"""The kernels of a compiled program, with operations and user lines of each; its calls of ATen, and why no kernel has them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation

from fxc.codegen.cpu.choices import features_of, shares_work
from fxc.codegen.cpu.kernel_printer import print_kernels as print_llvm
from fxc.codegen.triton.printer import print_kernel as print_triton
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import isa
from fxc.dialects.base.effects import aliases, is_pure, is_random, is_view, writes
from fxc.dialects.fusion import GroupOp
from fxc.dialects.plan import LaunchOp
from fxc.dialects.target import CpuAttr, GpuAttr, target_of
from fxc.dialects.text.diagnostics import user_line
from fxc.dialects.text.syntax import print_module
from fxc.dialects.tile import KernelOp
from fxc.dialects.tile import LaunchOp as TileLaunchOp
from fxc.dialects.tile.kernel import SOURCE
from fxc.dialects.torch_ops.base import TorchOp
from fxc.errors import FxcError
from fxc.passes.analysis.call_graph import callee_first, calls_in, functions_of, is_private
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import has_formula, is_contraction, role_of
from fxc.runtime.host_cpu import features_named

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


LINES = 6
"""The number of the user's lines that are listed for an operator."""


@dataclass
class LibraryCalls:
    """Calls of one operator: how many each call of the program makes, why, and the user's lines that make them."""

    operator: str
    why: str
    count: int = 0
    lines: dict[str, None] = field(default_factory=dict[str, None])


class RunCounts:
    """How often each call of a program runs its functions; bodies of loops and branches count once."""

    def __init__(self, module: ModuleOp) -> None:
        self._times = dict[FuncOp, int]()
        for inner in module.walk():
            if isinstance(inner, ModuleOp):
                has_modules = any(isinstance(op, ModuleOp) for op in inner.ops)
                self._count(functions_of(inner), uncalled=0 if has_modules else 1)

    def _count(self, functions: Mapping[str, FuncOp], uncalled: int) -> None:
        """``uncalled``: how often private functions run that nothing calls: 0 where nested modules run in their place."""
        found = Counter({name: 1 for name, function in functions.items() if not is_private(function)})
        for name in [name for group in callee_first(functions) for name in group][::-1]:  # callers first
            times = self._times[functions[name]] = found[name] or uncalled
            found.update({callee: times * n for callee, n in Counter(map(_callee, calls_in(functions[name]))).items()})

    def of(self, op: Operation | None) -> int:
        """How often ``op``, in a function, runs."""
        while op is not None and not isinstance(op, FuncOp):
            op = op.parent_op()
        return 1 if op is None else self._times[op]


def _callee(call: CallOp) -> str:
    return call.callee.string_value()


def library_calls(module: ModuleOp) -> list[LibraryCalls]:
    """The calls in ``module``, views and sizes excepted, most frequent operators first."""
    found, times = dict[tuple[str, str], LibraryCalls](), RunCounts(module)
    has_target = target_of(module) is not None
    for op in _calls(module):
        if not times.of(op):
            continue
        key = op.operator, _why(op) if has_target else "there is no target, so no kernels were made"
        calls = found.setdefault(key, LibraryCalls(*key))
        calls.count += times.of(op)
        if (line := user_line(op.location)) is not None and len(calls.lines) < LINES:
            calls.lines[line] = None
    return sorted(found.values(), key=lambda each: (-each.count, each.operator))


def _calls(op: Operation) -> Iterator[TorchOp]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if isinstance(inner, (GroupOp, KernelOp)):
                    continue
                if isinstance(inner, TorchOp) and _computes(inner):
                    yield inner
                yield from _calls(inner)


def _computes(op: TorchOp) -> bool:
    """Whether ``op`` computes elements; views and queries of sizes do not."""
    return not is_view(op) and (any(is_tensor(result.type) for result in op.results) or not is_pure(op))


def _why(op: TorchOp) -> str:
    if writes(op) == [] and next(aliases(op), None) is not None:
        return "a view where the layout allows one, else a copy"
    if is_contraction(op) or role_of(op) is Role.CONVOLUTION:
        return "matrix products and convolutions are kernels only where these measured faster"
    if op.operator.startswith("mkldnn."):
        return "a call of oneDNN, which measured faster"
    if is_random(op):
        return "random numbers are PyTorch's, so that they equal eager's"
    if not has_formula(op):
        return "kernels have no formula for it"
    return "no group contains it: a kernel of it alone is not faster, or its types do not allow one"
