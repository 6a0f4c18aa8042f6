"""Plans whose differentiable parts run as nodes of PyTorch's autograd: results, gradients and statistics as in eager mode."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import fxc
from fxc.runtime.autograd import DifferentiableSubgraph

OPTIONS = {"pipeline": "lower-to-torch,simplify,create-autodiff-subgraphs,differentiate"}


class Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def written(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() * 2
    y.add_(1).mul_(x.exp())
    return y.tanh()


def strided(x: torch.Tensor) -> torch.Tensor:
    return (x.exp() * 2).t().contiguous().t().sin().tanh().cos()


def norm() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3))


MODELS: dict[str, Any] = {
    "mlp": lambda: (nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)), (torch.randn(3, 4),)),
    "batch norm": lambda: (norm(), (torch.randn(2, 3, 8, 8),)),
    "channels last": lambda: (
        norm().to(memory_format=torch.channels_last),
        (torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),),
    ),
    "dropout": lambda: (nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Tanh()), (torch.randn(3, 4),)),
    "encoder": lambda: (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0), (torch.randn(2, 5, 8),)),
    "embedding": lambda: (nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 4), nn.Softmax(-1)), (torch.randint(10, (3, 5)),)),
    "written values": lambda: (Function(written), (torch.randn(3, 4),)),
    "strides": lambda: (Function(strided), (torch.randn(3, 4),)),
    "two inputs": lambda: (Function(lambda x, y: (x.exp() * y).tanh() @ y.t()), (torch.randn(3, 4), torch.randn(1, 4))),
}


def inputs_of(examples: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [x.detach().clone().requires_grad_(x.is_floating_point()) for x in examples]


def check(model: nn.Module, compiled: fxc.Compiled, reference: nn.Module, examples: tuple[torch.Tensor, ...]) -> None:
    mine, theirs = inputs_of(examples), inputs_of(examples)
    for call, inputs in ((compiled, mine), (reference, theirs)):
        torch.manual_seed(1)
        result = call(*inputs)
        (result * torch.linspace(-1, 1, result.numel()).view_as(result)).sum().backward()
        result.detach_()
        inputs.append(result)
    torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close([x.grad for x in mine], [x.grad for x in theirs])
    expected = {name: (p, p.grad) for name, p in reference.named_parameters()}
    for name, parameter in model.named_parameters():
        torch.testing.assert_close((parameter, parameter.grad), expected[name], msg=name)
    torch.testing.assert_close(dict(model.named_buffers()), dict(reference.named_buffers()))


@pytest.mark.parametrize("name", MODELS)
def test_training_is_that_of_eager(name: str) -> None:
    torch.manual_seed(0)
    model, examples = MODELS[name]()
    reference = copy.deepcopy(model)
    compiled = fxc.compile(model, inputs_of(examples), training=True, options=OPTIONS)
    parts = [m for m in compiled.plan.module.modules() if isinstance(m, DifferentiableSubgraph)]
    assert len(parts) == compiled.plan.stats.subgraph_calls >= 1
    for _ in range(2):  # the second time accumulates, and sees the statistics of the first
        check(model, compiled, reference, examples)
    with torch.no_grad():
        assert not compiled(*inputs_of(examples)).requires_grad


@pytest.mark.parametrize("name", ["mlp", "strides", "two inputs"])
def test_free_sizes(name: str) -> None:
    torch.manual_seed(0)
    model, examples = MODELS[name]()
    batch = torch.export.Dim("batch", min=2, max=64)
    shapes: Any = [{0: batch}, *({} for _ in examples[1:])]
    if isinstance(model, Function):
        shapes = (tuple(shapes),)
    compiled = fxc.compile(model, inputs_of(examples), training=True, dynamic_shapes=shapes, options=OPTIONS)
    for rows in (3, 7):
        reference = copy.deepcopy(model)
        model.zero_grad()
        reference.zero_grad()
        check(model, compiled, reference, (torch.randn(rows, 4), *examples[1:]))


def test_frozen_parameters() -> None:
    torch.manual_seed(0)
    model, examples = MODELS["mlp"]()
    model[0].weight.requires_grad_(False)
    reference = copy.deepcopy(model)
    check(model, fxc.compile(model, inputs_of(examples), training=True, options=OPTIONS), reference, examples)
    assert model[0].weight.grad is None


def test_frozen_after_compiling() -> None:
    torch.manual_seed(0)
    model, examples = MODELS["mlp"]()
    compiled = fxc.compile(model, inputs_of(examples), training=True, options=OPTIONS)
    model[0].weight.requires_grad_(False)
    check(model, compiled, copy.deepcopy(model), examples)
    assert model[0].weight.grad is None


def test_a_graph_for_each_set_of_gradients() -> None:
    """The second backward has gradients for what the forward saved; its graph is made when it is asked for."""

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.exp(a) * b)

    a, b = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    pipeline = f"{OPTIONS['pipeline']},specialize-derivatives,builtin.module(derivative)"
    compiled = fxc.compile(f, (a, b), training=True, options={"pipeline": pipeline})
    [part] = [m for m in compiled.plan.module.modules() if isinstance(m, DifferentiableSubgraph)]
    assert len(list(part.df.children())) == 1  # type: ignore[union-attr]
    torch.testing.assert_close(compiled(a, b), f(a, b))
    assert torch.autograd.gradcheck(compiled, (a, b)) and torch.autograd.gradgradcheck(compiled, (a, b))
    assert len(list(part.df.children())) > 1  # type: ignore[union-attr]


def test_arguments_without_names_and_with_one_name() -> None:
    """Values of the IR may have no name or share one; the parameters of a Python function may not."""
    program = fxc.Program.parse("""
        func.func @main(%0: tensor<2xf32>, %1: tensor<2xf32>) -> tensor<2xf32> {
          %y = torch.aten.sub.Tensor(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          fx.output(%y) : (tensor<2xf32>) -> ()
        }
    """)
    torch.testing.assert_close(fxc.to_fx(program)(torch.ones(2), torch.ones(2)), torch.zeros(2))
    for argument in program.main.args:
        argument._name = "x"
    torch.testing.assert_close(fxc.to_fx(program)(torch.ones(2), torch.ones(2)), torch.zeros(2))
