"""Pooling of small windows by kernels against eager: windows, layouts, dtypes, special values, and what stays PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import fxc
from fxc.runtime.plan import Plan
from tests.fuzz.check import check

HOST: dict[str, Any] = {"target": "host"}
SIZES: Mapping[int, tuple[int, ...]] = {1: (2, 3, 13), 2: (2, 3, 9, 13), 3: (1, 2, 5, 6, 9)}
WINDOWS: tuple[dict[str, Any], ...] = (
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 1},
    {"kernel_size": 2, "stride": 3},
    {"kernel_size": 2, "padding": 1},
)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def agree(function: Callable[..., torch.Tensor], x: torch.Tensor, *, kernels_only: bool = True) -> Plan:
    compiled = fxc.compile(function, (x,), options=HOST)
    actual, expected = compiled(x), function(x)
    torch.testing.assert_close(actual, expected, equal_nan=True)
    assert actual.stride() == expected.stride()
    assert (compiled.plan.stats.library_calls == 0) == kernels_only
    return compiled.plan


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("name", ["max_pool", "avg_pool"])
def test_windows(name: str, dims: int, dtype: torch.dtype) -> None:
    pool = getattr(F, f"{name}{dims}d")
    if name == "avg_pool" and dims == 3 and dtype in (torch.float16, torch.bfloat16):
        pytest.skip("PyTorch has no such operator")
    for window in WINDOWS:
        small = window["kernel_size"] ** dims <= 25
        agree(lambda x, window=window: pool(x.neg(), **window), torch.randn(SIZES[dims], dtype=dtype), kernels_only=small)


@pytest.mark.parametrize("window", [(2, 3), (3, 1), (1, 5), (5, 5)])
def test_other_windows_along_each_dimension(window: tuple[int, int]) -> None:
    x = torch.randn(2, 3, 11, 12)
    agree(lambda x: F.max_pool2d(x, window, stride=(3, 1), padding=(0, window[1] // 2)), x)
    agree(lambda x: F.avg_pool2d(x, window, stride=(2, 2), padding=(window[0] // 2, 0)), x)


@pytest.mark.parametrize("length", range(6, 12))
def test_windows_that_reach_behind_the_end(length: int) -> None:
    agree(lambda x: F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True), torch.randn(1, 2, length, length + 1))
    agree(lambda x: F.max_pool2d(x, 2, stride=2, dilation=2), torch.randn(1, 2, length, length + 1))


def test_without_batches() -> None:
    agree(lambda x: F.max_pool2d(x, 2), torch.randn(3, 6, 7))
    agree(lambda x: F.avg_pool1d(x, 2), torch.randn(3, 6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_images_in_channels_last(dtype: torch.dtype) -> None:
    x = torch.randn(2, 5, 8, 9, dtype=dtype).to(memory_format=torch.channels_last)
    agree(lambda x: F.max_pool2d(x.relu(), 3, 2, 1) + 1, x)
    agree(lambda x: F.avg_pool2d(x.relu(), 3, 2, 1) + 1, x)
    agree(lambda x: F.max_pool2d(x, 2), torch.randn(5, 2, 9, 8, dtype=dtype).permute(1, 0, 3, 2), kernels_only=False)


def test_special_values() -> None:
    x = torch.randn(1, 1, 8, 8)
    x[0, 0, 0, 0], x[0, 0, 3, 3], x[0, 0, 5:, 5:], x[0, 0, 0, 7] = math.nan, math.inf, -math.inf, -0.0
    agree(lambda x: F.max_pool2d(x, 3, 2, 1), x)
    agree(lambda x: F.avg_pool2d(x, 3, 2, 1), x)


@pytest.mark.parametrize("divisor", [1, 5, -2])
def test_other_divisors(divisor: int) -> None:
    agree(lambda x: F.avg_pool2d(x, 2, padding=1, divisor_override=divisor), torch.randn(2, 3, 6, 6))


@pytest.mark.parametrize("given", [(1, 1), (4, 2), (8, 8), (2, None)])
@pytest.mark.parametrize("size", [8, 16])
def test_means_of_equal_pieces(given: tuple[int, int | None], size: int) -> None:
    x = torch.randn(2, 3, size, 8)
    agree(lambda x: F.adaptive_avg_pool2d(x.relu(), given), x)


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True),
        lambda x: F.max_pool2d(x, 7),
        lambda x: F.max_pool2d(x, 1, 2),
        lambda x: F.adaptive_avg_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 3, padding=1, dilation=2, return_indices=True)[1],
        lambda x: F.max_pool2d(x, 7, return_indices=True)[1],
    ],
)
def test_what_stays(pool: Callable[[torch.Tensor], torch.Tensor]) -> None:
    agree(pool, torch.randn(1, 2, 9, 9), kernels_only=False)


def test_windows_without_padded_elements_count_all() -> None:
    agree(lambda x: F.avg_pool2d(x, 3, count_include_pad=False), torch.randn(1, 2, 9, 9))


def agree_on_places(x: torch.Tensor, dims: int, **window: Any) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value, place = getattr(F, f"max_pool{dims}d")(x, **window, return_indices=True)
        return value, place

    compiled = fxc.compile(function, (x,), options=HOST)
    actual, expected = compiled(x), function(x)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    assert [each.stride() for each in actual] == [each.stride() for each in expected]
    assert compiled.plan.stats.library_calls == 0


@pytest.mark.slow
@pytest.mark.share(5)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_places_of_maxima(dims: int, dtype: torch.dtype) -> None:
    for window in (*WINDOWS, {"kernel_size": 2, "stride": 1, "dilation": 2}):
        if window["kernel_size"] ** dims <= 25:
            agree_on_places(torch.randn(SIZES[dims], dtype=dtype), dims, **window)
            agree_on_places(torch.randint(-1, 2, SIZES[dims]).to(dtype), dims, **window)


@pytest.mark.parametrize("length", range(6, 10))
def test_places_of_maxima_behind_the_end_and_in_channels_last(length: int) -> None:
    x = torch.randint(-2, 3, (2, 3, length, length + 1)).float()
    agree_on_places(x, 2, kernel_size=3, stride=2, padding=1, ceil_mode=True)
    agree_on_places(x.to(memory_format=torch.channels_last), 2, kernel_size=(2, 3), stride=(1, 2), padding=(0, 1))


@pytest.mark.parametrize("fill", [-math.inf, math.nan, math.inf, -0.0])
def test_places_of_special_values(fill: float) -> None:
    x = torch.full((1, 2, 7, 7), fill)
    x[0, 1, 1:4, 2], x[0, 1, 5, 5], x[0, 1, 6, 6], x[0, 1, 0, 0] = math.nan, -math.inf, 0.0, math.inf
    agree_on_places(x, 2, kernel_size=3, stride=2, padding=1)
    agree_on_places(x, 2, kernel_size=3, stride=1)


def test_integers_and_unknown_sizes_stay() -> None:
    agree(lambda x: F.max_pool2d(x, 2), torch.randint(-9, 9, (1, 2, 6, 6)), kernels_only=False)
    compiled = torch.compile(lambda x: F.max_pool2d(x.relu(), 2), backend="fxc", dynamic=True)
    for size in (6, 9):
        x = torch.randn(1, 2, size, size + 1)
        torch.testing.assert_close(compiled(x), F.max_pool2d(x.relu(), 2))


UNKNOWN: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "channels": lambda x: F.max_pool1d(x[:, ::2], 2, stride=3),
    "one row after another": lambda x: F.max_pool1d(x, 2, stride=3),
    "windows of one": lambda x: F.max_pool1d(x[:, 1:], 1, stride=2),
    "turned": lambda x: F.max_pool1d(x.transpose(0, 1), 2),
    "strides": lambda x: F.max_pool1d(x.unfold(-1, 4, 1)[:, 1, ::2], 2, stride=3),
    "places": lambda x: F.max_pool1d(x[:, ::2], 2, stride=3, return_indices=True)[1] * x.sum(),
    "means": lambda x: F.avg_pool1d(x.unfold(-1, 4, 1)[:, 1, ::2], 2, stride=3),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("shape", [(3, 17), (2, 4, 6), (2, 1, 6), (1, 2, 5)])
@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_sizes_and_strides_around_windows(name: str, shape: tuple[int, ...]) -> None:
    function, x = UNKNOWN[name], torch.randn(shape, requires_grad=True)
    try:
        expected = function(x)
    except (IndexError, RuntimeError):
        return  # eager takes no such sizes
    torch._dynamo.reset()
    result = torch.compile(function, backend="fxc", dynamic=True)(x)
    torch.testing.assert_close(result, expected)
    weights = torch.randn_like(expected)
    torch.testing.assert_close(torch.autograd.grad(result, x, weights), torch.autograd.grad(expected, x, weights))


TURNED: dict[str, Callable[[torch.Tensor], Any]] = {
    "a function": lambda x: [F.max_pool1d(x.mT, 2)],
    "a module": lambda x: [torch.nn.MaxPool1d(2)(x.mT)],
    "read where it lies": lambda x: [torch.max_pool1d(x.mT, 2).as_strided((3,), (1,), 0) * 2],
    "with places": lambda x: list(F.max_pool1d(x.mT, 2, return_indices=True)),
    "without its gradient": lambda x: [F.max_pool1d(x.detach().mT, 2) + x.sum()],
}


@pytest.mark.share(3)
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("route", ["static", "training", "compile", "dynamic"])
@pytest.mark.parametrize("name", TURNED)
def test_maxima_of_turned_rows_lie_as_in_eager(name: str, route: str, gradient: bool) -> None:
    """Contiguous where there is no gradient; traces of PyTorch have an operator whose result has the order of the rows."""
    values = torch.linspace(-9, 9, 48).sin().view(2, 6, 4)
    check(route, TURNED[name], lambda: [values.clone().requires_grad_(gradient)])


def test_gradients_of_maxima() -> None:
    x = torch.randint(-2, 3, (2, 3, 9, 9), dtype=torch.float64, requires_grad=True)

    def function(x: torch.Tensor) -> torch.Tensor:
        return (F.max_pool2d(x.relu(), 3, 2, 1) * torch.arange(5)).sum()

    compiled = fxc.compile(function, (x,), training=True, options=HOST)
    [actual], [expected] = (torch.autograd.grad(f(x), x) for f in (compiled, function))
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    text = str(compiled.plan.ir)
    assert "max_pool2d_with_indices_backward.default(" in text and "max_pool2d_with_indices.default(" not in text


def test_gradients() -> None:
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64, requires_grad=True)

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(F.max_pool2d(x.sin(), 2), 2).sum()

    compiled = fxc.compile(function, (x,), training=True, options=HOST)
    [actual], [expected] = (torch.autograd.grad(f(x), x) for f in (compiled, function))
    torch.testing.assert_close(actual, expected)


FREE: dict[str, Callable[[torch.Tensor], Any]] = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max and places": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "max of one dimension": lambda x: F.max_pool1d(x.flatten(2), 3, 2, 1),
    "mean": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "mean of all": lambda x: F.adaptive_avg_pool2d(x, 1),
    "padded": lambda x: F.pad(x, (1, 2, 0, 1)) + 1,
}


@pytest.mark.share(6)
@pytest.mark.parametrize("name", FREE)
@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("free", ["batch", "channels", "both", "height and width"])
def test_pools_of_free_sizes(name: str, format: torch.memory_format, free: str) -> None:
    dim = torch.export.Dim
    batch, channels = dim("b", min=1, max=64), dim("c", min=1, max=64)
    sizes, given = {
        "batch": ({0: batch}, [(5, 3, 8, 8), (1, 3, 8, 8)]),
        "channels": ({1: channels}, [(2, 7, 8, 8)]),
        "both": ({0: batch, 1: channels}, [(5, 7, 8, 8)]),
        "height and width": ({2: 2 * dim("h", min=2, max=32), 3: 2 * dim("w", min=2, max=32)}, [(2, 3, 12, 10)]),
    }[free]
    f, example = FREE[name], torch.randn(2, 3, 8, 8).to(memory_format=format)
    compiled = fxc.compile(f, (example,), dynamic_shapes=(sizes,))
    for shape in given:
        x = torch.randn(shape).to(memory_format=format)
        torch.testing.assert_close(compiled(x), f(x))


ONE_ELEMENT: Mapping[str, tuple[Callable[..., torch.Tensor], tuple[int, ...]]] = {
    "line": (lambda x: F.max_pool1d(x, 1), (1, 1)),
    "in steps": (lambda x: F.max_pool1d(x, 1, stride=2), (3, 1, 2)),
    "rows": (lambda x: F.max_pool1d(x, 1), (4, 5)),
    "images": (lambda x: F.max_pool2d(x, 1), (2, 3, 4, 5)),
    "no batch": (lambda x: F.max_pool2d(x, 1), (3, 4, 5)),
    "one in a row": (lambda x: F.max_pool2d(x, (2, 1)), (3, 4, 5)),
    "one in a column": (lambda x: F.max_pool2d(x, (1, 2), stride=1), (3, 4, 5)),
    "volumes": (lambda x: F.max_pool3d(x, (2, 1, 1), stride=1), (2, 3, 4, 5)),
    "means": (lambda x: F.avg_pool2d(x, 1), (3, 4, 5)),
}


@pytest.mark.parametrize("name", ONE_ELEMENT)
def test_windows_of_one_element(name: str) -> None:
    function, shape = ONE_ELEMENT[name]
    x = torch.randn(shape)
    result = fxc.compile(function, (x,))(x)
    torch.testing.assert_close(result, function(x))
    assert result.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    torch._dynamo.reset()
    leaf = x.requires_grad_()
    for run in (fxc.compile(function, (leaf,), training=True), torch.compile(function, backend="fxc")):
        found, expected = (torch.autograd.grad(each(leaf).square().sum(), leaf) for each in (run, function))
        torch.testing.assert_close(found, expected)
