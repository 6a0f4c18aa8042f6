"""What a static world answers is what PyTorch's own fake tensors do, and passes that are content with it import no Dynamo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from xdsl.dialects.builtin import DictionaryAttr
from xdsl.dialects.func import FuncOp

import fxc
from fxc.bridge.static_world import IS_PLAIN, NoFake, StaticFakeMode, StaticWorld, without_dynamo
from fxc.bridge.tensors import FakeWorld
from fxc.dialects.semantics import CannotInfer
from tests.models.zoo import ZOO, load

pytestmark = pytest.mark.skipif(not IS_PLAIN, reason="PyTorch is asked of this version")

ROOT = Path(__file__).parent.parent
ASKING = ("decompose", "inference", "out_variants", "torch_semantics")


class Both:
    """Stands for ``evaluate``: asks PyTorch's world, and compares what a static one says, where that says something."""

    def __init__(self) -> None:
        self.same, self.failed = 0, list[str]()

    def __call__(self, question: Callable[[FakeWorld], Any], symbols: DictionaryAttr | None, *_: Any) -> Any:
        if symbols:
            return question(FakeWorld(symbols))
        try:
            with without_dynamo():
                found = question(StaticWorld())
        except NoFake:
            with pytest.raises(CannotInfer):
                question(FakeWorld())
            raise
        except Exception as error:
            self.failed.append(f"{question.__qualname__}: {error}")
            return question(FakeWorld())
        assert told(question(FakeWorld())) == told(found)
        self.same += 1
        return found


def told(answer: Any) -> Any:
    """``answer`` as something to compare."""
    if isinstance(answer, FuncOp):
        return str(answer)
    if isinstance(answer, Tensor):
        return answer.dtype, tuple(answer.shape), answer.stride(), answer.requires_grad
    return list(map(told, answer)) if isinstance(answer, (list, tuple)) else answer


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Both:
    monkeypatch.setenv("FXC_CACHE_DIR", str(tmp_path))
    asked = Both()
    for name in ASKING:
        monkeypatch.setattr(f"fxc.semantics.{name}.evaluate", asked)
    monkeypatch.setattr("fxc.semantics.inference.question_key", lambda op, symbols: object())  # each question is asked
    return asked


@pytest.mark.slow
@pytest.mark.share(40)
@pytest.mark.parametrize("freeze", [False, True], ids=["", "frozen"])
@pytest.mark.parametrize("name", ZOO)
def test_answers_are_those_of_pytorchs_fake_mode(name: str, freeze: bool, both: Both) -> None:
    model, inputs = load(name)
    with torch.no_grad():
        fxc.compile(model, inputs, options={"target": "host", "freeze": freeze})
    fxc.run_passes(fxc.capture(model, inputs), "lower-to-torch,canonicalize,torchscript{reductions=true}")
    assert both.same > 10 and len(both.failed) <= 0.1 * both.same, both.failed


FORMS: dict[str, Callable[[Tensor], Any]] = {
    "views": lambda x: (x.t()[1:, ::2], x.reshape(-1), x.expand(2, *x.shape), x.view(torch.int32)),
    "no elements": lambda x: (x[:0].sum(0), torch.cat([x[:0], x]), x[:0].t().contiguous()),
    "half": lambda x: (x.half().softmax(0), x.bfloat16().mean(), x.half() + x),
    "integers": lambda x: (x.argmax(0), x.long() * 2, x.int().sum(), x.bool().any(0), x.long().float().mean(1)),
    "0-d": lambda x: (x.sum() * 2, x.max(), x[0, 0].unsqueeze(0)),
    "several": lambda x: (*x.split(2), x.topk(2), torch.var_mean(x, 0), x.sort(1, descending=True)),
    "layouts": lambda x: (torch.empty_like(x.t()), x.t().clone(), x[None, None].to(memory_format=torch.channels_last).relu()),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_that_models_of_the_zoo_lack(name: str, both: Both) -> None:
    program = fxc.capture(FORMS[name], (torch.randn(4, 6),))
    fxc.run_passes(program, "lower-to-torch,optimize{reductions=true}")
    assert both.same and not both.failed


def test_what_is_not_static_is_refused() -> None:
    world = StaticWorld()
    for text in ("!torch.int", '!torch.float<"s0">', 'tensor<?xf32, #torch.meta<sizes = ["s0"]>>'):
        type = argument_of(text)
        with pytest.raises(fxc.errors.FxcError):
            world.unknown_number(type) if text.startswith("!") else world.fake(type)
    with pytest.raises(fxc.errors.FxcError):
        world.fake(argument_of('tensor<3xf32, #torch.meta<device = "cuda:0">>'))


def argument_of(type: str) -> Any:
    program = fxc.Program.parse(f"func.func @main(%x: {type}) -> {type} {{\n  func.return %x : {type}\n}}")
    return program.main.body.block.args[0].type


def test_sizes_that_depend_on_data_are_asked_of_pytorch() -> None:
    program = fxc.capture(lambda x: x.nonzero() + 1, (torch.ones(3),))
    assert "u0" in str(fxc.run_passes(program, "lower-to-torch,propagate-shapes"))


def test_a_result_that_shares_memory_is_not_made_anew() -> None:
    mode = StaticFakeMode()
    x = mode.made([2, 3], [3, 1], torch.float32)
    for _ in range(2):
        with mode:
            y = torch.ops.aten._unsafe_view.default(x, [3, 2])
            z = torch.ops.aten.mul.Tensor(x, x)
        assert y.untyped_storage()._cdata == x.untyped_storage()._cdata != z.untyped_storage()._cdata


@pytest.mark.slow
def test_switches_of_dynamo_nest() -> None:
    code = """
import sys
from fxc.bridge import static_world
with static_world.without_dynamo():
    with static_world.without_dynamo():
        pass
    assert all(hasattr(each, "__dynamo_disable") for each in static_world._switched())
assert not any(hasattr(each, "__dynamo_disable") for each in static_world._switched())
assert "torch._dynamo" not in sys.modules
"""
    run(code)


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "freeze"), [("gpt2", False), ("resnet", False), ("vit", True), ("convnext", True)])
def test_a_cold_start_imports_no_dynamo(name: str, freeze: bool, tmp_path: Path) -> None:
    code = f"""
import sys
import torch
import fxc
from tests.models.zoo import load
model, inputs = load({name!r})
with torch.no_grad():
    compiled = fxc.compile(model, inputs, options={{"target": "host", "freeze": {freeze}}})
    torch.testing.assert_close(compiled(*inputs), model(*inputs))
assert "torch._dynamo" not in sys.modules
compiled.plan.save({str(tmp_path / "plan")!r})
"""
    run(code, FXC_CACHE_DIR=str(tmp_path / "cache"))
    loaded = f"""
import sys
import torch
import fxc
plan = fxc.ExecutionPlan.load({str(tmp_path / "plan")!r}, trust_kernels=True)
assert not any(each in sys.modules for each in ("torch._dynamo", "sympy", "networkx", "fxc.interpret.linalg_level"))
"""
    run(loaded, FXC_CACHE_DIR=str(tmp_path / "other"))


def run(code: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
