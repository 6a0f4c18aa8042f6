"""Local equations, one file for each family. The ``PATTERNS`` of each file are part of ``canonicalize`` and ``peephole``."""

from __future__ import annotations

import importlib
from pathlib import Path

from fxc.passes.rewriting.patterns import Pattern


def all_patterns() -> tuple[Pattern, ...]:
    """The patterns of every family. Views precede arithmetic, so that no-op conversions are removed before two are merged."""
    names = sorted((path.stem for path in Path(__file__).parent.glob("[a-z]*.py")), reverse=True)
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(pattern for module in modules for pattern in getattr(module, "PATTERNS", ()))
