"""Lazy conjugates, negatives and zeros: as inputs, weights, gradients, intermediates and results, they are eager's numbers."""

import operator
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import fxc

OF_COMPLEX: dict[str, Callable[[Tensor], Any]] = {
    "imaginary part of a conjugate": lambda z: z.conj().imag * 2,
    "imaginary part": lambda z: z.imag * 2,
    "both parts": lambda z: z.real - z.imag,
    "negative view": lambda z: torch._neg_view(z.imag) + 1,
    "conjugate": lambda z: z.conj() * 2,
    "as real": lambda z: torch.view_as_real(z.conj().resolve_conj()) * 2,
    "copy as real": lambda z: torch.view_as_real(z.conj().clone()) * 2,
    "product as real": lambda z: torch.view_as_real(z * z.conj()).sum(-1),
    "transposed": lambda z: (z.conj().mT.imag + 1, z.mH.real * 2),
    "physical": lambda z: z.conj_physical().imag * 3,
    "returned": lambda z: (z.conj(), z.conj().imag, z.imag),
    "returned and read": lambda z: (z.conj().imag, z.conj().imag.sum(0)),
    "rows": lambda z: z.conj().imag.softmax(-1),
    "product": lambda z: z.conj().imag @ z.imag.mT + 1,
    "overlapping": lambda z: z.conj().imag[:1].expand(3, 4) * 2 + z.conj().imag[:, 0].unfold(0, 2, 1).sum(),
}
OF_REAL: dict[str, Callable[[Tensor], Any]] = {
    "double": lambda x: x * 2,
    "sum": lambda x: x.sum(0),
    "returned": lambda x: (x, x.mT * 1),
    "product": lambda x: x @ torch.ones(4, 2) + 1,
    "negative": lambda x: torch._neg_view(x) * 2,
}


def complex_numbers(seed: int = 0) -> Tensor:
    return torch.randn(3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))


COMPLEX: dict[str, Callable[[], Tensor]] = {
    "plain": complex_numbers,
    "conjugate": lambda: complex_numbers().conj(),
    "conjugate in steps": lambda: torch.cat([complex_numbers()] * 2)[::2].conj(),
    "conjugate of a transpose": lambda: complex_numbers().mT.contiguous().mT.conj(),
    "zeros without memory": lambda: torch._efficientzerotensor((3, 4), dtype=torch.complex64),
}
REAL: dict[str, Callable[[], Tensor]] = {
    "negative": lambda: torch._neg_view(complex_numbers().real.clone()),
    "imaginary part": lambda: complex_numbers().conj().imag,
    "expanded": lambda: complex_numbers().conj().imag[:1].expand(3, 4),
    "zeros without memory": lambda: torch._efficientzerotensor((3, 4)),
    "expanded zeros without memory": lambda: torch._efficientzerotensor((1, 4)).expand(3, 4),
}


def saved(f: Callable[..., Any], *args: Tensor) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        fxc.compile(f, args).plan.save(Path(folder) / "plan")  # type: ignore[attr-defined]
        return fxc.ExecutionPlan.load(Path(folder) / "plan")


COMPILERS: dict[str, Callable[..., Any]] = {
    "compiled": lambda f, *args: fxc.compile(f, args),
    "saved": saved,
    "torch.compile": lambda f, *args: torch.compile(f, backend="fxc"),
    "dynamic": lambda f, *args: torch.compile(f, backend="fxc", dynamic=True),
}


def plain(value: Any) -> Any:
    return [plain(each) for each in value] if isinstance(value, (tuple, list)) else value.detach().resolve_conj().resolve_neg()


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.share(10)
@pytest.mark.parametrize("how", COMPILERS)
@pytest.mark.parametrize("kind", COMPLEX)
def test_functions_of_complex_tensors(kind: str, how: str) -> None:
    x = COMPLEX[kind]()
    for f in OF_COMPLEX.values():
        torch.testing.assert_close(plain(COMPILERS[how](f, x)(x)), plain(f(x)))


@pytest.mark.share(10)
@pytest.mark.parametrize("how", COMPILERS)
@pytest.mark.parametrize("kind", REAL)
def test_functions_of_negatives(kind: str, how: str) -> None:
    x = REAL[kind]()
    for f in OF_REAL.values():
        torch.testing.assert_close(plain(COMPILERS[how](f, x)(x)), plain(f(x)))


@pytest.mark.share(3)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", OF_COMPLEX)
def test_what_was_compiled_for_the_others(name: str, training: bool) -> None:
    """A program takes conjugates where its example was none, and the other way round; so do gradients."""
    f = OF_COMPLEX[name]
    example, other = complex_numbers().requires_grad_(training), complex_numbers(1).conj()
    for first, second in ((example, other), (other.detach().requires_grad_(training), complex_numbers(1))):
        given = second.detach().requires_grad_(training)
        made = fxc.compile(f, (first,), training=training)
        torch.testing.assert_close(plain(made(given)), plain(f(second)))


class Weighted(nn.Module):
    """What ``f`` gives of a weight, beside what is no view."""

    z: Tensor

    def __init__(self, f: Callable[[Tensor], Any], z: Tensor) -> None:
        super().__init__()
        self.f = f
        self.register_buffer("z", z)

    def forward(self, x: Tensor) -> Any:
        return x.nansum(0), self.f(self.z)


@pytest.mark.share(3)
@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize("name", OF_COMPLEX)
def test_frozen_weights(name: str, target: str | None) -> None:
    """What is returned is as lazy as eager's, though frozen weights are read as they are."""
    x = torch.ones(3)
    for kind in ("plain", "conjugate", "conjugate of a transpose"):
        model = Weighted(OF_COMPLEX[name], COMPLEX[kind]())
        found = fxc.compile(model, (x,), options={"freeze": True, "target": target})(x)
        expected = model(x)
        torch.testing.assert_close(plain(found), plain(expected))
        for a, b in zip(tree_leaves(found), tree_leaves(expected), strict=True):
            assert (a.is_conj(), a.is_neg()) == (b.is_conj(), b.is_neg())


@pytest.mark.slow
def test_gradients_of_lazy_inputs() -> None:
    f = OF_COMPLEX["returned and read"]

    def gradients(run: Callable[..., Any], x: Tensor) -> Tensor:
        lazy, summed = run(x)
        [found] = torch.autograd.grad((lazy * lazy).sum() + summed.exp().sum(), x)
        return found

    for kind in COMPLEX:
        x = COMPLEX[kind]().requires_grad_()
        expected = gradients(f, x)
        for run in (fxc.compile(f, (x,), training=True), torch.compile(f, backend="fxc")):
            torch.testing.assert_close(plain(gradients(run, x)), plain(expected))


GRADIENT_IS_ZERO: dict[str, Callable[[Tensor], Tensor]] = {
    "sgn": Tensor.sgn,
    "sgn of a transpose": lambda y: y.mT.sgn(),
    "sgn, expanded": lambda y: y.sgn().expand(2, *y.shape),
    "sgn, scaled": lambda y: (y * 2).sgn() * 3,
    "one of two": lambda y: torch.stack([y.sgn(), y[0] * y]),
}


@pytest.mark.parametrize("name", GRADIENT_IS_ZERO)
@pytest.mark.parametrize("how", ["host", "training", "torch.compile"])
def test_gradients_that_are_zeros_without_memory(how: str, name: str) -> None:
    after = GRADIENT_IS_ZERO[name]

    def f(x: Tensor) -> Tensor:
        return torch.log1p(x[:, [0, 2, 2]].abs()) * 2

    x = complex_numbers().real.clone().requires_grad_()
    options = {"target": "host"} if how == "host" else None
    run = torch.compile(f, backend="fxc") if how == "torch.compile" else fxc.compile(f, (x,), training=True, options=options)
    for _ in range(2):
        expected, found = (torch.autograd.grad(after(each(x)).sum(), x) for each in (f, run))
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("target", [None, "host"])
def test_second_derivatives_of_absolute_values(target: str | None) -> None:
    """The derivative of abs is made of a sgn, whose own derivative has no memory."""

    def functions() -> list[Callable[[Tensor], Tensor]]:
        return [
            lambda x: torch.log1p(x.gather(1, torch.zeros(3, 2, dtype=torch.int64)).abs()),
            lambda x: nn.functional.lp_pool1d(x.abs() + 0.5, 2, 1),
            lambda x: (v := torch.sqrt((x + x).abs() + 0.25).view(-1)) * v,
        ]

    x = complex_numbers().real.clone().requires_grad_()
    for f in functions():
        run = fxc.compile(f, (x,), training=True, options={"target": target} if target else None)
        second = []
        for each in (f, run):
            [first] = torch.autograd.grad(each(x).sum(), x, create_graph=True)
            second += [first, *torch.autograd.grad((first * first).sum(), x)]
        torch.testing.assert_close(second[2:], second[:2])


def double_and_add(x: Tensor) -> Tensor:
    x.mul_(2)
    return x + 1


def write_a_row(x: Tensor) -> Tensor:
    x[0] = 1.0
    return x.sum()


def add_the_sum(x: Tensor) -> Tensor:
    x.add_(x.sum(0))
    return x * 2


@pytest.mark.parametrize("fill", [lambda z, x: z.fill_(x), lambda z, x: operator.setitem(z, slice(0, 2), x)])
def test_a_complex_tensor_is_filled_with_a_real_number_that_requires_a_gradient(fill: Callable[[Tensor, Tensor], Any]) -> None:
    """PyTorch has no gradient for that; eager mode fails where one is used, AOTAutograd everywhere."""

    def function(z: Tensor, x: Tensor) -> Tensor:
        fill(z, x)
        return x * 2

    torch._dynamo.reset()
    x = torch.tensor(3.0, requires_grad=True)
    found, expected = torch.zeros(3, dtype=torch.complex64), torch.zeros(3, dtype=torch.complex64)
    result = torch.compile(function, backend="fxc")(found, x)
    assert torch.equal(result, function(expected, x)) and torch.equal(found, expected)
    assert torch.autograd.grad(result, x)[0] == 2


@pytest.mark.parametrize("how", ["compiled", "torch.compile", "dynamic"])
@pytest.mark.parametrize("lazy", [Tensor.conj, lambda z: z.conj().imag, lambda z: z.imag])
def test_writes_to_lazy_inputs(lazy: Callable[[Tensor], Tensor], how: str) -> None:
    for f in (double_and_add, write_a_row, add_the_sum):
        expected_base, base = complex_numbers(), complex_numbers()
        expected = f(lazy(expected_base))
        run = COMPILERS[how](f, lazy(complex_numbers()))
        torch.testing.assert_close(plain(run(lazy(base))), plain(expected))
        torch.testing.assert_close(base, expected_base)


class Lazy(nn.Module):
    """A buffer, and one that is its lazy conjugate or negative in the same memory."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self.register_buffer("kept", tensor)
        self.register_buffer("lazy", tensor.conj() if tensor.is_complex() else torch._neg_view(tensor))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        real = self.lazy.imag if self.lazy.is_complex() else self.lazy
        return self.lazy * x, self.kept * x, real @ torch.ones(4, 2) + 1


@pytest.mark.parametrize("real", [False, True])
def test_lazy_weights(real: bool) -> None:
    model, x = Lazy(complex_numbers().imag.clone() if real else complex_numbers()), torch.tensor(2.0)
    made = [saved(model, x), fxc.compile(model, (x,)), torch.compile(model, backend="fxc")]
    for run in (*made, fxc.compile(model, (x,), options={"freeze": True})):
        torch.testing.assert_close(plain(run(x)), plain(model(x)))


def test_strides_that_only_symbols_know() -> None:
    """Of parts of complex tensors the strides are symbols where the sizes are known: a program runs on other ones."""
    for f in (double_and_add, add_the_sum, lambda x: (x.softmax(0), x.sum(0), x.sum(1))):
        run = torch.compile(f, backend="fxc", dynamic=True)
        for base in (complex_numbers(), torch.randn(3, 7, dtype=torch.complex64), torch.randn(5, 4, dtype=torch.complex64)):
            lazy = base.clone().conj().imag
            torch.testing.assert_close(plain(run(lazy)), plain(f(base.clone().conj().imag)))
