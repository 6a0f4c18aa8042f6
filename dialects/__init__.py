"""The dialects of fxc. Importing this package imports no dialect and not torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pkgutil import resolve_name

from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect

DIALECTS = {
    "fx": "fxc.dialects.fx:Fx",
    "torch": "fxc.dialects.torch_ops:Torch",
    "dist": "fxc.dialects.dist:Dist",
    "autodiff": "fxc.dialects.autodiff:Autodiff",
    "fusion": "fxc.dialects.fusion:Fusion",
    "tile": "fxc.dialects.tile:Tile",
    "plan": "fxc.dialects.plan:Plan",
    "target": "fxc.dialects.target:Target",
}
"""Dialect name -> module and object name. A dialect is imported when a text first uses it."""


def all_dialects() -> dict[str, Callable[[], Dialect]]:
    """Dialect name -> function that imports the dialect and returns it."""
    return {name: partial(resolve_name, where) for name, where in DIALECTS.items()}


def known_dialects() -> dict[str, Callable[[], Dialect]]:
    """``all_dialects``, and those of xDSL."""
    return {**get_all_dialects(), **all_dialects()}
