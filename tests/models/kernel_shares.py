"""How much of the zoo runs in kernels: ``python -m tests.models.kernel_shares``.

Of the operators in the graphs that ``torch.compile(backend="fxc")`` compiles, forward and backward, in train mode: how many
have a rule, on their own or in parts, and how many are in a group that becomes kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import torch
from xdsl.dialects.builtin import ModuleOp

import fxc
from fxc.dialects.fusion import GroupOp
from fxc.dialects.torch_ops.base import TorchOp
from tests.models.kernel_suite import GROUPS, graphs_of
from tests.models.zoo import ZOO
from tests.opinfo.coverage import how

OPERATORS = "lower-to-torch,canonicalize"


@dataclass
class Share:
    """Operators of a model: all of them, those with a rule, and after the passes those in groups and beside them."""

    operators: int = 0
    with_rules: int = 0
    grouped: int = 0
    groups: int = 0
    left: Counter[str] = field(default_factory=Counter)


def share_of(name: str) -> Share:
    """Of a model's forward and backward graph."""
    found = Share()
    for _, graph, _ in graphs_of(name, True):
        called = [op.operator for op in _operators(fxc.run_passes(fxc.import_fx(graph), OPERATORS).module)]
        found.operators += len(called)
        found.with_rules += sum(_has_rule(each) for each in called)
        module = fxc.run_passes(fxc.import_fx(graph), GROUPS).module
        found.groups += sum(isinstance(op, GroupOp) for op in module.walk())
        for op in _operators(module):
            if isinstance(op.parent_op(), GroupOp):
                found.grouped += 1
            else:
                found.left[op.operator.removeprefix("aten.")] += 1
    return found


def _operators(module: ModuleOp) -> Iterator[TorchOp]:
    return (op for op in module.walk() if isinstance(op, TorchOp))


@cache
def _has_rule(name: str) -> bool:
    return how(name) != "left"


def report() -> Iterator[str]:
    """A line for each model, and what is left to PyTorch most often."""
    left, total = Counter[str](), Share()
    yield f"{'model':11}{'operators':>10}{'with a rule':>12}{'in groups':>10}{'beside':>8}{'groups':>8}"
    for name in sorted(ZOO):
        found = share_of(name)
        graphs_of.cache_clear()
        left += found.left
        for each in ("operators", "with_rules", "grouped", "groups"):
            setattr(total, each, getattr(total, each) + getattr(found, each))
        yield _line(name, found)
    total.left = left
    yield _line("all", total)
    yield "beside groups: " + ", ".join(f"{name} {count}" for name, count in left.most_common(40))


def _line(name: str, share: Share) -> str:
    rules = share.with_rules / max(share.operators, 1)
    return f"{name:11}{share.operators:10}{rules:12.1%}{share.grouped:10}{share.left.total():8}{share.groups:8}"


def main() -> None:
    torch.set_num_threads(1)
    for line in report():
        print(line, flush=True)


if __name__ == "__main__":
    main()
