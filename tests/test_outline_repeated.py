"""Repeated structure becomes one function: the same program when inlined again, the same numbers, and few functions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

import fxc
from fxc.export.graph_module import to_fx
from fxc.frontends.import_fx import import_fx
from fxc.passes import load as load_pass
from fxc.passes.analysis.constants import is_scalar_constant
from fxc.passes.analysis.structural_key import Structures
from fxc.passes.fusion.outline_repeated.outline_repeated import OutlineRepeatedPass
from fxc.passes.fusion.outline_repeated.repeated_ops import Repeat, repeats
from fxc.passes.rewriting.outlining import NO_INLINE
from fxc.program.program import entry_function
from tests.models.captures import capture_of
from tests.models.zoo import ZOO, load
from tests.random_modules import Sample
from tests.random_programs import CONTEXT, graphs


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=24), st.integers(1, 4))
def test_repeats_are_the_ones_that_a_search_of_all_finds(tokens: list[int], shortest: int) -> None:
    found = repeats(tokens, shortest)
    for repeat in found:
        runs = [tokens[start : start + repeat.length] for start in repeat.starts]
        assert all(run == runs[0] for run in runs) and len(runs) > 1 and repeat.length >= shortest
        assert all(a + repeat.length <= b for a, b in zip(repeat.starts, repeat.starts[1:], strict=False))
    assert (found[0].saved if found else 0) == _most_saved(tokens, shortest)


def _most_saved(tokens: list[int], shortest: int) -> int:
    best = 0
    for length in range(shortest, len(tokens) // 2 + 1):
        for first in range(len(tokens) - length + 1):
            starts, free = list[int](), 0
            for start in range(len(tokens) - length + 1):
                if start >= free and tokens[start : start + length] == tokens[first : first + length]:
                    starts.append(start)
                    free = start + length
            best = max(best, Repeat(length, tuple(starts)).saved)
    return best


def _structure(module: ModuleOp) -> list[object]:
    """The ops of the entry by what they compute of which values, without names; host constants are part of who reads them."""
    places, structures, lines = dict[SSAValue, int](), Structures(), list[object]()
    block = entry_function(module).body.block
    places.update((argument, i) for i, argument in enumerate(block.args))
    for op in block.ops:
        if not (op.results and is_scalar_constant(op.results[0])):
            lines.append((structures.key(op), [places[value] for value in structures.of(op).reads]))
        places.update((result, len(lines) * 100 + i) for i, result in enumerate(op.results))
    return [(repr(key[:2]), read) for key, read in lines]  # type: ignore[index,misc]


def _inlined(module: ModuleOp) -> ModuleOp:
    for op in module.ops:
        op.attributes.pop(NO_INLINE, None)
    for name in ("inline", "symbol-dce"):
        load_pass(name)().apply(CONTEXT, module)
    return module


@pytest.mark.share(6)
@pytest.mark.parametrize("route", ["export", "joint"])
@pytest.mark.parametrize("name", sorted(ZOO))
def test_zoo(name: str, route: str) -> None:
    if route == "export" and not ZOO[name].export:
        pytest.skip("the zoo has no export of it")
    program = fxc.run_passes(import_fx(capture_of(name, False, route)), "lower-to-torch,canonicalize")
    outlined = fxc.run_passes(program, "outline-repeated").module
    assert _structure(_inlined(outlined)) == _structure(program.module)


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_random_programs(sample: Sample) -> None:
    module = sample.module.clone()
    OutlineRepeatedPass(shortest=1).apply(CONTEXT, module)
    module.verify()
    assert _structure(_inlined(module)) == _structure(sample.module)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


@pytest.mark.parametrize("layers", [3, 24])
def test_functions_do_not_grow_with_depth(layers: int) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(*(Layer(8) for _ in range(layers))).eval(), torch.randn(2, 8)
    lowered = fxc.run_passes(fxc.capture(model, (x,)), "lower-to-torch,canonicalize,outline-repeated")
    assert sum(isinstance(op, FuncOp) for op in lowered.module.ops) == 2
    program = fxc.run_passes(lowered, "optimize{reductions=true},set-target{to=cpu},lower-kernels")
    kernels = sum(op.name == "tile.kernel" for op in program.module.ops)
    assert kernels <= 6
    torch.testing.assert_close(to_fx(program)(x), model(x))


def test_a_shared_weight_is_one_argument() -> None:
    layer = Layer(8)
    model, x = nn.Sequential(layer, layer, layer, layer).eval(), torch.randn(2, 8)
    lowered = fxc.run_passes(fxc.capture(model, (x,)), "lower-to-torch,canonicalize,outline-repeated")
    torch.testing.assert_close(to_fx(lowered)(x), model(x))
    calls = [op for op in lowered.module.walk() if op.name == "func.call"]
    assert len(calls) >= 3 and len({tuple(call.operands[1:]) for call in calls}) <= len(calls)


def test_the_pass_is_idempotent() -> None:
    model, inputs = load("gpt2")
    once = fxc.run_passes(fxc.capture(model.eval(), inputs), "lower-to-torch,canonicalize,outline-repeated")
    assert fxc.run_passes(once, "outline-repeated").text() == once.text()


@pytest.fixture(scope="module")
def deep() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(8) for _ in range(8)), nn.Linear(8, 3)).eval(), torch.randn(2, 5, 8)


class Block(nn.Module):
    """Attention and a layer of two products: what a transformer has again and again."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.layer = nn.LayerNorm(width), nn.Linear(width, 3 * width), Layer(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        return self.layer(x + nn.functional.scaled_dot_product_attention(q, k, v))


@pytest.mark.parametrize("freeze", [False, True])
def test_deep_models_call_one_function(deep: tuple[nn.Module, torch.Tensor], freeze: bool, tmp_path: Path) -> None:
    model, x = deep
    plan = fxc.compile(model, (x,), options={"target": "host", "freeze": freeze}).plan
    with torch.no_grad():
        expected = model(x)
        torch.testing.assert_close(plan(x), expected)
        plan.save(tmp_path / "plan.zip")
        torch.testing.assert_close(fxc.ExecutionPlan.load(tmp_path / "plan.zip")(x), expected)
    stats, kernels = plan.stats, sum(op.name == "tile.kernel" for op in plan.ir.module.ops)
    assert 6 <= stats.subgraph_calls <= 8, "seven layers or eight; weights that are packed once are not packed in a call"
    assert stats.launches >= 3 * stats.subgraph_calls and kernels <= 12


@pytest.mark.slow
def test_deep_models_train_by_torch_compile(deep: tuple[nn.Module, torch.Tensor]) -> None:
    model, x = deep[0][4:], deep[1]  # type: ignore[index]
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="fxc", options={"target": "host"})
    ours = torch.autograd.grad(compiled(x).square().sum(), list(model.parameters()))
    theirs = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    torch._dynamo.reset()
