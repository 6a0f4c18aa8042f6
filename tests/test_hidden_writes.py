"""Writes that autograd does not see: eager's values and gradients, or an error; never the gradient of another value."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import fxc

HIDDEN = "autograd does not see that it is written|the gradient of what was written would be lost"


def half_of_chunk(x: Tensor) -> Tensor:
    y = x * 1
    torch.unsafe_chunk(y, 2)[0].mul_(2)
    return y * y


def whole_of_chunk(x: Tensor) -> Tensor:
    y = x * 1
    p = torch.unsafe_chunk(y, 2)
    y.mul_(2)
    return p[0] * p[0]


def split(x: Tensor) -> Tensor:
    y = x * 1
    torch.unsafe_split(y, 2)[1].neg_()
    return y.sin()


def two_chunks(x: Tensor) -> Tensor:
    y = x * 1
    p, q = torch.unsafe_chunk(y, 2), torch.unsafe_chunk(y, 2)
    p[0].mul_(2)
    return q[0] * q[0]


def unsafe_view(x: Tensor) -> Tensor:
    y = x * 1
    torch.ops.aten._unsafe_view(y, [2, 2]).mul_(2)
    return y * y


def detached(x: Tensor) -> Tensor:
    y = x * 1
    y.detach().mul_(3)
    return y


def detached_view(x: Tensor) -> Tensor:
    y = x * 1
    y[1:].detach()[:2].add_(1)
    return y[:2] * 2


def data(x: Tensor) -> Tensor:
    y = x * 1
    y.data.mul_(3)
    return y


def data_of_input(x: Tensor) -> Tensor:
    x.data.clamp_(0, 2)
    return x * x


def without_gradients(x: Tensor) -> Tensor:
    y = x * 1
    with torch.no_grad():
        y.mul_(3)
    return y


def view_without_gradients(x: Tensor) -> Tensor:
    y = x * 1
    with torch.no_grad():
        y[:2].mul_(3).add_(1)
    return y * y


def gains(x: Tensor) -> Tensor:
    y = torch.ones(4)
    y.detach().mul_(x)
    return y + x


def detached_of_a_gradient(x: Tensor) -> Tensor:
    y = (x * 2).detach()
    y[1:].mul_(x[1:])
    return y * 3


def detached_constant(x: Tensor) -> Tensor:
    made = torch.zeros(4).detach()
    made[2] = x.sum()
    return made


def read_by_the_caller(x: Tensor) -> Tensor:
    y = x + 1
    x.detach().mul_(3)
    return y


def view_read_by_the_caller(x: Tensor) -> Tensor:
    v = x[:2]
    with torch.no_grad():
        v.mul_(3)
    return torch.ones(4)


def data_read_by_the_caller(x: Tensor) -> Tensor:
    x.data.mul_(3)
    return torch.ones(4)


REFUSED = [
    read_by_the_caller, view_read_by_the_caller, data_read_by_the_caller,
    detached_of_a_gradient, detached_constant,
    half_of_chunk, whole_of_chunk, split, two_chunks, unsafe_view, detached, detached_view, data, data_of_input,
    without_gradients, view_without_gradients, gains,
]  # fmt: skip


@pytest.mark.share(2)
@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize("f", REFUSED)
def test_what_autograd_does_not_see_is_refused(f: Callable[[Tensor], Tensor], target: str | None) -> None:
    x = torch.tensor([1.0, 2, 3, 4])
    with pytest.raises(fxc.errors.FxcError, match=HIDDEN):
        fxc.compile(f, (x.clone().requires_grad_(),), training=True, options={"target": target})
    assert torch.equal(fxc.compile(f, (x.clone(),))(x.clone()), f(x.clone()))  # where no gradient is wanted


@pytest.mark.parametrize("is_leaf", [True, False])
@pytest.mark.parametrize("f", REFUSED)
def test_in_parts_it_is_as_in_eager(f: Callable[[Tensor], Tensor], is_leaf: bool) -> None:
    """And so is what the caller computes of the input afterwards."""

    def made() -> tuple[Tensor, Tensor]:
        leaf = torch.tensor([1.0, 2, 3, 4], requires_grad=True)
        return leaf, leaf if is_leaf else leaf * 1

    torch._dynamo.reset()
    with pytest.warns(fxc.errors.FallbackWarning, match=HIDDEN):
        compiled = fxc.compile(f, made()[1:], training=True, options={"fallback": True})
    found = list[list[Tensor]]()
    for run in (f, compiled):
        leaf, x = made()
        result = run(x)
        total = (x * torch.tensor([1.0, 10, 100, 1000])).sum() + (result * 7).sum()
        found.append([x, result, *torch.autograd.grad(total, leaf)])
    for got, wanted in zip(found[1], found[0], strict=True):
        assert got.requires_grad == wanted.requires_grad
        assert torch.equal(got, wanted)


def test_an_example_without_gradients_may_be_followed_by_one_with() -> None:
    with pytest.raises(fxc.errors.FxcError, match=HIDDEN):
        fxc.compile(detached, (torch.ones(4),), training=True)


def detach_is_read(x: Tensor) -> Tensor:
    y = x * 1
    d = y.detach()
    y.mul_(3)
    return d * y


def detach_is_returned(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 1
    z = y.exp() * 2
    d = z.detach()
    d.mul_(3)
    return d, y


def piece_alone(x: Tensor) -> Tensor:
    p = torch.unsafe_chunk(x * 1, 2)
    p[0].mul_(2)
    return p[0] * p[1]


def fresh_without_gradients(x: Tensor) -> Tensor:
    with torch.no_grad():
        scale = x.abs().clone()
        scale.clamp_(1, 3)
    return x * scale


def indices(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 1
    z = y + x
    with torch.no_grad():
        y[0] = 9
    return z, y.argmax()


def detached_in_place(x: Tensor) -> Tensor:
    y = x * 1
    y.detach_()
    y.mul_(2)
    return y + x


def constant_is_written(x: Tensor) -> Tensor:
    made = torch.tensor([0.5, -1.0, 2.0])
    made.view(-1).sub_(x.sum())
    return made


def view_of_what_is_detached_in_place(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    v = y[1:]
    y.detach_()
    return v * 3, y


def element_of_constant_is_written(x: Tensor) -> tuple[Tensor, Tensor]:
    made = torch.tensor([0.0, 0.0])
    made[1] = x.sum()
    return made, made.detach() + made


def detached_in_place_and_written(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    z = y * 3
    y.detach_()
    y.view(-1).mul_(x)
    return y, z


class Average(nn.Module):
    """A running mean, written under ``no_grad`` and read where gradients are on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.scale = nn.Parameter(torch.linspace(1, 2, 4))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.mean.mul_(0.5).add_(x, alpha=0.5)
        return (x - self.mean) * self.scale


@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize(
    "f",
    [
        detach_is_read,
        detach_is_returned,
        piece_alone,
        fresh_without_gradients,
        indices,
        detached_in_place,
        constant_is_written,
        element_of_constant_is_written,
        detached_in_place_and_written,
        view_of_what_is_detached_in_place,
        Average,
    ],
)
def test_what_is_right_all_the_same(f: Callable[[Tensor], object] | type[nn.Module], target: str | None) -> None:
    x = torch.tensor([1.0, 2, 3, 4])
    found = list[list[Tensor]]()
    for is_compiled in (False, True):
        own = x.clone().requires_grad_()
        run = f() if isinstance(f, type) else f
        if is_compiled:
            run = fxc.compile(run, (own,), training=True, options={"target": target})
        results = run(own)
        results = results if isinstance(results, tuple) else (results,)
        total = sum(result.sum() for result in results if result.requires_grad)
        assert isinstance(total, Tensor)
        found.append([*results, *torch.autograd.grad(total, own)])
    for got, wanted in zip(found[1], found[0], strict=True):
        assert got.requires_grad == wanted.requires_grad
        torch.testing.assert_close(got, wanted)


def data_assigned(x: Tensor) -> Tensor:
    y = x * 1
    y.data = x * 3
    return y


class Assigned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.weight.data = x.detach() * 2
        return self.weight * x


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("route", ["export", "make_fx", None])
@pytest.mark.parametrize("f", [data_assigned, Assigned])
def test_data_that_is_assigned_is_refused(
    f: Callable[[Tensor], Tensor] | type[nn.Module], route: str | None, training: bool
) -> None:
    x = torch.ones(4, requires_grad=training)
    model = f() if isinstance(f, type) else f
    with pytest.raises(fxc.errors.CaptureError, match="assigns to the data of a tensor"):
        if route is None:
            fxc.compile(model, (x,), training=training)
        else:
            fxc.capture(model, (x,), route=route)
    if isinstance(model, Assigned):
        assert torch.equal(model.weight, torch.ones(4))
