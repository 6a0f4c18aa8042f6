"""The docstring of a pass file is its contract: it has every section, and its example runs."""

from pathlib import Path

import pytest

from fxc.dialects.text.syntax import print_module
from fxc.passes import available
from fxc.testing import parse, run_pass, same_ir
from fxc.tools.reference_pages import sections
from tests.pass_contracts import SECTIONS, contract, example

ROOT = Path(__file__).parent.parent


LINES, COLUMNS = 3, 120
"""How long one of Assumes, Ensures, Leaves and Cost may be: what else there is to say stands where the code is."""


@pytest.mark.parametrize("name", available())
def test_the_docstring_is_a_contract(name: str) -> None:
    text, path = contract(name), f"{available()[name].replace('.', '/')}.py"
    found = sections(text)
    assert tuple(found) == SECTIONS, f"the docstring of {path} needs, in this order: {', '.join(SECTIONS)}"
    empty = [section for section, body in found.items() if section != "Before" and not body.strip()]
    assert not empty, f"the docstring of {path} says nothing under {', '.join(empty)}"
    summary, blank, first = text.split("\n", 2)
    assert summary[0].isupper() and summary.endswith("."), f"the docstring of {path} must begin with a sentence in one line"
    assert not blank and first.startswith("Assumes  "), f"the docstring of {path} is a summary, an empty line, and the contract"
    long = [section for section in SECTIONS[:4] if found[section].strip().count("\n") >= LINES]
    assert not long, f"{', '.join(long)} in the docstring of {path} have more than {LINES} lines"
    lines = text.split("\nBefore:")[0].splitlines()
    wide = [line for line in lines if len(line) > COLUMNS]
    assert not wide, f"lines of more than {COLUMNS} columns in {path}: {wide}"
    other = [line for line in lines[1:] if line[:9].rstrip() not in ("", *SECTIONS)]
    assert not other, f"lines of {path} that neither have one of these words nor begin at the tenth column: {other}"


@pytest.mark.parametrize("name", available())
def test_the_example_is_true(name: str) -> None:
    spec, before, expected = example(name)
    after = run_pass(before, spec)
    if not same_ir(after, expected):
        pytest.fail(f"After of {name} is\n{print_module(parse(expected))}\nbut the pass gives\n{after}", pytrace=False)


@pytest.mark.parametrize("name", available())
def test_the_example_shows_something(name: str) -> None:
    _, before, after = example(name)
    if "the module is unchanged" in sections(contract(name))["Ensures"]:
        assert same_ir(before, after), f"{name} says that it changes nothing"
        return
    assert not same_ir(before, after), f"Before and After of {name} are the same"


@pytest.mark.parametrize("name", available())
def test_there_is_a_lit_file(name: str) -> None:
    folder = available()[name].split(".")[2]
    path = ROOT / "lit_tests" / "passes" / folder / f"{name.replace('-', '_')}.mlir"
    assert path.is_file(), f"pass {name} needs lit tests in {path.relative_to(ROOT)}"
