"""``scan``, ``while_loop`` and ``cond``: in training, nested, with constants, and with operands that are one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils._pytree import tree_leaves

import fxc

Loop = Callable[[Tensor, Tensor], Any]
SCANS: dict[str, Loop] = {
    "carry read": lambda i, x: scan(lambda c, v: (c * 0.5 + v, (c * v).clone()), i, x),
    "carry returned": lambda i, x: scan(lambda c, v: (c * v + 1, (c.sin(), c.clone(), (c * v).cos())), i, x),
    "results are equal": lambda i, x: scan(lambda c, v: (c * v + 1, (c.sin(), c.sin())), i, x),
    "two carries": lambda i, x: scan(lambda c, v: ((c[0] * v, c[1] + c[0].tanh()), c[1] * c[0]), (i, i * 2), x),
    "no gradient of the carry": lambda i, x: scan(lambda c, v: (c * 0.9 + v, v.clone()), torch.zeros(4), x),
    "backwards": lambda i, x: scan(lambda c, v: (c.sigmoid() * v, c * 2), i, x, reverse=True),
    "carry and variable": lambda i, x: scan(lambda c, v: (c * i.sin() + v, c * v), i, x),
    "carry twice": lambda i, x: scan(lambda c, v: ((c[0] * c[1].sin() + v, c[1] + 1), c[0] * v), (i, i), x),
}
WHILE_LOOPS: dict[str, Loop] = {
    "while: variable": lambda i, x: while_loop(lambda n, c: n < 3, lambda n, c: (n + 1, c * i.sin() + 1), (torch.tensor(0), i)),
    "while: twice": lambda i, x: while_loop(
        lambda n, c, d: n < 3, lambda n, c, d: (n + 1, c * d.sin() + 1, d + c), (torch.tensor(0), i, i)
    ),
    "while: a view": lambda i, x: while_loop(
        lambda n, c, d: n < 3, lambda n, c, d: (n + 1, c * i.sin() + 1, d * 2), (torch.tensor(0), i.clone(), i[:3])
    ),
}


LONG = [0.5] * 5000
NESTED: dict[str, Loop] = {
    "scan in a scan": lambda i, x: scan(lambda c, v: (scan(lambda d, w: (d * w.sin(), d + w), c, x)[0] + v, c * v), i, x),
    "cond in a scan": lambda i, x: scan(
        lambda c, v: (torch.cond(c.sum() > 0, lambda a, b: a * b, lambda a, b: a - b, (c, v)), c * 2), i, x
    ),
}
CONSTANTS: dict[str, Loop] = {
    "constant in a scan": lambda i, x: scan(lambda c, v: (c * torch.tensor([2.0]), v + torch.tensor(1.0)), i, x),
    "constant in a cond": lambda i, x: torch.cond(
        i.sum() > 0, lambda a: a * torch.tensor([1.0, 2, 3, 4]), lambda a: a + torch.tensor(3.0), (i,)
    ),
    "long constant": lambda i, x: torch.cond(
        i.sum() > 0, lambda a: a + torch.tensor(LONG).sum(), lambda a: a - torch.tensor(LONG).sum(), (i,)
    ),
    "constant in a loop in a loop": lambda i, x: while_loop(
        lambda n, c: n < 2,
        lambda n, c: (n + 1, while_loop(lambda k, d: k < 2, lambda k, d: (k + 1, d * c.cos()), (torch.tensor(0), c))[1]),
        (torch.tensor(0), i),
    ),
}
ALL = {**SCANS, **WHILE_LOOPS, **NESTED, **CONSTANTS}


def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(4), torch.randn(6, 4)


def compiled(loop: Loop, route: str, training: bool) -> Loop:
    torch._dynamo.reset()
    if route == "fxc.compile":
        example = tuple(each.requires_grad_(training) for each in inputs())
        return fxc.compile(loop, example, training=training, options={"fallback": False})
    return torch.compile(loop, backend="fxc", dynamic=route == "dynamic")


@pytest.mark.share(2)
@pytest.mark.parametrize("route", ["fxc.compile", "torch.compile", "dynamic"])
@pytest.mark.parametrize("name", ALL)
def test_results(name: str, route: str) -> None:
    torch.testing.assert_close(compiled(ALL[name], route, training=False)(*inputs()), ALL[name](*inputs()))


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("route", ["fxc.compile", "torch.compile", "dynamic"])
@pytest.mark.parametrize("name", [*SCANS, *NESTED])
def test_gradients(name: str, route: str) -> None:
    def gradients(run: Loop) -> Any:
        given = tuple(each.requires_grad_() for each in inputs())
        results = [each for each in tree_leaves(run(*given)) if each.requires_grad]
        loss = sum((each.sin() * (place + 1)).sum() for place, each in enumerate(results))
        return results, torch.autograd.grad(loss, given, allow_unused=True)

    torch.testing.assert_close(gradients(compiled(ALL[name], route, training=True)), gradients(ALL[name]))
