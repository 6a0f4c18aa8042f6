"""``fxc.compile(training=True)`` runs one pipeline: ``fxc-opt`` replays it, and what watches passes sees those of backward."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp

import fxc
from fxc.api import pipeline_for
from fxc.artifact import cache as program_cache
from fxc.codegen.contract import target_named
from fxc.compilation import passes
from fxc.dialects.autodiff import IMPLEMENTS
from fxc.dialects.plan import LaunchOp
from fxc.dialects.target import set_target
from fxc.export.graph_module import Derivative, to_fx
from fxc.options import Options
from fxc.pipelines import TRAINING
from fxc.program.program_signature import mark_gradients, signature_of
from fxc.tools.fxc_opt import run
from tests.training_models import leaf, weigh


def gated(x: Tensor, w: Tensor) -> Tensor:
    return torch.softmax(torch.tanh(x @ w) * torch.sigmoid(x @ w), -1)


def two(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.tanh(x @ w) * 2
    return torch.sigmoid(y) * x, y.exp() + w.sum()


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return leaf(torch.randn(6, 8)), leaf(torch.randn(8, 8))


def compiled_of(model: Any, inputs: tuple[Tensor, ...], **options: Any) -> fxc.Compiled:
    return fxc.compile(model, inputs, training=True, options={"target": "host", "cache_plans": False, **options})


def derivatives_of(compiled: fxc.Compiled) -> list[Derivative]:
    return [module for module in compiled.plan.module.modules() if isinstance(module, Derivative)]


@pytest.mark.parametrize("target", [None, "host"])
def test_fxc_opt_replays_it(target: str | None, inputs: tuple[Tensor, Tensor]) -> None:
    compiled = compiled_of(gated, inputs, target=target)
    program = fxc.capture(gated, inputs)
    mark_gradients(program, signature_of(program), inputs, {})
    if target is not None:
        set_target(program.module, target_named(target))
    code, out, err = run(
        ["-", f"--pass-pipeline={pipeline_for(TRAINING, Options(target=target))}"], program.text(debuginfo=True)
    )
    assert code == 0, err
    assert out.strip() == str(compiled.ir).strip()


def test_modules_for_backward_and_forward(inputs: tuple[Tensor, Tensor]) -> None:
    module = compiled_of(gated, inputs).ir.module
    made = [op for op in module.ops if isinstance(op, ModuleOp)]
    assert [str(op.attributes[IMPLEMENTS]) for op in made] == ["@subgraph_df", "@subgraph"]
    assert all(any(isinstance(op, LaunchOp) for op in each.walk()) for each in made)


def test_passes_of_backward_are_printed_and_timed(inputs: tuple[Tensor, Tensor], capfd: pytest.CaptureFixture[str]) -> None:
    compiled = compiled_of(gated, inputs, print_ir=True)
    _, err = capfd.readouterr()
    printed = re.findall(r"IR Dump After (\S+)", err)
    assert printed.index("specialize-derivatives") < printed.index("lower-grad-of") < printed.index("outline-forwards")
    assert {"'builtin.module' Pipeline", "specialize-derivatives"} <= compiled.plan.times.keys()


def test_export_and_backward_run_no_pass(inputs: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled_of(gated, inputs).ir
    monkeypatch.setattr(passes, "run_pipeline", None)
    x, w = inputs
    found = torch.autograd.grad(weigh(fxc.to_fx(program)(x, w)), inputs)
    torch.testing.assert_close(found, torch.autograd.grad(weigh(gated(x, w)), inputs))


@pytest.mark.slow
def test_other_gradients_are_compiled_by_the_same_runner(
    inputs: tuple[Tensor, Tensor], capfd: pytest.CaptureFixture[str]
) -> None:
    compiled = compiled_of(two, inputs, print_ir=True)
    [derivative] = derivatives_of(compiled)
    assert len(list(derivative.children())) == 1
    capfd.readouterr()
    found = torch.autograd.grad(weigh(compiled(*inputs)[0]), inputs, allow_unused=True)
    torch.testing.assert_close(found, torch.autograd.grad(weigh(two(*inputs)[0]), inputs, allow_unused=True))
    assert len(list(derivative.children())) == 2
    assert "lower-grad-of" in capfd.readouterr().err


def test_other_gradients_are_found_on_disk(
    inputs: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("FXC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(program_cache, "_START", float("inf"))
    for round in range(2):
        compiled = compiled_of(two, inputs, cache_plans=True)
        found = torch.autograd.grad(weigh(compiled(*inputs)[0]), inputs, allow_unused=True)
        torch.testing.assert_close(found, torch.autograd.grad(weigh(two(*inputs)[0]), inputs, allow_unused=True))
        assert compiled.plan.stats.is_cached == bool(round)
        monkeypatch.setattr(passes, "run_pipeline", None)


def test_a_module_that_implements_something_else_is_refused(inputs: tuple[Tensor, Tensor]) -> None:
    program = compiled_of(gated, inputs, target=None).ir
    [made] = [op for op in program.module.ops if isinstance(op, ModuleOp)]
    main = next(op for op in made.ops if isinstance(op, FuncOp))
    main.properties["function_type"] = FunctionType.from_lists(main.function_type.inputs.data[1:], [])
    with pytest.raises(fxc.errors.InputError, match=r"a module implements @subgraph_df, .* but its entry is"):
        fxc.to_fx(program)


def test_a_graph_without_passes_says_so(inputs: tuple[Tensor, Tensor]) -> None:
    program = compiled_of(two, inputs).ir
    program.later = None
    with pytest.raises(fxc.errors.InputError, match="is not specialized for the gradients that come in"):
        weigh(to_fx(program)(*inputs)[0]).backward()


class Frozen(nn.Module):
    """A part in inference mode before one that is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    @torch.inference_mode()
    def features(self, x: Tensor) -> Tensor:
        return self.first(x)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.features(x), self.second(self.features(x)).sum()


def test_inference_mode_in_a_model() -> None:
    """Its results need no gradient, as under ``no_grad``; eager mode cannot save them for a backward."""
    model, x = Frozen(), torch.randn(2, 3)
    features, total = fxc.compile(model, (x,), training=True)(x)
    assert not features.requires_grad
    torch.testing.assert_close(features, model.features(x))
    total.backward()
    assert model.first.weight.grad is None
    torch.testing.assert_close(model.second.weight.grad, features.sum(0).expand(3, 3))
