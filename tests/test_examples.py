"""The scripts of examples/ run, print something, and find what they assert."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent / "examples"
LARGE = {"demo.py"}  # models at their real size
SCRIPTS = sorted(path for path in (*ROOT.glob("*.py"), ROOT / "custom_pass" / "run.py") if path.name not in LARGE)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_example(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "an example says in its docstring what it shows"
    monkeypatch.setattr("sys.argv", [str(path)])
    torch._dynamo.reset()
    torch.manual_seed(0)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()
