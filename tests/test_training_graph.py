"""The contract of training through ``fxc.compile(training=True)``: the graph of autograd and its results, as eager."""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from tests.training_models import Mlp, assert_same, both, compiled_of, leaf, pair, weigh


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


# the graph of autograd


def test_retain_graph() -> None:
    compiled, model, twin, (x,) = pair("mlp")

    def run(call: Callable[..., Tensor]) -> None:
        loss = weigh(call(x))
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            loss.backward()

    both(compiled, twin, run)
    assert_same(model, twin)


@pytest.mark.parametrize("name", ["mlp", "conv", "tied"])
def test_gradient_penalty(name: str) -> None:
    compiled, model, twin, (x,) = pair(name)

    def run(call: Callable[..., Tensor]) -> Any:
        module = model if call is compiled else twin
        inputs = [*module.parameters(), *([leaf(x)] if x.is_floating_point() else [])]
        found = torch.autograd.grad(weigh(call(inputs[-1] if x.is_floating_point() else x)), inputs, create_graph=True)
        penalty = torch.stack([grad.square().sum() for grad in found]).sum()
        penalty.backward()
        return penalty

    both(compiled, twin, run)
    assert_same(model, twin)


def test_third_derivative() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.tanh(torch.exp(x * 0.5).sin() * x).cos()

    x = torch.randn(4, dtype=torch.float64, requires_grad=True)

    def run(call: Callable[..., Tensor]) -> list[Tensor]:
        found, value = list[Tensor](), call(x).sum()
        for _ in range(3):
            (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
            found.append(value)
        return found

    both(compiled_of(f, x), f, run)


def test_hooks() -> None:
    compiled, model, twin, (x,) = pair("mlp")

    def run(call: Callable[..., Tensor]) -> Any:
        module, seen, a = model if call is compiled else twin, list[Any](), leaf(x)
        handles = [
            a.register_hook(lambda grad: seen.append(("input", grad.clone()))),
            module.first.weight.register_hook(lambda grad: grad * 3),  # type: ignore[union-attr]
            *(
                p.register_post_accumulate_grad_hook(lambda p, name=name: seen.append((name, p.grad.clone())))  # type: ignore[union-attr]
                for name, p in module.named_parameters()
            ),
        ]
        y = call(a)
        y.register_hook(lambda grad: seen.append(("output", grad.clone())) or grad * 2)
        y.retain_grad()
        weigh(y).backward()
        for handle in handles:
            handle.remove()
        assert seen[0][0] == "output" and len(seen) == 2 + len(list(module.parameters()))
        return dict(seen), a.grad, y.grad

    both(compiled, twin, run)
    assert_same(model, twin)


def test_step_in_backward() -> None:
    """An optimizer step a parameter, while the backward is still running."""
    compiled, model, twin, (x,) = pair("mlp")

    def step(p: Tensor) -> None:
        with torch.no_grad():
            p.sub_(0.1 * p.grad)  # type: ignore[operator]
        p.grad = None

    for module in (model, twin):
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(step)
    both(compiled, twin, lambda call: [weigh(call(x)).backward() for _ in range(3)])
    assert_same(model, twin)


def test_grad_of_inputs_that_are_not_used() -> None:
    def f(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        return torch.tanh(x.exp() * 2).sin() + 1, torch.tanh(y.exp() * 2).cos() * 3

    inputs = [torch.randn(4, requires_grad=True) for _ in range(3)]
    compiled = compiled_of(f, *inputs)

    def run(call: Callable[..., Any]) -> Any:
        first, second = call(*inputs)
        found = torch.autograd.grad(first.sum(), inputs, retain_graph=True, allow_unused=True)
        assert [grad is None for grad in found] == [False, True, True]
        with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
            torch.autograd.grad(second.sum(), inputs, retain_graph=True)
        return found[0], torch.autograd.grad(second.sum(), inputs, materialize_grads=True, allow_unused=True)

    both(compiled, f, run)


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x * self.weight * x + 1).exp()


@pytest.mark.parametrize("which", ["input", "parameter", "output"])
def test_what_was_saved_may_not_be_written(which: str) -> None:
    model, x = Scale(), torch.randn(3, 4)
    for call in (compiled_of(model, leaf(x)), model):
        a = leaf(x)
        y = call(a)
        loss = weigh(y)
        with torch.no_grad():
            {"input": a, "parameter": model.weight, "output": y}[which].mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_what_was_not_saved_may_be_written() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return torch.tanh(x + y * 2).exp() - y

    inputs = torch.randn(4, requires_grad=True), torch.randn(4, requires_grad=True)

    def run(call: Callable[..., Tensor]) -> Any:
        a, b = map(leaf, inputs)
        loss = weigh(call(a, b))
        with torch.no_grad():
            a.zero_()
            b.zero_()
        loss.backward()
        return a.grad, b.grad

    both(compiled_of(f, *inputs), f, run)


def test_saved_tensors_are_freed_by_backward() -> None:
    compiled, _, _, (x,) = pair("mlp")
    unpacked, alive = list[int](), list[Any]()

    def pack(value: Tensor) -> Any:
        box = [value.detach().clone()]
        alive.append(weakref.ref(box[0]))
        return box

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda box: unpacked.append(1) or box[0]):
        loss = weigh(compiled(leaf(x)))
    loss.backward()
    assert alive and unpacked and all(ref() is None for ref in alive)


def test_checkpoint() -> None:
    compiled, model, twin, (ids,) = pair("tied")
    both(compiled, twin, lambda call: weigh(checkpoint(call, ids, use_reentrant=False)).backward())  # type: ignore[arg-type]
    assert_same(model, twin)


def test_anomaly_mode_names_no_culprit() -> None:
    compiled, model, twin, (x,) = pair("mlp")
    with torch.autograd.set_detect_anomaly(True):
        both(compiled, twin, lambda call: weigh(call(x)).backward())
    assert_same(model, twin)


def test_threads() -> None:
    compiled, model, twin, _ = pair("mlp")
    data = [torch.randn(5, 4) for _ in range(8)]

    def work(call: Callable[..., Tensor], results: dict[int, Any], mine: Sequence[int]) -> None:
        for i in mine:
            a = leaf(data[i])
            module = model if call is compiled else twin
            results[i] = torch.autograd.grad(weigh(call(a)), [a, *module.parameters()])

    found, expected = dict[int, Any](), dict[int, Any]()
    threads = [threading.Thread(target=work, args=(compiled, found, range(i, 8, 2))) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work(twin, expected, range(8))
    assert_close(found, expected)


# results


class Results(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.register_buffer("scale", torch.rand(4))

    def forward(self, x: Tensor, *, bias: Tensor, flip: bool = False) -> dict[str, Any]:
        y = torch.tanh(x @ self.weight * self.scale + bias).sin()
        y = y.flip(0) if flip else y
        return {
            "y": y,
            "again": y,
            "input": x,
            "parameter": self.weight,
            "buffer": self.scale,
            "nested": [y.argmax(-1), (y > 0, None, 3), (y.exp() * 2).cos()],
            "transposed": y.t(),
            "detached": y.detach(),
        }


def test_dicts_aliases_and_integers() -> None:
    model, x, bias = Results(), torch.randn(3, 4), torch.randn(4)
    twin, compiled = copy.deepcopy(model), compiled_of(model, x, bias=bias, flip=True)

    def run(call: Callable[..., Any]) -> Any:
        module, a, b = model if call is compiled else twin, leaf(x), leaf(bias)
        found = call(a, bias=b, flip=True)
        assert found["input"] is a and found["parameter"] is module.weight and found["buffer"] is module.scale
        assert found["again"] is found["y"]
        tensors = [found[k] for k in ("y", "again", "input", "parameter", "transposed")] + [found["nested"][2]]
        sum(weigh(t) * (i + 1) for i, t in enumerate(tensors)).backward()  # type: ignore[union-attr]
        leaves = torch.utils._pytree.tree_leaves(found)
        return found, [t.requires_grad for t in leaves if isinstance(t, Tensor)], a.grad, b.grad

    both(compiled, twin, run)
    assert_same(model, twin)


def test_only_some_results_are_used() -> None:
    model, x, bias = Results(), torch.randn(3, 4), torch.randn(4)
    twin, compiled = copy.deepcopy(model), compiled_of(model, x, bias=bias)
    for key in ("y", "transposed", "nested", "input"):

        def run(call: Callable[..., Any], key: str = key) -> Any:
            a = leaf(x)
            value = call(a, bias=bias)[key]
            weigh(value[2] if key == "nested" else value).backward()
            return a.grad

        both(compiled, twin, run)
        assert_same(model, twin)


@pytest.mark.parametrize("writes", ["mul_", "detach_", "relu_"])
def test_results_may_be_written(writes: str) -> None:
    compiled, model, twin, (x,) = pair("mlp")

    def run(call: Callable[..., Any]) -> Any:
        y = call(leaf(x))
        if writes == "detach_":
            return y.detach_()
        y = y.mul_(2) if writes == "mul_" else y.relu_()
        weigh(y).backward()
        return y

    both(compiled, twin, run)
    assert_same(model, twin)


def test_a_gradient_of_any_strides() -> None:
    compiled, model, twin, (x,) = pair("mlp")
    seeds = [torch.ones(1, 1).expand(5, 4), torch.randn(4, 5).t(), torch.randn(10, 8)[::2, ::2], torch.zeros(5, 4)]
    both(compiled, twin, lambda call: [call(x).backward(seed) for seed in seeds])
    assert_same(model, twin)


def test_lists_and_dicts_of_tensors() -> None:
    def f(parts: list[Tensor], options: dict[str, Any]) -> Any:
        y = torch.cat(parts).exp().sin() * options["scale"][0]
        return [y.tanh(), {"sum": torch.stack(options["scale"]).tanh().exp().sum(0) * y}]

    parts, scale = [torch.randn(3, 4), torch.randn(2, 4)], [torch.randn(4), torch.randn(4)]
    compiled = compiled_of(f, [*map(leaf, parts)], {"scale": [*map(leaf, scale)]})

    def run(call: Callable[..., Any]) -> Any:
        leaves = [*map(leaf, parts)], [*map(leaf, scale)]
        first, rest = call(leaves[0], {"scale": leaves[1]})
        (weigh(first) + weigh(rest["sum"])).backward()
        return [[x.grad for x in group] for group in leaves]

    both(compiled, f, run)


def test_a_view_and_what_it_views() -> None:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        y = torch.tanh(x.exp() * 0.1).sin().cos()
        return y, y.t(), y.view(-1)[1:]

    x = torch.randn(3, 4)

    def run(call: Callable[..., Any]) -> Any:
        a = leaf(x)
        y, turned, flat = call(a)
        y.mul_(2)
        (weigh(turned.contiguous()) + weigh(flat)).backward()
        return a.grad, turned, flat

    both(compiled_of(f, leaf(x)), f, run)


def test_an_input_written_by_the_model() -> None:
    def f(x: Tensor, total: Tensor) -> Tensor:
        total.add_(x.detach().sum(0))
        return torch.tanh(x * total).exp().sin().cos()

    x = torch.randn(3, 4)

    def run(call: Callable[..., Any]) -> Any:
        a, total = leaf(x), torch.ones(4)
        weigh(call(a, total)).backward()
        return a.grad, total

    both(compiled_of(f, leaf(x), torch.ones(4)), f, run)


# other ways to differentiate

WAYS: dict[str, Callable[[Callable[..., Tensor], Tensor], Any]] = {
    "jacobian": lambda f, x: torch.autograd.functional.jacobian(f, x),
    "vectorised jacobian": lambda f, x: torch.autograd.functional.jacobian(f, x, vectorize=True),
    "hessian": lambda f, x: torch.autograd.functional.hessian(lambda x: weigh(f(x)), x),
    "func.grad": lambda f, x: torch.func.grad(lambda x: weigh(f(x)))(x),
    "func.jvp": lambda f, x: torch.func.jvp(f, (x,), (x.cos(),)),
    "func.vmap": lambda f, x: torch.func.vmap(f)(torch.stack([x, x * 2])),
    "func.jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
    "forward mode": lambda f, x: torch.autograd.functional.jacobian(f, x, strategy="forward-mode", vectorize=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_other_ways_to_differentiate(way: str) -> None:
    model, x = Mlp(), torch.randn(5, 4)
    both(compiled_of(model, leaf(x)), model, lambda call: WAYS[way](call, x))
