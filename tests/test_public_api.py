"""What ``import fxc`` offers: complete, sorted, documented, and loaded on first use."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import fxc
from fxc.tools.reference_pages import members, public

INIT = Path(fxc.__file__)
HOMES: dict[str, str] = fxc._HOMES


def test_all_is_complete_and_sorted() -> None:
    assert list(fxc.__all__) == sorted(fxc.__all__)
    assert set(fxc.__all__) == {*HOMES, *fxc._MODULES}
    assert dir(fxc) == fxc.__all__


def test_names_for_type_checkers_are_the_same() -> None:
    [block] = [node for node in ast.parse(INIT.read_text()).body if isinstance(node, ast.If)]
    imported = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(imported) == set(fxc.__all__)
    assert {name: module for name, module in imported.items() if name not in fxc._MODULES} == HOMES


@pytest.mark.parametrize("name", fxc.__all__)
def test_every_name_has_a_docstring(name: str) -> None:
    value = getattr(fxc, name)
    assert inspect.getdoc(value), name
    if inspect.isclass(value):
        text = inspect.getdoc(value) or ""
        methods = [n for n, member in vars(value).items() if inspect.isfunction(member) and not n.startswith("_")]
        properties = [n for n, member in vars(value).items() if isinstance(member, property) and not n.startswith("_")]
        undocumented = [n for n in methods if not inspect.getdoc(getattr(value, n))]
        undocumented += [n for n in properties if not inspect.getdoc(vars(value)[n]) and f"``{n}``" not in text]
        assert not undocumented, f"{name}: {undocumented}"


PUBLIC = public()
RETURNED = ("fxc.Compiled", "fxc.ExecutionPlan", "fxc.Program", "Match", "RegisteredPattern", "PlanStats", "CacheStats")
"""Classes of which fxc makes the instances."""


def parameters(value: Any) -> set[str]:
    return set(inspect.signature(value).parameters) - {"self", "cls"}


def raised(function: Any) -> set[str]:
    """The names of the errors that the body of ``function`` raises itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    return {name for call in calls if (name := ast.unparse(call.func)).endswith("Error")}


@pytest.mark.parametrize("name", PUBLIC)
def test_each_parameter_and_each_error_is_described(name: str) -> None:
    value = PUBLIC[name]
    about = "\n".join(filter(None, map(inspect.getdoc, inspect.getmro(value) if inspect.isclass(value) else [value])))
    assert "TODO" not in about
    if not inspect.isclass(value):
        assert re.search(r"\w+Error|Raises nothing", about), "a function says what it raises"
    functions = [] if name in RETURNED else [(value, about)]
    functions += [(each, f"{about}\n{inspect.getdoc(each)}") for _, each in members(value) if inspect.isfunction(each)]
    for function, text in functions:
        lacking = {each for each in parameters(function) if not re.search(rf"\b{each}\b", text)}
        lacking |= set() if inspect.isclass(function) else {each for each in raised(function) if each not in text}
        assert not lacking, function


def test_every_error_derives_from_one() -> None:
    classes = [value for value in vars(fxc.errors).values() if inspect.isclass(value) and issubclass(value, Exception)]
    assert all(issubclass(cls, (fxc.errors.FxcError, Warning)) for cls in classes)


def test_importing_loads_no_torch() -> None:
    code = "import sys, fxc; dir(fxc); fxc.errors; fxc.Options; assert 'torch' not in sys.modules; fxc.Options().pipeline"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=INIT.parent.parent)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="module 'fxc' has no attribute 'compil'"):
        fxc.compil  # type: ignore[attr-defined]  # noqa: B018


def test_submodules_do_not_hide_public_names() -> None:
    """A file called like a public function would take its place as soon as it is imported."""
    files = {path.stem for path in INIT.parent.glob("*.py")} | {path.name for path in INIT.parent.iterdir() if path.is_dir()}
    assert not files & set(HOMES)


@pytest.mark.parametrize("call", ["Interpreter", "replace_pattern", "run_passes", "to_fx"])
def test_what_is_no_program(call: str) -> None:
    more = {"replace_pattern": (abs, abs), "run_passes": ("cse",)}.get(call, ())
    with pytest.raises(fxc.errors.InputError, match=f"fxc.{call} takes a Program, got int\n  hint: pass what fxc.capture"):
        getattr(fxc, call)(3, *more)
