"""The directory is the registry of passes: every file holds one pass that is named like it."""

import dataclasses
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import pytest
from xdsl.passes import ModulePass

from fxc.driver.pass_options import make_pass, option_help, spec_of
from fxc.passes import available, load, pass_in

ROOT = Path(__file__).parent.parent / "passes"


def test_every_file_with_a_pass_is_available() -> None:
    found = [path for path in ROOT.rglob("*.py") if "(ModulePass)" in path.read_text(encoding="utf-8")]
    assert sorted(available()) == sorted(path.stem.replace("_", "-") for path in found), "a pass is named like its file"
    for path in found:
        folder = path.relative_to(ROOT).parts[:-1]
        assert len(folder) == 1 or folder[1:] == (path.stem,), f"{path} is neither in a folder of passes nor in one of its own"


@pytest.mark.parametrize("name", available())
def test_one_stem_everywhere(name: str) -> None:
    cls = load(name)
    assert cls.name == name
    assert cls.__name__ == "".join(word.capitalize() for word in name.split("-")) + "Pass"


@pytest.mark.parametrize("name", available())
def test_options_are_typed_and_have_defaults(name: str) -> None:
    cls = load(name)
    assert dataclasses.is_dataclass(cls)
    assert cls.__dataclass_params__.frozen, f"{cls.__name__} must be a frozen dataclass"  # type: ignore[attr-defined]
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        assert hints[field.name] is not Any
        has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        assert has_default, f"option {field.name} of {name} needs a default"
        if isinstance(field.default, (int, float)) and not isinstance(field.default, bool):
            assert "minimum" in field.metadata, f"option {field.name} of {name} needs the range of its numbers"
    instance = cls()
    assert make_pass(cls, spec_of(instance)) == instance
    assert all(": " in line for line in option_help(cls))


def test_two_passes_in_a_file_are_refused() -> None:
    module = ModuleType("two")
    module.__file__ = "two.py"
    for name in ("APass", "BPass"):
        setattr(module, name, type(name, (ModulePass,), {"name": name, "__module__": "two"}))
    with pytest.raises(TypeError, match="exactly one ModulePass class, found 2"):
        pass_in(module)


def test_an_unknown_pass_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        load("no-such-pass")
