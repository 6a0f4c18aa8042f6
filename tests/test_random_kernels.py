"""Random operators as functions of a seed: their distributions, the same numbers on every executor, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import fxc
from fxc.dialects.fusion import GroupOp
from fxc.dialects.tile import KernelOp
from fxc.dialects.torch_ops.base import TorchOp
from tests.kernel_engines import ENGINES, EngineInterpreter, functions_of

RANDOM = "lower-to-torch,simplify,lower-simple-tuples,decompose-ops{reductions=true},lower-random"
KERNELS = "fuse{reductions=true},convert-fusion-to-linalg,schedule,tile"


def kernels_for(engine: str) -> str:
    """Triton has no vectors of any length, which rows of a CPU may be."""
    return f'set-target{{to="{"cuda:sm_90" if engine in ("simulator", "gpu") else "cpu"}"}},{KERNELS}'


def program(function: Callable[..., Any], *arguments: torch.Tensor) -> fxc.Program:
    return fxc.capture(lambda *arguments: function(*arguments), arguments)


def run(compiled: fxc.Program, arguments: Sequence[torch.Tensor], engine: str = "interpreter", seed: int = 0) -> list[Any]:
    functions = functions_of(compiled.module)
    torch.manual_seed(seed)
    with torch.no_grad():
        return tree_leaves(list(EngineInterpreter(functions, ENGINES[engine]).call(functions["main"], list(arguments))))


def test_the_operator_of_a_seed_is_as_pytorch_wants_it() -> None:
    """Its schema, fake results, autograd and AOTAutograd's graph."""
    torch.library.opcheck(torch.ops.fxc.uniform.default, (torch.tensor(7), [3, 4], 0, torch.float32))


def random_operators(compiled: fxc.Program) -> list[str]:
    return [op.operator for op in compiled.module.walk() if isinstance(op, TorchOp) and "r" in op.FLAGS]


def drawn(function: Callable[[], torch.Tensor], seed: int = 0) -> torch.Tensor:
    """What ``function`` gives of a seed, after its operators became arithmetic."""
    compiled = fxc.run_passes(program(function), RANDOM)
    assert random_operators(compiled) == ["aten.randint.default"]
    [result] = run(compiled, (), seed=seed)
    return result


# distributions

COUNT = 1_000_000


def distance(numbers: torch.Tensor, distribution: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """Kolmogorov's and Smirnov's: how far shares of the numbers are from ``distribution``, times the root of how many."""
    ordered = numbers.double().flatten().sort().values
    expected, count = distribution(ordered), ordered.numel()
    steps = torch.arange(count + 1, dtype=torch.float64) / count
    largest = torch.maximum((steps[1:] - expected).abs().max(), (expected - steps[:-1]).abs().max())
    return float(largest) * math.sqrt(count)


FAR = 1.95
"""A distance that one sample in a thousand has."""


def normal(x: torch.Tensor) -> torch.Tensor:
    return torch.special.ndtr(x)


CONTINUOUS: dict[str, tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], torch.Tensor], float, float]] = {
    "rand": (lambda: torch.rand(COUNT), lambda x: x, 0.5, 1 / 12),
    "rand of float64": (lambda: torch.rand(COUNT, dtype=torch.float64), lambda x: x, 0.5, 1 / 12),
    "uniform_": (lambda: torch.empty(COUNT).uniform_(-2, 3), lambda x: (x + 2) / 5, 0.5, 25 / 12),
    "randn": (lambda: torch.randn(COUNT), normal, 0, 1),
    "randn of float64": (lambda: torch.randn(COUNT, dtype=torch.float64), normal, 0, 1),
    "normal_": (lambda: torch.empty(COUNT).normal_(2, 3), lambda x: normal((x - 2) / 3), 2, 9),
    "exponential_": (lambda: torch.empty(COUNT).exponential_(2), lambda x: 1 - (-2 * x).exp(), 0.5, 0.25),
}
"""Draws -> distribution, mean and variance."""


@pytest.mark.parametrize("name", CONTINUOUS)
def test_distributions(name: str) -> None:
    draw, distribution, mean, variance = CONTINUOUS[name]
    numbers = drawn(draw)
    assert distance(numbers, distribution) < FAR
    assert abs(float(numbers.double().mean()) - mean) < 4 * math.sqrt(variance / COUNT)
    assert abs(float(numbers.double().var()) / variance - 1) < 4 * math.sqrt(8 / COUNT)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_stays_below_one(dtype: torch.dtype) -> None:
    numbers = drawn(lambda: torch.rand(300, 300, dtype=dtype))
    assert numbers.dtype == dtype and numbers.min() >= 0 and numbers.max() < 1
    assert abs(float(numbers.double().mean()) - 0.5) < 0.01


def test_integers() -> None:
    numbers = drawn(lambda: torch.randint(-3, 7, (COUNT,)))
    assert numbers.dtype == torch.int64
    counts = torch.bincount(numbers + 3, minlength=10)
    assert counts.numel() == 10 and float(((counts - COUNT / 10) ** 2 / (COUNT / 10)).sum()) < 27.9  # chi squared, 9 degrees


def test_shares() -> None:
    share = 0.3
    for draw in (lambda: torch.bernoulli(torch.full((COUNT,), share)), lambda: torch.empty(COUNT).bernoulli_(share)):
        numbers = drawn(draw)
        assert set(numbers.unique().tolist()) == {0.0, 1.0}
        assert abs(float(numbers.double().mean()) - share) < 4 * math.sqrt(share * (1 - share) / COUNT)
    kept = drawn(lambda: torch.dropout(torch.ones(COUNT, dtype=torch.bfloat16), share, True))
    assert abs(float((kept != 0).double().mean()) - (1 - share)) < 4 * math.sqrt(share * (1 - share) / COUNT)


def test_shares_of_special_tensors() -> None:
    assert drawn(lambda: torch.bernoulli(torch.zeros(100))).sum() == 0
    assert drawn(lambda: torch.bernoulli(torch.ones(100))).sum() == 100


# seeds


def test_seeds_and_streams() -> None:
    compiled = fxc.run_passes(program(lambda: (torch.rand(1000), torch.rand(1000), torch.rand(1000))), RANDOM)
    first, again, other = (run(compiled, (), seed=seed) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    drawn = [*first, *other]
    for i, a in enumerate(drawn):
        for b in drawn[:i]:
            assert abs(float(torch.corrcoef(torch.stack([a, b]))[0, 1])) < 0.15
    torch.manual_seed(1)
    functions = functions_of(compiled.module)
    runs = [EngineInterpreter(functions, ENGINES["interpreter"]).call(functions["main"], [])[0] for _ in range(2)]
    assert not torch.equal(*tree_leaves(runs)[:2])


def test_a_loop_draws_a_seed_each_time() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.higher_order.while_loop(lambda x: x.sum() < 100, lambda x: (x + torch.rand_like(x) + 1,), (x,), ())[0]

    captured = fxc.capture(function, (torch.zeros(3),), route="dynamo")
    compiled = fxc.run_passes(captured, RANDOM)
    draws = [op for op in compiled.module.walk() if isinstance(op, TorchOp) and "r" in op.FLAGS]
    assert [op.operator for op in draws] == ["aten.randint.default"]
    assert draws[0].parent_op() is not functions_of(compiled.module)["main"]


# kernels


def everything(x: torch.Tensor, half: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        torch.dropout(x, 0.3, True) * 2,
        torch.native_dropout(half, 0.5, True)[0],
        torch.rand_like(x, dtype=torch.float64) + 1,
        torch.bernoulli(x.sigmoid()),
        torch.randint(-4, 9, (3, 5)) * 2,
        torch.rand(5, 3, dtype=torch.bfloat16) + 1,
        torch.rand(4, 33).t().exp(),
        torch.rand(3, 7).sum(1) * 2,
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_kernels_compute_the_same_numbers(engine: str) -> None:
    arguments = torch.randn(5, 7), torch.randn(6, 9).half()
    reference = fxc.run_passes(program(everything, *arguments), RANDOM)
    kernels = fxc.run_passes(reference, kernels_for(engine))
    assert not any(isinstance(op, GroupOp) for op in kernels.module.walk())
    inside = [op for op in kernels.module.walk() if isinstance(op, TorchOp) and op.operator.startswith("fxc.")]
    assert inside == [] and any(isinstance(op, KernelOp) for op in kernels.module.ops)
    for result, expected in zip(run(kernels, arguments, engine), run(reference, arguments), strict=True):
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (1, 5), (7, 1), (3, 5, 2)])
def test_shapes(shape: Sequence[int]) -> None:
    compiled = fxc.run_passes(program(lambda x: torch.rand_like(x) * x, torch.ones(shape)), RANDOM)
    for engine in ENGINES:
        [result] = run(fxc.run_passes(compiled, kernels_for(engine)), (torch.ones(shape),), engine)
        assert torch.equal(result, run(compiled, (torch.ones(shape),))[0])


def test_normal_numbers_in_kernels() -> None:
    x = torch.ones(40, 20)
    compiled = fxc.run_passes(program(lambda x: torch.randn_like(x) * x, x), RANDOM)
    results = [run(fxc.run_passes(compiled, kernels_for(engine)), (x,), engine)[0] for engine in ENGINES]
    for result in results:
        assert distance(result, normal) < FAR
        torch.testing.assert_close(result, results[0])


# gradients


class Dropped(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = torch.nn.Linear(8, 16), torch.nn.Dropout(0.4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.dropout(torch.relu(self.linear(x))).sum(1), self.dropout(x)


@pytest.mark.parametrize("kernels", [False, True])
def test_gradients_go_through_what_stayed(kernels: bool) -> None:
    model, x = Dropped(), torch.randn(6, 8, requires_grad=True)
    options: dict[str, Any] = {"pipeline": "lower-to-torch,canonicalize,torchscript{random=true reductions=true}"}
    if kernels:
        options = {"pipeline": options["pipeline"] + ",lower-kernels", "target": "cpu"}
    compiled = fxc.compile(model, (x,), training=True, options=options)
    torch.manual_seed(0)
    first, dropped = compiled(x)
    torch.manual_seed(0)
    assert torch.equal(compiled(x)[1], dropped) and not torch.equal(compiled(x)[1], dropped)
    mask = (dropped != 0) / 0.6
    assert 0.2 < float((mask != 0).double().mean()) < 0.95
    torch.testing.assert_close(dropped, x * mask)
    [gradient] = torch.autograd.grad(dropped.sum(), x, retain_graph=True)
    torch.testing.assert_close(gradient, mask)
    [weight] = torch.autograd.grad(first.sum(), model.linear.weight)
    step = 1e-3
    with torch.no_grad():
        torch.manual_seed(0)
        model.linear.weight[3, 5] += step
        moved, _ = compiled(x)
    assert float((moved - first).detach().sum()) / step == pytest.approx(float(weight[3, 5]), abs=2e-2)


def test_random_operators_are_pytorchs_by_default() -> None:
    x = torch.randn(4, 5)
    compiled = fxc.compile(lambda x: torch.dropout(x, 0.5, True) + 1, (x,))
    torch.manual_seed(0)
    result = compiled(x)
    torch.manual_seed(0)
    torch.testing.assert_close(result, torch.dropout(x, 0.5, True) + 1)


LEFT: dict[str, Callable[[], torch.Tensor]] = {
    "a permutation": lambda: torch.randperm(5),
    "a wide range": lambda: torch.randint(0, 1 << 40, (5,)),
    "complex numbers": lambda: torch.randn(5, dtype=torch.complex64),
    "one integer": lambda: torch.randint(0, 9, ()),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_pytorch(name: str) -> None:
    compiled = fxc.run_passes(program(LEFT[name]), RANDOM)
    assert not any(isinstance(op, TorchOp) and op.operator.startswith("fxc.") for op in compiled.module.walk())
    [result] = run(compiled, (), seed=5)
    torch.manual_seed(5)
    assert torch.equal(result, LEFT[name]())
