"""Attention as kernels that do not store its scores, against eager and float64: interpreter, simulator and machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from xdsl.dialects.builtin import ModuleOp

import fxc
from fxc.codegen.triton.printer import print_kernels
from fxc.dialects.plan import AllocOp
from fxc.dialects.target import preset, set_target
from fxc.interpret.tile_level import launch
from fxc.passes.operators.table import operator_of
from tests.access_proofs import unproved_in
from tests.kernel_engines import native, runner_of, simulated

KERNELS = "lower-to-torch,canonicalize,optimize{reductions=true},lower-kernels"


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def qkv(*batch: int, rows: int = 40, keys: int = 40, depth: int = 16, features: int = 16, **more: Any) -> tuple[Tensor, ...]:
    sizes = (rows, depth), (keys, depth), (keys, features)
    return tuple(random(*batch, *size, seed=place, **more) for place, size in enumerate(sizes))


def attention(change: Callable[..., Tensor] = lambda s: s) -> Callable[..., Tensor]:
    """Attention as it is written by hand, with ``change`` of the scores."""
    return lambda q, k, v, *more: torch.softmax(change(q @ k.transpose(-1, -2) * 0.25, *more), -1) @ v


def distance(s: Tensor) -> Tensor:
    return torch.arange(s.shape[-2])[:, None] - torch.arange(s.shape[-1])


def masked(s: Tensor, mask: Tensor) -> Tensor:
    return s.masked_fill(~mask, -torch.inf)


def soft_documents(q: Tensor, k: Tensor, v: Tensor, documents: Tensor, slopes: Tensor) -> Any:
    size = documents.shape[0]
    mask = create_block_mask(lambda b, h, i, j: (documents[i] == documents[j]) & (i >= j), None, None, size, size, device="cpu")

    def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return 2 * torch.tanh(s - slopes[h] * (i - j))

    return flex_attention(q, k, v, score_mod=score, block_mask=mask)


def nothing_seen(q: Tensor, k: Tensor, v: Tensor) -> Any:
    mask = create_block_mask(lambda b, h, i, j: i > j + 3, None, None, q.shape[-2], k.shape[-2], device="cpu")
    return flex_attention(q, k, v, block_mask=mask)


@dataclass(frozen=True)
class Case:
    function: Callable[..., Any]
    inputs: Sequence[Tensor]


def holes() -> tuple[Tensor, ...]:
    q, k, v = qkv(2)
    q[0, 3, 2], q[0, 5, 1], k[1, 7, 3], v[0, 2, 2] = torch.nan, torch.inf, -torch.inf, torch.inf
    return q, k, v


BIAS = random(3, 40, 40)
HALVES = {name: qkv(2, dtype=dtype) for name, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16))}

CASES = {
    "plain": Case(attention(), qkv(3)),
    "one matrix": Case(attention(), qkv(rows=100, keys=128, depth=64, features=24)),
    "causal": Case(attention(lambda s: masked(s, distance(s) >= 0)), qkv(2)),
    "window": Case(attention(lambda s: masked(s, distance(s).abs() < 5)), qkv(2, rows=17, keys=33)),
    "alibi": Case(attention(lambda s, m: s - m[:, None, None] * distance(s).abs()), (*qkv(3), random(3).abs())),
    "a captured bias": Case(attention(lambda s, b: s + b), (*qkv(3), BIAS)),
    "a bias of buckets": Case(
        attention(lambda s, t: s + t[distance(s).clamp(-4, 4) + 4].permute(2, 0, 1)), (*qkv(3), random(9, 3))
    ),
    "soft cap": Case(attention(lambda s: 5 * torch.tanh(s / 5)), qkv(2, depth=24)),
    "no row is seen": Case(attention(lambda s: masked(s, distance(s) > 0)), qkv(2)),
    "infinite": Case(attention(lambda s: torch.where(distance(s) == 9, torch.inf, s)), qkv(2)),
    "infinite and NaN factors": Case(attention(), holes()),
    "flex: documents": Case(soft_documents, (*qkv(1, 2, rows=48, keys=48), torch.arange(48) // 20, torch.tensor([0.5, 0.1]))),
    "flex: rows without keys": Case(nothing_seen, qkv(1, 2)),
    "flex: grouped heads": Case(
        lambda q, k, v: flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True), qkv(1, 2, rows=33, depth=8, features=8)
    ),
    "float32 scores of half": Case(
        lambda q, k, v: torch.softmax((q @ k.transpose(-1, -2)).float(), -1).to(v.dtype) @ v, HALVES["bfloat16"]
    ),
    "float16": Case(attention(), HALVES["float16"]),
}


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def program_of(case: Case, target: str) -> Any:
    program = fxc.capture(Model(case.function), tuple(case.inputs), route="make_fx")
    set_target(program.module, preset(target))
    return fxc.run_passes(program, KERNELS)


ENGINES = {"cuda:sm_90": (launch, simulated), "cpu:avx2": (launch, native)}


def products(module: ModuleOp) -> int:
    return sum(operator_of(op).factors is not None for op in module.walk())


@pytest.mark.share(2)
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    expected = case.function(*case.inputs)
    half = expected.dtype != torch.float32
    exact = case.function(*(value.double() if value.is_floating_point() else value for value in case.inputs))
    for target, engines in ENGINES.items():
        program = program_of(case, target)
        assert not products(program.module)
        assert not unproved_in(program.module)
        for engine in engines:
            monkeypatch.setattr("fxc.codegen.contract.launch_runner", runner_of(engine))
            actual = fxc.to_fx(program)(*case.inputs)
            if half:
                assert (actual - exact).abs().max() < 2 * (expected - exact).abs().max() + 1e-3
            else:
                torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
                torch.testing.assert_close(actual.double(), exact, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.slow
def test_triton_compiles_and_interprets_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="needs the triton extra: pip install fxc[triton]")
    from fxc.codegen.triton.ahead_of_time import compile_kernels
    from tests.triton_interpreter import TritonInterpreter

    case = CASES["window"]
    program = program_of(case, "cuda:sm_90")
    sources = [print_kernels(each.module)[0] for each in (program, program_of(CASES["float16"], "cuda:sm_90"))]
    assert len(compile_kernels(sources, "cuda:sm_90", cache=tmp_path)) == 2
    with TritonInterpreter() as engine:
        monkeypatch.setattr("fxc.codegen.contract.launch_runner", runner_of(engine))
        torch.testing.assert_close(fxc.to_fx(program)(*case.inputs), case.function(*case.inputs), rtol=1e-4, atol=1e-5)


def test_the_plan_has_no_memory_for_scores() -> None:
    case = Case(attention(lambda s: torch.tanh(s + distance(s))), qkv(4, rows=256, keys=256))
    compiled = fxc.compile(Model(case.function), tuple(case.inputs))
    allocated = [prod(op.results[0].type.get_shape()) for op in compiled.ir.module.walk() if isinstance(op, AllocOp)]  # type: ignore[union-attr]
    assert max(allocated, default=0) <= 4 * 256 * 16
    assert compiled.plan.stats.launches == 1
    torch.testing.assert_close(compiled(*case.inputs), case.function(*case.inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [{"rows": 1}, {"keys": 1}, {"depth": 1}, {"rows": 5}])
def test_few_scores_are_left_to_the_library(sizes: dict[str, int]) -> None:
    inputs = qkv(2, **sizes)
    compiled = fxc.compile(Model(attention(torch.tanh)), inputs)
    torch.testing.assert_close(compiled(*inputs), attention(torch.tanh)(*inputs), rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_eager() -> None:
    model = Model(attention(lambda s: 5 * torch.tanh(s / 5) + distance(s)))
    results = list[Any]()
    for function in (model, torch.compile(model, backend="fxc")):
        inputs = [value.clone().requires_grad_() for value in qkv(2)]
        function(*inputs).square().sum().backward()
        results.append([value.grad for value in inputs])
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-4)
