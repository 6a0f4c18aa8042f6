"""Calls of ATen in a compiled program, and why no kernel computes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.base.effects import aliases, is_pure, is_random, is_view, writes
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import target_of
from fxc.dialects.text.diagnostics import user_line
from fxc.dialects.tile import KernelOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.call_graph import callee_first, calls_in, functions_of, is_private
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import has_formula, is_contraction, role_of

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
