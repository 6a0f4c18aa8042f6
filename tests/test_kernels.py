"""Groups of several ops as kernels: what a kernel makes equals eager, for shapes, layouts and dtypes of all kinds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import fxc
from fxc.dialects.fusion import GroupOp
from fxc.dialects.target import PRESETS
from fxc.dialects.tile import KernelOp, ScheduleAttr
from tests.kernel_groups import check_function, check_text

SHAPES = [(7,), (64,), (3, 5), (4, 16), (2, 3, 17), (1, 9), (9, 1), (), (1,), (0, 4), (2, 1, 33)]


def tensor(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + 7 * len(shape) + sum(shape))
    made = torch.randn(shape, generator=generator)
    return (made * 5).to(dtype) if not dtype.is_floating_point else made.to(dtype)


def kinds(module: ModuleOp) -> list[str]:
    """The kinds of the kernels, in order."""
    schedules = [op.attributes["schedule"] for op in module.ops if isinstance(op, KernelOp)]
    return [schedule.kind.data for schedule in schedules if isinstance(schedule, ScheduleAttr)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_elementwise(shape: Sequence[int], dtype: torch.dtype) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = x * y + 2
        b = torch.where(a > x, a, y)
        return a, b.sigmoid(), a <= b

    assert kinds(check_function(function, tensor(*shape, dtype=dtype), tensor(*shape, dtype=dtype, seed=1))) == ["elementwise"]


def test_broadcast_operands() -> None:
    def function(x: torch.Tensor, row: torch.Tensor, column: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
        return (x + row) * column - one

    check_function(function, tensor(5, 33), tensor(33), tensor(5, 1), tensor())
    check_function(function, tensor(2, 5, 33), tensor(5, 1), tensor(2, 1, 33), tensor(1))


def test_operands_in_another_order_of_memory() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y).tanh()

    check_function(function, tensor(6, 20).t(), tensor(20, 6))
    check_function(function, tensor(6, 20).t(), tensor(6, 20, seed=1).t())
    check_function(function, tensor(2, 3, 4, 5).permute(0, 3, 1, 2), tensor(2, 5, 3, 4))
    check_function(function, tensor(2, 8, 4, 4).contiguous(memory_format=torch.channels_last), tensor(1, 8, 1, 1))
    check_function(function, tensor(12, 20)[::3, 1::2], tensor(4, 10))


def test_outputs_of_several_shapes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = y.exp()
        return a, x * a, (x * a).neg()

    assert kinds(check_function(function, tensor(5, 33), tensor(33))) == ["elementwise", "elementwise"]


def test_views() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a, b = (x * 2).reshape(4, 6, 5).permute(2, 0, 1).split(3, 2)
        return (a + b.flip(1)) * y.unsqueeze(1)[:, :, 1:4].expand(5, 4, 3)

    check_function(function, tensor(24, 5), tensor(5, 5))

    def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.neg().view(6, 35) + y).select(0, 2) * 2

    check_function(joined, tensor(2, 3, 5, 7), tensor(35))
    check_function(lambda x: x.t().exp().reshape(-1) * 2, tensor(8, 6))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_concatenations(dim: int) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.neg(), y, x * y], dim)

    assert kinds(check_function(function, tensor(2, 3, 9), tensor(2, 3, 9, seed=1))) == ["elementwise"]


def test_concatenation_of_different_sizes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.neg(), y + 1, (x.sum(1, keepdim=True) * 2)], 1)

    check_function(function, tensor(4, 9), tensor(4, 30))


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: F.softmax(x, -1) * 2,
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "softmax of columns": lambda x: F.softmax(x, 0),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]) + 1,
    "rms_norm": lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5),
    "rows": lambda x: (x * 2).sum(-1),
    "columns": lambda x: (x * 2).sum(0),
    "all": lambda x: (x * x).sum(),
    "middle": lambda x: x.reshape(x.shape[0], -1, 1).exp().amax(1),
    "mean and deviation": lambda x: (x.mean(-1), x.std(-1, correction=0), x - x.mean(-1, keepdim=True)),
    "columns, then all": lambda x: (x - x.mean(0)) / x.std(0, correction=0),
    "extremes": lambda x: x.amax(-1) - x.amin(-1),
    "logic": lambda x: ((x > 0).any(-1), (x > 0).all(-1), (x > 0).sum(-1)),
    "places": lambda x: (x.argmax(-1), x.argmin(0, keepdim=True), x.argmax()),
    "product": lambda x: (x * 0.1 + 1).prod(-1, keepdim=True),
    "normalised by the whole": lambda x: x / x.norm(),
    "output first": lambda x: (lambda y: (y, y.mean(-1), y - y.amax(-1, keepdim=True)))(x.sigmoid()),
    "rows of a transpose": lambda x: x.t().exp().sum(-1),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("shape", [(5, 33), (16, 32), (3, 1), (1, 40), (4, 3, 12)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, shape: Sequence[int]) -> None:
    if len(shape) != 2 and "transpose" in name:
        shape = (6, 7)
    check_function(REDUCTIONS[name], tensor(*shape))
    check_function(REDUCTIONS[name], tensor(*shape, dtype=torch.float64), target=PRESETS["cpu:avx512"])


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "rows", "mean and deviation"])
def test_reductions_in_half_precision(name: str) -> None:
    check_text(check_function(REDUCTIONS[name], tensor(6, 40, dtype=torch.bfloat16)))


def test_what_a_row_reduces_stays_in_its_kernel() -> None:
    assert kinds(check_function(REDUCTIONS["softmax"], tensor(8, 40))) == ["inner"]
    assert kinds(check_function(REDUCTIONS["softmax of columns"], tensor(8, 40))) == ["outer"]
    assert kinds(check_function(REDUCTIONS["layer_norm"], tensor(8, 40))) == ["inner"]
    assert kinds(check_function(REDUCTIONS["output first"], tensor(8, 40))) == ["inner"]


@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_any_schedule_computes_the_same(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(REDUCTIONS)))
    shape = data.draw(st.sampled_from([(5, 33), (16, 7), (1, 20), (3, 1)]))
    lanes, unroll, block = (
        data.draw(st.sampled_from([1, 2, 8, 64])),
        data.draw(st.integers(1, 4)),
        data.draw(st.integers(1, 40)),
    )
    kind = data.draw(st.sampled_from(["", "inner", "outer"]))

    def edit(schedule: ScheduleAttr) -> ScheduleAttr:
        return ScheduleAttr.of(kind or schedule.kind.data, schedule.numbers(), lanes, unroll, block)

    check_function(REDUCTIONS[name], tensor(*shape), edit=edit)


def test_the_flow_of_a_model() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.second(F.gelu(self.first(x)) * 1.5)
            return torch.cat([(x + y).relu(), torch.sigmoid(y) * x], -1)

    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(2, 5, 8)
    program = fxc.run_passes(fxc.capture(model, (x,)), "lower-to-torch,canonicalize,optimize,lower-kernels")
    kernels = [op for op in program.module.ops if isinstance(op, KernelOp)]
    assert len(kernels) == 2 and not any(isinstance(op, GroupOp) for op in program.module.walk())
    torch.testing.assert_close(fxc.to_fx(program)(x), model(x))


@pytest.mark.parametrize("target", ["cpu", "cpu:avx512", "cuda:sm_90"])
def test_sums_that_keep_different_dimensions(target: str) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        z = x * y + y
        return [x.sum((0, 1)), z, z.sum(0)]

    check_function(function, tensor(3, 8, 24), tensor(3, 8, 24), target=PRESETS[target])


UNARY = ["neg", "sigmoid", "tanh", "abs", "exp", "relu", "sqrt", "floor", "sign", "square", "logical_not"]
BINARY = ["add", "mul", "maximum", "sub", "lt", "minimum", "ne", "atan2"]


def random_function(seed: int) -> Callable[..., list[torch.Tensor]]:
    """A function of three tensors: pointwise ops, conversions, choices, broadcasts and reductions of random values."""

    def function(*arguments: torch.Tensor) -> list[torch.Tensor]:
        choose, values = random.Random(seed), list(arguments)
        made = list[torch.Tensor]()
        for _ in range(choose.randrange(2, 10)):
            a, b = choose.choice(values), choose.choice(values)
            kind = choose.randrange(7)
            if kind <= 1:
                new = getattr(torch, choose.choice(UNARY))(a.float())
            elif kind <= 3:
                new = getattr(torch, choose.choice(BINARY))(
                    a.float(), b.float() if b.dtype is torch.bool else b
                )  # no minus of bools
            elif kind == 4:
                new = torch.where(a > 0, a, b)
            elif kind == 5:
                dtype = choose.choice([torch.float64, torch.bfloat16, torch.int32, torch.bool])
                if dtype is torch.int32 and a.is_floating_point():
                    a = a.nan_to_num(0.5).clamp(-99, 99)  # of other numbers the integer is anything
                new = a.to(dtype, copy=True)
            else:
                new = a.float().clamp(-3, 3).sum(choose.randrange(a.dim()), keepdim=True) if a.dim() else a + 1
            values.append(new)
            made.append(new)
        places = range(len(made))
        return [made[place] for place in dict.fromkeys([places[-1], *choose.choices(places, k=2)])]

    return function


@pytest.mark.slow
@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.integers(0, 10**6),
    st.sampled_from([(4, 5), (3, 1), (17,), (2, 3, 9), (1, 40)]),
    st.sampled_from(["cpu", "cpu:avx2", "cpu:avx512", "cuda:sm_90"]),
)
def test_random_functions(seed: int, shape: Sequence[int], target: str) -> None:
    x, y = tensor(*shape), tensor(*shape, dtype=torch.int64)
    x.view(-1)[0] = math.nan
    z = tensor(*([1] * (len(shape) - 1)), shape[-1])
    check_text(check_function(random_function(seed), x, y, z, target=PRESETS[target]))
