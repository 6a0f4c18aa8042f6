"""The scripts of examples/ run, print something, and find what they assert."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

ROOT = Path(__file__).parent.parent / "examples"
LARGE = {"demo.py"}
LONG = {"train.py", "train_convnext.py"}  # take options
SHALLOW = {"gpt2": {"layers": 1}, "convnext": {"depths": (1, 1)}}
SCRIPTS = sorted(path for path in (*ROOT.glob("*.py"), ROOT / "custom_pass" / "run.py") if path.name not in LARGE | LONG)


@pytest.mark.slow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_example(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "an example says in its docstring what it shows"
    monkeypatch.setattr("sys.argv", [str(path)])
    torch._dynamo.reset()
    torch.manual_seed(0)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.slow
@pytest.mark.parametrize("plots", [True, False])
def test_train(plots: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager and compiled losses agree; without matplotlib there is a hint in place of the plot."""
    if plots:
        pytest.importorskip("matplotlib")
    else:
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    name, run_path = "gpt2" if plots else "convnext", runpy.run_path
    main = run_path(str(ROOT / "train.py"))["main"]
    model = run_path(str(ROOT / "models" / f"{name}.py"))["Model"]
    shallow = {"Model": lambda **options: model(**options | SHALLOW[name])}
    monkeypatch.setattr(runpy, "run_path", lambda path: shallow)
    result = CliRunner().invoke(main, ["--steps", "3", "--out", str(tmp_path), f"--model={name}"])
    assert result.exit_code == 0, result.output
    assert ("pip install" in result.output) is not plots
    assert [path.name for path in tmp_path.iterdir()] == ([f"{name}.png"] if plots else [])
    [difference] = re.findall("largest difference: (.*)", result.output)
    assert float(difference) < 1e-4
    [parts] = re.findall(", (.*) differentiable subgraphs", result.output)
    assert int(parts) >= 1
