"""Groups that differ in names and constants only are lowered once: their kernels are those that each would have alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

import fxc
from fxc.compilation.passes import Passes
from fxc.dialects.text.syntax import print_module
from fxc.dialects.tile import KernelOp
from fxc.options import Options

KERNELS = "lower-to-torch,canonicalize,lower-simple-tuples,fuse{reductions=true},lower-kernels"
NUMBERS = (46.0, 0.3, 61.0, 0.0, 1.0, 16.0, -0.0, math.inf, 91.0)
"""Some are sizes of the tensors, or numbers that kernels have of their own."""

Step = Callable[[torch.Tensor, float], torch.Tensor]


def centred(x: torch.Tensor, number: float) -> torch.Tensor:
    return torch.relu(x * number - x.mean(-1, keepdim=True)) + number


def normalised(x: torch.Tensor, number: float) -> torch.Tensor:
    return torch.softmax(x + number, -1) / 46.0


def variance(x: torch.Tensor, number: float) -> torch.Tensor:
    return x * (x - x.sum(-1, keepdim=True) / number).square().sum(-1, keepdim=True)


def joined(x: torch.Tensor, number: float) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    return torch.cat([right * number, left.exp()], -1)


SOME = (46.0, 16.0, 0.0, -0.0, 91.0)

CASES = [
    (centred, "cpu", NUMBERS),
    (centred, "cuda:sm_80", SOME),
    (normalised, "cuda:sm_80", SOME),
    (variance, "cpu", SOME),
    (joined, "cpu", SOME),
]


class Steps(torch.nn.Module):
    """``step`` with each of ``numbers``, and a product of matrices, which no group goes across, after each."""

    def __init__(self, step: Step, numbers: Sequence[float]) -> None:
        super().__init__()
        self.step, self.numbers = step, numbers

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        for number in self.numbers:
            x = torch.mm(self.step(x, number), weight)
        return x


def lowered(step: Step, numbers: Sequence[float], target: str) -> ModuleOp:
    program = fxc.capture(Steps(step, numbers), (torch.ones(8, 16), torch.ones(16, 16)))
    Passes(KERNELS, Options(target=target)).run(program)
    return program.module


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.ops if isinstance(op, KernelOp)]


@pytest.mark.parametrize(("step", "target", "numbers"), CASES)
def test_kernels_are_those_of_each_alone(step: Step, target: str, numbers: Sequence[float]) -> None:
    together = kernels(lowered(step, numbers, target))
    alone = [kernel for number in numbers for kernel in kernels(lowered(step, [number], target))]
    assert len(together) == len(alone)
    for kernel, single in zip(together, alone, strict=True):
        assert kernel.body.is_structurally_equivalent(single.body), f"{kernel}\nis not\n{single}"
        assert kernel.attributes["schedule"] == single.attributes["schedule"]
        assert (kernel.function_type, kernel.grid, kernel.arg_attrs) == (single.function_type, single.grid, single.arg_attrs)


def test_names_and_launches_are_their_own() -> None:
    module = lowered(centred, NUMBERS, "cpu")
    names = [kernel.sym_name.data for kernel in kernels(module)]
    assert len(set(names)) == len(names)
    sources = [str(kernel.attributes["tile.source"]) for kernel in kernels(module)]
    assert len(set(sources)) == len(sources)
    assert all(f"@{name}(" in print_module(module) for name in names)


def test_numbers_are_their_own() -> None:
    numbers = (46.0, 0.3, 61.0, 0.3, 91.0)
    model, x = Steps(centred, numbers), torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    weight = torch.eye(16) / 64
    torch.testing.assert_close(fxc.compile(model, (x, weight), options={"target": "host"})(x, weight), model(x, weight))
