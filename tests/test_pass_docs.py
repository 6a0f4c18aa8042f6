"""The docstring of a pass file is its contract: it has every section, and its example runs."""

from pathlib import Path

import pytest

from fxc.dialects.text.syntax import print_module
from fxc.passes import available
from fxc.testing import parse, run_pass, same_ir
from tests.pass_contracts import SECTIONS, contract, example, sections

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", available())
def test_the_docstring_is_a_contract(name: str) -> None:
    text = contract(name)
    path = available()[name].replace(".", "/")
    assert text.startswith(f"{name}: "), f"the docstring of {path}.py must begin with '{name}: ' and say what the pass does"
    assert tuple(sections(text)) == SECTIONS, f"the docstring of {path}.py needs, in this order: {', '.join(SECTIONS)}"
    empty = [section for section, body in sections(text).items() if not body.strip()]
    assert not empty, f"the docstring of {path}.py says nothing under {', '.join(empty)}"


@pytest.mark.parametrize("name", available())
def test_the_example_is_true(name: str) -> None:
    spec, before, expected = example(name)
    after = run_pass(before, spec)
    if not same_ir(after, expected):
        pytest.fail(f"After of {name} is\n{print_module(parse(expected))}\nbut the pass gives\n{after}", pytrace=False)


@pytest.mark.parametrize("name", available())
def test_the_example_shows_something(name: str) -> None:
    _, before, after = example(name)
    if "the module is unchanged" in sections(contract(name))["Guarantees"]:
        assert same_ir(before, after), f"{name} says that it changes nothing"
        return
    assert not same_ir(before, after), f"Before and After of {name} are the same"


@pytest.mark.parametrize("name", available())
def test_there_is_a_lit_file(name: str) -> None:
    folder = available()[name].split(".")[2]
    path = ROOT / "lit_tests" / "passes" / folder / f"{name.replace('-', '_')}.mlir"
    assert path.is_file(), f"pass {name} needs lit tests in {path.relative_to(ROOT)}"
