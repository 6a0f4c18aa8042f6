"""Nestings of values as Python text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Attribute, SSAValue

from fxc.bridge.values import value_of
from fxc.dialects.attributes.values import Tree

Leaf = Callable[[SSAValue | Attribute], str]


def text_of(tree: Tree, leaf: Leaf) -> str:
    """The text of a tree of call arguments; ``leaf`` gives that of what is no container."""
    if isinstance(tree, list):
        return f"[{', '.join(text_of(each, leaf) for each in tree)}]"
    if isinstance(tree, tuple):
        return tuple_text([text_of(each, leaf) for each in tree])
    if isinstance(tree, dict):
        return f"{{{', '.join(f'{value_of(key)!r}: {text_of(each, leaf)}' for key, each in tree.items())}}}"
    if isinstance(tree, slice):
        return f"slice({', '.join(text_of(part, leaf) for part in (tree.start, tree.stop, tree.step))})"
    return leaf(tree)


def tuple_text(texts: list[str]) -> str:
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def nest_text(nest: Any) -> str | None:
    """The text of a nesting whose leaves are texts; None where it has containers other than Python's own."""
    if type(nest) is str:
        return nest
    if type(nest) in (tuple, list):
        parts = [nest_text(each) for each in nest]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return None
        return tuple_text(found) if type(nest) is tuple else f"[{', '.join(found)}]"
    if type(nest) is dict and all(type(key) in (str, int) for key in nest):
        parts = [nest_text(each) for each in nest.values()]
        return None if None in parts else f"{{{', '.join(f'{key!r}: {part}' for key, part in zip(nest, parts, strict=True))}}}"
    return None
