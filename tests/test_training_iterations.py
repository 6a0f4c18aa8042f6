"""The contract of training through ``fxc.compile(training=True)``: iterations, grad modes, and what is asked for, as eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fxc
from tests.training_models import MODELS, Mlp, assert_same, both, compiled_of, leaf, pair, weigh


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


# iterations


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("name", MODELS)
def test_optimizer_steps(name: str, optimizer: str) -> None:
    compiled, model, twin, inputs = pair(name)

    def steps(call: Callable[..., Tensor], parameters: Any) -> list[Tensor]:
        kind = torch.optim.SGD if optimizer == "sgd" else torch.optim.AdamW
        step = kind(parameters, lr=0.05, weight_decay=0.01)
        losses = list[Tensor]()
        for _ in range(4):
            step.zero_grad()
            loss = call(*inputs).square().mean()
            loss.backward()
            step.step()
            losses.append(loss.detach())
        return losses

    losses = both(compiled, twin, lambda call: steps(call, (model if call is compiled else twin).parameters()))
    assert len({float(loss) for loss in losses}) == 4  # each call saw the step before
    assert_same(model, twin)


@pytest.mark.parametrize("name", ["mlp", "conv", "tied"])
def test_gradients_accumulate(name: str) -> None:
    compiled, model, twin, (x,) = pair(name)
    parts = [x, x.flip(0), x.roll(1, -1)]
    both(compiled, twin, lambda call: [weigh(call(part) / 3).backward() for part in parts])
    assert_same(model, twin)


def test_tied_weights_are_one_parameter() -> None:
    compiled, model, twin, (ids,) = pair("tied")
    both(compiled, twin, lambda call: weigh(call(ids)).backward())
    assert len(list(compiled.plan.module.parameters())) == 1
    assert_same(model, twin)


def test_weights_loaded_later_are_seen() -> None:
    compiled, model, twin, (x,) = pair("mlp")
    other = Mlp().state_dict()
    for module in (model, twin):
        module.load_state_dict(other)
        module.first.weight.data = other["first.weight"] * 2  # type: ignore[union-attr]
    both(compiled, twin, lambda call: weigh(call(x)).backward())
    assert_same(model, twin)


def test_statistics_move_in_every_call_of_a_model_in_train_mode() -> None:
    compiled, model, twin, (x,) = pair("conv")

    def run(call: Callable[..., Tensor]) -> Any:
        with torch.no_grad():
            first = call(x)
        with torch.inference_mode():
            call(x * 2)
        second = call(x * 3)
        weigh(second).backward()
        return first, second

    both(compiled, twin, run)
    assert int(model[1].num_batches_tracked) == 3  # type: ignore[index]
    assert_same(model, twin)


# grad modes


@pytest.mark.share(3)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", MODELS)
def test_modes_without_gradients(name: str, mode: Any) -> None:
    compiled, model, twin, inputs = pair(name)

    def run(call: Callable[..., Tensor]) -> Any:
        with mode():
            result = call(*inputs)
        assert not result.requires_grad and result.is_inference() == (mode is torch.inference_mode)
        weigh(call(*inputs)).backward()  # and nothing of it is left
        return result.clone()

    both(compiled, twin, run)
    assert_same(model, twin)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_compiled_where_gradients_are_off(mode: Any) -> None:
    model, x = Mlp(), torch.randn(5, 4)
    twin = copy.deepcopy(model)
    with mode():
        compiled = compiled_of(model, x)
    both(compiled, twin, lambda call: weigh(call(x)).backward())
    assert_same(model, twin)


class Target(nn.Module):
    """Part of it under no_grad, part detached."""

    def __init__(self) -> None:
        super().__init__()
        self.online, self.target = Mlp(), Mlp()

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            aim = self.target(x).tanh() * 2
        y = self.online(x)
        return (y - aim).square() + y.detach().exp() * y


def test_no_grad_and_detach_inside_the_model() -> None:
    model, x = Target(), torch.randn(5, 4)
    twin, compiled = copy.deepcopy(model), compiled_of(model, x)
    both(compiled, twin, lambda call: weigh(call(x)).backward())
    assert model.target.first.weight.grad is None
    assert_same(model, twin)


# which gradients are asked for


def test_frozen_before_compiling() -> None:
    model, x = Mlp(), torch.randn(5, 4)
    model.first.weight.requires_grad_(False)
    twin, compiled = copy.deepcopy(model), compiled_of(model, x)
    both(compiled, twin, lambda call: weigh(call(x)).backward())
    assert model.first.weight.grad is None
    assert_same(model, twin)


@pytest.mark.parametrize("name", ["mlp", "conv", "gpt2"])
def test_frozen_and_thawed_after_compiling(name: str) -> None:
    model, inputs = MODELS[name]()
    names = [parameter for parameter, _ in model.named_parameters()]
    model.get_parameter(names[0]).requires_grad_(False)
    twin, compiled = copy.deepcopy(model), compiled_of(model, *inputs)
    for module in (model, twin):
        module.get_parameter(names[0]).requires_grad_(True)
        module.get_parameter(names[-1]).requires_grad_(False)
    both(compiled, twin, lambda call: weigh(call(*inputs)).backward())
    assert model.get_parameter(names[0]).grad is not None and model.get_parameter(names[-1]).grad is None
    assert_same(model, twin)


def test_everything_frozen() -> None:
    model, x = Mlp().requires_grad_(False), torch.randn(5, 4)
    twin = copy.deepcopy(model)
    compiled = fxc.compile(model, (x,), training=True)
    assert not both(compiled, twin, lambda call: call(x)).requires_grad
    both(compiled, twin, lambda call: torch.autograd.grad(weigh(call(a)), a) if (a := leaf(x)) is not None else None)
    for module in (model, twin):
        module.requires_grad_(True)
    both(compiled, twin, lambda call: weigh(call(x)).backward())
    assert_same(model, twin)


def f_two(x: Tensor, y: Tensor) -> Tensor:
    return torch.tanh(torch.exp(x) * y + torch.sin(y)) * x


@pytest.mark.parametrize("example", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("call", [(False, False), (True, False), (False, True), (True, True)])
def test_inputs_require_what_the_example_did_not(example: tuple[bool, bool], call: tuple[bool, bool]) -> None:
    x, y = torch.randn(3, 4), torch.randn(1, 4)
    inputs = [v.clone().requires_grad_(r) for v, r in zip((x, y), example)]
    compiled = fxc.compile(f_two, inputs, training=True, options={"cache_plans": True})

    def run(function: Callable[..., Tensor]) -> Any:
        inputs = [v.clone().requires_grad_(r) for v, r in zip((x, y), call)]
        result = function(*inputs)
        assert result.requires_grad == any(call)
        if result.requires_grad:
            weigh(result).backward()
        return result, [(v.grad is None, v.grad if v.grad is not None else v) for v in inputs]

    both(compiled, f_two, run)


def test_recompile_serves_each_set_of_gradients() -> None:
    x = torch.randn(3, 4)
    compiled = fxc.compile(f_two, (x, x), training=True, options={"recompile": True})

    def run(function: Callable[..., Tensor]) -> Any:
        a, b = leaf(x), leaf(x[:2])
        with torch.no_grad():
            first = function(a, a)
        second = function(b, b.detach())
        second.sum().backward()
        return first, second, b.grad

    both(compiled, f_two, run)
    assert len(compiled.plans) == 3


# random numbers


def test_dropout_has_one_mask() -> None:
    def f(x: Tensor) -> Tensor:
        return nn.functional.dropout(torch.exp(x) * 2, 0.5).sin().tanh()

    x = torch.rand(64, 64) * 0.1
    compiled = compiled_of(f, leaf(x))

    def run(call: Callable[..., Tensor]) -> Any:
        a = leaf(x)
        y = call(a)
        y.sum().backward()
        assert a.grad is not None
        assert torch.equal(y == 0, a.grad == 0) and 0.4 < (y == 0).float().mean() < 0.6
        return y, a.grad

    first = both(compiled, f, run)
    torch.manual_seed(8)
    assert not torch.equal(run(compiled)[0], first[0])
