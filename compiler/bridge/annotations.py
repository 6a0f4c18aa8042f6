"""The type annotation of a node as text, and back: names of classes in imported modules, subscripted and joined by ``|``.

Reading one evaluates no text: names are looked up, and only generic types of Python are subscripted.
"""

from __future__ import annotations

import ast
import builtins
import operator
import typing
from types import NoneType
from typing import Any, cast

from fxc.bridge.instances import imported

_GENERIC: set[Any] = {list, tuple, dict, set, frozenset, type}


def annotation_text(annotation: Any) -> str | None:
    """``torch.Tensor``, ``typing.Optional[int]``; None if there is no annotation, or a file cannot name it."""
    if annotation is None:
        return None
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        module, name = annotation.__module__, annotation.__qualname__
        text = name if module == "builtins" else f"{module}.{name}"
    else:
        text = repr(annotation)
    return text if annotation_of(text) == annotation else None


def annotation_of(text: str) -> Any:
    """The annotation with this text; None if it names something that is not imported in this process."""
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, LookupError, TypeError, ValueError, RecursionError):
        return None


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name("NoneType"):
            return NoneType
        case ast.Name() | ast.Attribute():
            return _named(ast.unparse(node))
        case ast.Subscript():
            generic = _value(node.value)
            if generic not in _GENERIC and getattr(generic, "__module__", "") not in ("typing", "collections.abc"):
                raise LookupError(f"{generic} is not a generic type of Python")
            return generic[_value(node.slice)]
        case ast.Tuple():
            return tuple(map(_value, node.elts))
        case ast.List():
            return [*map(_value, node.elts)]
        case ast.BinOp(op=ast.BitOr()):
            return cast(Any, operator.or_(_value(node.left), _value(node.right)))
        case _:
            raise LookupError(ast.unparse(node))


def _named(name: str) -> Any:
    found: object = imported(name) or vars(builtins).get(name)
    if not isinstance(found, type) and getattr(found, "__module__", None) != "typing":
        raise LookupError(name)
    return cast(Any, found)
