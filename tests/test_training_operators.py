"""Operators under ``training=True`` where fakes, shapes or dtypes are special: values, strides and gradients as in eager."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import Dim
from torch.testing import assert_close

import fxc
from tests.fuzz.check import Function, NotCounted, check
from tests.fuzz.outcome import run

ROUTES = ("static", "training", "training_host")


def line(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.linspace(-1, 1.5, math.prod(sizes)).sin().reshape(sizes).to(dtype)


def compare(f: Function, inputs: Callable[[], list[Tensor]], routes: Sequence[str] = ROUTES) -> None:
    """All routes must do what eager does; skips what eager does not run."""

    def learning() -> list[Tensor]:
        return [value.requires_grad_(value.is_floating_point()) for value in inputs()]

    counted = 0
    for route in routes:
        try:
            check(route, lambda *args: [f(*args)], inputs if route == "static" else learning)
            counted += 1
        except NotCounted:  # it runs, but has no gradient
            continue
    if not counted:
        pytest.skip("eager does not run it")


# indices of values that no gradient reaches


def turned(x: Tensor) -> Tensor:
    y = x.rot90(2, (0, 1))
    y.unsqueeze(0).masked_fill_(x > 1, 0)
    return y.sort(dim=2, stable=True, descending=True).indices


@pytest.mark.parametrize(
    ("f", "sizes"),
    [
        (turned, (1, 1, 1)),
        (lambda x: torch.argmax(x.flip(0).mul(2).floor() + x, 0), (5, 3)),
        (lambda x: (x * 2 + 1).topk(2).indices, (5, 3)),
        (lambda x: x.exp().cummax(1).indices, (5, 3)),
    ],
)
def test_indices_of_what_requires_a_gradient(f: Function, sizes: tuple[int, ...]) -> None:
    compare(f, lambda: [line(*sizes)])


# losses of two dtypes

LOSSES: dict[str, Callable[..., Tensor]] = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth_l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "soft_margin": F.soft_margin_loss,
    "kl_div": F.kl_div,
    "with_logits": F.binary_cross_entropy_with_logits,
    "poisson": F.poisson_nll_loss,
}
DTYPES = [
    (torch.bfloat16, torch.float32),
    (torch.float32, torch.bfloat16),
    (torch.float32, torch.float64),
    (torch.float64, torch.float32),
]


@pytest.mark.share(16)
@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("sizes", [(), (2, 3)], ids=str)
@pytest.mark.parametrize("dtypes", DTYPES, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_two_dtypes(
    name: str, dtypes: tuple[torch.dtype, torch.dtype], sizes: tuple[int, ...], reduction: str
) -> None:
    def f(x: Tensor, target: Tensor) -> Tensor:
        return LOSSES[name](x, target, reduction=reduction) * 2

    def inputs() -> list[Tensor]:
        return [line(2, 3, dtype=dtypes[0]), line(*sizes, dtype=dtypes[1]).abs()]

    compare(f, inputs, ("static", "training_host"))


@pytest.mark.parametrize("name", ["huber", "soft_margin"])
def test_losses_of_two_dtypes_under_torch_compile(name: str) -> None:
    check("compile", lambda x, y: [LOSSES[name](x, y, reduction="none")], lambda: [line(3, dtype=torch.bfloat16), line(3)])


# strides of batch norms

TURNED: dict[str, Callable[[], Tensor]] = {
    "rows": lambda: line(3, 2).T,
    "signals": lambda: line(3, 2, 4).permute(1, 0, 2),
    "images": lambda: line(4, 3, 2, 5).permute(2, 1, 0, 3),
    "channels_last": lambda: line(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
}


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("name", TURNED)
def test_batch_norms_of_turned_tensors(name: str, running: bool) -> None:
    def f(x: Tensor) -> Tensor:
        statistics = (torch.zeros(3), torch.ones(3)) if running else (None, None)
        return F.batch_norm(x, *statistics, training=True, eps=0.1)

    compare(f, lambda: [TURNED[name]()])
    check("compile", lambda x: [f(x)], lambda: [TURNED[name]().requires_grad_()])


# empty batches

LAYERS: dict[str, Callable[[Tensor], Tensor]] = {
    "group_norm": lambda x: F.group_norm(x, 1, eps=0.1),
    "group_norm of groups": lambda x: F.group_norm(x, 2, torch.ones(x.shape[1]), torch.ones(x.shape[1])),
    "instance_norm": lambda x: F.instance_norm(x),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:], torch.ones(x.shape[-1])),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])),
    "linear": lambda x: F.linear(x, torch.ones(3, x.shape[-1]), torch.ones(3)),
    "conv1d": lambda x: F.conv1d(x, torch.ones(3, x.shape[1], 1), torch.ones(3)),
    "conv2d": lambda x: F.conv2d(x, torch.ones(3, x.shape[1], 2, 2), torch.ones(3), padding=1),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2),
    "interpolate, bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "softmax": lambda x: x.softmax(-1),
}


@pytest.mark.share(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sizes", [(0, 2), (0, 2, 3), (0, 4, 2, 2), (2, 2, 0)], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_nothing(name: str, sizes: tuple[int, ...]) -> None:
    compare(lambda x: LAYERS[name](x) * 2, lambda: [line(*sizes)])


# gradients of free sizes


def scattered(x: Tensor) -> Tensor:
    y = x.select_scatter(torch.zeros_like(x.select(0, 0)), 0, -1)
    return y @ torch.ones(y.shape[-1], 1)


def twice_read(x: Tensor) -> Tensor:
    return (x @ torch.ones(x.shape[-1], 2)).sum(-1) * x.sin().sum(-1)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("options", [{}, {"target": "host"}])
@pytest.mark.parametrize("f", [scattered, twice_read])
def test_gradients_of_equal_free_sizes(f: Function, options: dict[str, str]) -> None:
    m, n = Dim("m"), Dim("n")
    shapes = ({0: m, 1: m, 2: n},)
    compiled = fxc.compile(f, (line(4, 4, 3).requires_grad_(),), training=True, dynamic_shapes=shapes, options=options)
    for sizes in ((4, 4, 3), (5, 5, 2)):
        found, expected = (run(lambda x, g=g: [g(x)], [line(*sizes).requires_grad_()], 1) for g in (compiled, f))
        assert_close(found.results, expected.results)
        assert_close(found.gradients, expected.gradients)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("(s0**2)//s0", "s0"),
        ("FloorDiv(2*s0**2*s1, s0)", "2*s0*s1"),
        ("(s0**2 + s0)//s0", "s0 + 1"),
        ("(s0*(s1//2))//s0", "(s1//2)"),
        ("(s0**2 + 1)//s0", "((s0**2 + 1)//s0)"),
        ("(s0**2)//(2*s0)", "((s0**2)//(2*s0))"),
        ("(u0**2)//u0", "((u0**2)//u0)"),
    ],
)
def test_divisions_without_a_rest_are_no_divisions(text: str, plain: str) -> None:
    from fxc.bridge.expressions import canonical

    assert canonical(text) == plain


@pytest.mark.parametrize("target", [None, "host"])
@pytest.mark.parametrize("name", ["var", "std", "var_mean"])
def test_the_derivative_of_a_variance_of_few_rows_divides_by_zero(name: str, target: str | None) -> None:
    """C++ divides numbers by 0 where Python raises: the gradient of one row is NaN."""

    def function(x: Tensor) -> Tensor:
        found = getattr(torch, name)(x, 0)
        return found if isinstance(found, Tensor) else found[0]

    x = torch.randn(5, 2, requires_grad=True)
    free = ({0: Dim("n")},)
    compiled = fxc.compile(function, (x,), training=True, dynamic_shapes=free, options={"target": target})
    for rows in (4, 2, 1, 0):
        gradients = list[Tensor]()
        for each in (function, compiled):
            given = torch.arange(2.0 * rows).reshape(rows, 2).requires_grad_()
            gradients += torch.autograd.grad(each(given).sum(), given)
        assert_close(gradients[1], gradients[0], equal_nan=True)


@pytest.mark.slow
def test_a_derivative_that_takes_sizes_of_its_gradients() -> None:
    """That of a decomposition of any size: the operator remains, and is not replaced by itself."""

    def function(x: Tensor) -> Tensor:
        return torch.linalg.matrix_norm(x, "nuc")

    example, x = (torch.randn(size, requires_grad=True) for size in ((2, 4, 3), (3, 7, 5)))
    compiled = fxc.compile(function, (example,), training=True, dynamic_shapes=((Dim.AUTO,) * 3,))
    results = compiled(x), function(x)
    assert_close(*results)
    assert_close(*(torch.autograd.grad(result.sin().sum(), x) for result in results))
