"""Models that are trained eagerly and through fxc, and how the two are compared."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.testing import assert_close

import fxc
from fxc.runtime.autograd import DifferentiableSubgraph
from tests.models.zoo import load


class Mlp(nn.Module):
    """Smooth, so that second derivatives say something."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(4, width), nn.LayerNorm(width), nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.norm(nn.functional.gelu(self.first(x)))))


class ConvNet(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Tanh()
        )


class Tied(nn.Module):
    """One weight embeds and projects; dropout between."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.drop, self.head = nn.Embedding(11, 6), nn.Dropout(0.3), nn.Linear(6, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        return torch.log_softmax(self.head(self.drop(torch.tanh(self.tokens(ids) * 2))), -1)


def gpt2() -> tuple[nn.Module, tuple[Any, ...]]:
    """With one of its blocks, which are alike."""
    model, inputs = load("gpt2")
    assert isinstance(model.blocks, nn.Sequential)
    model.blocks = model.blocks[:1]
    return model.train(), inputs


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "mlp": lambda: (Mlp(), (torch.randn(5, 4),)),
    "conv": lambda: (ConvNet(), (torch.randn(2, 3, 9, 9),)),
    "tied": lambda: (Tied(), (torch.randint(11, (3, 5)),)),
    "gpt2": gpt2,
}


def compiled_of(model: Any, *args: Any, **kwargs: Any) -> fxc.Compiled:
    """Compiled for training, in which at least one part runs as a derivative of ours. Equal programs are compiled once."""
    compiled = fxc.compile(model, args, kwargs, training=True, options={"cache_plans": True})
    assert any(isinstance(module, DifferentiableSubgraph) for module in compiled.plan.module.modules())
    return compiled


def pair(name: str) -> tuple[fxc.Compiled, nn.Module, nn.Module, tuple[Any, ...]]:
    """The compiled model, the model, its twin for eager mode, and inputs."""
    model, inputs = MODELS[name]()
    return compiled_of(model, *inputs), model, copy.deepcopy(model), inputs


def leaf(x: Tensor) -> Tensor:
    return x.detach().clone().requires_grad_()


def weigh(y: Tensor) -> Tensor:
    """A number that depends on each element of ``y`` differently."""
    return (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum()


def grads(model: nn.Module) -> dict[str, Tensor | None]:
    return {name: p.grad for name, p in model.named_parameters()}


def assert_same(model: nn.Module, twin: nn.Module) -> None:
    assert_close(dict(model.named_parameters()), dict(twin.named_parameters()))
    assert_close(dict(model.named_buffers()), dict(twin.named_buffers()))
    mine, theirs = grads(model), grads(twin)
    assert {n for n, g in mine.items() if g is None} == {n for n, g in theirs.items() if g is None}
    for name, grad in mine.items():
        assert_close(grad, theirs[name], msg=name)


def both(compiled: Callable[..., Any], eager: Callable[..., Any], run: Callable[[Callable[..., Any]], Any]) -> Any:
    """``run`` of each under one seed: the same values, requires_grad of the same tensors. Gives those of the compiled one."""
    found = list[Any]()
    for function in (compiled, eager):
        torch.manual_seed(7)
        found.append(run(function))
    assert_close(found[0], found[1])
    return found[0]
