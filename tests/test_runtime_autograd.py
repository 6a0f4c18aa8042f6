"""Differentiable subgraphs at run time: pairs of f and df written by hand, against eager autograd in float64."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from fxc.errors import DerivativeError, InputError
from fxc.runtime.autograd import DifferentiableSubgraph, Gradient

Tensor = torch.Tensor


def tensor(*sizes: int, grad: bool = True) -> Tensor:
    return torch.randn(*sizes, dtype=torch.float64, requires_grad=grad)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


# u = tanh(exp(x) * y); the temporary t = exp(x) has a gradient, and df captures y, t and u

calls: list[tuple[bool, ...]] = []
"""Which gradients were defined, at each call of a df."""


def f_chain(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    t = x.exp()
    return (t * y).tanh(), t


def df_chain(du: Tensor | None, dt: Tensor | None, y: Tensor, u: Tensor, t: Tensor) -> tuple[Tensor | None, ...]:
    calls.append((du is not None, dt is not None))
    dp = None if du is None else du * (1 - u * u)
    dt = add(dt, None if dp is None else dp * y)
    return (None if dt is None else dt * t), (None if dp is None else dp * t)


def add(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


CHAIN = Gradient(f_chain, df_chain, 1, (0, 1), (1,), (0, 1), (0, 1))
chain = DifferentiableSubgraph(CHAIN)


def eager_chain(x: Tensor, y: Tensor) -> Tensor:
    return (x.exp() * y).tanh()


def first(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*args)[0]


def gradients(function: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor | None]:
    leaves = [i.detach().requires_grad_(i.requires_grad) for i in inputs]
    function(*leaves).square().sum().backward()
    return [leaf.grad for leaf in leaves]


def test_gradcheck_first_and_second_order() -> None:
    x, y = tensor(3, 4), tensor(3, 4)
    assert gradcheck(first(chain), (x, y))
    assert gradgradcheck(first(chain), (x, y))


def test_results_and_gradients_are_those_of_eager() -> None:
    x, y = tensor(3, 4), tensor(3, 4)
    torch.testing.assert_close(chain(x, y)[0], eager_chain(x, y))
    torch.testing.assert_close(gradients(first(chain), x, y), gradients(eager_chain, x, y))


def test_temporaries_are_not_returned() -> None:
    assert len(chain(tensor(2), tensor(2))) == 1


def test_the_gradient_of_a_temporary_is_undefined_in_the_first_backward() -> None:
    calls.clear()
    chain(tensor(2), tensor(2))[0].sum().backward()
    assert calls == [(True, False)]


def test_second_derivatives_flow_through_temporaries() -> None:
    def hessian_row(function: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        torch.manual_seed(1)
        x, y = tensor(3), tensor(3)
        gx, gy = torch.autograd.grad(function(x, y).sum(), (x, y), create_graph=True)
        return torch.autograd.grad((gx * gy).sum(), (x, y))

    calls.clear()
    torch.testing.assert_close(hessian_row(first(chain)), hessian_row(eager_chain))
    assert (True, True) in calls or (False, True) in calls


# two independent halves: (sin(x), cos(y), the index of the largest x)


def f_two(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return x.sin(), x.argmax(), y.cos()


def df_two(ds: Tensor | None, dc: Tensor | None, x: Tensor, y: Tensor) -> tuple[Tensor | None, ...]:
    calls.append((ds is not None, dc is not None))
    return (None if ds is None else ds * x.cos()), (None if dc is None else -dc * y.sin())


two = DifferentiableSubgraph(Gradient(f_two, df_two, 3, (0, 2), (0, 1), (), (0, 1)))


def test_undefined_gradients_stay_undefined() -> None:
    x, y = tensor(4), tensor(4)
    calls.clear()
    s, _, _ = two(x, y)
    s.sum().backward()
    assert calls == [(True, False)]
    assert x.grad is not None and y.grad is None  # as eager: y is no part of s


def test_an_unused_input_is_an_error_unless_it_is_allowed() -> None:
    x, y = tensor(4), tensor(4)
    s, _, _ = two(x, y)
    assert torch.autograd.grad(s.sum(), (x, y), retain_graph=True, allow_unused=True)[1] is None
    with pytest.raises(RuntimeError, match="unused"):
        torch.autograd.grad(s.sum(), (x, y))


def test_an_integer_output_keeps_its_place() -> None:
    x, y = tensor(4), tensor(4)
    s, index, c = two(x, y)
    assert index.dtype is torch.int64 and not index.requires_grad and s.requires_grad and c.requires_grad
    (s.sum() + 2 * c.sum()).backward()
    torch.testing.assert_close((x.grad, y.grad), (x.cos().detach(), -2 * y.sin().detach()))


def test_an_output_without_a_vjp_carries_no_gradient() -> None:
    part = DifferentiableSubgraph(Gradient(f_two, lambda ds, x: (ds * x.cos(),), 3, (0,), (0,), (), (0,)))
    s, _, c = part(tensor(4), tensor(4, grad=False))
    assert s.requires_grad and not c.requires_grad


def test_an_input_without_a_gradient_of_ours_gets_that_of_autograd() -> None:
    part = DifferentiableSubgraph(Gradient(f_two, lambda ds, x: (ds * x.cos(),), 3, (0,), (0,), (), (0,)))
    x, y = tensor(4), tensor(4)
    s, _, c = part(x, y)
    (s.sum() + c.sum()).backward()
    torch.testing.assert_close((x.grad, y.grad), (x.cos().detach(), -y.sin().detach()))
    part = DifferentiableSubgraph(replace(part.gradient, differentiable=False))
    with pytest.raises(InputError, match="compile again"):
        part(x, y)


def test_frozen_inputs_get_no_gradient() -> None:
    x, y = tensor(4), tensor(4, grad=False)
    chain(x, y)[0].sum().backward()
    assert x.grad is not None and y.grad is None
    torch.testing.assert_close(gradients(first(chain), x, y), gradients(eager_chain, x, y))


def test_nothing_requires_a_gradient() -> None:
    result = chain(tensor(4, grad=False), tensor(4, grad=False))[0]
    assert not result.requires_grad and result.grad_fn is None


def test_kernels_get_tensors_that_require_no_gradient() -> None:
    """Also where no gradient reaches an input that requires one."""
    seen = list[bool]()

    def f(x: Tensor) -> Tensor:
        seen.append(x.requires_grad)
        return torch.argmax(x, 0, out=torch.empty(3, dtype=torch.int64)) if not x.requires_grad else x

    unreached = Gradient(f, lambda: (), 1, (), (), (), (), differentiable=False, unreached=(0,))
    x = tensor(4, 3)
    [found] = DifferentiableSubgraph(unreached)(x)
    assert seen == [False] and torch.equal(found, x.argmax(0))


def test_no_grad() -> None:
    with torch.no_grad():
        result = chain(tensor(4), tensor(4))[0]
    assert not result.requires_grad
    with torch.inference_mode():
        assert chain(tensor(4), tensor(4))[0].is_inference()


def test_modules_parameters_accumulate_and_hooks_run() -> None:
    weight = torch.nn.Parameter(torch.randn(4, dtype=torch.float64))
    seen = list[str]()
    weight.register_hook(lambda grad: seen.append("hook") or grad * 10)
    weight.register_post_accumulate_grad_hook(lambda p: seen.append("accumulated"))
    x = tensor(4)
    for _ in range(2):
        chain(x, weight)[0].sum().backward()
    expected = 2 * 10 * (1 - eager_chain(x, weight) ** 2) * x.exp()
    torch.testing.assert_close(weight.grad, expected.detach())
    assert seen == ["hook", "accumulated"] * 2


def test_retain_graph() -> None:
    x, y = tensor(4), tensor(4)
    loss = chain(x, y)[0].sum()
    loss.backward(retain_graph=True)
    once = x.grad.clone()
    loss.backward()
    torch.testing.assert_close(x.grad, 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


@pytest.mark.parametrize("which", ["captured input", "captured output"])
def test_writing_a_saved_tensor_is_noticed(which: str) -> None:
    x, y = tensor(4), tensor(4)
    u = chain(x, y)[0]
    loss = u.sum()
    with torch.no_grad():
        (y if which == "captured input" else u).mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_writing_an_input_that_is_not_saved_is_no_error() -> None:
    x, y = tensor(4), tensor(4)
    loss = chain(x, y)[0].sum()
    expected = (1 - eager_chain(x, y) ** 2) * y * x.exp()
    with torch.no_grad():
        x.zero_()
    loss.backward()
    torch.testing.assert_close(x.grad, expected.detach())


def test_the_same_tensor_twice() -> None:
    x = tensor(4)
    torch.testing.assert_close(gradients(lambda a: chain(a, a)[0], x), gradients(lambda a: eager_chain(a, a), x))


def test_an_output_that_is_an_input() -> None:
    both = DifferentiableSubgraph(
        Gradient(
            lambda x: (x, x * x),
            lambda dx, dy, x: (add(dx, None if dy is None else 2 * dy * x),),
            2,
            (0, 1),
            (0,),
            (),
            (0,),
        )
    )
    x = tensor(4)
    same, square = both(x)
    (same.sum() + square.sum()).backward()
    torch.testing.assert_close(x.grad, (1 + 2 * x).detach())
    assert gradcheck(both, (x,)) and gradgradcheck(both, (x,))


def test_a_duplicated_output_has_a_gradient_for_each_position() -> None:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        u = x.sin()
        return u, u

    twice = DifferentiableSubgraph(Gradient(f, lambda a, b, x: (add(a, b) * x.cos(),), 2, (0, 1), (0,), (), (0,)))
    x = tensor(4)
    a, b = twice(x)
    (a.sum() + 3 * b.sum()).backward()
    torch.testing.assert_close(x.grad, 4 * x.cos().detach())


def test_sizes_and_numbers_are_captured() -> None:
    """What a broadcast leaves behind is the size alone, as a host value."""

    def f(x: Tensor, y: Tensor) -> tuple[Any, ...]:
        return x + y, list(y.shape)

    def df(dz: Tensor | None, size: list[int]) -> tuple[Tensor | None, ...]:
        return dz, None if dz is None else dz.sum_to_size(size)

    plus = DifferentiableSubgraph(Gradient(f, df, 1, (0,), (), (1,), (0, 1)))
    assert gradcheck(first(plus), (tensor(3, 4), tensor(1, 4)))


def test_gradients_arrive_in_the_layout_of_the_output() -> None:
    strides = list[Any]()

    def df(dy: Tensor) -> tuple[Tensor]:
        strides.append(dy.stride())
        return (dy.t(),)

    def one_to_one(f: Callable[..., Any], df: Callable[..., Any]) -> DifferentiableSubgraph:
        return DifferentiableSubgraph(Gradient(f, df, 1, (0,), (), (), (0,)))

    move = one_to_one(lambda x: (x.t().clone(),), df)
    x = tensor(2, 3)
    move(x)[0].sum().backward()  # the gradient of a sum is expanded: strides (0, 0)
    plain = one_to_one(lambda x: (x * 1,), lambda dy: (strides.append(dy.stride()) or dy,))
    plain(tensor(2, 3))[0].t().sum().backward()
    assert strides == [(1, 3), (3, 1)]
    assert gradgradcheck(first(move), (x,))


def test_a_backward_that_cannot_be_differentiated_says_so() -> None:
    error = DerivativeError("it cannot be differentiated again", op="%y = chain", place="model.py:1", hint="do without")
    once = DifferentiableSubgraph(replace(CHAIN, obstacle=lambda: error))
    x, y = tensor(4), tensor(4)
    assert gradcheck(first(once), (x, y))
    (grad,) = torch.autograd.grad(once(x, y)[0].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError) as caught:
        grad.sum().backward()
    assert isinstance(caught.value, DerivativeError) and str(caught.value) == str(error)


def test_a_derivative_of_wrong_arity() -> None:
    wrong = DifferentiableSubgraph(Gradient(lambda x: (x * 2,), lambda dy: (), 1, (0,), (), (), (0,)))
    with pytest.raises(InputError, match="returned 0 gradients instead of 1"):
        wrong(tensor(2))[0].sum().backward()


def test_mixed_precision_and_views() -> None:
    x = torch.randn(4, 3, requires_grad=True)
    half = DifferentiableSubgraph(Gradient(lambda x: (x.bfloat16(),), lambda dy: (dy.float(),), 1, (0,), (), (), (0,)))
    half(x)[0].sum().backward()
    assert x.grad is not None and x.grad.dtype is torch.float32
    view = DifferentiableSubgraph(Gradient(lambda x: (x.view(-1), x.sin()), lambda a, b, x: (None,), 2, (0, 1), (0,), (), (0,)))
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        view(x)[0].mul_(2)  # wrong gradients in the making: refused, as for any custom function


def test_saved_tensor_hooks_see_what_is_saved() -> None:
    packed = list[Tensor]()
    x, y = tensor(4), tensor(4)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        loss = chain(x, y)[0].sum()
    assert len(packed) == 3
    loss.backward()


@pytest.mark.slow
def test_nothing_is_kept_alive() -> None:
    x, y = tensor(4), tensor(4)
    result = chain(x, y)[0]
    alive = weakref.ref(result.grad_fn)
    del result
    gc.collect()
    assert alive() is None


def test_several_threads() -> None:
    def work(i: int) -> None:
        for j in range(20):
            x = torch.full((4,), 0.01 * (i + j), dtype=torch.float64, requires_grad=True)
            y = torch.full((4,), 0.3, dtype=torch.float64, requires_grad=True)
            torch.testing.assert_close(gradients(first(chain), x, y), gradients(eager_chain, x, y))
        done.append(i)

    done = list[int]()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [0, 1, 2, 3]


def test_the_parts_are_submodules() -> None:
    f, df = torch.nn.Identity(), torch.nn.Identity()
    module = DifferentiableSubgraph(Gradient(f, df, 1, (0,), (), (), (0,)))
    assert dict(module.named_children()) == {"f": f, "df": df}
