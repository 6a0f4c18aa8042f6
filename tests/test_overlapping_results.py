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


@pytest.mark.share(3)
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


SCATTERS: dict[str, Callable[[Tensor], Tensor]] = {
    "select": lambda t: torch.select_scatter(t, t.select(1, 0) + 1, 1, -1),
    "slice": lambda t: torch.slice_scatter(t, t[:1] + 1, 0, 0, 1),
    "diagonal": lambda t: torch.diagonal_scatter(t, t.diagonal() + 1),
    "read on": lambda t: torch.select_scatter(t, t.select(1, 0) + 1, 1, -1).mul(2.0).sum(1),
    "diagonal, read on": lambda t: torch.diagonal_scatter(t, t.diagonal() + 1).mul(2.0).sum(1),
    "copies": lambda t: t.clone() + torch.zeros_like(t),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("how", ["compiled", "torch.compile", "dynamic"])
@pytest.mark.parametrize("name", SCATTERS)
def test_copies_of_overlapping_tensors(name: str, how: str) -> None:
    """A copy with other elements keeps the strides, so that elements share memory as they do in eager."""
    x = torch.arange(7.0)
    for view in (lambda x: x.unfold(0, 3, 1), lambda x: x[:3, None].expand(3, 4)):
        f = lambda x, view=view: SCATTERS[name](view(x))  # noqa: E731
        torch._dynamo.reset()
        run = fxc.compile(f, (x,)) if how == "compiled" else torch.compile(f, backend="fxc", dynamic=how == "dynamic")
        torch.testing.assert_close(run(x), f(x), check_stride=True)
