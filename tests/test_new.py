"""What ``python -m fxc.tools.new`` writes works at once, in a copy of the sources; what it refuses leaves them alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from fxc.tools.new import command

ROOT = Path(__file__).parent.parent
COPIED = ("compiler", "dialects", "passes", "tools", "tests", "lit_tests", ".typing")

WRITTEN = {
    "pass drop-flips --folder normalize": ("passes/normalize/drop_flips.py", "lit_tests/passes/normalize/drop_flips.mlir"),
    "pattern flip-pairs": ("passes/patterns/flip_pairs.py", "lit_tests/patterns/flip_pairs.mlir"),
    "dialect labels": ("dialects/labels.py", "lit_tests/dialects/labels.mlir"),
    "operator mylib.double.default --formula x+x": ("lit_tests/operators/mylib_double.mlir",),
}
CHANGED = {"dialect": "dialects/__init__.py", "operator": "passes/operators/functions.py"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("checkout")
    for folder in COPIED:
        shutil.copytree(ROOT / folder, root / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "Output"))
    shutil.copy(ROOT / "pyproject.toml", root)
    yield root
    shutil.rmtree(root)


def contents(root: Path) -> dict[str, str]:
    files = [path for path in root.rglob("*.*") if path.suffix in (".py", ".mlir")]
    return {str(path.relative_to(root)): path.read_text("utf-8") for path in files}


def invoke(root: Path, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, ["--root", str(root), *words])
    return result.exit_code, result.output


@pytest.mark.slow
def test_what_is_written_works(checkout: Path) -> None:
    before = contents(checkout)
    for words, files in WRITTEN.items():
        code, output = invoke(checkout, *words.split())
        assert code == 0, output
        changed = [f"changed {file}" for kind, file in CHANGED.items() if kind == words.split()[0]]
        assert output.splitlines() == [f"wrote {file}" for file in files] + changed
    written = [file for files in WRITTEN.values() for file in files]
    after = contents(checkout)
    assert {path for path in after if before.get(path) != after[path]} == {*written, *CHANGED.values()}
    tests = [file for file in written if file.endswith(".mlir")] + ["tests/test_pass_docs.py", "tests/test_registry.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", *tests, "-k", "drop-flips or available or mlir"],
        cwd=checkout, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(checkout / ".typing")},
    )  # fmt: skip
    assert done.returncode == 0 and "11 passed" in done.stdout, done.stdout + done.stderr
    linted = subprocess.run(
        [sys.executable, "-m", "ruff", "check", *written[:-1:2]], cwd=checkout, capture_output=True, text=True
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pass", "cse"], "there is already passes/simplify/cse.py"),
        (["pass", "tile", "--folder", "fusion"], "there is already passes/kernels/tile"),
        (["pass", "DropFlips"], "DropFlips is not a name in kebab case"),
        (["pass", "drop_flips"], "drop_flips is not a name in kebab case"),
        (["pass", "drop-more", "--folder", "operators"], "there is no folder of passes operators, but autodiff"),
        (["pattern", "views"], "there is already passes/patterns/views.py"),
        (["pattern", "is"], "is is not a name in kebab case"),
        (["dialect", "fx"], "there is already a dialect fx"),
        (["dialect", "text"], "there is already dialects/text.py"),
        (["dialect", "arith"], "there is already a dialect arith"),
        (["operator", "aten.add.Tensor", "--formula=x"], "aten.add.Tensor has a record"),
        (["operator", "mylib.twice", "--formula=x"], "mylib.twice is not an operator overload"),
        (["operator", "mylib.twice.default", "--formula=x +"], "mylib.twice.default: invalid syntax"),
        (["operator", "mylib.twice.default", "--formula=x", "--schema=x"], "not an operator signature"),
        (
            ["operator", "mylib.twice.default", "--formula=x", "--schema=(Tensor x, int n=1) -> Tensor"],
            "something else than tensors",
        ),
        (["operator", "mylib.twice.default", "--formula=x + y"], "the formula reads y; it may read x"),
        (["operator", "mylib.twice.default", "--formula=min(x, 0)"], "the formula reads min; it may read x"),
        (["operator", "mylib.twice.default", "--formula=x if x > 0 else -x"], "the formula fails: no element is known"),
        (["operator", "mylib.twice.default", "--formula=x ** 2"], "the formula fails: unsupported operand"),
        (["operator", "mylib.twice.default", "--formula=2"], "the formula fails: it gives 2, no element"),
        (["operator", "mylib.twice.default", "--formula=where(x == 0, 1, x)"], "the formula fails: 'bool'"),
        (["operator", "aten.twice.default", "--formula=x"], "PyTorch has no operator aten.twice.default"),
        (["operator", "mylib.two.default", "--formula=x", "--schema=(Tensor x) -> (Tensor, Tensor)"], "one tensor"),
        (["pass", "inference"], "inference is a pipeline"),
        (["operator", "mylib.twice.default", "--formula=x", "--folder=views"], "there is no family of formulas views"),
    ],
    ids=" ".join,
)
def test_what_is_refused(checkout: Path, words: list[str], message: str) -> None:
    before = contents(checkout)
    code, output = invoke(checkout, *words)
    assert code == 1 and output.count("Error: ") == 1 and message in output, output
    assert contents(checkout) == before


def test_it_runs_in_a_checkout_only(tmp_path: Path) -> None:
    code, output = invoke(tmp_path, "pass", "drop-flips")
    assert code == 1 and "is not a checkout of fxc" in output
    assert not any(tmp_path.iterdir())
