"""``torch.func`` transforms, and operators that Dynamo orders by effect tokens, by ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, func

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


@pytest.mark.share(3)
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
