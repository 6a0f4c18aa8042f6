"""The pipelines ``torchscript`` and ``torchscript-training`` over the zoo: values, statistics and gradients equal eager's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.utils._pytree import tree_leaves

import fxc
from tests.models.zoo import ZOO, load

LSTM = "PyTorch's fused LSTM layer has a workspace that only its own autograd makes"


@pytest.mark.parametrize("name", sorted(ZOO))
def test_inference(name: str) -> None:
    model, inputs = load(name)
    program = fxc.run_passes(fxc.capture(model, inputs), "lower-to-torch,torchscript")
    with torch.no_grad():
        torch.testing.assert_close(fxc.to_fx(program)(*inputs), model(*inputs))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.skip(reason=LSTM)) if n == "lstm" else n for n in sorted(ZOO)]
)
def test_training(name: str) -> None:
    model, inputs = load(name)
    model.train()
    eager = copy.deepcopy(model)
    program = fxc.run_passes(fxc.capture(model, inputs), "lower-to-torch,torchscript-training")
    torch.manual_seed(0)
    actual = fxc.to_fx(program)(*inputs)
    torch.manual_seed(0)
    expected = eager(*inputs)
    torch.testing.assert_close(actual, expected)
    total(actual).backward()
    total(expected).backward()
    for (where, ours), theirs in zip(model.named_parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(
            ours.grad, theirs.grad, rtol=1e-3, atol=1e-4, msg=lambda text, where=where: f"{where}: {text}"
        )
    for ours, theirs in zip(model.buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


def total(value: object) -> torch.Tensor:
    return sum((leaf.sum() for leaf in tree_leaves(value) if leaf.is_floating_point()), torch.zeros(()))
