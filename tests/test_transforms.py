"""``torch.func`` transforms, and operators that Dynamo orders by effect tokens, by ``torch.compile``; transforms of plans."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor, func
from torch.autograd import forward_ad

import fxc
from fxc.errors import CaptureError, InputError

TRANSFORMS: dict[str, Callable[[Tensor], Any]] = {
    "vmap": lambda x: torch.vmap(torch.sin)(x[None]),
    "vmap of views": lambda x: torch.vmap(lambda row: row.relu().add(1).view(-1)[1:])(x.view(2, 2)),
    "vmap of writes": lambda x: torch.vmap(lambda row: row.clone().add_(1))(x.view(2, 2)),
    "grad": func.grad(lambda x: (x * x).sum()),
    "vmap of grad": lambda x: torch.vmap(func.grad(torch.sin))(x),
    "jvp": lambda x: func.jvp(torch.sin, (x,), (x,)),
    "jacrev": func.jacrev(torch.sin),
    "hessian": func.hessian(lambda x: (x**3).sum()),
    "inverse": lambda x: torch.linalg.inv(x.view(2, 2)),
    "solve": lambda x: torch.linalg.solve(x.view(2, 2), x.view(2, 2)),
    "cholesky": lambda x: torch.linalg.cholesky(x.view(2, 2) @ x.view(2, 2).mT + torch.eye(2)),
    "normal": lambda x: torch.distributions.MultivariateNormal(x[:2], torch.eye(2) * 2).log_prob(x[2:]),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_those_of_eager(name: str, dynamic: bool | None, gradient: bool) -> None:
    torch._dynamo.reset()
    x = torch.tensor([2.0, 0.3, -0.5, 1.5], requires_grad=gradient)
    expected, found = TRANSFORMS[name](x), torch.compile(TRANSFORMS[name], backend="fxc", dynamic=dynamic)(x)
    torch.testing.assert_close(found, expected)
    if gradient and isinstance(expected, Tensor):
        gradients = [torch.autograd.grad(result.square().sum(), x) for result in (found, expected)]
        torch.testing.assert_close(*gradients)


def _scaled(x: Tensor) -> Tensor:
    return x.sin() * 2


def _tangent(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor | None:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, x))).tangent


OF_COMPILED: dict[str, Callable[[Callable[[Tensor], Tensor], Tensor], Any]] = {
    "vmap": lambda f, x: torch.vmap(f)(x.expand(3, 4)),
    "jvp": lambda f, x: func.jvp(f, (x,), (x,)),
    "functionalize": lambda f, x: func.functionalize(f)(x),
    "forward mode": _tangent,
    "grad": lambda f, x: func.grad(lambda y: f(y).sum())(x),
    "grad of vmap": lambda f, x: func.grad(lambda y: torch.vmap(f)(y.expand(3, 4)).sum())(x),
    "vmap of grad": lambda f, x: torch.vmap(func.grad(lambda y: f(y).sum()))(x.expand(3, 4)),
    "vjp": lambda f, x: func.vjp(f, x)[1](x),
}
"""Transforms of a compiled function."""


@pytest.mark.share(3)
@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("target", ["host", None])
@pytest.mark.parametrize("name", OF_COMPILED)
def test_transforms_of_a_compiled_function(name: str, target: str | None, training: bool, is_warm: bool) -> None:
    """Kernels have no batched form, and no derivative by a transform. Operators have the first, and in training both."""
    x, run = torch.tensor([2.0, 0.3, -0.5, 1.5]), OF_COMPILED[name]
    compiled = fxc.compile(_scaled, (x.clone().requires_grad_(training),), training=training, options={"target": target})
    if is_warm:
        compiled(x)
    if target is None and (training or name in ("vmap", "jvp", "functionalize", "forward mode")):
        torch.testing.assert_close(run(compiled, x), run(_scaled, x))
    else:
        with pytest.raises(InputError, match=r"torch\.func|transform"):
            run(compiled, x)
    torch.testing.assert_close(compiled(x), _scaled(x))


@pytest.mark.parametrize("target", ["host", None])
def test_what_a_transform_does_not_reach(target: str | None) -> None:
    w, x = torch.tensor([2.0, 0.3, -0.5, 1.5]), torch.ones(4)

    def features(x: Tensor) -> Tensor:
        return (x.sin() * 2) @ torch.full((4, 4), 0.5) + x

    compiled = fxc.compile(features, (x,), options={"target": target})
    torch.testing.assert_close(func.grad(lambda y: (y * compiled(x)).sum())(w), features(x))
    torch.testing.assert_close(torch.vmap(lambda y: y * compiled(x))(w.expand(2, 4)), w.expand(2, 4) * features(x))


def test_forward_mode_and_batches_of_gradients_by_torch_compile() -> None:
    torch._dynamo.reset()
    x, compiled = torch.tensor([2.0, 0.3]), torch.compile(_scaled, backend="fxc")
    compiled(x)
    with pytest.raises(InputError, match="transform"):
        _tangent(compiled, x)
    jacobians = [torch.autograd.functional.jacobian(each, x, vectorize=True) for each in (_scaled, compiled)]
    torch.testing.assert_close(*jacobians)


@pytest.mark.slow
def test_forward_mode_ends_with_the_capture_that_fails_in_it() -> None:
    """torch.export of PyTorch 2.13 loses the tangent of a transposed matrix; the next route captures it."""

    def function(w: Tensor, x: Tensor) -> Any:
        return func.jvp(lambda w: torch.sin(x @ w.T), (w,), (w,))

    given = torch.randn(4, 5), torch.randn(3, 5)
    with suppress(CaptureError):
        fxc.capture(function, given)
    expected = function(*given)
    torch.testing.assert_close(fxc.compile(function, given, options={"fallback": False})(*given), expected)
