"""Objects, lists and dicts among the inputs of a call: their tensors are inputs of the program, and a call changes them.

``opened`` makes an ``InputObject`` of each object of a user class, which PyTorch's pytree flattens to its attributes and items.
A program with a ``Returned`` returns flat values; ``ObjectCall`` writes those that belong to inputs, and nests the others.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Protocol, cast

import torch
from torch.utils._pytree import SUPPORTED_NODES, GetAttrKey, TreeSpec, register_pytree_node, tree_flatten, tree_unflatten

from fxc.errors import InputError

SAME = "="
"""What the name of an InputObject begins with that is an earlier one; its index among the containers follows."""
COMPUTED, UNCHANGED = -1, -2
"""In ``Returned.inputs``: a result of the program, and an element that a call does not change."""
MODEL = -1
"""In ``Returned.nesting``: the key of the changes of the model itself, which are the tensors and numbers that a call stores."""
_DEVICE, _SIZE = "torch.device:", "torch.Size:"
_ON_HEAP = 1 << 9
"""The flag of classes that are defined in Python."""


class InputObject:
    """An object of the class ``name`` with its ``parts``: its attributes and, of a list or dict, its items.

    Without parts: a constant, or an earlier object.
    """

    def __init__(self, name: str, parts: list[Any]) -> None:
        self.name, self.parts = name, parts


@dataclass(frozen=True)
class Returned:
    """The ``nesting`` of (result, changes), and what its leaves are: COMPUTED, UNCHANGED, or the index of a container.

    ``changes``: the index of a container among the inputs -> its new attributes and items; ``MODEL`` -> what a call stores.
    """

    nesting: TreeSpec
    inputs: tuple[int, ...]


class StoredState(Protocol):
    """What a call stores in the attributes, lists and dicts of a model."""

    def assign(self, computed: Sequence[Any]) -> None:
        """Store new values that have ``computed`` as their tensors and numbers."""
        ...

    def move(self, containers: Mapping[str, Any]) -> None:
        """From now on, store in ``containers``, by path, instead of those that the model has had there."""
        ...


@dataclass(frozen=True)
class ObjectCall:
    """Calls ``run``, which returns flat values, and changes the objects, lists and dicts of the call as the model does.

    ``stored``: assigns what the model stores in its attributes.
    """

    run: Callable[..., Any]
    returned: Returned
    stored: StoredState | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        opened_args, opened_kwargs, containers = opened(args, kwargs)
        values = iter(self.run(*opened_args, **opened_kwargs))
        leaves = [
            next(values) if i == COMPUTED else _SAME_VALUE if i == UNCHANGED else containers[i] for i in self.returned.inputs
        ]
        result, changes = tree_unflatten(leaves, self.returned.nesting)
        computed = changes.pop(MODEL, ())
        if len({id(containers[i]) for i in changes}) != len(changes):
            raise InputError(
                "a list or dict is given twice, and the model changes it", hint="compile with an example like this"
            )
        for i, change in changes.items():
            put(containers[i], change)
        if self.stored is not None:
            self.stored.assign(computed)
        return result


_SAME_VALUE = object()


def opened(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
    """The inputs with each object as an InputObject, and the objects, lists and dicts among them."""
    opening = _Opening()
    given = tuple([opening.open(value) for value in args])
    named = {name: opening.open(kwargs[name]) for name in sorted(kwargs)}
    return given, {name: named[name] for name in kwargs}, opening.containers


class _Opening:
    def __init__(self) -> None:
        self.containers, self._known, self._is_inside = list[Any](), dict[int, int](), False

    def open(self, value: Any) -> Any:
        kind = _class(value)
        if kind in _LEAVES or kind is InputObject:
            return value
        if is_object(value) and is_made(kind):
            return self._object(value, kind)
        name = constant_name(value) if self._is_inside else None
        if name is not None:
            return InputObject(name, [])
        if kind in SUPPORTED_NODES and not issubclass(kind, tuple):
            self.containers.append(value)
        return one_level(value, self.open) if kind in SUPPORTED_NODES else value

    def _object(self, value: Any, kind: type) -> InputObject:
        if id(value) in self._known:
            return InputObject(f"{SAME}{self._known[id(value)]}", [])
        self._known[id(value)] = len(self.containers)
        self.containers.append(value)
        outer, self._is_inside = self._is_inside, True
        attributes = _attributes(value)
        parts: list[Any] = [{name: self.open(attributes[name]) for name in sorted(attributes)}]
        parts += [one_level(items, self.open) for items in items_of(value)]
        self._is_inside = outer
        return InputObject(class_name(kind), parts)


_LEAVES = frozenset({torch.Tensor, torch.nn.Parameter, int, float, bool, str, type(None)})


def one_level(value: Any, change: Callable[[Any], Any]) -> Any:
    """The container ``value`` of PyTorch's pytree with its elements changed."""
    kind = _class(value)
    if kind is list:
        return [change(each) for each in value]
    if kind is dict:
        return {key: change(each) for key, each in value.items()}
    elements, nesting = tree_flatten(value, is_leaf=lambda each: each is not value)
    return tree_unflatten([change(each) for each in elements], nesting)


def items_of(value: Any) -> list[Any]:
    """The items of a list or dict, in a list; empty for other objects."""
    base = base_of(_class(value))
    return [dict(value)] if issubclass(base, dict) else [list(value)] if issubclass(base, (list, deque)) else []


def contents(container: Any) -> dict[str, dict[Any, Any]]:
    """The attributes and the items of a container, by name or position."""
    found: dict[str, dict[Any, Any]] = {}
    for items in items_of(container):
        found["items"] = items if hasattr(items, "keys") else {i: each for i, each in enumerate(items)}
    return found | {"attributes": {**_attributes(container)}} if hasattr(container, "__dict__") else found


def put(container: Any, change: Mapping[str, Mapping[Any, Any]]) -> None:
    """Give ``container`` these attributes and items, in this order."""
    for part, before in contents(container).items():
        now = {key: before[key] if value is _SAME_VALUE else value for key, value in change[part].items()}
        target = _attributes(container) if part == "attributes" else container
        base_of(_class(target)).clear(target)
        add(target, now if issubclass(base_of(_class(target)), dict) else now.values())


def is_object(value: Any) -> bool:
    """Whether ``value`` is an object of a class of the user that PyTorch's pytree takes for a value."""
    if isinstance(value, (type, torch.nn.Module, torch.Tensor, tuple, Enum)) or type(value) in SUPPORTED_NODES:
        return False
    package = type(value).__module__.partition(".")[0]
    return isinstance(getattr(value, "__dict__", None), dict) and (
        package == "__main__" or package not in ("torch", "fxc", *sys.stdlib_module_names)
    )


def is_made(kind: Any) -> bool:
    """Whether an object of ``kind`` is made of its attributes and items, without running code of ``kind``."""
    return (
        isinstance(kind, type)
        and bool(kind.__flags__ & _ON_HEAP)
        and not hasattr(kind, "__del__")
        and not any(getattr(base, "__slots__", ()) for base in kind.__mro__)
        and hasattr(kind, "__dict__")
    )


def _class(value: Any) -> Any:
    return cast(Any, type(value))


def _attributes(value: Any) -> Any:
    return value.__dict__


def base_of(kind: Any) -> Any:
    """The first class that ``kind`` inherits from, or is, which is not defined in Python."""
    return next(base for base in kind.__mro__ if not base.__flags__ & _ON_HEAP)


def empty(kind: Any) -> Any:
    """An object of the class ``kind`` without attributes and items."""
    return base_of(kind).__new__(kind)


def fill(made: Any, attributes: Mapping[str, Any], items: Sequence[Any]) -> None:
    """Give a new object these attributes, and the items in the list ``items``."""
    made.__dict__.update(attributes)
    for each in items:
        add(made, each)


def add(container: Any, items: Any) -> None:
    """Add these items to a list or dict, without running code of its class."""
    base = base_of(_class(container))
    (base.update if issubclass(base, dict) else base.extend)(container, items)


def class_name(value: Any) -> str:
    """The name of a class, or of that of an object."""
    kind: Any = value if isinstance(value, type) else _class(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def constant_name(value: Any) -> str | None:
    """The name of a device, a known size, a dtype, or a class; None for other values."""
    if isinstance(value, torch.device):
        return f"{_DEVICE}{value}"
    if isinstance(value, torch.Size) and all(type(size) is int for size in value):
        return f"{_SIZE}{'x'.join(map(str, value))}"
    if isinstance(value, torch.dtype):
        return str(value)
    return class_name(value) if isinstance(value, type) else None


def constant_named(name: str) -> torch.device | torch.Size | None:
    """The device or the size with this ``constant_name``."""
    if name.startswith(_SIZE):
        return torch.Size([int(size) for size in name.removeprefix(_SIZE).split("x") if size])
    return torch.device(name.removeprefix(_DEVICE)) if name.startswith(_DEVICE) else None


@cache
def register_inputs() -> None:
    """Make InputObject a container of PyTorch's pytree."""

    def with_keys(value: InputObject) -> Any:
        return [(GetAttrKey(key), part) for key, part in zip(("", "items"), value.parts, strict=False)], value.name

    register_pytree_node(
        InputObject,
        lambda value: (value.parts, value.name),
        lambda parts, name: InputObject(name, [*parts]),
        serialized_type_name=f"{InputObject.__module__}.{InputObject.__qualname__}",
        flatten_with_keys_fn=with_keys,
    )


def holds_objects(nesting: TreeSpec) -> bool:
    """Whether ``nesting`` has an InputObject."""
    return nesting.type is InputObject or any(map(holds_objects, nesting.children()))
