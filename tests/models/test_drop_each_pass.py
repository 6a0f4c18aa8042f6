"""The pipeline ``torchscript`` without one of its passes, and with its simplifications in other orders: still eager's numbers.

A pass that finds its assumption broken may do less or refuse with an error that says so; it never gives wrong numbers.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fxc
from fxc.driver.pipeline_text import PassSpec, to_text
from fxc.pipelines import NAMED, SIMPLIFY
from fxc.program.program import Program
from tests.models.steps import gradients

STEPS = [spec for spec in NAMED["torchscript"].specs("torchscript") if isinstance(spec, PassSpec)]
SIMPLE = {spec.name for spec in SIMPLIFY.specs("simplify") if isinstance(spec, PassSpec)} | {"inline", "lower-simple-tuples"}


class Attention(nn.Module):
    """A block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.Dropout(0.2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.view(2, 5, 2, 4).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        attended = torch.softmax(q @ k.transpose(-1, -2) / 2, -1) @ v
        x = x + self.out(attended.transpose(1, 2).reshape(2, 5, 8))
        return x + self.mlp(x)


class Recurrent(nn.Module):
    """Its steps share a side of their products, which batch-mm gathers."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.lstm = nn.LSTMCell(4, 6), nn.LSTM(6, 3, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = c = x.new_zeros(3, 6)
        steps = list[Tensor]()
        for one in x.unbind(1):
            h, c = self.cell(one, (h, c))
            steps.append(h)
        return self.lstm(torch.stack(steps, 1))[0], c


class Branches(nn.Module):
    """A branch that data decides, and one that an argument of the capture does."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.cond(x.sum() > 0, lambda x: self.left(x).tanh(), lambda x: self.right(x).sigmoid() * 2, (x,))
        z = torch.cond(torch.tensor(True), lambda y: y.exp() * self.left.weight.sum(), lambda y: y.sin(), (y,))
        return y * z + (y * z).relu()


class Mutation(nn.Module):
    """Writes through views, to its buffers, and to what autograd has not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.seen = nn.Parameter(torch.rand(6)), nn.Buffer(torch.zeros(6))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * self.scale
        y[1:, :3].add_(self.scale[:3]).mul_(2.0)
        rows = y.view(3, 2, 4)
        rows[0].zero_()
        self.seen.mul_(0.5).add_(y.detach().mean(0))
        z = y.t().clone()
        z[0] = y[:, 1] * 3
        return z.cumsum(0), rows.relu() + self.seen.sum()


def norms() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(inplace=True), nn.Dropout(0.4), nn.Linear(7, 3))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.SiLU(), nn.Conv2d(4, 4, 3, groups=2), nn.GroupNorm(2, 4),
        nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2),
    )  # fmt: skip


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "norms": (norms, (6, 5)),
    "convolutions": (convolutions, (2, 3, 8, 8)),
    "attention": (Attention, (2, 5, 8)),
    "recurrent": (Recurrent, (3, 4, 4)),
    "branches": (Branches, (3, 4)),
    "mutation": (Mutation, (4, 6)),
}


@functools.cache
def made(name: str) -> tuple[nn.Module, tuple[Tensor, ...], Program, dict[str, Any]]:
    """The model in train mode, its inputs, its program at the torch level, and what eager gives."""
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model, inputs = make().train(), (torch.randn(shape),)
    program = fxc.run_passes(fxc.capture(model, inputs), "lower-to-torch")
    return model, inputs, program, gradients(model, model, inputs)


def check(name: str, steps: list[PassSpec]) -> None:
    model, inputs, program, expected = made(name)
    result = fxc.run_passes(program, to_text(tuple(steps)), options=fxc.Options(verify_each=True))
    torch.testing.assert_close(gradients(fxc.to_fx(result), model, inputs), expected)


@pytest.mark.slow
@pytest.mark.share(32)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("left_out", sorted({spec.name for spec in STEPS}))
def test_without_a_pass(left_out: str, name: str) -> None:
    """Wherever it stands in the pipeline."""
    check(name, [spec for spec in STEPS if spec.name != left_out])


@pytest.mark.share(4)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(2))
def test_another_order(seed: int, name: str) -> None:
    """Of the simplifications, among their places."""
    choose = random.Random(seed)
    places = [i for i, spec in enumerate(STEPS) if spec.name in SIMPLE]
    moved, steps = choose.sample(places, len(places)), list(STEPS)
    for place, source in zip(places, moved, strict=True):
        steps[place] = STEPS[source]
    check(name, steps)


@pytest.mark.share(4)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(2))
def test_any_passes(seed: int, name: str) -> None:
    """A few passes of the pipeline, in any order."""
    choose = random.Random(seed)
    check(name, choose.sample(STEPS, choose.randrange(3, len(STEPS) // 2)))
