"""Every fenced example in README.md, CONTRIBUTING.md and docs/ runs, and links lead somewhere.

In a document, in order: ``python`` blocks run in one namespace, a ``text`` block after one is what it printed; ``mlir`` blocks
must parse; blocks with a name (``title="NAME"``) are written to the working directory, and such ``python`` runs only where a
command or another block runs it; ``console`` blocks are commands (``$ fxc-opt ...``) with what they print; ``sh`` blocks may
only name make targets that exist. A fence of any other kind is prose. ``...`` in what is printed stands for any text.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import re
import shlex
import shutil
from dataclasses import fields
from inspect import getdoc
from pathlib import Path

import pytest
from click.testing import CliRunner

import fxc
from fxc import errors
from fxc.dialects.text.syntax import parse_module
from fxc.dialects.verify.verifier import verify
from fxc.options import Options
from fxc.passes import available
from fxc.pipelines import NAMED
from fxc.program.program import new_context
from fxc.tools import fxc as fxc_tool
from fxc.tools import fxc_opt, new
from fxc.tools.reference_pages import pages, sections

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)?[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r'(?:title=")?([\w.-]+)"?')


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "document"}
    printed = ""
    for kind, rest, body in FENCE.findall(document.read_text(encoding="utf-8")):
        if rest:
            [name] = NAME.fullmatch(rest).groups()
            Path(name).write_text(body, encoding="utf-8")
        if kind == "python" and not rest:
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(body, f"{document.name}", "exec"), namespace)
            printed = stream.getvalue()
        elif kind == "text" and printed:
            assert is_like(printed, body), printed
            printed = ""
        elif kind == "mlir":
            verify(parse_module(new_context(), body))
        elif kind == "console":
            check_console(body)
        elif kind == "sh":
            check_make_targets(body)


FOLDERS = ".github benchmarks compiler dialects docs examples lit_tests passes tests tools".split()
MARKDOWN = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.md")))]


@pytest.mark.parametrize(
    "document", [*MARKDOWN, *(ROOT / "examples").glob("*.ipynb")], ids=lambda path: str(path.relative_to(ROOT))
)
def test_links(document: Path) -> None:
    """Links between pages of the site, with their anchors, are also checked by ``make docs``."""
    text = document.read_text(encoding="utf-8")
    if document.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    prose = FENCE.sub("", text)
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose) + re.findall(r"(?:src|href|srcset)=\"([^\"#:]+)\"", prose)
    generated = {ROOT / "docs" / page for page in pages()}
    targets = {link: (document.parent / link).resolve() for link in links}
    assert [link for link, target in targets.items() if target not in generated and not target.exists()] == []


def test_the_reference_has_everything() -> None:
    """Each pass, pipeline, option, error and command has a heading, and each error a cause and a fix."""
    found = {name: set(re.findall(r"^##+ (.*)$", text, re.MULTILINE)) for name, text in pages().items()}
    assert set(available()) == set().union(*(names for page, names in found.items() if "/passes-" in page))
    assert found["reference/pipelines.md"] == set(NAMED)
    assert found["reference/options.md"] == {field.name for field in fields(Options)}
    kinds = {name: value for name, value in vars(errors).items() if getattr(value, "__module__", "") == errors.__name__}
    kinds = {name: value for name, value in kinds.items() if isinstance(value, type)}
    assert found["reference/errors.md"] == set(kinds)
    lacking = [name for name, value in kinds.items() if name != "FxcError" and set(sections(getdoc(value))) != {"Cause", "Fix"}]
    assert not lacking, f"the docstring of an error has the sections Cause and Fix: {lacking}"
    assert found["reference/fxc.md"] == {f"fxc {name}" for name in fxc_tool.command.commands}
    assert {f"fxc.{name}" for name in set(fxc.__all__) - {"distributed", "testing"}} <= found["reference/api.md"]


def check_console(body: str) -> None:
    programs = {"fxc-opt": fxc_opt.run, "fxc": fxc_tool.run, "python": run_scaffold}
    for command, expected in re.findall(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", body, re.MULTILINE | re.DOTALL):
        program, *argv = shlex.split(command)
        code, out, err = programs[program](argv, "")
        assert is_like(out + err, expected), f"{command}\n{out}{err}"
        assert code == (1 if expected.startswith("error:") else 0), command


def is_like(printed: str, expected: str) -> bool:
    return doctest.OutputChecker().check_output(expected.strip(), printed.strip(), doctest.ELLIPSIS)


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
