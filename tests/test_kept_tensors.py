"""Writes to tensors that a model keeps beside its parameters and buffers: each call writes, and a compilation does not."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxc

TOTAL = torch.zeros(4)


class Keeps(nn.Module):
    """``write`` changes what it keeps."""

    def __init__(self, write: Callable[[Any, torch.Tensor], object]) -> None:
        super().__init__()
        self.write, self.linear = write, nn.Linear(4, 4)
        self.kept, self.other, self.count = torch.tensor([1.0, -2.0, 3.0, 4.0]), torch.ones(4), torch.tensor(0)
        self.listed, self.seen = [torch.ones(4)], set[int]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.write(self, x)
        return self.linear(x) * self.kept + self.listed[0] + self.count + TOTAL

    def tensors(self) -> list[torch.Tensor]:
        return [each.clone() for each in (self.kept, self.other, self.count, *self.listed, TOTAL)]


def added(m: Any, x: torch.Tensor) -> None:
    m.kept += 1
    m.count += 1


WRITES: list[Callable[[Any, torch.Tensor], object]] = [
    added,
    lambda m, x: m.kept.add_(1).mul_(2),
    lambda m, x: m.kept.zero_(),
    lambda m, x: m.kept.fill_(2.0),
    lambda m, x: m.kept.clamp_(0, 2),
    lambda m, x: m.kept.lerp_(m.other, 0.5),
    lambda m, x: m.kept.data.mul_(0.9),
    lambda m, x: m.kept.detach().add_(1),
    lambda m, x: m.kept[1:].mul_(2),
    lambda m, x: m.kept.uniform_(),
    lambda m, x: m.kept.masked_fill_(m.kept > 0, 7.0),
    lambda m, x: m.kept.mul_(0.9).add_(x.mean(0), alpha=0.1),
    lambda m, x: torch.add(m.kept, 1, out=m.kept),
    lambda m, x: torch._foreach_add_([m.kept, m.other], 1.0),
    lambda m, x: F.relu(m.kept, inplace=True),
    lambda m, x: nn.init.constant_(m.kept, 3.0),
    lambda m, x: m.count.bitwise_or_(2),
    lambda m, x: m.listed[0].add_(1),
    lambda m, x: TOTAL.add_(1),
    lambda m, x: (m.count.add_(1), setattr(m, "last", x * 2)),
    lambda m, x: (m.count.add_(1), setattr(m, "sizes", [time.time() > 0])),
]
IN_PARTS: list[Callable[[Any, torch.Tensor], object]] = [
    lambda m, x: m.kept.numpy().__iadd__(1),
    lambda m, x: m.kept.squeeze_(),
    lambda m, x: m.other.resize_(2),
    lambda m, x: m.kept.set_(m.other),
    lambda m, x: (m.seen.add(x.shape[0]), setattr(m, "last", x * 2)),
]


def check(write: Callable[..., object], training: bool, **options: Any) -> None:
    TOTAL.zero_()
    model, other = Keeps(write), Keeps(write)
    other.load_state_dict(model.state_dict())
    compiled = fxc.compile(model, (torch.randn(3, 4),), training=training, options=options)
    torch.testing.assert_close(model.tensors(), other.tensors())
    for i in range(3):
        x, before, found = torch.randn(3, 4), TOTAL.clone(), list[Any]()
        for run, owner in ((compiled, model), (other, other)):
            TOTAL.copy_(before)
            torch.manual_seed(i)
            found.append((run(x), owner.tensors()))
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_each_call_writes(write: Callable[..., object], training: bool) -> None:
    check(write, training)


class Averages(nn.Module):
    """Keeps an average of its weights in a module that it does not register, ``kept``, and computes with both."""

    def __init__(self, in_grad_mode: bool) -> None:
        super().__init__()
        self.linear, self.in_grad_mode = nn.Linear(4, 4), in_grad_mode
        self.kept = [copy.deepcopy(self.linear).requires_grad_(False)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(self.in_grad_mode):
            for average, weight in zip(self.kept[0].parameters(), self.linear.parameters(), strict=True):
                average.mul_(0.5).add_(weight.detach(), alpha=0.5)
                average.add_(1)
        return self.linear(x) - self.kept[0](x)


@pytest.mark.parametrize("in_grad_mode", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_weights_of_a_module_that_is_not_registered(training: bool, in_grad_mode: bool) -> None:
    model = Averages(in_grad_mode)
    other = copy.deepcopy(model)
    compiled = fxc.compile(model, (torch.randn(3, 4),), training=training)
    torch.testing.assert_close(model.kept[0].state_dict(), other.kept[0].state_dict())
    for _ in range(3):
        x = torch.randn(3, 4)
        torch.testing.assert_close(compiled(x), other(x))
        torch.testing.assert_close(model.kept[0].state_dict(), other.kept[0].state_dict())


@pytest.mark.parametrize("write", IN_PARTS)
def test_each_call_writes_in_parts(write: Callable[..., object]) -> None:
    check(write, training=False, fallback=True)


class Draws(nn.Module):
    """Draws from its own generator."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.generator = nn.Linear(4, 4), torch.Generator().manual_seed(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * torch.rand(4, generator=self.generator)


@pytest.mark.parametrize("training", [False, True])
def test_a_compilation_draws_nothing_from_a_generator_of_the_model(training: bool) -> None:
    model, other = Draws(), Draws()
    other.load_state_dict(model.state_dict())
    compiled = fxc.compile(model, (torch.randn(3, 4),), training=training, options={"fallback": True})
    assert torch.equal(model.generator.get_state(), other.generator.get_state())
    for _ in range(2):
        x = torch.randn(3, 4)
        torch.testing.assert_close(compiled(x), other(x))


def test_a_compilation_leaves_no_graph_at_what_is_written() -> None:
    model = Keeps(lambda m, x: m.kept.copy_(x.mean(0)))
    other = copy.deepcopy(model)
    compiled = fxc.compile(model, (torch.randn(3, 4, requires_grad=True),), training=True)
    assert model.kept.grad_fn is None and not model.kept.requires_grad
    gradients = list[Any]()
    for run in (compiled, other):
        x = torch.ones(3, 4, requires_grad=True)
        run(x).pow(2).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


class Projected(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.mm.default(x, torch.ops.aten.t.default(weight))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0] * 2, None


@pytest.mark.parametrize("training", [False, True])
def test_the_memory_of_a_constant_stays(training: bool) -> None:
    """A view of it in a trace shares none: PyTorch forbids access to the memory of fake tensors."""
    weight, x = torch.randn(3, 3), torch.randn(2, 3)

    def function(x: torch.Tensor) -> torch.Tensor:
        return Projected.apply(x, weight) + weight.view(9)[:3]

    compiled = fxc.compile(function, (x,), training=training)
    assert weight.numpy().shape == (3, 3) and weight.data_ptr()
    torch.testing.assert_close(compiled(x), function(x))
