"""The wheel and the sdist: complete, and usable without the checkout. The wheel is built from the sdist, offline."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = {"compiler": "fxc", "dialects": "fxc/dialects", "passes": "fxc/passes", "tools": "fxc/tools"}

USE = """
import fxc, pathlib, sys, torch
from fxc.tools import fxc as command, fxc_opt, new
assert pathlib.Path(fxc.__file__).is_relative_to(sys.argv[1]), fxc.__file__
code, out, err = command.run(["--version"])
assert (code, out.split()[:2]) == (0, ["fxc", sys.argv[2]]), (out, err)
text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\\n  func.return %x : tensor<2xf32>\\n}\\n"
code, out, err = fxc_opt.run(["-p", "simplify"], text)
assert code == 0 and "func.func @main" in out, err
compiled = fxc.compile(lambda x: torch.relu(x) + 1, (torch.ones(3),))
assert compiled(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
compiled.report("report.html")
assert "<html" in pathlib.Path("report.html").read_text()
"""


def python(*argv: str | Path, cwd: Path, **environment: str) -> str:
    command = [sys.executable, *map(str, argv)]
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("the sources are not a git checkout")
    return [path for path in done.stdout.split("\0") if path and (ROOT / path).is_file()]


def build(kind: str, source: Path, target: Path) -> Path:
    """The file that setuptools builds: ``kind`` is a hook of PEP 517."""
    target.mkdir()
    hook = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    python("-c", hook, target, cwd=source)
    [built] = target.iterdir()
    return built


@pytest.mark.slow
def test_wheel_and_sdist(tmp_path: Path) -> None:
    source, files = tmp_path / "source", tracked()
    for path in files:
        if path.split("/")[0] in PACKAGES or "/" not in path:
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes((ROOT / path).read_bytes())
    with tarfile.open(build("sdist", source, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "again", filter="data")
    [again] = (tmp_path / "again").iterdir()
    installed = tmp_path / "installed"
    with zipfile.ZipFile(build("wheel", again, tmp_path / "wheel")) as archive:
        names = archive.namelist()
        archive.extractall(installed)
    places = [path.partition("/") for path in files]
    expected = {f"{PACKAGES[folder]}/{rest}" for folder, _, rest in places if folder in PACKAGES}
    assert {name for name in names if ".dist-info/" not in name} == expected

    (tmp_path / "empty").mkdir()
    python("-c", USE, installed, PROJECT["version"], cwd=tmp_path / "empty", PYTHONPATH=str(installed))


def test_the_oldest_python_and_the_classifiers_agree() -> None:
    """``requires-python`` is the first version that a classifier names."""
    versions = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if c.startswith("Programming Language :: Python :: 3.")]
    assert versions[0] == PROJECT["requires-python"].removeprefix(">=")
