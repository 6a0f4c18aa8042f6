"""Results whose elements share memory: gradients of them are added up, and none is lost."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import fxc

OVERLAPPING: dict[str, Callable[[Tensor], Tensor]] = {
    "unfold": lambda x: torch.sin(x).unfold(1, 3, 2),
    "unfold by one": lambda x: torch.sin(x).unfold(1, 3, 1),
    "unfold transposed": lambda x: torch.sin(x).mT.unfold(0, 4, 3),
    "expand": lambda x: torch.sin(x)[:, :1].expand(-1, 5),
    "as_strided": lambda x: torch.sin(x).as_strided((3, 3), (1, 1)),
    "twice": lambda x: torch.sin(x).unfold(1, 4, 2).unfold(2, 2, 1),
    "view of it": lambda x: torch.sin(x).unfold(1, 3, 2)[:, 1:].mT,
    "apart": lambda x: torch.sin(x).unfold(1, 3, 3),
}


@pytest.mark.parametrize("how", ["training", "training on the host", "torch.compile"])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("name", OVERLAPPING)
def test_gradients_of_overlapping_results(name: str, rows: int, how: str) -> None:
    f, x = OVERLAPPING[name], torch.randn(rows, 8, requires_grad=True)
    if how == "torch.compile":
        torch._dynamo.reset()
        compiled = torch.compile(f, backend="fxc")
    else:
        compiled = fxc.compile(f, (x,), training=True, options={"target": "host"} if "host" in how else {})
    result, expected = compiled(x), f(x)
    torch.testing.assert_close(result, expected)
    weights = torch.randn(expected.shape)
    [found], [right] = (torch.autograd.grad(y, x, weights) for y in (result, expected))
    torch.testing.assert_close(found, right)
