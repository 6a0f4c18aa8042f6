"""The contract of training through ``fxc.compile(training=True)``: mixed precision, as eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import fxc
from tests.training_models import MODELS, Mlp, assert_same, both, compiled_of, pair, weigh


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


# mixed precision


@pytest.mark.parametrize("name", ["mlp", "conv", "gpt2"])
def test_captured_under_autocast(name: str) -> None:
    model, inputs = MODELS[name]()
    twin = copy.deepcopy(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compiled = compiled_of(model, *inputs)

    def run(call: Callable[..., Tensor]) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = call(*inputs)
            loss = y.float().square().mean()
        loss.backward()
        return y

    assert both(compiled, twin, run).dtype is torch.bfloat16
    assert_same(model, twin)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "conv", "gpt2"])
def test_autocast_inside_the_model(name: str) -> None:
    model, inputs = MODELS[name]()

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.model(x)
            return y.float().tanh() * 2

    mixed = Mixed()
    twin, compiled = copy.deepcopy(mixed), compiled_of(mixed, *inputs)
    both(compiled, twin, lambda call: weigh(call(*inputs)).backward())
    assert_same(mixed, twin)


def test_called_under_another_autocast_than_compiled() -> None:
    compiled, model, twin, (x,) = pair("mlp")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with pytest.raises(fxc.errors.InputError, match=r"under no torch.autocast, but is called under torch.autocast\('cpu'"):
            compiled(x)
        other = compiled_of(model, x)
    with pytest.raises(fxc.errors.InputError, match=r"compiled under torch.autocast\('cpu', torch.bfloat16\)"):
        other(x)
    with torch.autocast("cpu", dtype=torch.float16), pytest.raises(fxc.errors.InputError, match="compile where it is called"):
        other(x)
    assert_close(compiled(x), twin(x))


def test_backward_in_an_autocast_region_runs_as_forward_did() -> None:
    compiled, model, twin, (x,) = pair("mlp")
    loss = weigh(compiled(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss.backward()
    weigh(twin(x)).backward()
    assert_same(model, twin)


def test_recompile_serves_each_autocast() -> None:
    model, x = Mlp(), torch.randn(5, 4)
    twin = copy.deepcopy(model)
    compiled = fxc.compile(model, (x,), training=True, options={"recompile": True})

    def run(call: Callable[..., Tensor]) -> Any:
        found = list[Tensor]()
        for dtype in (torch.bfloat16, torch.float32, torch.bfloat16):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
                found.append(call(x))
            weigh(found[-1]).backward()
        return found

    assert [y.dtype for y in both(compiled, twin, run)] == [torch.bfloat16, torch.float32, torch.bfloat16]
    assert len(compiled.plans) == 2
    assert_same(model, twin)


def test_a_plan_file_knows_its_autocast(tmp_path: Path) -> None:
    model, x = Mlp(), torch.randn(5, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compiled_of(model, x).plan.save(tmp_path / "plan.zip")
    plan = fxc.ExecutionPlan.load(tmp_path / "plan.zip")
    with pytest.raises(fxc.errors.InputError, match=r"compiled under torch\.autocast"):
        plan(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_close(plan(x), model(x))


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_casts_inside_of_an_operator_are_refused(kind: type[nn.Module]) -> None:
    """Autocast of a recurrent layer casts what the layer computes: a GRU without these casts has other numbers."""
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(fxc.errors.CaptureError, match="casts more than its operands") as error,
    ):
        fxc.compile(kind(4, 4).eval(), (torch.randn(2, 3, 4),))
    assert "torch.compile(model, backend='fxc')" in str(error.value.hint)


@pytest.mark.parametrize("writes", [False, True])
def test_one_tensor_for_two_inputs(writes: bool) -> None:
    """Words that are their own labels: refused only if the model writes to one of them."""

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = nn.Embedding(9, 4), nn.Linear(4, 9)

        def forward(self, words: Tensor, labels: Tensor) -> Tensor:
            scores = self.out(self.table(words))
            if writes:
                labels.clamp_(max=5)
            return nn.functional.cross_entropy(scores.flatten(0, 1).float(), labels.flatten())

    model, words = Words(), torch.randint(9, (2, 5))
    with torch.autocast("cpu", torch.bfloat16):
        if writes:
            with pytest.raises(fxc.errors.CaptureError, match="'%labels' shares memory with '%words'"):
                fxc.compile(model, (words, words), training=True)
            return
        compiled = fxc.compile(model, (words, words), training=True)
        losses = [call(words, words) for call in (compiled, model)]
    assert_close(*losses)
    assert_close(*(torch.autograd.grad(loss, model.out.weight) for loss in losses))
