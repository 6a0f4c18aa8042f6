"""Every fenced example in README.md and docs/ runs.

In a document, in order: ``python`` blocks run in one namespace, a ``text`` block after one is what it printed; ``mlir NAME``
blocks are written to the working directory and must parse; ``console`` blocks are commands (``$ fxc-opt ...``) with what they
print; ``sh`` blocks may only name make targets that exist. A fence of any other kind is prose.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from fxc.dialects.text.syntax import parse_module
from fxc.dialects.verify.verifier import verify
from fxc.program.program import new_context
from fxc.tools import new

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)?[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "document"}
    printed = ""
    for kind, rest, body in FENCE.findall(document.read_text(encoding="utf-8")):
        if kind == "python":
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(body, f"{document.name}", "exec"), namespace)
            printed = stream.getvalue()
        elif kind == "text" and printed:
            assert body.strip() == printed.strip()
            printed = ""
        elif kind == "mlir":
            if rest:
                Path(rest).write_text(body, encoding="utf-8")
            verify(parse_module(new_context(), body))
        elif kind == "console":
            check_console(body)
        elif kind == "sh":
            check_make_targets(body)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def check_console(body: str) -> None:
    from fxc.tools import fxc, fxc_opt

    programs = {"fxc-opt": fxc_opt.run, "fxc": fxc.run, "python": run_scaffold}
    for command, expected in re.findall(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", body, re.MULTILINE | re.DOTALL):
        program, *argv = shlex.split(command)
        code, out, err = programs[program](argv, "")
        assert (out + err).strip() == expected.strip(), command
        assert code == (1 if expected.startswith("error:") else 0), command


def run_scaffold(argv: list[str], stdin: str) -> tuple[int, str, str]:
    """``python -m fxc.tools.new``, in a copy of the sources that it reads."""
    assert argv[:2] == ["-m", "fxc.tools.new"]
    for folder in ("dialects", "passes"):
        if not Path(folder).exists():
            shutil.copytree(ROOT / folder, folder)
    result = CliRunner().invoke(new.command, argv[2:])
    return result.exit_code, result.output, ""


def check_make_targets(body: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in body.splitlines():
        command = line.split("#")[0].split()
        if command:
            assert command[0] == "make" and set(command[1:]) <= targets, line
