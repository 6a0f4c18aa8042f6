"""What the docstring of a pass file promises, for the tests that hold it to that."""

from __future__ import annotations

import importlib

from fxc.passes import available
from fxc.tools.reference_pages import sections

SECTIONS = ("Assumes", "Ensures", "Leaves", "Cost", "Before", "After")


def contract(name: str) -> str:
    """The docstring of the file of pass ``name``."""
    return importlib.import_module(available()[name]).__doc__ or ""


def example(name: str) -> tuple[str, str, str]:
    """The pass of the example, with its options where the line ``Before:`` states them, and the IR before and after."""
    found = sections(contract(name))
    stated, _, before = found["Before"].partition("\n")
    return stated.strip() or name, before, found["After"]


def is_idempotent(name: str) -> bool:
    """Whether the pass says so, in one of these words."""
    ensures = " ".join(sections(contract(name))["Ensures"].split())
    return any(words in ensures for words in ("Idempotent", "the module is unchanged"))
