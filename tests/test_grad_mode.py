"""What a model computes with gradients enabled, and what without: as in eager mode, also where C++ switches them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd.graph import save_on_cpu
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import fxc
import fxc.errors

pytestmark = pytest.mark.filterwarnings("ignore::fxc.errors.FallbackWarning")
Map = Callable[[torch.Tensor], torch.Tensor]


def check(function: Map) -> None:
    """Compare the gradient of ``function``, compiled for training, perhaps in parts, and by torch.compile, with eager's."""
    x = torch.tensor([0.3, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    [expected] = torch.autograd.grad(function(x).sum(), x)
    torch._dynamo.reset()
    for compiled in (
        fxc.compile(function, (x,), training=True, options={"fallback": True}),
        torch.compile(function, backend="fxc"),
    ):
        torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x)[0], expected)


class Doubled(torch.autograd.Function):
    """Switches gradients in its forward and in its backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            doubled = x * 2
        ctx.save_for_backward(x)
        return doubled + x.sin()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        [x] = ctx.saved_tensors
        with torch.enable_grad():
            factor = x.cos() + 2
        return grad * factor


def sin(x: torch.Tensor) -> torch.Tensor:
    return checkpoint(torch.sin, x, use_reentrant=False)


def sin_twice(x: torch.Tensor) -> torch.Tensor:
    return checkpoint(lambda y: sin(y).exp(), x, use_reentrant=False)


def saved_elsewhere(x: torch.Tensor) -> torch.Tensor:
    with save_on_cpu():
        y = checkpoint(sin, x.exp(), use_reentrant=False)
    return y * x.cos()


def constant_gradient(x: torch.Tensor) -> torch.Tensor:
    [grad] = torch.autograd.grad(Doubled.apply(x).sum(), x)  # type: ignore[no-untyped-call]
    return grad * x + x * x


class Slope(torch.nn.Module):
    """The derivative with respect to its weight, a constant for autograd."""

    def __init__(self, create_graph: bool) -> None:
        super().__init__()
        self.weight, self.create_graph = torch.nn.Parameter(torch.tensor([0.5, 2.0, 1.0]).double()), create_graph

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        [grad] = torch.autograd.grad((x * self.weight).sin().sum(), [self.weight], create_graph=self.create_graph)
        return grad * x * self.weight


SWITCHED: dict[str, Map] = {
    "checkpoint in checkpoint": lambda x: checkpoint(sin, x, use_reentrant=False) * x,
    "three checkpoints": lambda x: checkpoint(sin_twice, x, use_reentrant=False) * x,
    "checkpoint in save_on_cpu": saved_elsewhere,
    "checkpoint, then a branch": lambda x: torch.cond(
        x.shape[0] > 2, torch.sin, torch.cos, (checkpoint(sin, x, use_reentrant=False),)
    ),
    "checkpoint, then a function": lambda x: Doubled.apply(checkpoint(sin, x, use_reentrant=False)),  # type: ignore[no-untyped-call]
    "function in checkpoint": lambda x: checkpoint(Doubled.apply, x, use_reentrant=False) * x,  # type: ignore[no-untyped-call]
    "function": lambda x: (Doubled.apply(x) * x).cos() + x,  # type: ignore[no-untyped-call]
    "gradient of a function": constant_gradient,
}


@pytest.mark.parametrize("name", SWITCHED)
def test_hooks_and_backwards_leave_gradients_as_they_were(name: str) -> None:
    check(SWITCHED[name])


RETURNED: dict[str, Map] = {
    "to": lambda x: x.to(torch.float64),
    "contiguous": lambda x: x.contiguous(),
    "cpu": lambda x: x.cpu(),
    "type_as": lambda x: x.type_as(x),
    "dropout": lambda x: functional.dropout(x, 0.5, training=False),
    "positive": lambda x: +x,
    "real": torch.real,
    "atleast_1d": torch.atleast_1d,
    "flatten": lambda x: x.flatten(),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x.sin(), x)[1],
    "write": lambda x: (x.detach() + 1).mul_(2),
    "conversion": lambda x: x.to(torch.float32),
    "view": lambda x: x.view(3),
    "detach": lambda x: x.detach(),
}


@pytest.mark.parametrize("name", RETURNED)
def test_without_gradients_an_operator_may_return_its_operand(name: str) -> None:
    """Then its result has the operand's gradient, and so has the operand, which is one tensor with it."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        with torch.no_grad():
            z = RETURNED[name](y)
        return z * y.cos()

    check(function)


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 5 * ctx.saved_tensors[0]


INSIDE: dict[str, Map] = {
    "function": lambda x: Cubed.apply(x),  # type: ignore[no-untyped-call]
    "function in a branch": lambda x: torch.cond(x.sum() > 0, lambda y: Cubed.apply(y), torch.cos, (x,)),  # type: ignore[no-untyped-call]
    "vmap": lambda x: torch.vmap(torch.sin)(x),
    "function in vmap": lambda x: torch.vmap(lambda row: row * 2)(Cubed.apply(x)),  # type: ignore[no-untyped-call]
}


@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("name", INSIDE)
def test_switches_around_what_traces_record_otherwise(name: str, enabled: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x.exp()
            with torch.set_grad_enabled(enabled):
                inside = INSIDE[name](x)
            y = y * inside
        return y * x + inside * x

    check(function)


VIEWS: dict[str, Map] = {
    "view": lambda x: x.view(1, 3),
    "row": lambda x: x[0],
    "expansion": lambda x: x.expand(2, 3),
    "detached": lambda x: x.detach(),
    "view of detached": lambda x: x.detach().view(1, 3),
    "conversion": lambda x: x.to(torch.float64),
    "window": lambda x: x.unfold(0, 2, 1),
}


@pytest.mark.parametrize("of_view", [False, True])
@pytest.mark.parametrize("of_input", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_views_without_gradients_among_the_results(name: str, of_input: bool, of_view: bool) -> None:
    """``of_view``: the input is a view itself, of a tensor without a gradient."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x if of_input else x.sin()
        with torch.no_grad():
            return VIEWS[name](y), y

    made = torch.tensor([0.3, 1.0, 2.0], dtype=torch.float64)
    x = (made.view(3) if of_view else made).requires_grad_()
    torch._dynamo.reset()
    found = []
    for called in (function, torch.compile(function, backend="fxc"), fxc.compile(function, (x,), training=True)):
        results = called(x)
        found.append(torch.autograd.grad(sum(each.sum() for each in results if each.requires_grad), x)[0])
    torch.testing.assert_close(found[1:], [found[0], found[0]])
    flags = ([each.requires_grad for each in called(x)] for called in (function, torch.compile(function, backend="fxc")))
    assert next(flags) == next(flags)


@pytest.mark.parametrize("create_graph", [False, True])
def test_derivatives_inside_of_a_model(create_graph: bool) -> None:
    x = torch.tensor([0.3, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    model = Slope(create_graph)
    compiled = fxc.compile(model, (x,), training=True, options={"fallback": True})
    inputs = (x, model.weight)
    found, expected = (torch.autograd.grad(called(x).sum(), inputs) for called in (compiled, model))
    torch.testing.assert_close(found, expected)


def left_off(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    torch.set_grad_enabled(False)
    return x * y


def learned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * y.requires_grad_()


def constant(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.requires_grad_(False) * y


def detached(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.detach_() * y


@pytest.mark.parametrize("function", [left_off, learned, constant, detached])
def test_what_a_call_leaves(function: Callable[..., torch.Tensor]) -> None:
    """Grad mode, and whether inputs require a gradient. A compilation leaves both as they were."""
    states = []
    given = [torch.ones(3, requires_grad=True), torch.ones(3)]
    for called in (function, fxc.compile(function, given, training=True, options={"fallback": True})):
        assert torch.is_grad_enabled() and [each.requires_grad for each in given] == [True, False]
        x, y = torch.ones(3, requires_grad=True), torch.ones(3)
        try:
            result = called(x, y)
            states.append((torch.is_grad_enabled(), result.requires_grad, x.requires_grad, y.requires_grad))
        finally:
            torch.set_grad_enabled(True)
    assert states[0] == states[1]


def test_as_strided_of_what_has_no_gradient() -> None:
    """Where constants make the graph be traced again, and views be those of their bases."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        strided = (x.view(torch.float64).as_strided((2,), (2,), 0), x.detach().view(1, 3).as_strided((2,), (2,), 0))
        return x, *strided, x.gather(0, torch.tensor([1, 0, 2]))

    x = torch.tensor([0.3, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    results = fxc.compile(function, (x,), training=True)(x)
    assert (
        [each.requires_grad for each in results] == [each.requires_grad for each in function(x)] == [True, False, False, True]
    )


def test_windows_without_gradients_beside_constants() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            windows = x.unfold(0, 1, 3)
        return x, windows, x.gather(0, torch.tensor([1, 0, 2]))

    x = torch.arange(20, dtype=torch.float64).view(20).requires_grad_()
    found = []
    for called in (function, fxc.compile(function, (x,), training=True)):
        results = called(x)
        assert [each.requires_grad for each in results] == [True, False, True]
        found.append(torch.autograd.grad(sum(each.sum() for each in results if each.requires_grad), x)[0])
    assert torch.equal(*found)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_a_write_to_another_dtype_is_hidden_from_autograd(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        y.view(dtype).mul_(2)
        return y * y

    x = torch.tensor([0.3, 1.0, 2.0], dtype=torch.float64, requires_grad=True)
    with pytest.raises(fxc.errors.CaptureError, match="autograd does not see that it is written"):
        fxc.compile(function, (x,), training=True)


MADE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "factory": lambda x: torch.zeros(3, requires_grad=True),
    "new": lambda x: x.new_ones(3).requires_grad_(),
    "clone": lambda x: x.detach().clone().requires_grad_(),
}


@pytest.mark.parametrize("name", MADE)
def test_a_leaf_that_the_model_makes_and_returns_gets_its_gradient(name: str) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made = MADE[name](x)
        return x * 2 + made * 5, made

    x = torch.ones(3, requires_grad=True)
    with pytest.raises(fxc.errors.CaptureError, match="requires a gradient is not recorded"):
        fxc.compile(function, (x,), training=True)
    with pytest.warns(fxc.errors.FallbackWarning, match="requires a gradient is not recorded"):
        compiled = fxc.compile(function, (x,), training=True, options={"fallback": True})
    result, made = compiled(x)
    result.sum().backward()
    assert made.is_leaf and made.grad is not None and x.grad is not None
    assert made.grad.tolist() == [5, 5, 5] and x.grad.tolist() == [2, 2, 2]
