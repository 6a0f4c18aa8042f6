"""Instances of user classes among the results of a model, as containers of PyTorch's pytree.

A nesting stores the name of the class, its attributes, and the items of a subclass of dict or list. Dtypes, devices and classes
among the attributes are stored by name as well. Classes are looked up in modules that are imported already.
"""

from __future__ import annotations

import sys
from collections.abc import Set
from functools import cache, reduce
from typing import Any, cast
from weakref import WeakValueDictionary

import torch
from torch.utils._pytree import SUPPORTED_NODES, register_pytree_node, tree_map

from fxc.bridge.values import is_dict, is_sequence
from fxc.errors import CaptureError

CLASSES: WeakValueDictionary[str, type] = WeakValueDictionary()
"""Classes of results seen in this process, including local classes, which cannot be looked up by name."""

_DEVICE = "torch.device:"


class Instance:
    """The ``parts`` of an object of the class ``name``, or the constant ``name`` if it has none."""

    def __init__(self, name: str, parts: list[Any]) -> None:
        self.name, self.parts = name, parts


def with_instances(result: Any, held: Set[int]) -> Any:
    """``result`` with each object of a user class as an Instance.

    CaptureError for objects whose identities are in ``held``, as a call would return a copy of these, and for objects that
    hold themselves.
    """
    register_instances()

    def with_instance(leaf: Any) -> Any:
        return _instance_of(leaf, held) if _is_object(leaf) else leaf

    return tree_map(with_instance, result)


def _instance_of(value: Any, held: Set[int]) -> Any:
    kind: Any = cast(Any, type(value))
    name = f"{kind.__module__}.{kind.__qualname__}"
    if id(value) in held or not is_made(kind):
        raise CaptureError(f"an object of the class {name} that exists before the call, holds itself, or has no attributes")
    CLASSES[name], inner = kind, held | {id(value)}
    parts: list[Any] = [{**vars(value)}]
    if is_dict(value):
        parts.append(dict(value))
    elif is_sequence(value):
        parts.append(list(value))

    def part_of(part: Any) -> Any:
        return _instance_of(part, inner) if _is_object(part) else _constant(part)

    return Instance(name, tree_map(part_of, parts))


def _constant(value: Any) -> Any:
    """``value``, or an Instance without parts for what a graph does not return."""
    if isinstance(value, torch.device):
        return Instance(f"{_DEVICE}{value}", [])
    if isinstance(value, torch.dtype):
        return Instance(str(value), [])
    if isinstance(value, type) and imported(name := f"{value.__module__}.{value.__qualname__}") is value:
        return Instance(name, [])
    return value


def is_made(kind: Any) -> bool:
    """Whether an object of ``kind`` is made of its attributes and items, without running code of ``kind``."""
    return (
        isinstance(kind, type)
        and bool(kind.__flags__ & _ON_HEAP)
        and not hasattr(kind, "__del__")
        and hasattr(kind, "__dict__")
    )


_ON_HEAP = 1 << 9
"""The flag of classes that are defined in Python."""


def _is_object(value: Any) -> bool:
    if isinstance(value, (type, torch.nn.Module, torch.Tensor, tuple)) or type(value) in SUPPORTED_NODES:
        return False
    package = type(value).__module__.partition(".")[0]
    return isinstance(getattr(value, "__dict__", None), dict) and (
        package == "__main__" or package not in ("torch", "fxc", *sys.stdlib_module_names)
    )


@cache
def register_instances() -> None:
    """Make Instance a container of PyTorch's pytree: flattened to its parts, and unflattened to the object."""
    name = f"{Instance.__module__}.{Instance.__qualname__}"
    register_pytree_node(Instance, lambda made: (made.parts, made.name), _made, serialized_type_name=name)


def _made(parts: Any, name: Any) -> Any:
    """The object of the class ``name``, or the constant. LookupError if there is none in this process."""
    if name.startswith(_DEVICE):
        return torch.device(name.removeprefix(_DEVICE))
    kind, (attributes, *items) = CLASSES.get(name) or imported(name), parts or [None]
    if attributes is None and isinstance(kind, (type, torch.dtype)):
        return kind
    if attributes is None or not is_made(kind):
        raise LookupError(f"{name} is not a class that is imported in this process and made of its attributes")
    base: Any = next(base for base in kind.__mro__ if not base.__flags__ & _ON_HEAP)
    made = base.__new__(kind)
    made.__dict__.update(attributes)
    for inner in items:
        base.update(made, inner) if is_dict(inner) else base.extend(made, inner)
    return made


def imported(name: str) -> Any:
    """Return the object with this name in an imported module, or None."""
    names = name.split(".")
    for count in range(len(names) - 1, 0, -1):
        if (found := sys.modules.get(".".join(names[:count]))) is not None:
            return reduce(lambda value, part: getattr(value, "__dict__", {}).get(part), names[count:], found)
    return None
