"""Entries of the cache of compiled programs: damaged and foreign ones, folders, and several processes."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fxc
from fxc.artifact import archive
from fxc.artifact import cache as program_cache
from fxc.artifact.archive import Artifact
from fxc.runtime.object_cache import ObjectCache
from tests.test_program_cache import (
    HOST,
    ON,
    ROOT,
    SHORT,
    Net,
    entries,
    folder_of_programs,  # noqa: F401  a fixture
    is_cached,
    x,
)


def rewritten(folder: Path, change: Callable[[Artifact], Artifact | bytes]) -> None:
    """Gives the one entry another content, under checksums that are right."""
    [path] = entries(folder)
    name = path.parent.name + path.stem
    data = ObjectCache(folder).get(name)
    assert data is not None
    reader = archive.unpacked("entry", io.BytesIO(data))
    host = None if reader.manifest["host"] is None else reader.host()
    changed = change(Artifact(reader.text(archive.PROGRAM), reader.kernels(), host))
    ObjectCache(folder).put(name, changed if isinstance(changed, bytes) else changed.packed())


FOREIGN: dict[str, Callable[[Artifact], Artifact | bytes]] = {
    "empty": lambda made: b"",
    "no zip file": lambda made: made.ir.encode(),
    "cut": lambda made: made.packed()[:-30],
    "a list": lambda made: made.packed().replace(b'"fxc-plan"', b'["xc-plan"'),
    "another format": lambda made: made.packed().replace(b'"fxc-plan"', b'"fxc-plot"'),
    "another version": lambda made: replace(made, facts={"version": 6}),
    "another PyTorch": lambda made: replace(made, facts={"versions": {"fxc": "0.1", "torch": "1.0", "xdsl": "0.1"}}),
    "no IR": lambda made: replace(made, ir="import os"),
    "other weights": lambda made: replace(made, ir=made.ir.replace("first.weight", "second.weight")),
}


def test_a_foreign_entry_is_none(folder: Path) -> None:
    program = fxc.capture(Net(), (x(),))
    key = program_cache.key_of(program)
    assert key is not None
    for change in FOREIGN.values():
        program_cache.store(key, program, {})
        found = program_cache.find(key, program)
        assert found is not None and found.module.is_structurally_equivalent(program.module)
        rewritten(folder, change)
        assert program_cache.find(key, program) is None


def test_a_damaged_entry_is_compiled_again(folder: Path) -> None:
    model = Net()
    fxc.compile(model, (x(),), options=SHORT)
    [path] = entries(folder)
    whole = path.read_bytes()
    for damaged in (whole[:-5], whole[:99] + b"!" + whole[100:], b""):
        path.write_bytes(damaged)
        made = fxc.compile(model, (x(),), options=SHORT)
        assert not is_cached(made)
        torch.testing.assert_close(made(x()), model(x()))
        assert path.read_bytes() == whole and is_cached(fxc.compile(model, (x(),), options=SHORT))


def test_machine_code_that_cannot_be_loaded_is_compiled_again(folder: Path) -> None:
    model = Net()
    fxc.compile(model, (x(),), options=HOST)

    def zeros(made: Artifact) -> Artifact:
        return replace(made, kernels={of: replace(code, code=b"\0" * len(code.code)) for of, code in made.kernels.items()})

    rewritten(folder, zeros)
    made = fxc.compile(model, (x(),), options=HOST)
    assert is_cached(made) and isinstance(made.plan, fxc.ExecutionPlan)
    torch.testing.assert_close(made(x()), model(x()))
    made.plan.save(folder.parent / "plan")  # as any other
    torch.testing.assert_close(fxc.ExecutionPlan.load(folder.parent / "plan")(x()), model(x()))


@pytest.mark.parametrize("host", ["", "def main(:", "x\n# the objects that the names denote\nraise SystemExit"])
def test_what_runs_is_made_again_where_it_cannot_be_read(folder: Path, host: str) -> None:
    model = Net()
    plan = fxc.compile(model, (x(),), options=HOST).plan
    rewritten(folder, lambda made: replace(made, host=replace(made.host, text=host)))  # type: ignore[type-var]
    made = fxc.compile(model, (x(),), options=HOST)
    assert is_cached(made) and str(made.ir) == str(plan.ir)
    torch.testing.assert_close(made(x()), model(x()))


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FXC_CACHE_DIR", str(tmp_path / "file"))
    model = Net()
    torch.testing.assert_close(fxc.compile(model, (x(),), options=SHORT)(x()), model(x()))


def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("FXC_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    model = Net()
    for _ in range(2):
        made = fxc.compile(model, (x(),), options=HOST)
        assert not is_cached(made)
        torch.testing.assert_close(made(x()), model(x()))


# processes


def _compile(start: Any) -> None:
    torch.manual_seed(0)
    model = Net()
    start.wait(60)
    made = fxc.compile(model, (x(),), options=SHORT)
    torch.testing.assert_close(made(x()), model(x()))


def test_two_processes_may_write_one_entry(folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    start = context.Barrier(2)
    workers = [context.Process(target=_compile, args=(start,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(entries(folder)) == 1 and is_cached(fxc.compile(Net(), (x(),), options=SHORT))


def both() -> tuple[bool, str | None]:
    """Whether a plan was found, and the key of a graph of Dynamo, which has addresses of modules in its places."""
    model = Net()
    made = fxc.compile(model, (x(),), training=True, options=ON)
    wanted = list(model.parameters())
    ours = torch.autograd.grad(made(x()).square().sum(), wanted)
    torch.testing.assert_close(ours, torch.autograd.grad(model(x()).square().sum(), wanted))
    return is_cached(made), program_cache.key_of(fxc.capture(torch.nn.Sequential(torch.nn.Tanh()), (x(),), route="dynamo"))


@pytest.mark.slow
def test_another_process_finds_what_this_one_kept() -> None:
    found, dynamo = both()
    assert not found and dynamo
    code = f"import json, torch; torch.set_num_threads(1); from {__name__} import both; print(json.dumps(both()))"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "7"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [True, dynamo]
