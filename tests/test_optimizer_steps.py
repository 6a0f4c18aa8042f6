"""Optimizer steps through torch.compile: few kernels, which write parameters and state where they are, with eager's numbers."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import fxc
from fxc.errors import InputError
from fxc.execution_plan import ExecutionPlan
from tests.recorded_plans import recorded

SHAPES = [(16, 8), (8,), (3, 5, 7)]
Step = Callable[..., torch.optim.Optimizer]


@pytest.fixture
def plans() -> Iterator[list[ExecutionPlan]]:
    with recorded() as made:
        yield made


def parameters(dtype: torch.dtype) -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in SHAPES]


def steps(make: Step, dtype: torch.dtype, compiled: bool, rate: Callable[[int], float] | None = None) -> Any:
    """Parameters and state after ten steps; ``rate`` gives the learning rate of each, where that is a tensor."""
    values = parameters(dtype)
    optimizer = make(values)
    step = torch.compile(optimizer.step, backend="fxc", options={"target": "host"}) if compiled else optimizer.step
    generator = torch.Generator().manual_seed(1)
    for i in range(10):
        for value in values:
            value.grad = torch.randn(value.shape, generator=generator).to(dtype)
        if rate is not None:
            optimizer.param_groups[0]["lr"].fill_(rate(i))
        step()
    tensors = [state for value in values for state in optimizer.state[value].values() if isinstance(state, torch.Tensor)]
    return values, tensors


def adam(values: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(values, lr=0.01, foreach=True, weight_decay=0.1)


def adamw(values: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(values, lr=torch.tensor(0.01), amsgrad=True)


def sgd(values: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(values, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)


@pytest.mark.slow
def test_lists_of_parameters_are_two_kernels(plans: list[ExecutionPlan]) -> None:
    found, expected = steps(adam, torch.float32, True), steps(adam, torch.float32, False)
    torch.testing.assert_close(found, expected)
    [plan] = plans  # one graph for all steps
    stats = plan.stats
    assert (stats.launches, stats.library_calls, stats.allocations, stats.arena_bytes) == (2, 0, 0, 0), plan.code


def test_a_learning_rate_that_is_a_tensor_may_change(plans: list[ExecutionPlan]) -> None:
    def rate(i: int) -> float:
        return 0.01 * (1 + i % 3)

    found, expected = steps(adamw, torch.float64, True, rate), steps(adamw, torch.float64, False, rate)
    # the compiled step counts in float32, as Inductor's does, eager with numbers of Python
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    [plan] = plans
    assert plan.stats.library_calls == 0 and plan.stats.allocations == 0, plan.code


def test_half_precision_is_no_less_exact_than_eager(plans: list[ExecutionPlan]) -> None:
    exact, _ = steps(sgd, torch.float64, False)
    found, _ = steps(sgd, torch.bfloat16, True)
    eager, _ = steps(sgd, torch.bfloat16, False)

    def error(values: list[torch.Tensor]) -> float:
        return max((a.double() - b).abs().max().item() for a, b in zip(values, exact, strict=True))

    assert error(found) <= 1.25 * error(eager)
    _, then = plans  # momentum is made in the first step
    assert then.stats.launches == 1 and then.stats.library_calls == 0 and then.stats.allocations == 0, then.code


def update(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    before = y.cos()
    x.mul_(0.9).add_(y.sin(), alpha=2)
    return before


def test_an_argument_is_written_by_the_kernel() -> None:
    x, y = torch.randn(64, 32), torch.randn(64, 32)
    plan = fxc.compile(update, (x.clone(), y), options={"target": "host"}).plan
    expected, version, place = x.clone(), x._version, x.data_ptr()
    torch.testing.assert_close(plan(x, y), update(expected, y))
    torch.testing.assert_close(x, expected)
    assert x.data_ptr() == place and "copy_" not in plan.code
    assert x._version > version, "who saved it for a gradient is to learn that it was written"


def test_tensors_are_known_only_by_all_that_matters() -> None:
    """The first call is checked by Python, later ones by what it learnt: both refuse the same."""
    x, y = torch.randn(64, 32), torch.randn(64, 32)
    plan = fxc.compile(update, (x.clone(), y), options={"target": "host"}).plan
    for _ in range(2):
        plan(x, y)
        for other in (y.double(), y[:, :31], torch.randn(32, 64).t(), y.to_sparse(), 1.0):
            with pytest.raises(InputError):
                plan(x, other)
    with torch.inference_mode():
        plan(torch.randn(64, 32), torch.nn.Parameter(y, requires_grad=False))
