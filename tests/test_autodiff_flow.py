"""Gradients through the whole flow: captured, differentiated as IR, exported, and run by PyTorch's autograd as eager's are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import fxc
from fxc.errors import FallbackWarning
from tests.differentiation import ONCE, SUBGRAPH, autograd_nodes
from tests.gradients import CASES, ints, t

LEFT = {"comparison only", "split, all returned"}
"""Cases in which df has nothing to do: nothing has a gradient, or the results are views of inputs, which autograd keeps."""


def check(function: Callable[..., Any], *runs: Sequence[Any], by_df: bool = True, route: str = "export") -> None:
    """Of each run's inputs, values are eager's, and gradients too: of all results together, and of each alone."""
    graph = fxc.to_fx(fxc.run_passes(fxc.capture(function, tuple(runs[0]), route=route), ONCE))
    for inputs in runs:
        check_run(graph, function, inputs, by_df)


def check_run(graph: Callable[..., Any], function: Callable[..., Any], inputs: Sequence[Any], by_df: bool) -> None:
    torch.manual_seed(0)
    expected = [value for value in tree_leaves(function(*inputs)) if isinstance(value, torch.Tensor)]
    torch.manual_seed(0)
    actual = [value for value in tree_leaves(graph(*inputs)) if isinstance(value, torch.Tensor)]
    torch.testing.assert_close(actual, expected, equal_nan=True)
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    differentiable = [i for i, value in enumerate(expected) if value.requires_grad]
    assert (SUBGRAPH in autograd_nodes([a for a in actual if a.requires_grad], leaves)) is by_df
    generator = torch.Generator().manual_seed(1)
    cotangents = [torch.randn(value.shape, dtype=value.dtype, generator=generator) for value in expected if value.requires_grad]
    given = dict(zip(differentiable, cotangents, strict=True))
    for some in [differentiable, *([i] for i in differentiable)] if len(differentiable) > 1 else [differentiable]:
        found, wanted = ([_gradient([run[i] for i in some], leaves, [given[i] for i in some])] for run in (actual, expected))
        torch.testing.assert_close(found, wanted)


def _gradient(outputs: list[torch.Tensor], leaves: list[torch.Tensor], given: list[torch.Tensor]) -> list[torch.Tensor]:
    found = [(o, g) for o, g in zip(outputs, given, strict=True) if o.requires_grad]
    if not found:
        return [torch.zeros_like(leaf) for leaf in leaves]
    return list(
        torch.autograd.grad(
            [o for o, _ in found],
            leaves,
            [g for _, g in found],
            allow_unused=True,
            retain_graph=True,
            materialize_grads=True,
        )
    )


@pytest.mark.share(2)
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_eagers(case: str) -> None:
    check(*CASES[case], by_df=case not in LEFT)


def chosen(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> Any:
    """Branches with integers, an input that one of them leaves out, and a result given twice."""

    def first(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[i].sin() * y, y.exp()

    def second(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[i] * 2, x[i].cos()

    a, b = torch.cond(y.sum() > 0, first, second, (x, y, i))
    return a * b, b, a * b


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
def test_branches(sign: int) -> None:
    y = (t(3, positive=True).detach() * sign).requires_grad_()
    check(chosen, (t(4), y, ints(0, 2, 2)))


def inner(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.exp() * x, lambda x: x.sin(), (x,))


@pytest.mark.slow
def test_branches_of_branches() -> None:
    runs = (t(3),), ((-t(3)).detach().requires_grad_(),)
    check(lambda x: torch.cond(x[0] > 0, inner, lambda x: inner(-x) * 3, (x,)).tanh(), *runs)


@torch.library.custom_op("fxc_test::split_scale", mutates_args=())
def split_scale(
    x: torch.Tensor, index: torch.Tensor, by: float, times: int = 1
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    chosen = x[index]
    return chosen * by**times, index.clone(), x.exp()


@split_scale.register_fake
def _(x: torch.Tensor, index: torch.Tensor, by: float, times: int = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return x.new_empty(index.shape), torch.empty_like(index), torch.empty_like(x)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[1], output[2])
    ctx.factor, ctx.shape = inputs[2] ** inputs[3], inputs[0].shape
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, chosen: Any, index: Any, exp: Any) -> Any:
    at, value = ctx.saved_tensors
    grad = value.new_zeros(ctx.shape)
    if chosen is not None:
        grad = grad.index_add(0, at, chosen * ctx.factor)
    return grad if exp is None else grad + exp * value, None, None, None


split_scale.register_autograd(_backward, setup_context=_save)


def test_an_operator_of_the_user() -> None:
    """Several results, one of integers; arguments that are integers and numbers; a default; what it returned is saved."""

    def run(x: torch.Tensor, i: torch.Tensor) -> Any:
        chosen, index, exp = split_scale(x * 2, i, 1.5, 3)
        return chosen.sin(), index, exp * x

    check(run, (t(4), ints(0, 2, 2)))
    check(lambda x, i: split_scale(x, i, 1.5)[0].sin(), (t(4), ints(0, 2, 2)))


def test_inputs_that_are_not_differentiable() -> None:
    check(lambda x, flag, i, y: (x * flag).cumsum(0)[i] + y.detach(), (t(4), ints(1, 0, 1, 1) > 0, ints(3, 1), t(2)))


def test_one_input_given_twice_and_one_not_at_all() -> None:
    x = t(3)
    check(lambda a, b, c: (a * b.sin(), a), (x, x, t(2)))


class Rounded(torch.autograd.Function):
    """Rounds, with a derivative as if it did not, but cut off; its own derivative is nowhere in its forward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.round(x * scale) / scale

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() < 1), None


class Ranked(torch.autograd.Function):
    """Two results, one of them of integers, and what it saves is neither an argument nor a result."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ranks = x.argsort()
        ctx.mark_non_differentiable(ranks)
        ctx.save_for_backward((x * y).exp(), y)
        return x * y * 2, ranks

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, ranks: Any) -> Any:  # type: ignore[override]
        scale, y = ctx.saved_tensors
        return gradient * scale, gradient.sum() * y


def rounded(x: torch.Tensor) -> torch.Tensor:
    return Rounded.apply(x.sin(), 4.0) * x + Rounded.apply(x, 2.0).cos()  # type: ignore[operator]


def ranked(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    value, ranks = Ranked.apply(x.tanh(), y)  # type: ignore[misc]
    return value.sin(), ranks


@pytest.mark.parametrize("route", ["export", "dynamo"])
@pytest.mark.parametrize("case", ["rounded", "ranked"])
def test_an_autograd_function(case: str, route: str) -> None:
    """Both of its parts are captured; the derivative is the one that was written."""
    function, inputs = {"rounded": (rounded, [t(5)]), "ranked": (ranked, [t(4), t(4, seed=1)])}[case]
    check(function, inputs, route=route)


bound, one_more = Rounded.apply, [Rounded.apply]
"""Users call ``apply`` by another name, which the class defines no more while it is captured."""


class Clipped(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
        return x.clamp(low, high)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)
        ctx.high = inputs[2]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # type: ignore[override]
        return gradient * ctx.high + ctx.saved_tensors[0], None, None


class Thirds(Clipped):
    @classmethod
    def apply(cls, x: torch.Tensor) -> Any:  # type: ignore[override]
        return super().apply(x, high=0.3) / 3


@pytest.mark.parametrize(
    "function",
    {
        "bound before": lambda x: bound(x, 2.0) * x,
        "in a list": lambda x: one_more[0](x, 2.0) * x,
        "by keyword": lambda x: Clipped.apply(x, high=0.5) * x,
        "defaults": lambda x: Clipped.apply(x) * x,
        "another apply": lambda x: Thirds.apply(x) * x,
        "in a checkpoint": lambda x: checkpoint(lambda y: bound(y, 2.0).sin(), x, use_reentrant=False),
        "beside vmap": lambda x: torch.vmap(torch.sin)(x) * bound(x, 2.0),
    }.values(),
)
def test_the_derivative_is_found_however_apply_is_called(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.linspace(-2, 2, 9).requires_grad_()
    expected = torch.autograd.grad(function(x).sum(), x)
    compiled = fxc.compile(function, (x,), training=True, options={"fallback": True})
    torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x), expected)


def test_hooks_that_change_saved_tensors_run() -> None:
    """The part of the model that enters them is not captured."""

    def run(x: torch.Tensor) -> torch.Tensor:
        with saved_tensors_hooks(lambda t: t, lambda t: t * 2):
            y = x.sin()
        return y.cos() * x

    x = t(3)
    expected = torch.autograd.grad(run(x).sum(), x)
    with pytest.warns(FallbackWarning, match="saved_tensors_hooks"):
        compiled = fxc.compile(run, (x,), training=True, options={"fallback": True})
    torch.testing.assert_close(torch.autograd.grad(compiled(x).sum(), x), expected)
    torch.testing.assert_close(fxc.compile(run, (x.detach(),))(x.detach()), run(x.detach()))


@pytest.mark.parametrize("route", ["export", "dynamo"])
def test_gradients_switched_off_and_on(route: str) -> None:
    def run(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = x * y
        with torch.no_grad():
            b = a.sin()
            b.view(-1)[1] = 5
            with torch.enable_grad():
                c = b * x
            d = c.exp()
        return a * d, c, d

    check(run, (t(4), t(4, seed=1)), route=route)
