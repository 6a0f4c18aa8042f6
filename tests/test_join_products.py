"""Products of the same rows as one: the same numbers as eager's, wherever the pass is made to join them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from xdsl.dialects.builtin import ModuleOp

import fxc
from fxc.measure import program_times

NAN, INFINITY = float("nan"), float("inf")


class Siblings(nn.Module):
    """A function of what linear layers give of the same rows."""

    def __init__(self, function: Callable[..., Any], inner: int, widths: Sequence[int], bias: bool) -> None:
        super().__init__()
        self.function = function
        self.layers = nn.ModuleList(nn.Linear(inner, width, bias=bias) for width in widths)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(*(layer(x) for layer in self.layers))


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (2, -1)).transpose(1, 2)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(heads(q) @ heads(k).transpose(-2, -1), -1) @ heads(v)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "returned": lambda q, k, v: (q, k, v),
    "attention": attention,
    "fused attention": lambda q, k, v: nn.functional.scaled_dot_product_attention(heads(q), heads(k), heads(v)),
    "gate": lambda q, k, v: nn.functional.silu(q) * k + v,
    "activations": lambda q, k, v: torch.relu(q) + torch.sigmoid(k) + v.view(-1).neg().view(v.shape),
    "read as it lies": lambda q, k, v: q.as_strided((2, 2), (1, 2)) + k.sum() + v.amax(),
    "columns": lambda q, k, v: (q.transpose(1, 2) + k.transpose(1, 2), v[:, -1], v[..., ::2]),
}


def compiled(model: nn.Module, x: Tensor, gain: str = "1.0e30") -> tuple[Callable[..., Any], int]:
    """The frozen model with its products joined, and how many slices of results there are."""
    frozen = f"join-products{{gain={gain}}},pack-weights,freeze-parameters"
    program = fxc.run_passes(fxc.capture(model, (x,)), f"lower-to-torch,canonicalize,{frozen},optimize")
    joined = sum(op.name == "torch.aten.slice.Tensor" for op in program.main.walk())
    return fxc.to_fx(program), joined


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_eager(name: str, batch: int, bias: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x = Siblings(FUNCTIONS[name], 8, (6, 6, 6), bias).to(dtype), torch.randn(batch, 5, 8).to(dtype)
    run, joined = compiled(model, x)
    assert joined >= 3
    with torch.no_grad():
        actual, expected = run(x), model(x)
    torch.testing.assert_close(actual, expected)
    pairs = zip(actual, expected, strict=True) if isinstance(expected, tuple) else [(actual, expected)]
    assert all(mine.stride() == theirs.stride() for mine, theirs in pairs)


def test_widths_may_differ() -> None:
    torch.manual_seed(0)
    model, x = Siblings(lambda a, b, c: (a.exp(), b.tanh(), c.neg()), 4, (1, 7, 3), True), torch.randn(5, 4)
    run, joined = compiled(model, x)
    assert joined == 3
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))


def test_what_is_not_a_number_and_what_is_infinite_stay() -> None:
    torch.manual_seed(0)
    model = Siblings(lambda a, b, c: torch.stack((a, b, c)), 2, (3, 3, 3), True)
    x = torch.tensor([[NAN, 1.0], [INFINITY, 1.0], [-0.0, 0.0]])
    run, joined = compiled(model, x)
    assert joined == 3
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x), equal_nan=True)


@pytest.mark.parametrize("shape", [(0, 4), (2, 0, 4)], ids=str)
def test_of_no_rows_nothing_is_joined(shape: tuple[int, ...]) -> None:
    model, x = Siblings(lambda a, b: a + b, 4, (3, 3), True), torch.randn(shape)
    run, joined = compiled(model, x)
    assert joined == 0
    with torch.no_grad():
        torch.testing.assert_close(run(x), model(x))


@pytest.mark.parametrize(("time", "joined"), [(0.9, 2), (0.98, 0), (1.1, 0)])
def test_where_one_product_takes_longer_they_stay(time: float, joined: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def times(modules: Sequence[ModuleOp]) -> list[float]:
        """The second of two programs takes ``time``, where it has slices; all else takes 1."""
        return [time if "aten.slice" in str(module) else 1.0 for module in modules]

    monkeypatch.setattr(program_times, "program_times", times)
    model, x = Siblings(lambda a, b: a.exp() * b, 4, (3, 3), True), torch.randn(5, 4)
    assert compiled(model, x, gain="0.97")[1] == joined


def test_a_plan_of_a_frozen_model_has_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the last of the ways that are tried, which is oneDNN's with packed weights, takes the least time."""
    monkeypatch.setattr(program_times, "program_times", lambda modules: [1.0 / (1 + index) for index in range(len(modules))])
    model, x = Siblings(attention, 8, (6, 6, 6), True).eval(), torch.randn(2, 5, 8)
    plan = fxc.compile(model, (x,), options={"freeze": True, "cache_plans": False}).plan
    assert plan.code is not None and plan.code.count("linear_pointwise(") == 1
    with torch.no_grad():
        torch.testing.assert_close(plan(x), model(x))


def test_graphs_of_torch_compile_have_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """There each product has a view of the rows of its own."""
    seen = list[int]()

    def times(modules: Sequence[ModuleOp]) -> list[float]:
        seen.append(sum("aten.slice" in str(module) for module in modules))
        return [1.0 / (1 + index) for index in range(len(modules))]

    monkeypatch.setattr(program_times, "program_times", times)
    model, x = Siblings(attention, 8, (6, 6, 6), True).eval(), torch.randn(2, 5, 8)
    torch._dynamo.reset()
    with torch.no_grad():
        run = torch.compile(model, backend="fxc", options={"freeze": True, "cache_plans": False})
        torch.testing.assert_close(run(x), model(x))
    assert 1 in seen
