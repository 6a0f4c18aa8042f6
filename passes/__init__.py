"""The registry of passes is this directory: pass ``fold-add-zero`` lives in ``<folder>/fold_add_zero.py``, or in
``<folder>/fold_add_zero/fold_add_zero.py`` where it has private helpers.

Nothing registers itself; only the file that is asked for is imported. A file is a pass where its class is named like it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from xdsl.passes import ModulePass

_ROOT = Path(__file__).parent


@cache
def available() -> dict[str, str]:
    """Pass name -> module that holds it, sorted by name. Imports nothing."""
    return dict(sorted((name, module) for path in _ROOT.glob("*/*") for name, module in _pass_at(path)))


def _pass_at(path: Path) -> Iterator[tuple[str, str]]:
    """The pass that ``path``, a file or a folder, holds, if it is one: its name and module."""
    file = path if path.suffix == ".py" else path / f"{path.name}.py"
    name = file.stem.replace("_", "-")
    if file.is_file() and f'\n    name = "{name}"\n' in file.read_text(encoding="utf-8"):
        yield name, ".".join([__name__, *file.relative_to(_ROOT).with_suffix("").parts])


def load(name: str) -> type[ModulePass]:
    """The pass class called ``name``. KeyError where no such pass exists, TypeError where its file breaks the convention."""
    return pass_in(importlib.import_module(available()[name]))


def pass_in(module: object) -> type[ModulePass]:
    """The one ModulePass class that ``module`` itself defines."""
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, ModulePass) and value.__module__ == module.__name__  # type: ignore[attr-defined]
    ]
    if len(found) != 1:
        raise TypeError(f"{module.__file__}: expected exactly one ModulePass class, found {len(found)}")  # type: ignore[attr-defined]
    return found[0]
