"""Where Python state lies: in attributes, items, closure cells, and inside of objects such as arrays and iterators."""

from __future__ import annotations

import array
import pickle
import random
import warnings
from argparse import Namespace
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import Context, ContextVar
from dataclasses import dataclass
from types import CellType, FunctionType, GeneratorType, ModuleType, SimpleNamespace
from typing import Any, Protocol, cast

import numpy as np
import torch

from fxc.bridge.values import is_dict
from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.frontends.unrecorded import Unrecorded
from fxc.runtime.object_inputs import is_object

PLAIN = (bool, int, float, complex, str, bytes, type(None))


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()
"""What stands where there is no value."""


class Store(Protocol):
    """What holds values by key."""

    def contents(self) -> Mapping[Any, Any]:
        """The values now."""
        ...

    def put(self, saved: Mapping[Any, Any]) -> None:
        """Restore values that ``contents`` returned, where that is possible."""
        ...

    def assign(self, key: Any, value: Any) -> None:
        """Replace one value."""
        ...

    def place(self, key: Any) -> str:
        """How messages name the value at ``key``."""
        ...


@dataclass(frozen=True)
class Attributes:
    """Attributes of a class, of an object, or in the dictionary of one; where ``names`` is given, those that are no code."""

    path: str
    owner: Any
    names: set[str] | None = None

    def contents(self) -> Mapping[Any, Any]:
        held: Mapping[str, Any] = self.owner if is_dict(self.owner) else getattr(self.owner, "__dict__", {})
        if self.names is not None:
            code = ModuleType, FunctionType, type
            return {name: held[name] for name in self.names & held.keys() if not isinstance(held[name], code)}
        slots = [] if is_dict(self.owner) else slots_of(self.owner)
        return {**{name: getattr(self.owner, name) for name in slots if hasattr(self.owner, name)}, **held}

    def put(self, saved: Mapping[Any, Any]) -> None:
        for name in {**self.contents(), **saved}:
            if name in saved:
                self.assign(name, saved[name])
            else:
                self.owner.pop(name) if is_dict(self.owner) else delattr(self.owner, name)

    def assign(self, key: Any, value: Any) -> None:
        """Replace one value."""
        self.owner.update({key: value}) if is_dict(self.owner) else setattr(self.owner, key, value)

    def place(self, key: Any) -> str:
        return f"{self.path}.{key}" if self.path else str(key)


@dataclass(frozen=True)
class Items:
    """The items of a dict, list, deque, set or tuple, whatever methods its class has; a tuple is not put back."""

    path: str
    container: Any

    @property
    def _kind(self) -> Any:
        kinds: tuple[Any, ...] = OrderedDict, dict, list, deque, set, tuple
        return next(kind for kind in kinds if isinstance(self.container, kind))

    def contents(self) -> Mapping[Any, Any]:
        kind = self._kind
        if hasattr(kind, "items"):
            return dict(kind.items(self.container))
        return {each if kind is set else place: each for place, each in enumerate(kind.__iter__(self.container))}

    def put(self, saved: Mapping[Any, Any]) -> None:
        kind = self._kind
        kind.clear(self.container)
        if hasattr(kind, "items"):
            for key, value in saved.items():
                kind.__setitem__(self.container, key, value)
        else:
            (kind.update if kind is set else kind.extend)(self.container, saved.values())

    def assign(self, key: Any, value: Any) -> None:
        """Replace one value of a dict, list or deque, or add it."""
        kind = self._kind
        if not hasattr(kind, "items") and key == kind.__len__(self.container):
            kind.append(self.container, value)
        else:
            kind.__setitem__(self.container, key, value)

    def place(self, key: Any) -> str:
        return f"{self.path}[{key!r}]"


class Hooks(Items):
    """Hooks of a module, such as its ``_forward_hooks``, without those of a capture; with what the module notes of each."""

    def __init__(self, path: str, module: torch.nn.Module, name: str) -> None:
        table: dict[int, Any] = getattr(module, name)
        super().__init__(f"{path}.{name}" if path else name, table)
        notes = [vars(module).get(name + end, {}) for end in ("_with_kwargs", "_always_called")]
        self._notes = [(note, {key: value for key, value in note.items() if key in table}) for note in notes]

    def contents(self) -> Mapping[Any, Any]:
        return {key: hook for key, hook in super().contents().items() if not _is_of_capture(hook)}

    def put(self, saved: Mapping[Any, Any]) -> None:
        present = super().contents()
        own = {key: hook for key, hook in present.items() if _is_of_capture(hook)}
        first = bool(own) and next(iter(present)) in own
        super().put({**own, **saved} if first else {**saved, **own})
        for note, noted in self._notes:
            for key in [key for key in note if key not in own and key not in noted]:
                del note[key]
            note.update(noted)


def _is_of_capture(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("fxc.frontends.")


@dataclass(frozen=True)
class Inside:
    """What ``read`` finds inside of an object, and ``write`` restores."""

    path: str
    object: Any
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], Any]

    def contents(self) -> Mapping[Any, Any]:
        return {None: self.read(self.object)}

    def put(self, saved: Mapping[Any, Any]) -> None:
        self.write(self.object, saved[None])

    def assign(self, key: Any, value: Any) -> None:
        """Write what is inside."""
        self.write(self.object, value)

    def place(self, key: Any) -> str:
        return self.path


@dataclass(frozen=True)
class Place:
    """The value at ``key`` of ``store``. ``is_simple``: an attribute, a variable, or an item that is no element of a set."""

    store: Store
    key: Any

    @property
    def is_simple(self) -> bool:
        if isinstance(self.store, Inside):
            return isinstance(self.store.object, CellType)
        return not (isinstance(self.store, Items) and isinstance(self.store.container, set))

    @property
    def is_list_item(self) -> bool:
        return isinstance(self.store, Items) and type(self.store.container) is list

    @property
    def value(self) -> Any:
        """The current value; ABSENT where there is none."""
        return self.store.contents().get(self.key, ABSENT)

    def assign(self, value: Any) -> None:
        """Replace the value, which ``is_simple``."""
        self.store.assign(self.key, value)


def inside_of(path: str, value: Any) -> Inside | None:
    """The store of an object that holds state inside; None for others."""
    for kinds, read, write in _INSIDE:
        if isinstance(value, kinds):
            return Inside(path, value, read, write)
    if type(value) is np.ndarray and not value.dtype.hasobject:
        return Inside(path, value, pickle.dumps, lambda array, saved: array.__setitem__(..., pickle.loads(saved)))
    if is_random_generator(value):
        return Inside(path, value, _state, _set_state)
    is_iterator = issubclass(type(cast("object", value)), Iterator) and not hasattr(cast("object", value), "__dict__")
    return Inside(path, value, _position, _nothing) if is_iterator else None


def _cell(cell: CellType) -> Any:
    return ABSENT if cell == CellType() else cell.cell_contents


def _set_cell(cell: CellType, saved: Any) -> None:
    if saved is ABSENT:
        del cell.cell_contents
    else:
        cell.cell_contents = saved


def _set_variable(variable: ContextVar[Any], saved: Any) -> None:
    """Set ``variable``, or give it its default again, where it has one."""
    with suppress(LookupError):
        variable.set(Context().run(variable.get) if saved is ABSENT else saved)


def _position(iterator: Any) -> bytes:
    """Where an iterator stands, as far as it tells."""
    if isinstance(iterator, GeneratorType):
        frame: Any = cast("Any", iterator).gi_frame
        held: list[Any] = [*frame.f_locals.values()] if frame else []
        held = [each if isinstance(each, PLAIN) else id(each) for each in held]
        return repr((frame and frame.f_lasti, held)).encode()
    with warnings.catch_warnings(), suppress(TypeError):
        warnings.simplefilter("ignore")  # as of Python 3.12
        return repr(iterator.__reduce__()).encode()
    return b""


def _nothing(iterator: Any, saved: Any) -> None:
    """An iterator does not go back."""


_INSIDE: tuple[tuple[Any, Callable[[Any], Any], Callable[[Any, Any], Any]], ...] = (
    (CellType, _cell, _set_cell),
    (
        torch.Generator,
        lambda generator: pickle.dumps(generator.get_state()),
        lambda generator, saved: generator.set_state(pickle.loads(saved)),
    ),
    (ContextVar, lambda variable: variable.get(ABSENT), _set_variable),
    ((bytearray, array.array), pickle.dumps, lambda array, saved: array.__setitem__(slice(None), pickle.loads(saved))),
)
"""Types, how to read what their objects hold, and how to write it."""


def slots_of(value: Any) -> list[str]:
    """The names in the ``__slots__`` of an object's classes."""
    slots = [cast("type[Any]", base).__dict__.get("__slots__", ()) for base in type(value).__mro__]
    return [name for each in slots for name in ([each] if isinstance(each, str) else each) if not name.startswith("__")]


DEEPEST = 4


def held_in(value: Any) -> Mapping[Any, Any]:
    """The elements of a container, the attributes of an object, or what an array holds; empty for other values."""
    if isinstance(value, (dict, list, tuple, set, deque)):
        return Items("", value).contents()
    inside = None if isinstance(value, Iterator) else inside_of("", value)
    if inside is None and (is_object(value) or isinstance(value, (SimpleNamespace, Namespace)) or slots_of(value)):
        return Attributes("", value).contents()
    return {} if inside is None else inside.contents()


def tensors_in(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors in a value, in containers and objects up to a depth of 4, too."""
    if isinstance(value, torch.Tensor):
        yield value
    elif not isinstance(value, PLAIN) and depth < DEEPEST:
        for each in held_in(value).values():
            yield from tensors_in(each, depth + 1)


def is_random_generator(value: Any) -> bool:
    """Whether ``value`` draws numbers outside of PyTorch, as the modules ``random`` and ``numpy.random`` do, too."""
    kinds = random.Random, np.random.Generator, np.random.RandomState
    is_one = isinstance(value, kinds) and not isinstance(value, random.SystemRandom)
    return is_one or value is random or value is np.random


def _state(generator: Any) -> bytes:
    if hasattr(generator, "getstate"):
        return pickle.dumps(generator.getstate())
    return pickle.dumps(generator.get_state() if hasattr(generator, "get_state") else generator.bit_generator.state)


def _set_state(generator: Any, saved: bytes) -> None:
    state = pickle.loads(saved)
    if hasattr(generator, "setstate"):
        generator.setstate(state)
    elif hasattr(generator, "set_state"):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state


def draws_refused(generators: list[Any]) -> CaptureError:
    """The error for a model that draws from ``generators``. Its cause is Unrecorded where Dynamo runs such draws in Python."""
    repeated = [each for each in generators if isinstance(each, random.Random)]  # Dynamo draws the same number at each call
    generator = (*repeated, *generators)[0]
    is_module = isinstance(generator, ModuleType)
    kind = generator.__name__ if is_module else f"a {type(generator).__module__}.{type(generator).__qualname__}"
    message = f"the model draws from {kind}, and what is captured is one call"
    if repeated:
        return CaptureError(message, hint="draw with random.random() or torch.rand, or give the number to forward")
    error = CaptureError(message, hint=f"draw with torch.rand, give the number to forward, or use {TORCH_COMPILE}")
    error.__cause__ = Unrecorded(message)
    return error
