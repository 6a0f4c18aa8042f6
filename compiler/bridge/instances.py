"""Instances of user classes among the results of a model, as containers of PyTorch's pytree; and type annotations as text.

A nesting stores the name of the class, its attributes, and the items of a subclass of dict or list. Dtypes, devices and classes
among the attributes, and members of enumerations, are stored by name as well. Classes are looked up in modules that are
imported already. An annotation is names of classes, subscripted and joined by ``|``: reading one evaluates no text, and only
generic types are subscripted.
"""

from __future__ import annotations

import ast
import builtins
import operator
import sys
import typing
from collections.abc import Mapping, Set
from enum import Enum, EnumType
from functools import cache, reduce
from types import MappingProxyType, NoneType
from typing import Any, cast
from weakref import WeakValueDictionary

import torch
from torch.utils._pytree import register_pytree_node, tree_map

from fxc.errors import CaptureError
from fxc.runtime.object_inputs import class_name, constant_name, constant_named, empty, fill, is_made, is_object, items_of

CLASSES: WeakValueDictionary[str, type] = WeakValueDictionary()
"""Classes of results seen in this process, including local classes, which cannot be looked up by name."""


class Instance:
    """The ``parts`` of an object of the class ``name``, or the constant ``name`` if it has none."""

    def __init__(self, name: str, parts: list[Any]) -> None:
        self.name, self.parts = name, parts


_NOTHING: Mapping[int, Any] = MappingProxyType({})


def with_instances(result: Any, held: Set[int], inputs: Mapping[int, Any] = _NOTHING) -> Any:
    """``result`` with each object of a user class as an Instance, and what ``inputs`` has instead of objects by identity.

    CaptureError for objects whose identities are in ``held``, as a call would return a copy of these, and for objects that
    hold themselves.
    """
    register_instances()

    def with_instance(leaf: Any) -> Any:
        if isinstance(leaf, Enum):
            return _constant(leaf)
        return _instance_of(leaf, held, inputs) if is_object(leaf) and id(leaf) not in inputs else inputs.get(id(leaf), leaf)

    return tree_map(with_instance, result, is_leaf=lambda value: id(value) in inputs)


def parts_with_instances(parts: Any, held: Set[int], inputs: Mapping[int, Any] = _NOTHING) -> Any:
    """``with_instances`` of attributes and items, of which dtypes, devices and classes become constants."""

    def part_of(part: Any) -> Any:
        if id(part) in inputs:
            return inputs[id(part)]
        return _instance_of(part, held, inputs) if is_object(part) else _constant(part)

    return tree_map(part_of, parts, is_leaf=lambda value: id(value) in inputs or constant_name(value) is not None)


def _instance_of(value: Any, held: Set[int], inputs: Mapping[int, Any]) -> Any:
    kind: Any = cast(Any, type(value))
    name = class_name(kind)
    if id(value) in held or not is_made(kind):
        raise CaptureError(f"an object of the class {name} that exists before the call, holds itself, or has no attributes")
    CLASSES[name] = kind
    return Instance(name, parts_with_instances([{**vars(value)}, *items_of(value)], held | {id(value)}, inputs))


def _constant(value: Any) -> Any:
    """``value``, or an Instance without parts for what a graph does not return."""
    if isinstance(value, Enum):
        CLASSES[class_name(value)] = type(value)
        return Instance(f"{class_name(value)}.{value.name}", [])
    name = constant_name(value)
    return value if name is None or (isinstance(value, type) and imported(name) is not value) else Instance(name, [])


@cache
def register_instances() -> None:
    """Make Instance a container of PyTorch's pytree: flattened to its parts, and unflattened to the object."""
    name = f"{Instance.__module__}.{Instance.__qualname__}"
    register_pytree_node(Instance, lambda made: (made.parts, made.name), _made, serialized_type_name=name)


def _made(parts: Any, name: Any) -> Any:
    """The object of the class ``name``, or the constant. LookupError if there is none in this process."""
    if not parts:
        return constant_of(name)
    attributes, *items = parts
    made = empty(class_of(name))
    fill(made, attributes, items)
    return made


def class_of(name: str) -> Any:
    """The class ``name``. LookupError if this process has none that is made of its attributes and items."""
    kind = CLASSES.get(name) or imported(name)
    if not is_made(kind):
        raise LookupError(f"{name} is not a class that is imported in this process and made of its attributes")
    return kind


def constant_of(name: str) -> Any:
    """The constant with this ``constant_name``. LookupError if there is none in this process."""
    named = constant_named(name)
    found = CLASSES.get(name) or imported(name) if named is None else named
    kind, _, member = name.rpartition(".")
    if isinstance(members := CLASSES.get(kind) or imported(kind), EnumType):
        found = members[member]
    if not isinstance(found, (torch.device, torch.Size, torch.dtype, type, Enum)):
        raise LookupError(f"{name} is not a class that is imported in this process")
    return found


def imported(name: str) -> Any:
    """Return the object with this name in an imported module, or None."""
    names = name.split(".")
    for count in range(len(names) - 1, 0, -1):
        if (found := sys.modules.get(".".join(names[:count]))) is not None:
            return reduce(lambda value, part: getattr(value, "__dict__", {}).get(part), names[count:], found)
    return None


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
