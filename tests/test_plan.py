"""Execution plans: what they are, run, check and release."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import fxc
from fxc.errors import InputError
from tests.plan_models import Net, make_net, plan_of, x

PIPELINE = "lower-to-torch,simplify"


@pytest.fixture
def net() -> Net:
    return make_net()


def test_a_plan_runs_and_can_be_read(net: Net) -> None:
    plan = plan_of(net, x())
    torch.testing.assert_close(plan(x()), net(x()))
    assert isinstance(plan, fxc.ExecutionPlan) and isinstance(plan.module, torch.fx.GraphModule)
    assert plan.graph is plan.module.graph and "torch.ops.aten.relu.default" in plan.code
    assert plan.code.startswith("def forward(self, arg_0") and "torch.aten.relu" in str(plan.ir)
    assert repr(plan) == f"<ExecutionPlan: 1 input, {len(plan.graph.nodes)} nodes>"


def test_a_plan_checks_its_inputs(net: Net) -> None:
    plan = plan_of(net, x())
    with pytest.raises(InputError, match=r"shape \(2, 4\), but \(3, 4\)"):
        plan(x(2))


def test_editing_the_graph_changes_what_runs() -> None:
    plan = plan_of(lambda a: torch.relu(a) + 1, torch.randn(3))
    for node in plan.graph.nodes:
        if node.target is torch.ops.aten.relu.default:
            node.target = torch.ops.aten.neg.default
    plan.module.recompile()
    torch.testing.assert_close(plan(torch.ones(3)), torch.zeros(3))


def test_stats() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    net[2].weight = net[0].weight
    plan = plan_of(net, x())
    plan(x())
    plan(x())
    with pytest.raises(InputError):
        plan(x(2))
    stats = plan.stats
    assert (stats.ops, stats.library_calls, stats.subgraph_calls) == (7, 7, 0)
    assert stats.parameter_bytes == 4 * (16 + 4 + 4), "a shared weight counts once"
    assert (stats.hits, stats.misses) == (2, 1)
    assert {"capture", "lower-to-torch", "optimize", "export"} <= set(stats.times) and all(t > 0 for t in stats.times.values())
    assert "library calls" in str(stats) and "capture" in str(stats)


def test_stats_count_subgraphs() -> None:
    def branch(a: torch.Tensor) -> torch.Tensor:
        return torch.cond(a.sum() > 0, lambda b: b.sin() + 1, lambda b: b.cos(), (a,))

    stats = plan_of(branch, torch.randn(3)).stats
    assert stats.subgraph_calls == 1 and stats.ops >= 6 and stats.library_calls == stats.ops - 1


def test_values_are_released_after_their_last_use() -> None:
    """At most the value that is made and the one that it is made of are alive."""

    def chain(a: torch.Tensor) -> torch.Tensor:
        for _ in range(8):
            a = a.sin()
        return a

    class Alive(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.made, self.most = list[Any](), 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            self.made.append(weakref.ref(result))
            self.most = max(self.most, sum(ref() is not None for ref in self.made))
            return result

    plan = plan_of(chain, torch.randn(3))
    a = torch.randn(3)
    with Alive() as alive:
        plan(a)
    assert len(alive.made) == 8 and alive.most <= 2
    assert plan.code.count("= None") >= 8


def test_what_was_baked_in_is_checked() -> None:
    def f(a: torch.Tensor, n: int, mode: str, scale: float | None = None) -> torch.Tensor:
        return a * n + (1 if mode == "one" else 0) + (scale or 0)

    a = torch.ones(3)
    compiled = fxc.compile(f, (a, 2, "one"), {"scale": None})
    torch.testing.assert_close(compiled(a, 2, "one", scale=None), f(a, 2, "one"))
    for args, scale in (((a, 3, "one"), None), ((a, 2.0, "one"), None), ((a, 2, "two"), None), ((a, 2, "one"), 1.5)):
        with pytest.raises(InputError, match="was baked in"):
            compiled(*args, scale=scale)
    with pytest.raises(InputError, match="is a tensor"):
        compiled(a, 2, "one", scale=a)


def test_memory_order_is_checked() -> None:
    """A plan for contiguous inputs has lost ``contiguous``: it would return the input itself for another."""
    a = torch.randn(3, 3)
    compiled = fxc.compile(lambda a: a.contiguous().view(-1), (a,))
    torch.testing.assert_close(compiled(a), a.view(-1))
    with pytest.raises(InputError, match=r"strides \(1, 3\), but a contiguous"):
        compiled(a.t())
    turned = fxc.compile(lambda a: a.contiguous().view(-1), (a.t(),))
    torch.testing.assert_close(turned(a.t()), a.t().reshape(-1))
    with pytest.raises(InputError, match="strides"):
        turned(a)
    fxc.compile(lambda a: a + 1, (torch.randn(1, 4),))(torch.randn(4, 1).t())  # the stride of one row says nothing


def test_free_sizes_and_expressions() -> None:
    batch = torch.export.Dim("batch", min=2, max=8)
    compiled = fxc.compile(
        lambda a, b: a.sum() + b, (torch.randn(4, 3), torch.randn(8, 3)), dynamic_shapes=({0: batch}, {0: 2 * batch})
    )
    compiled(torch.randn(3, 3), torch.randn(6, 3))
    for rows in ((3, 7), (9, 18), (1, 2)):
        with pytest.raises(InputError):
            compiled(torch.randn(rows[0], 3), torch.randn(rows[1], 3))
