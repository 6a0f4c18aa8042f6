"""Machine code in plan files: used where the reader trusts the file and it fits, and spared where not."""

from __future__ import annotations

import json
import platform
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import fxc
from fxc.artifact import archive
from fxc.errors import PlanFileError
from fxc.runtime.host_cpu import features_named
from fxc.runtime.host_program import KernelCode


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.norm(self.first(x).tanh() * 2), -1)


@pytest.fixture(scope="module")
def plan() -> fxc.ExecutionPlan:
    torch.manual_seed(0)
    made = fxc.compile(Net().eval(), (x(),), options={"target": "host"}).plan
    assert isinstance(made, fxc.ExecutionPlan)
    return made


def x() -> torch.Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def saved(plan: fxc.ExecutionPlan, tmp_path: Path) -> Path:
    plan.save(tmp_path / "plan")
    return tmp_path / "plan"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The texts that LLVM compiles from here on; the cache of object files is empty."""
    from fxc.codegen.cpu import machine_code

    monkeypatch.setenv("FXC_CACHE_DIR", str(tmp_path / "cache"))
    texts, compile_now = list[str](), machine_code.object_code
    monkeypatch.setattr(machine_code, "object_code", lambda text, f: texts.append(text) or compile_now(text, f))
    return texts


def test_machine_code_is_in_the_file(saved: Path) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    assert set(manifest["files"]) == {"program.mlir", "weights.safetensors", "kernels.o", "program.py"}
    assert platform.machine() in manifest["kernels"][0]["key"] and "kernel_0" in manifest["kernels"][0]["names"]
    assert (saved / "kernels.o").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize("suffix", ["", ".zip"])
def test_trusted_machine_code_runs(suffix: str, plan: fxc.ExecutionPlan, tmp_path: Path, compiled: list[str]) -> None:
    path = tmp_path / f"plan{suffix}"
    plan.save(path)
    compiled.clear()
    loaded = fxc.ExecutionPlan.load(path, trust_kernels=True)
    assert not compiled
    torch.testing.assert_close(loaded(x()), plan(x()), rtol=0, atol=0)
    assert loaded.code == plan.code and loaded.stats.launches == plan.stats.launches > 0
    loaded.save(tmp_path / f"again{suffix}")
    torch.testing.assert_close(fxc.ExecutionPlan.load(tmp_path / f"again{suffix}")(x()), plan(x()), rtol=0, atol=0)


def test_by_default_machine_code_is_not_even_read(
    saved: Path, plan: fxc.ExecutionPlan, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, open_now = list[Path](), Path.open
    monkeypatch.setattr(Path, "open", lambda path, *args, **kwargs: read.append(path) or open_now(path, *args, **kwargs))
    loaded = fxc.ExecutionPlan.load(saved)
    assert len(compiled) == 1 and not any(path.name in ("kernels.o", "program.py") for path in read)
    torch.testing.assert_close(loaded(x()), plan(x()), rtol=0, atol=0)
    (saved / "kernels.o").write_bytes(b"\xcc" * 4096)
    with_other(saved, "program.py", b"raise SystemExit")
    torch.testing.assert_close(fxc.ExecutionPlan.load(saved)(x()), plan(x()), rtol=0, atol=0)
    assert len(compiled) == 1, "the cache of object files had it"


def edit(saved: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    manifest = json.loads((saved / "manifest.json").read_text())
    change(manifest)
    manifest["sha256"] = archive.self_hash(manifest)
    (saved / "manifest.json").write_text(json.dumps(manifest))


def with_other(saved: Path, name: str, content: bytes) -> None:
    """As if the file had been made so: the checksums are right."""
    (saved / name).write_bytes(content)
    facts = {"sha256": archive.sha256(saved / name), "bytes": len(content)}
    edit(saved, lambda m: m["files"].update({name: facts}))


def cut(saved: Path) -> None:
    (saved / "kernels.o").write_bytes((saved / "kernels.o").read_bytes()[:-9])


def flip(saved: Path) -> None:
    data = bytearray((saved / "kernels.o").read_bytes())
    data[len(data) // 2] ^= 1
    (saved / "kernels.o").write_bytes(bytes(data))


def with_key(manifest: dict[str, Any], key: str) -> None:
    manifest["kernels"][0]["key"] = key


MISFITS: dict[str, Callable[[Path], Any]] = {
    "cut": cut,
    "changed": flip,
    "empty": lambda saved: (saved / "kernels.o").write_bytes(b""),
    "missing": lambda saved: (saved / "kernels.o").unlink(),
    "not named": lambda saved: edit(saved, lambda m: m["files"].pop("kernels.o")),
    "no key": lambda saved: edit(saved, lambda m: m["kernels"][0].pop("key")),
    "no facts": lambda saved: edit(saved, lambda m: m.pop("kernels")),
    "wrong facts": lambda saved: edit(saved, lambda m: m.update(kernels=[1])),
    "other names": lambda saved: edit(saved, lambda m: m["kernels"][0].update(names=["kernel_77"])),
    "other version": lambda saved: edit(
        saved, lambda m: m["kernels"][0].update(key=m["kernels"][0]["key"].replace("llvmlite", "x"))
    ),
    "other CPU": lambda saved: edit(saved, lambda m: m["kernels"][0].update(key=KernelCode.key_of(features_named("+sse2")))),
    "no object file": lambda saved: with_other(saved, "kernels.o", b"text"),
    "no code": lambda saved: with_other(saved, "kernels.o", b""),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_machine_code_that_does_not_fit_is_compiled_again(
    misfit: str, saved: Path, plan: fxc.ExecutionPlan, compiled: list[str]
) -> None:
    MISFITS[misfit](saved)
    loaded = fxc.ExecutionPlan.load(saved, trust_kernels=True)
    assert len(compiled) == 1
    torch.testing.assert_close(loaded(x()), plan(x()), rtol=0, atol=0)


def test_other_files_must_still_be_whole(saved: Path) -> None:
    text = (saved / "program.mlir").read_text()
    (saved / "program.mlir").write_text(text.replace("kernel_0", "kernel_O"))
    with pytest.raises(PlanFileError, match=r"damaged: program.mlir"):
        fxc.ExecutionPlan.load(saved, trust_kernels=True)


def test_a_plan_without_kernels_leaves_none_behind(saved: Path) -> None:
    other = fxc.compile(lambda a: a.relu(), (x(),)).plan
    assert isinstance(other, fxc.ExecutionPlan)
    other.save(saved)
    assert sorted(path.name for path in saved.iterdir()) == ["manifest.json", "program.mlir"]
    assert fxc.ExecutionPlan.load(saved, trust_kernels=True)(x()).equal(x().relu())


def test_equal_plans_are_equal_files(plan: fxc.ExecutionPlan, tmp_path: Path) -> None:
    plan.save(tmp_path / "a.zip")
    plan.save(tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert "kernels.o" in archive.namelist()
