"""What the docstring of a pass file promises, for the tests that hold it to that."""

from __future__ import annotations

import importlib
import re

from fxc.passes import available

SECTIONS = ("Assumes", "Guarantees", "Keeps", "Cost", "Before", "After")
_SECTION = re.compile(rf"^({'|'.join(SECTIONS)}):", re.MULTILINE)


def contract(name: str) -> str:
    """The docstring of the file of pass ``name``."""
    return importlib.import_module(available()[name]).__doc__ or ""


def sections(text: str) -> dict[str, str]:
    """Section -> its text, for the sections that ``text`` has, in its order."""
    parts = _SECTION.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def example(name: str) -> tuple[str, str, str]:
    """The pass of the example, with its options where the line ``Before:`` states them, and the IR before and after."""
    found = sections(contract(name))
    stated, _, before = found["Before"].partition("\n")
    return stated.strip() or name, before, found["After"]


def is_idempotent(name: str) -> bool:
    """Whether the pass says so, in these words, wherever the line breaks."""
    guarantees = " ".join(sections(contract(name))["Guarantees"].split())
    return "Running it again changes nothing" in guarantees or "the module is unchanged" in guarantees
