"""Gradients through writes to intermediates: zero where something was written, kept elsewhere."""

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import fxc
from tests.fuzz.check import Function, check

MASK = torch.tensor([True, False, True, False])
INDEX = torch.tensor([2, 0])


def written(write: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        y = x * 1.0
        write(y)
        return y * 3

    return run


def set_item(*index: Any) -> Callable[[Tensor], None]:
    return lambda y: y.__setitem__(index if len(index) > 1 else index[0], 2.0)


WRITES: dict[str, Callable[[Tensor], Any]] = {
    "fill_diagonal": lambda y: y.fill_diagonal_(1.0),
    "fill_diagonal, wrapped": lambda y: y.fill_diagonal_(1.0, wrap=True),
    "fill_diagonal of a view": lambda y: y.view(-1)[1:5].view(2, 2).fill_diagonal_(1.0) if y.is_contiguous() else y,
    "fill_diagonal of a slice": lambda y: y[:2, :2, ...].fill_diagonal_(0.0) if y.dim() == 2 else y[0].fill_diagonal_(0.0),
    "diagonal": lambda y: y.diagonal(0, -2, -1).fill_(2.0),
    "offset diagonal": lambda y: y.diagonal(1, -2, -1).zero_(),
    "masked_fill": lambda y: y.masked_fill_(y > 0.3, 1.0),
    "index_fill": lambda y: y.index_fill_(0, INDEX, 1.0),
    "row": set_item(0),
    "column": set_item(..., 1),
    "block": set_item(slice(1, 3), slice(0, 2)),
    "steps": set_item(slice(None, None, 2)),
    "places": set_item(INDEX),
    "as_strided": lambda y: y.as_strided((2, 2), (3, 1), 1).mul_(2.0),
    "transposed": lambda y: y.mT[0].add_(2.0),
    "copy": lambda y: y[1].copy_(torch.arange(float(y.shape[-1])).sin()),
}
SHAPES: dict[str, tuple[int, ...]] = {"square": (4, 4), "tall": (7, 3), "wide": (3, 5), "cube": (3, 3, 3)}


@pytest.mark.share(12)
@pytest.mark.parametrize("how", ["training", "training on the host", "torch.compile"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", WRITES)
def test_gradients_through_writes(name: str, shape: str, how: str) -> None:
    if name.startswith("fill_diagonal, wrapped") and shape == "cube":
        pytest.skip("wrapping is for matrices")
    f = written(WRITES[name])
    turned = torch.randn(SHAPES[shape][::-1]).permute(*reversed(range(len(SHAPES[shape]))))
    refused = how == "torch.compile" and ("fill_diagonal" in name or name == "as_strided")  # by AOTAutograd, of turned tensors
    for x in (torch.randn(SHAPES[shape]), *([] if refused else [turned])):
        x.requires_grad_()
        if how == "torch.compile":
            torch._dynamo.reset()
            compiled = torch.compile(f, backend="fxc")
        else:
            options = {"target": "host"} if how == "training on the host" else {}
            compiled = fxc.compile(f, (x,), training=True, options=options)
        result, expected = compiled(x), f(x)
        torch.testing.assert_close(result, expected)
        weights = torch.randn(expected.shape)
        [found], [right] = (torch.autograd.grad((y * weights).sum(), x) for y in (result, expected))
        torch.testing.assert_close(found, right)


def copied(x: Tensor) -> Tensor:
    y = 0.5 * x
    y.copy_(x)
    return y


def filled(x: Tensor) -> Tensor:
    y = torch.where(x > 0, x, -x)
    y[...] = y
    return y


def spread(x: Tensor) -> Tensor:
    y = x.new_zeros(2, *x.shape)
    y.copy_(x)
    return y


def cast(x: Tensor) -> Tensor:
    y = x.double() * 2
    y.copy_(x)
    return y


def turned_over(x: Tensor) -> Tensor:
    y = torch.empty_like(x, memory_format=torch.contiguous_format).permute(tuple(range(x.dim()))[::-1])
    y.copy_(x.permute(tuple(range(x.dim()))[::-1]))
    return y


@pytest.mark.share(4)
@pytest.mark.parametrize("route", ["training", "training_host"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
@pytest.mark.parametrize("f", [copied, filled, spread, cast, turned_over])
def test_gradients_through_copies_of_whole_tensors(f: Function, shape: tuple[int, ...], route: str) -> None:
    def inputs() -> list[Tensor]:
        return [torch.linspace(-1, 2, math.prod(shape)).reshape(shape).requires_grad_()]

    check(route, lambda x: [f(x)], inputs)


def has_right_gradient(f: Function, x: Tensor, target: str | None) -> None:
    compiled = fxc.compile(f, (x,), training=True, options={"target": target})
    result, expected = compiled(x), f(x)
    torch.testing.assert_close(result, expected)
    weights = torch.randn(expected.shape)
    [found], [right] = (torch.autograd.grad((y * weights).sum(), x) for y in (result, expected))
    torch.testing.assert_close(found, right)


READS: dict[str, Callable[[Tensor], Tensor]] = {
    "of an input": lambda x: x.as_strided((3,), (2,), 4) * 2,
    "of a copy": lambda x: (x * 2).as_strided((3,), (2,), 4).sin(),
    "of a slice": lambda x: (x * 2)[1:].as_strided((3,), (2,), 4).sin(),
    "of a row": lambda x: (x * 2)[2].as_strided((2, 2), (2, 1), 1) * x[0, :1],
    "without an offset": lambda x: (x * 2)[1:].as_strided((3,), (2,)).sin(),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize("name", READS)
def test_gradients_of_as_strided(name: str, target: str | None) -> None:
    """An offset counts from where the storage starts, not the tensor."""
    f = READS[name]
    storage = torch.randn(60)
    for x in (storage.view(5, 12)[:, :4], storage.view(5, 4, 3)[..., 1], storage[7:27].view(5, 4)):
        x = x.detach().requires_grad_()
        has_right_gradient(f, x, target)


COMPLEX_WRITES: dict[str, Callable[[Tensor], Any]] = {
    **{name: WRITES[name] for name in ("row", "column", "block", "steps", "transposed", "fill_diagonal", "as_strided")},
    "slice of zeros": lambda y: y[2:].zero_(),
    "no row": lambda y: y[4:].zero_(),
    "row of zeros": lambda y: y[1].zero_(),
    "scaled column": lambda y: y[:, -1].mul_(2j),
    "zeros": lambda y: y.zero_(),
    "conjugated row": lambda y: y.conj()[0].mul_(1j),
    "conjugated column": lambda y: y.mH[0].mul_(2 + 1j),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize("name", COMPLEX_WRITES)
def test_gradients_through_writes_to_complex_tensors(name: str, target: str | None) -> None:
    def f(x: Tensor) -> Tensor:
        y = x.to(torch.complex64) * (1 + 2j)
        COMPLEX_WRITES[name](y)
        return torch.view_as_real(y * y)

    x = torch.randn(4, 4).requires_grad_()
    has_right_gradient(f, x, target)


FILLS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "fill_": lambda y, x: y.fill_(x),
    "masked_fill_": lambda y, x: y.masked_fill_(y > 1, x),
    "index_fill_": lambda y, x: y.index_fill_(0, INDEX, x),
    "all": lambda y, x: operator.setitem(y, ..., x),
    "rows": lambda y, x: operator.setitem(y, slice(0, 2), x),
    "where": lambda y, x: operator.setitem(y, y > 1, x),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("route", ["static", "training", "training_host", "compile", "dynamic"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.bool])
@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
def test_integer_tensors_have_no_gradient(fill: Callable[[Tensor, Tensor], object], dtype: torch.dtype, route: str) -> None:
    """After PyTorch's fill they require one; the number still has its gradient by other ways."""

    def f(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        fill(y, x.sum())
        return (x * 3,)

    check(route, f, lambda: [torch.tensor([2.0, 3.0], requires_grad=True), torch.arange(4).to(dtype)])
