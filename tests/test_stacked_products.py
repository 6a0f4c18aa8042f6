"""Products of stacks of matrices as one product of matrices, against eager: how they lie, dtypes, sizes, gradients, memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import fxc
from tests.products import HOST, agree, seeded  # noqa: F401 (seeded is a fixture of every test here)

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x,
    "heads inside": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "turned": lambda x: x.transpose(-2, -1).contiguous().transpose(-2, -1),
    "turned, heads inside": lambda x: x.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1),
    "a slice": lambda x: torch.cat([x, x], 0)[::2],
    "every other element": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "one for all": lambda x: x[:1].expand_as(x),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_layouts(left: str, right: str) -> None:
    x, y = LAYOUTS[left](torch.randn(3, 2, 5, 4)), LAYOUTS[right](torch.randn(3, 2, 4, 7))
    assert "bmm" in agree(lambda x, y: torch.relu(x @ y), x, y).code


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int8, torch.complex64])
def test_dtypes(dtype: torch.dtype) -> None:
    x, y = (torch.randn(2, 4, 4, 4, dtype=torch.complex64) * 3 for _ in range(2))
    x, y = (value.to(dtype) if dtype.is_complex else value.real.to(dtype) for value in (x, y))
    agree(lambda x, y: (x @ y.transpose(1, 3)) @ y, x, y)


@pytest.mark.parametrize(
    "sizes",
    [
        ((1, 1, 1, 1), (1, 1, 1, 1)),
        ((1, 4, 3, 2), (1, 4, 2, 5)),
        ((4, 1, 3, 2), (4, 1, 2, 5)),
        ((2, 3, 2, 1, 4), (2, 3, 2, 4, 1)),
        ((2, 0, 3, 4), (2, 0, 4, 5)),
        ((2, 3, 4, 0), (2, 3, 0, 5)),
        ((2, 3, 4, 5), (3, 5, 2)),
        ((2, 3, 4, 5), (1, 3, 5, 2)),
        ((3, 4, 5), (3, 5, 2)),
        ((2, 3, 4, 5), (5,)),
    ],
)
def test_sizes(sizes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    agree(lambda x, y: torch.tanh(x @ y), *map(torch.randn, sizes))


def test_special_values() -> None:
    x, y = torch.randn(2, 2, 3, 3), torch.randn(2, 2, 3, 3)
    x[0, 0, 0, 0], x[1, 1, 2, 0], y[0, 1, 1, 1], y[1, 0] = float("nan"), float("inf"), -float("inf"), -0.0
    agree(lambda x, y: x.transpose(1, 2).contiguous().transpose(1, 2) @ y, x, y)


def attention(x: torch.Tensor) -> torch.Tensor:
    q, k, v = x.unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
    return ((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).flatten(2)


@pytest.mark.slow
def test_gradients() -> None:
    x = torch.randn(2, 7, 96, dtype=torch.float64, requires_grad=True)
    compiled = fxc.compile(attention, (x,), training=True, options=HOST)
    expected, result = attention(x), compiled(x)
    torch.testing.assert_close(result, expected)
    weights = torch.randn_like(expected)
    [mine], [theirs] = (torch.autograd.grad((y * weights).sum(), x) for y in (result, expected))
    torch.testing.assert_close(mine, theirs)


def test_a_stack_that_is_copied_is_released_before_the_product() -> None:
    """The copies of q and k are all that the product reads, and lie where the plan says."""

    def columns(x: torch.Tensor) -> torch.Tensor:
        q, k, v = x.unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        return ((q @ k.transpose(-2, -1)).softmax(-2) @ v).transpose(1, 2).flatten(2)

    plan = agree(columns, torch.randn(2, 64, 384))
    assert plan.code.count("bmm_out") == 2 and "aten_matmul" not in plan.code
    assert plan.stats.peak_bytes <= 1.05 * plan.stats.lower_bound_bytes


class Product(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ y)


@pytest.mark.parametrize("batch", [(3,), (3, 2), (3, 2, 4)])
@pytest.mark.parametrize("turned", [False, True])
def test_sizes_that_are_free(batch: tuple[int, ...], turned: bool) -> None:
    def inputs(*sizes: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = torch.randn(*sizes, 4, 5), torch.randn(*sizes, 5, 6)
        return (x.transpose(-2, 0).contiguous().transpose(-2, 0) if turned else x), y

    free = {0: torch.export.Dim("batch", min=2, max=64)}
    compiled = fxc.compile(Product(), inputs(*batch), dynamic_shapes=(free, free), options=HOST)
    for x, y in (inputs(*batch), inputs(7, *batch[1:])):
        torch.testing.assert_close(compiled(x, y), torch.relu(x @ y))
