"""The registry of passes is this directory: pass ``fold-add-zero`` lives in ``<folder>/fold_add_zero.py``.

Nothing registers itself; only the file that is asked for is imported.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from xdsl.passes import ModulePass


@cache
def available() -> dict[str, str]:
    """Pass name -> module that holds it, sorted by name. Imports nothing."""
    root = Path(__file__).parent
    return {
        path.stem.replace("_", "-"): f"{__name__}.{path.parent.name}.{path.stem}"
        for path in sorted(root.glob("*/*.py"), key=lambda p: p.stem)
        if not path.stem.startswith("_") and path.parent.name != "patterns"
    }


def load(name: str) -> type[ModulePass]:
    """The pass class called ``name``. KeyError where no such pass exists, TypeError where its file breaks the convention."""
    module = importlib.import_module(available()[name])
    return pass_in(module)


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
