"""Files of execution plans: what survives them, and that those which are not right are refused without running anything."""

from __future__ import annotations

import collections
import contextlib
import copy
import enum
import importlib
import io
import json
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import StringAttr

import fxc
from fxc.artifact import archive, plan_file
from fxc.errors import FxcError, InputError, PlanFileError, WeightsError
from fxc.program.weights import load_state, save_state
from tests.plan_models import Net, make_net, plan_of, x

PIPELINE = "lower-to-torch,simplify"


@pytest.fixture
def net() -> Net:
    return make_net()


@pytest.fixture(params=["folder", "zip"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / ("plan" if request.param == "folder" else "plan.zip")


def test_save_and_load(net: Net, path: Path) -> None:
    args = x(), {"bias": torch.ones(4)}
    plan = plan_of(net, *args)
    plan.save(path)
    loaded = fxc.ExecutionPlan.load(path)
    torch.testing.assert_close(loaded(*args), plan(*args), rtol=0, atol=0)
    assert loaded.code == plan.code and str(loaded.ir) == str(plan.ir) and loaded.signature == plan.signature
    assert not loaded.training and set(loaded.stats.times) == {"read", "export"}
    with pytest.raises(InputError):
        loaded(x(2), args[1])
    path2 = path.with_name(f"again{path.suffix}")
    loaded.save(path2)
    torch.testing.assert_close(fxc.ExecutionPlan.load(path2)(*args), plan(*args), rtol=0, atol=0)


def test_plans_in_pickles() -> None:
    model = torch.nn.Linear(4, 2)
    for training in (False, True):
        compiled = fxc.compile(model, (x(),), training=training)
        expected = compiled(x())
        torch.save(compiled, file := io.BytesIO())
        for loaded in (pickle.loads(pickle.dumps(compiled)), torch.load(io.BytesIO(file.getvalue()), weights_only=False)):
            torch.testing.assert_close(loaded(x()), expected, rtol=0, atol=0)
            assert loaded.training == training and loaded(x()).requires_grad == training
        assert copy.copy(compiled).plan is compiled.plan and copy.deepcopy(compiled).plan is not compiled.plan
    recompiling = fxc.compile(model, (x(),), options={"recompile": True})
    with pytest.raises(PlanFileError, match=r"(?s)holds its model.*hint: pickle or save one of its plans"):
        pickle.dumps(recompiling)


def test_copies_of_training_plans_with_kernels_share_their_programs() -> None:
    layers = [torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 2)]
    compiled = fxc.compile(torch.nn.Sequential(*layers), (x(),), training=True, options={"target": "host"})
    for plan in (compiled, copy.deepcopy(compiled)):
        (result := plan(x())).square().sum().backward()
        assert result.requires_grad


def test_equal_plans_are_equal_files(net: Net, tmp_path: Path) -> None:
    plan = plan_of(net, x())
    plan.save(tmp_path / "a.zip")
    plan.save(tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_weights_are_saved_as_they_are_now(net: Net, path: Path) -> None:
    plan = plan_of(net, x())
    with torch.no_grad():
        net.first.weight.zero_()
    plan.save(path)
    torch.testing.assert_close(fxc.ExecutionPlan.load(path)(x()), net(x()), rtol=0, atol=0)


def test_a_loaded_plan_trains(net: Net, path: Path) -> None:
    fxc.compile(net, (x(),), training=True).plan.save(path)
    loaded = fxc.ExecutionPlan.load(path)
    assert loaded.training
    loaded(x())["y"].square().sum().backward()
    net(x())["y"].square().sum().backward()
    found = dict(loaded.module.named_parameters())
    for name, parameter in net.named_parameters():
        assert found[name].requires_grad == parameter.requires_grad, name
        torch.testing.assert_close(found[name].grad, parameter.grad)
    loaded.save(path)
    assert fxc.ExecutionPlan.load(path).training


def test_state_keeps_its_kind(tmp_path: Path) -> None:
    """Memory order, dtypes, and one tensor under two names."""

    class Mixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
            self.register_buffer("steps", torch.tensor(3))
            self.register_buffer("phase", torch.randn(4, 6, 6, dtype=torch.complex64))
            self.register_buffer("short", torch.randn(4, 1, 1).bfloat16())
            self.register_buffer("same", self.short)
            self.register_buffer("empty", torch.empty(0, 4))

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return self.conv(a) * self.steps + self.phase.real + self.short + self.same + self.empty.sum()

    net, image = Mixed(), torch.randn(2, 3, 8, 8)
    plan = plan_of(net, image)
    plan.save(tmp_path / "plan")
    loaded = fxc.ExecutionPlan.load(tmp_path / "plan")
    assert torch.equal(loaded(image), plan(image)) and loaded(image).stride() == plan(image).stride()
    state = loaded.ir.state
    assert state["conv.weight"].stride() == net.conv.weight.stride()
    assert "same" not in state or state["same"] is state["short"]


def test_free_sizes_survive(path: Path) -> None:
    batch = torch.export.Dim("batch", min=2, max=8)
    plan = plan_of(lambda a: a * 2, torch.randn(4, 3), dynamic_shapes=({0: batch},))
    plan.save(path)
    loaded = fxc.ExecutionPlan.load(path)
    torch.testing.assert_close(loaded(torch.ones(5, 3)), torch.full((5, 3), 2.0))
    with pytest.raises(InputError, match=r"lies in \[2, 8\]"):
        loaded(torch.ones(9, 3))


@pytest.mark.parametrize("value", [None, True, 3, 1.5, float("nan"), float("inf"), -0.0, "text", 2**70])
def test_constants_survive(value: Any, tmp_path: Path) -> None:
    plan = plan_of(lambda a, n: a + 1, torch.ones(2), value)
    plan.save(tmp_path / "plan")
    loaded = fxc.ExecutionPlan.load(tmp_path / "plan")
    torch.testing.assert_close(loaded(torch.ones(2), value), torch.full((2,), 2.0))
    with pytest.raises(InputError):
        loaded(torch.ones(2), "other")


@pytest.mark.parametrize("before", range(1, 5))
def test_loaded_tensors_start_where_their_elements_may(before: int, tmp_path: Path) -> None:
    """A file of weights lays complex numbers at any eight bytes, at which PyTorch's kernels do not read them."""
    state = {"number": torch.tensor(2, dtype=torch.complex128), "rows": torch.ones(before, 3, dtype=torch.complex128)}
    state |= {f"index{i}": torch.arange(1 + 2 * i) for i in range(before)}
    save_state(state, tmp_path / "weights.safetensors")
    found = load_state(tmp_path / "weights.safetensors", state)
    assert all(tensor.data_ptr() % tensor.element_size() == 0 for tensor in found.values())
    torch.testing.assert_close(found, state)


def test_a_loaded_plan_adds_complex_numbers(tmp_path: Path) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.index_put((torch.tensor([1, 2]),), torch.tensor(2, dtype=x.dtype), accumulate=True)

    x = torch.randn(5, 1, dtype=torch.complex128)
    fxc.compile(f, (x,)).plan.save(tmp_path / "plan.zip")
    torch.testing.assert_close(fxc.ExecutionPlan.load(tmp_path / "plan.zip")(x), f(x))


def test_a_plan_without_weights(tmp_path: Path, net: Net) -> None:
    """A folder that held a plan with weights holds none of them afterwards."""
    plan_of(net, x()).save(tmp_path / "plan")
    plan_of(lambda a: a.relu(), x()).save(tmp_path / "plan")
    assert sorted(p.name for p in (tmp_path / "plan").iterdir()) == ["manifest.json", "program.mlir"]
    torch.testing.assert_close(fxc.ExecutionPlan.load(tmp_path / "plan")(x()), x().relu())


def test_the_manifest_says_what_is_in_the_file(net: Net, tmp_path: Path) -> None:
    plan_of(net, x()).save(tmp_path / "plan")
    manifest = json.loads((tmp_path / "plan/manifest.json").read_text())
    assert (manifest["format"], manifest["version"], manifest["training"]) == ("fxc-plan", 8, False)
    assert manifest["versions"]["torch"] == torch.__version__ and set(manifest["versions"]) == {"fxc", "torch", "xdsl"}
    assert manifest["signature"]["inputs"][0]["sizes"] == [3, 4] and manifest["signature"]["nesting"].startswith("#fx.nesting")
    assert set(manifest["files"]) == {"program.mlir", "weights.safetensors"}
    assert "loc(" in (tmp_path / "plan/program.mlir").read_text()


def test_saving_replaces_nothing_but_plans(net: Net, tmp_path: Path) -> None:
    plan = plan_of(net, x())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("42")
    (tmp_path / "mine.zip").write_text("42")
    for name in ("mine", "mine.zip", "mine/thesis.txt"):
        with pytest.raises(PlanFileError, match=r"is there already|other things in it|is a file"):
            plan.save(tmp_path / name)
    assert (tmp_path / "mine/thesis.txt").read_text() == (tmp_path / "mine.zip").read_text() == "42"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "mine.zip"], "no scratch files are left"


@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_a_link_stays_one(suffix: str, net: Net, tmp_path: Path) -> None:
    real, link = tmp_path / f"real{suffix}", tmp_path / f"elsewhere/link{suffix}"
    link.parent.mkdir()
    link.symlink_to(real)
    for _ in range(2):
        plan_of(net, x()).save(link)
    assert link.is_symlink() and [path.name for path in link.parent.iterdir()] == [link.name]
    assert fxc.ExecutionPlan.load(real).code == plan_of(net, x()).code


def test_a_folder_that_cannot_be_made(net: Net, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanFileError, match="cannot write"):
        plan_of(net, x()).save(tmp_path / "file/plan")


# files that are not right: each one clear error, and nothing of theirs runs


@pytest.fixture
def saved(net: Net, tmp_path: Path) -> Path:
    plan_of(net, x()).save(tmp_path / "plan")
    return tmp_path / "plan"


def refuse(path: Path, match: str, error: type[Exception] = PlanFileError) -> None:
    with pytest.raises(error, match=match):
        fxc.ExecutionPlan.load(path)


def test_nothing_there(tmp_path: Path) -> None:
    refuse(tmp_path / "nothing", "there is no plan at")
    (tmp_path / "empty").mkdir()
    refuse(tmp_path / "empty", "it has no manifest.json")


@pytest.mark.parametrize("name", ["program.mlir", "weights.safetensors"])
@pytest.mark.parametrize("harm", ["truncated", "changed", "missing", "empty", "longer"])
def test_damaged_files(saved: Path, name: str, harm: str) -> None:
    file = saved / name
    data = file.read_bytes()
    middle = len(data) // 2
    if harm == "missing":
        file.unlink()
    else:
        changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        file.write_bytes({"truncated": data[:-7], "changed": changed, "empty": b"", "longer": data + b"\0"}[harm])
    refuse(saved, f"incomplete: {name} is missing" if harm == "missing" else f"damaged: {name}")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": "zip"}', "[" * 100_000, "\0", '{"format": "fxc-plan"}'])
def test_damaged_manifests(saved: Path, text: str) -> None:
    (saved / "manifest.json").write_text(text)
    refuse(saved, "manifest|format version")


def test_a_manifest_that_is_no_text(saved: Path) -> None:
    (saved / "manifest.json").write_bytes(b"\xff\xfe\x00")
    refuse(saved, "damaged manifest")


def test_a_manifest_that_was_edited(saved: Path) -> None:
    file = saved / "manifest.json"
    file.write_text(file.read_text().replace('"training": false', '"training": true'))
    refuse(saved, "checksum is wrong")


def edit(saved: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """A manifest that someone changed with care, checksum and all."""
    manifest = json.loads((saved / "manifest.json").read_text())
    change(manifest)
    manifest["sha256"] = archive.self_hash(manifest)
    (saved / "manifest.json").write_text(json.dumps(manifest))


WRONG_CONSTANT = {"other": "n", "types": [], "symbol": None, "constant": ["os", 1]}


@pytest.mark.parametrize(
    "change, match",
    [
        (lambda m: m.update(version=2), "format version 2, but this fxc reads version 8"),
        (lambda m: m["versions"].update(torch="1.0.0"), "saved under torch 1.0.0, but this is torch"),
        (lambda m: m["versions"].update(fxc="99.0"), "saved under fxc 99.0"),
        (lambda m: m["versions"].pop("xdsl"), "saved under xdsl None"),
        (lambda m: m.update(versions=3), "'versions' is missing or wrong"),
        (lambda m: m.pop("files"), "'files' is missing or wrong"),
        (lambda m: m["files"].pop("program.mlir"), "names other files"),
        (lambda m: m["files"].update({"../../etc/passwd": {}}), "names other files"),
        (lambda m: m["files"].update({"program.mlir": 3}), "wrong entries"),
        (lambda m: m["files"].pop("weights.safetensors"), "names other tensors"),
        (lambda m: m["state"].pop("first.weight"), "names other tensors"),
        (lambda m: m["state"].update({"first.weight": 3}), "wrong entries for first.weight"),
        (lambda m: m["state"]["first.weight"].update(device="nowhere"), "first.weight cannot be put on nowhere"),
        (lambda m: m.update(training="yes"), "'training' is missing or wrong"),
        (lambda m: m.pop("signature"), "'signature' is missing or wrong"),
        (lambda m: m["signature"].update(nesting="#fx.nesting<((_, _), {})>"), "nests its inputs otherwise"),
        (lambda m: m["signature"].update(inputs=[]), "holds 1 inputs, but the program takes 0"),
        (lambda m: m["signature"].update(inputs=[3]), "signature that cannot be read"),
        (lambda m: m["signature"]["inputs"][0].pop("sizes"), "signature that cannot be read"),
        (lambda m: m["signature"]["inputs"][0].update(sizes=[[1]]), "signature that cannot be read"),
        (lambda m: m["signature"]["inputs"][0].update(dtype="Tensor"), "no dtype Tensor"),
        (lambda m: m["signature"]["inputs"][0].update(device="nowhere"), "input x: PyTorch has no device nowhere"),
        (
            lambda m: m["signature"].update(inputs=[WRONG_CONSTANT]),
            "is no constant",
        ),
        (lambda m: m["signature"].update(bounds=[1]), "signature that cannot be read"),
    ],
)
def test_manifests_that_do_not_fit(saved: Path, change: Callable[[dict[str, Any]], Any], match: str) -> None:
    edit(saved, change)
    refuse(saved, match, fxc.errors.FxcError)


def entries(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all entries in JSON."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield (*path, key)
        yield from entries(inner, (*path, key))


@pytest.mark.parametrize("wrong", [None, -1, "x", [], {"a": [1]}])
def test_any_entry_of_a_manifest_may_be_wrong(saved: Path, wrong: Any) -> None:
    text = (saved / "manifest.json").read_text()
    for path in entries(json.loads(text)):
        manifest = json.loads(text)
        around = manifest
        for key in path[:-1]:
            around = around[key]
        around[path[-1]] = wrong
        manifest["sha256"] = archive.self_hash(manifest)
        (saved / "manifest.json").write_text(json.dumps(manifest))
        with contextlib.suppress(FxcError):  # what is wrong may not matter
            plan_file.read(saved, trust_kernels=True)


def test_files_of_other_plans(saved: Path, tmp_path: Path) -> None:
    """The weights of another model, under a manifest that vouches for them."""
    other = tmp_path / "other"
    plan_of(torch.nn.Linear(4, 4), x()).save(other)
    (saved / "weights.safetensors").write_bytes((other / "weights.safetensors").read_bytes())
    facts = json.loads((other / "manifest.json").read_text())["files"]["weights.safetensors"]
    edit(saved, lambda m: m["files"].update({"weights.safetensors": facts}))
    refuse(saved, "has no tensor", WeightsError)


def test_weights_that_are_no_weights(saved: Path) -> None:
    (saved / "weights.safetensors").write_bytes(b"\xff" * 64)
    facts = {"bytes": 64, "sha256": archive.sha256(saved / "weights.safetensors")}
    edit(saved, lambda m: m["files"].update({"weights.safetensors": facts}))
    refuse(saved, "not a readable weights file", WeightsError)


def test_zip_files(saved: Path, tmp_path: Path) -> None:
    plan = fxc.ExecutionPlan.load(saved)
    whole = tmp_path / "whole.zip"
    plan.save(whole)
    data = whole.read_bytes()
    for name, content in {"short.zip": data[: len(data) // 2], "text.zip": b"hello", "empty.zip": b""}.items():
        (tmp_path / name).write_bytes(content)
        refuse(tmp_path / name, "damaged, or no zip file")
    with zipfile.ZipFile(whole) as archive:
        places = [info.header_offset + 30 + len(info.filename) + info.compress_size // 2 for info in archive.infolist()]
    for place in places:
        (tmp_path / "changed.zip").write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        refuse(tmp_path / "changed.zip", "damaged")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "hello")
    refuse(tmp_path / "other.zip", "it has no manifest.json")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in saved.iterdir():
            archive.write(file, file.name)
    refuse(tmp_path / "packed.zip", "not one that fxc wrote")
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        for file in (*saved.iterdir(), *saved.iterdir()):
            archive.write(file, file.name)
    refuse(tmp_path / "twice.zip", "not one that fxc wrote")


def test_a_pickle_is_no_plan(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "model.pt")
    refuse(tmp_path / "model.pt", "it has no manifest.json")


def test_loading_imports_nothing_that_the_file_names(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as the nesting of the inputs, where PyTorch's own reader imports modules, nor as a callee."""
    (tmp_path / "trap.py").write_text("raise SystemExit('the trap was sprung')")
    monkeypatch.syspath_prepend(tmp_path)
    enum_context = json.dumps([{"__enum__": True, "fqn": "trap:A", "name": "x"}])
    factory = {"default_factory_module": "trap", "default_factory_name": "A", "dict_context": ["a"]}
    leaf = {"type": None, "context": None, "children_spec": []}
    traps = list[Path]()
    for kind, context in (("builtins.dict", enum_context), ("collections.defaultdict", factory)):
        nesting = json.dumps([1, {"type": kind, "context": context, "children_spec": [leaf]}])
        text = (saved / "program.mlir").read_text()
        start = text.index("fx.inputs = #fx.nesting<") + len("fx.inputs = ")
        end = text.index(">", start) + 1
        changed = text[:start] + json.dumps(nesting) + text[end:]
        traps.append(trap := tmp_path / kind)
        fxc.ExecutionPlan.load(saved).save(trap)
        (trap / "program.mlir").write_text(changed)
        facts = {"bytes": len(changed.encode()), "sha256": archive.sha256(trap / "program.mlir")}
        edit(trap, lambda m, f=facts: m["files"].update({"program.mlir": f}))
        edit(trap, lambda m, n=nesting: m["signature"].update(nesting=str(StringAttr(n))))
    for trap in traps:
        with pytest.raises(FxcError, match="nesting cannot be read"):
            fxc.ExecutionPlan.load(trap)
    assert "trap" not in sys.modules
    with pytest.raises(SystemExit, match="the trap was sprung"):
        importlib.import_module("trap")


Color = enum.Enum("Color", "RED GREEN")


def test_nestings_of_enums_and_default_dicts(path: Path) -> None:
    def f(tree: Any) -> Any:
        return {Color.RED: tree[Color.GREEN] + 1, Color.GREEN: collections.defaultdict(list, a=tree[Color.RED])}

    args = {Color.RED: torch.ones(2), Color.GREEN: torch.zeros(2)}
    plan = plan_of(f, args)
    plan.save(path)
    loaded = fxc.ExecutionPlan.load(path)
    torch.testing.assert_close(loaded(args)[Color.RED], torch.ones(2))
    assert loaded(args)[Color.GREEN]["b"] == []


def test_a_plan_of_things_of_this_process(tmp_path: Path) -> None:
    """A module of the user's own class, called as it is: there is no text for it."""

    class Own(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return a + 1

    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
            return True

    root = torch.nn.Sequential(Own())
    program = fxc.import_fx(torch.fx.GraphModule(root, Tracer().trace(root)), [torch.ones(2)])
    from fxc.program.program_signature import signature_of

    plan = fxc.ExecutionPlan(program, fxc.to_fx(program), signature_of(program), False)
    torch.testing.assert_close(plan(torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(PlanFileError, match="calls what only this process has"):
        plan.save(tmp_path / "plan")
    assert not (tmp_path / "plan").exists()


def test_a_plan_with_derivatives(path: Path) -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.exp(a) * b)

    a, b = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    options = {"pipeline": f"{PIPELINE},create-autodiff-subgraphs,differentiate"}
    plan = plan_of(f, a, b, training=True, options=options)
    assert plan.stats.subgraph_calls == 1 and "self.subgraph" in plan.code
    plan.save(path)
    for each in (plan, fxc.ExecutionPlan.load(path)):
        torch.testing.assert_close(each(a, b), f(a, b))
        assert torch.autograd.gradcheck(each, (a, b)) and torch.autograd.gradgradcheck(each, (a, b))
