"""Plans from trusted files that run without their IR: what they are the same in, and when the IR is what runs instead."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map

import fxc
from fxc.artifact import cache as program_cache
from fxc.artifact import plan_file
from fxc.errors import BoundsError, InputError, PlanFileError
from tests.test_plan_save_kernels import edit, with_other


class Net(torch.nn.Module):
    """Products, a tensor under two names, nested inputs and outputs, a number that is baked in."""

    def __init__(self) -> None:
        super().__init__()
        self.product, self.norm = torch.nn.Linear(24, 16, bias=False), torch.nn.LayerNorm(16)
        self.scale = torch.nn.Buffer(torch.randn(16))
        self.same = self.scale

    def forward(self, batch: dict[str, torch.Tensor], factor: float) -> dict[str, Any]:
        y = self.norm(self.product(batch["x"].tanh() * factor) * self.scale + self.same)
        return {"y": y.softmax(-1), "all": (y.sum(), [batch["more"] + 1])}


def args() -> tuple[dict[str, torch.Tensor], float]:
    generator = torch.Generator().manual_seed(1)
    return {"x": torch.randn(15, 24, generator=generator), "more": torch.randn(2, 3, generator=generator)}, 0.5


@pytest.fixture(scope="module")
def plan() -> fxc.ExecutionPlan:
    torch.manual_seed(0)
    made = fxc.compile(Net().eval(), args(), options={"target": "host"}).plan
    assert isinstance(made, fxc.ExecutionPlan)
    return made


@pytest.fixture(params=["folder", "zip"])
def saved(request: pytest.FixtureRequest, plan: fxc.ExecutionPlan, tmp_path: Path) -> Path:
    path = tmp_path / ("plan" if request.param == "folder" else "plan.zip")
    plan.save(path)
    return path


def is_ready(path: Path) -> bool:
    return isinstance(plan_file.read(path, trust_kernels=True), plan_file.Ready)


def assert_same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_ready_plan_is_the_plan(saved: Path, plan: fxc.ExecutionPlan, tmp_path: Path) -> None:
    assert is_ready(saved)
    loaded = fxc.ExecutionPlan.load(saved, trust_kernels=True)
    assert_same(loaded(*args()), plan(*args()))
    assert loaded.code == plan.code and loaded.signature == plan.signature and loaded.training is plan.training
    found, expected = loaded.stats, plan.stats
    for name in ("ops", "launches", "library_calls", "allocations", "arena_bytes", "peak_bytes", "parameter_bytes"):
        assert getattr(found, name) == getattr(expected, name), name
    with pytest.raises(InputError):
        loaded({**args()[0], "x": torch.zeros(15, 23)}, 0.5)
    assert str(loaded.ir) == str(plan.ir), "which is read now"
    loaded.save(tmp_path / "again.zip")
    assert_same(fxc.ExecutionPlan.load(tmp_path / "again.zip", trust_kernels=True)(*args()), plan(*args()))


def test_a_ready_plan_runs_over_its_own_tensors(saved: Path) -> None:
    loaded = fxc.ExecutionPlan.load(saved, trust_kernels=True)
    with torch.no_grad():
        loaded.ir.state["norm.weight"].zero_()
        loaded.ir.state["norm.bias"].zero_()
    assert_same(loaded(*args())["y"], torch.full((15, 16), 1 / 16))


def test_failed_checks_of_kernels_are_errors(tmp_path: Path) -> None:
    ids = torch.tensor([3, 1, 15])
    plan = fxc.compile(
        torch.nn.Sequential(torch.nn.Embedding(16, 24), torch.nn.GELU()), (ids,), options={"target": "host"}
    ).plan
    assert isinstance(plan, fxc.ExecutionPlan)
    plan.save(tmp_path / "plan")
    loaded = fxc.ExecutionPlan.load(tmp_path / "plan", trust_kernels=True)
    assert_same(loaded(ids), plan(ids))
    messages = list[str]()
    for each in (plan, loaded):
        with pytest.raises(BoundsError) as caught:
            each(ids + 1)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_the_graph_of_a_ready_plan(saved: Path, plan: fxc.ExecutionPlan) -> None:
    loaded = fxc.ExecutionPlan.load(saved, trust_kernels=True)
    assert_same(copy.deepcopy(loaded)(*args()), plan(*args()))
    with torch.no_grad():
        assert_same(loaded.module(*args()), plan(*args()))
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        batch, factor = args()
        fakes = {name: mode.from_tensor(tensor) for name, tensor in batch.items()}
    assert loaded(fakes, factor)["y"].shape == (15, 16)


@pytest.mark.slow
def test_running_it_needs_neither_the_ir_nor_dynamo(saved: Path) -> None:
    code = f"""
import sys
import torch
import fxc
plan = fxc.ExecutionPlan.load({str(saved)!r}, trust_kernels=True)
plan({{"x": torch.zeros(15, 24), "more": torch.ones(2, 3)}}, 0.5)
for name in ("xdsl", "sympy", "fxc.program.program", "torch._dynamo"):
    assert name not in sys.modules, name
plan.ir
assert "xdsl" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


HOST = "program.py"
MISFITS: dict[str, Callable[[Path], Any]] = {
    "changed": lambda folder: (folder / HOST).write_text((folder / HOST).read_text().replace("0.5", "0.7") + " "),
    "missing": lambda folder: (folder / HOST).unlink(),
    "not named": lambda folder: edit(folder, lambda m: m["files"].pop(HOST)),
    "no facts": lambda folder: edit(folder, lambda m: m.pop("host")),
    "wrong facts": lambda folder: edit(folder, lambda m: m.update(host=[1])),
    "no nesting": lambda folder: edit(folder, lambda m: m.pop("nesting")),
    "damaged nesting": lambda folder: edit(folder, lambda m: m.update(nesting="[1, {")),
    "other CPU": lambda folder: edit(folder, lambda m: m["host"].update(features="+no-cpu-has-this")),
    "other symbols": lambda folder: edit(folder, lambda m: m["host"].update(entry=".rust")),
    "no Python": lambda folder: with_other(folder, HOST, b"def main(:"),
    "no text": lambda folder: with_other(folder, HOST, b"\xff\xfe"),
    "nothing": lambda folder: with_other(folder, HOST, b""),
    "names of another": lambda folder: with_other(folder, HOST, (folder / HOST).read_bytes().replace(b"state['", b"state['x.")),
    "unknown operator": lambda folder: with_other(folder, HOST, (folder / HOST).read_bytes().replace(b"torch.mm", b"torch.mn")),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_where_it_does_not_fit_the_ir_runs(misfit: str, plan: fxc.ExecutionPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan")
    MISFITS[misfit](tmp_path / "plan")
    assert not is_ready(tmp_path / "plan")
    assert_same(fxc.ExecutionPlan.load(tmp_path / "plan", trust_kernels=True)(*args()), plan(*args()))


@pytest.mark.parametrize("name", ["program.mlir", "weights.safetensors"])
@pytest.mark.parametrize("harm", ["changed", "missing"])
def test_what_is_damaged_is_refused(name: str, harm: str, plan: fxc.ExecutionPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan")
    file = tmp_path / "plan" / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data)) if harm == "changed" else file.unlink()
    with pytest.raises(PlanFileError, match=f"incomplete: {name}" if harm == "missing" else f"damaged: {name}"):
        fxc.ExecutionPlan.load(tmp_path / "plan", trust_kernels=True)


def test_files_may_go_once_they_are_read(plan: fxc.ExecutionPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan")
    loaded = fxc.ExecutionPlan.load(tmp_path / "plan", trust_kernels=True)
    for file in (tmp_path / "plan").iterdir():
        file.unlink()
    assert_same(loaded(*args()), plan(*args()))
    assert str(loaded.ir) == str(plan.ir)


def test_a_cached_plan_runs_without_its_ir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FXC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(program_cache, "_START", math.inf)  # whoever edits fxc while this runs
    read, parse = list[str](), program_cache.parse_module
    monkeypatch.setattr(
        program_cache, "parse_module", lambda context, text, name: read.append(text) or parse(context, text, name)
    )
    model = Net().eval()
    first, second = (fxc.compile(model, args(), options={"target": "host", "cache_plans": True}) for _ in range(2))
    with torch.no_grad():
        model.norm.weight.mul_(2)
        assert_same(second(*args()), first(*args()))
    assert second.plan.stats.is_cached and second.plan.code == first.plan.code and not read
    assert second.signature == first.signature
    assert str(second.ir) == str(first.ir) and len(read) == 1
    assert all(second.ir.state[name] is tensor for name, tensor in first.ir.state.items())


def regions(a: torch.Tensor) -> Any:
    return torch.cond(a.sum() > 0, lambda x: (x.cos() * 2,), lambda x: (x.sin() + 1,), (a,))


@pytest.mark.parametrize("tree", [(), [torch.ones(3), {"a": (torch.zeros(2),)}]])
def test_nestings(tree: Any, tmp_path: Path) -> None:
    a = torch.ones(4, 8)

    def f(a: torch.Tensor, tree: Any) -> Any:
        return torch.softmax(a.tanh() * 2, -1), tree_map(lambda leaf: leaf, tree)  # new containers

    plan = fxc.compile(f, (a, tree), options={"target": "host"}).plan
    assert isinstance(plan, fxc.ExecutionPlan)
    plan.save(tmp_path / "plan")
    assert is_ready(tmp_path / "plan")
    loaded = fxc.ExecutionPlan.load(tmp_path / "plan", trust_kernels=True)
    assert_same(loaded(a, tree), plan(a, tree))
    with pytest.raises(InputError):
        loaded(a, [tree])


@pytest.mark.slow
def test_what_python_cannot_say_runs_from_the_ir(tmp_path: Path) -> None:
    a = torch.randn(64, 64)
    frozen = fxc.compile(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).eval(), (a,), options={"freeze": True})
    branches = fxc.compile(lambda a: regions(a)[0].tanh() * 3 + 1, (a,))
    for i, compiled in enumerate((frozen, branches)):
        compiled.plan.save(tmp_path / str(i))  # type: ignore[attr-defined]
        loaded = fxc.ExecutionPlan.load(tmp_path / str(i), trust_kernels=True)
        assert_same(loaded(a), compiled(a))
    assert json.loads((tmp_path / "0/manifest.json").read_text())["format"] == "fxc-plan"
