"""The pipeline ``torchscript`` over the zoo: values, statistics and gradients equal eager's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

import fxc
from fxc.program.program import new_context
from tests.models.zoo import ZOO, load


@pytest.mark.share(3)
@pytest.mark.parametrize("name", sorted(ZOO))
def test_inference(name: str) -> None:
    model, inputs = load(name)
    program = fxc.run_passes(fxc.capture(model, inputs), "lower-to-torch,optimize")
    with torch.no_grad():
        torch.testing.assert_close(fxc.to_fx(program)(*inputs), model(*inputs))


@pytest.mark.slow
@pytest.mark.share(5)
@pytest.mark.parametrize("name", sorted(ZOO))
def test_training(name: str) -> None:
    train(*load(name))


RECURRENT = {
    "lstm": lambda: torch.nn.LSTM(5, 7, num_layers=2, dropout=0.3, batch_first=True),
    "lstm, both ways": lambda: torch.nn.LSTM(5, 7, bidirectional=True),
    "lstm, projected": lambda: torch.nn.LSTM(5, 7, proj_size=3),
    "lstm, no bias": lambda: torch.nn.LSTM(5, 7, bias=False),
    "gru": lambda: torch.nn.GRU(5, 7, num_layers=2, dropout=0.3, bidirectional=True),
    "rnn": lambda: torch.nn.RNN(5, 7, num_layers=2, nonlinearity="relu", batch_first=True),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name: str, dtype: torch.dtype) -> None:
    """Of float32 PyTorch has fused layers, with a backward that reads what only their forward for training makes."""
    torch.manual_seed(0)
    train(RECURRENT[name]().to(dtype), (torch.randn(3, 4, 5, dtype=dtype),))


def train(model: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
    """One step, compiled and in eager: results, gradients and statistics are equal."""
    model.train()
    eager = copy.deepcopy(model)
    program = fxc.run_passes(fxc.capture(model, inputs), "lower-to-torch,torchscript")
    torch.manual_seed(0)
    actual = fxc.to_fx(program)(*inputs)
    torch.manual_seed(0)
    expected = eager(*inputs)
    torch.testing.assert_close(actual, expected)
    total(actual).backward()
    total(expected).backward()
    assert_same_gradients(model, eager, rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(model.buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


def assert_same_gradients(model: torch.nn.Module, eager: torch.nn.Module, *, rtol: float, atol: float) -> None:
    """Of all parameters, after backward of both."""
    for (where, ours), theirs in zip(model.named_parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(
            ours.grad, theirs.grad, rtol=rtol, atol=atol, msg=lambda text, where=where: f"{where}: {text}"
        )


def total(value: object) -> torch.Tensor:
    return sum((leaf.sum() for leaf in tree_leaves(value) if leaf.is_floating_point()), torch.zeros(()))


@pytest.mark.slow
def test_the_text_of_derivatives_does_not_depend_on_what_pytorch_remembers() -> None:
    """The backward of a fused LSTM layer returns one tensor for both biases, but two from the cache of fake tensors."""
    model, inputs = load("lstm")
    program = fxc.run_passes(fxc.capture(model.train(), inputs), "lower-to-torch,create-autodiff-subgraphs")
    FakeTensorMode.cache_clear()
    texts = set[str]()
    for _ in range(2):
        program.context = new_context()
        texts.add(str(fxc.run_passes(program, "differentiate")))
    assert len(texts) == 1
