"""Calls of ATen in a compiled program, and why no kernel computes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from fxc.dialects.base.effects import aliases, is_random, writes
from fxc.dialects.fusion import GroupOp
from fxc.dialects.text.diagnostics import user_line
from fxc.dialects.tile import KernelOp
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import has_formula, is_contraction, role_of

LINES = 6
"""The number of the user's lines that are listed for an operator."""


@dataclass
class LibraryCalls:
    """Calls of one operator: how many, why they are calls, and the user's lines that make them."""

    operator: str
    why: str
    count: int = 0
    lines: dict[str, None] = field(default_factory=dict[str, None])


def library_calls(module: ModuleOp) -> list[LibraryCalls]:
    """The calls in ``module``, views excepted, most frequent operators first."""
    found = dict[tuple[str, str], LibraryCalls]()
    for op in _calls(module):
        key = op.operator, _why(op)
        calls = found.setdefault(key, LibraryCalls(*key))
        calls.count += 1
        if (line := user_line(op.location)) is not None and len(calls.lines) < LINES:
            calls.lines[line] = None
    return sorted(found.values(), key=lambda each: (-each.count, each.operator))


def _calls(op: Operation) -> Iterator[TorchOp]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if isinstance(inner, (GroupOp, KernelOp)):
                    continue
                if isinstance(inner, TorchOp) and not _is_view(inner):
                    yield inner
                yield from _calls(inner)


def _is_view(op: TorchOp) -> bool:
    shared = {index for index, _ in aliases(op)}
    return bool(op.results) and len(shared) == len(op.results) and writes(op) == []


def _why(op: TorchOp) -> str:
    if is_contraction(op) or role_of(op) is Role.CONVOLUTION:
        return "matrix products and convolutions are kernels only where these measured faster"
    if is_random(op):
        return "random numbers are PyTorch's, so that they equal eager's"
    if not has_formula(op):
        return "kernels have no formula for it"
    return "no group contains it: a kernel of it alone is not faster, or its types do not allow one"
