"""Numbers of Python that Dynamo passes to a graph as tensors."""

from __future__ import annotations

import random

import pytest
import torch

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64]


def augmented(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale, shift = random.uniform(0.5, 1.5), random.uniform(0, 1)
    return (x * scale + shift).sin(), x / random.uniform(1, 2) + random.randint(0, 5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_drawn_numbers_are_passed_in_full(dtype: torch.dtype, dynamic: bool, whole: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(augmented, backend="fxc", dynamic=dynamic, fullgraph=whole)
    for n in (3, 5, 5):
        x = torch.arange(n).to(dtype).requires_grad_(dtype.is_floating_point)
        y = x.detach().clone().requires_grad_(x.requires_grad)
        random.seed(n)
        want = augmented(x)
        random.seed(n)
        got = compiled(y)
        tolerance = {torch.float64: 1e-15, torch.bfloat16: 0.05}.get(dtype)
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
        if x.requires_grad:
            sum(result.sum() for result in want).backward()
            sum(result.sum() for result in got).backward()
            torch.testing.assert_close(y.grad, x.grad, rtol=tolerance, atol=tolerance)


def test_drawn_numbers_promote_no_other_tensor() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        number = random.uniform(0, 1)
        return x[0] * number, torch.full((3,), number), x.clamp(max=number), torch.where(x > 0.5, number, x)

    for dtype in (torch.int32, torch.float16, torch.float64):
        torch._dynamo.reset()
        random.seed(1)
        want = f(torch.ones(3, dtype=dtype))
        random.seed(1)
        got = torch.compile(f, backend="fxc", fullgraph=True)(torch.ones(3, dtype=dtype))
        torch.testing.assert_close(got, want)


def test_drawn_numbers_decide_which_branch_runs() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, float]:
        if random.uniform(0, 1) < random.uniform(0, 1):
            return x * random.uniform(0, 1), random.uniform(2, 3)
        return x + random.uniform(0, 1), random.uniform(3, 4)

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="fxc")
    for seed in range(4):
        random.seed(seed)
        want = f(torch.ones(3, dtype=torch.float64))
        random.seed(seed)
        torch.testing.assert_close(compiled(torch.ones(3, dtype=torch.float64)), want, rtol=0, atol=0)
