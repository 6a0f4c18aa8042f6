"""Small products of one row as sums that kernels compute, against eager: layouts, special values, gradients, their bounds."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import fxc
from tests.products import HOST, agree, seeded  # noqa: F401 (seeded is a fixture of every test here)

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "column-major": lambda w: w.t(),
    "row-major": lambda w: w.t().contiguous(),
    "a part": lambda w: torch.cat([w, w], 1)[:, : w.shape[1]].t(),
    "every other column": lambda w: w.t().contiguous().repeat_interleave(2, 1)[:, ::2],
}


def layer(x: torch.Tensor, y: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.mm(x, y) + b)


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("length", "columns"), [(1, 1), (1, 7), (7, 1), (3, 5), (64, 17), (129, 126), (17, 300)])
def test_layouts_and_sizes(length: int, columns: int, layout: str, dtype: torch.dtype) -> None:
    x, b = torch.randn(1, length, dtype=dtype), torch.randn(columns, dtype=dtype)
    plan = agree(layer, x, LAYOUTS[layout](torch.randn(columns, length, dtype=dtype)), b)
    assert (plan.stats.library_calls == 0) == (layout != "every other column")


def test_rows_that_are_slices() -> None:
    agree(lambda x, y, b: layer(x[1:2, ::3], y, b), torch.randn(4, 21), torch.randn(7, 5), torch.randn(5))
    agree(lambda x, y, b: layer(x[:, 2:3].t(), y.t(), b), torch.randn(7, 4), torch.randn(5, 7), torch.randn(5))


@pytest.mark.parametrize(("length", "columns"), [(1, 1), (3, 2), (20, 5)])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_parts_of_a_matrix_with_a_free_number_of_columns(is_transposed: bool, length: int, columns: int) -> None:
    """The sizes of the factors are static, and the strides are not."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x[:1, :length] @ (x[:columns, :length].mT if is_transposed else x[:length, :columns]))

    n = torch.export.Dim("n", min=21)
    compiled = fxc.compile(
        function, [torch.randn(21, 25, dtype=torch.float64)], dynamic_shapes=({1: n},), options={"strict": True}
    )
    for size in (25, 40):
        x = torch.randn(21, size, dtype=torch.float64)
        torch.testing.assert_close(compiled(x), function(x))


@pytest.mark.parametrize("layout", ["column-major", "row-major"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -0.0])
def test_special_values(value: float, layout: str) -> None:
    x, w = torch.randn(1, 6), torch.randn(4, 6)
    x[0, 2], w[1, 2], w[3] = value, 0.0, value
    agree(lambda x, y: torch.mm(x, y) * 2, x, LAYOUTS[layout](w))


def test_a_small_model_is_one_kernel() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 5)).eval()
    plan = fxc.compile(model, (torch.randn(1, 12),), options=HOST).plan
    assert (plan.stats.launches, plan.stats.library_calls) == (1, 0)
    x = torch.randn(1, 12)
    torch.testing.assert_close(plan(x), model(x))


def test_matmul_of_matrices() -> None:
    assert agree(lambda x, y: torch.exp(x @ y), torch.randn(1, 9), torch.randn(9, 5)).stats.library_calls == 0
    agree(lambda x, y: torch.exp(x @ y), torch.randn(9), torch.randn(9, 5))
    agree(lambda x, y: torch.exp(x @ y), torch.randn(1, 9), torch.randn(9))
    agree(lambda x, y: torch.exp(x @ y), torch.randn(3, 1, 9), torch.randn(9, 5))


def test_one_row_below_a_view() -> None:
    """A token of a sequence of one."""
    linear = torch.nn.Linear(12, 16).eval()
    x = torch.randn(1, 1, 12)
    plan = fxc.compile(lambda x: torch.nn.functional.gelu(linear(x)), (x,), options=HOST).plan
    torch.testing.assert_close(plan(x), torch.nn.functional.gelu(linear(x)))
    assert plan.stats.library_calls == 0


@pytest.mark.slow
def test_gradients() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    x = torch.randn(1, 6, requires_grad=True)
    wanted = torch.autograd.grad(model(x).sum(), [x, *model.parameters()])
    for run in (fxc.compile(model, (x,), training=True, options=HOST), torch.compile(model, backend="fxc", options=HOST)):
        found = torch.autograd.grad(run(x).sum(), [x, *model.parameters()])
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (torch.randn(2, 3), torch.randn(3, 4)),
        (torch.randint(-3, 4, (1, 130)).float(), torch.randint(-3, 4, (130, 128)).float()),
        (torch.randint(-3, 4, (1, 1024)).float(), torch.randint(-3, 4, (1024, 1024)).float().t()),
        (torch.randn(1, 3), torch.randn(129, 3).t()),
        (torch.randn(1, 0), torch.randn(0, 4)),
        (torch.randn(1, 3).bfloat16(), torch.randn(3, 4).bfloat16()),
        (torch.randint(9, (1, 3)), torch.randint(9, (3, 4))),
    ],
    ids=["two rows", "large", "large and transposed", "many short sums", "empty", "bfloat16", "integers"],
)
def test_other_products_stay(x: torch.Tensor, y: torch.Tensor) -> None:
    program = fxc.capture(lambda x, y: torch.mm(x, y), (x, y))
    lowered = fxc.run_passes(program, "lower-to-torch,decompose-ops{reductions=true}")
    assert "torch.aten.mm.default" in str(lowered)
    agree(lambda x, y: torch.mm(x, y) + 1, x, y)
