"""What the docstring of a pass file promises, for the tests that hold it to that."""

from __future__ import annotations

import importlib
import re

from fxc.passes import available

SECTIONS = ("Assumes", "Ensures", "Leaves", "Cost", "Before", "After")
_SECTION = re.compile(r"^(?:(Assumes|Ensures|Leaves|Cost)(?= )|(Before|After):)", re.MULTILINE)


def contract(name: str) -> str:
    """The docstring of the file of pass ``name``."""
    return importlib.import_module(available()[name]).__doc__ or ""


def sections(text: str) -> dict[str, str]:
    """Section -> its text, for the sections that ``text`` has, in its order."""
    parts = [part for part in _SECTION.split(text) if part is not None]
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def example(name: str) -> tuple[str, str, str]:
    """The pass of the example, with its options where the line ``Before:`` states them, and the IR before and after."""
    found = sections(contract(name))
    stated, _, before = found["Before"].partition("\n")
    return stated.strip() or name, before, found["After"]


def is_idempotent(name: str) -> bool:
    """Whether the pass says so, in one of these words."""
    ensures = " ".join(sections(contract(name))["Ensures"].split())
    return any(words in ensures for words in ("Idempotent", "the module is unchanged"))
