"""The Python state that a captured call may have read: attributes, contents of containers, globals and closure variables."""

from __future__ import annotations

import argparse
import dis
import functools
import os
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from itertools import count
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, cast
from weakref import ReferenceType, WeakKeyDictionary, WeakValueDictionary

import torch

from fxc.bridge.modules import modules_of
from fxc.frontends.state_stores import PLAIN, Attributes, Inside, Items, Store, inside_of, slots_of
from fxc.runtime.cache import Compiled
from fxc.runtime.live_model import PythonReads, Read, Slots, is_array

_LEAVES = (*PLAIN, torch.Tensor)
_NAMESPACES = (SimpleNamespace, argparse.Namespace, threading.local)
_LARGEST = 1 << 12
"""The size in bytes up to which the elements of arrays are compared."""

_LIBRARIES = frozenset({"torch", "fxc", "numpy", *sys.stdlib_module_names} - {"__main__"})
_MODULE = frozenset(vars(torch.nn.Module()))
"""Attributes of every module: parameters, buffers, submodules, hooks and the mode, which are compared separately."""

_ANY_NAME = frozenset(
    "getattr vars __dict__ attrgetter children modules parameters buffers get_submodule _modules".split()
    + [f"named_{kind}" for kind in ("children", "modules", "parameters", "buffers")]
)
"""Names in functions that may read attributes by other names than those in their code."""

_UNCALLED = frozenset(
    f"__{name}__" for name in "init new del repr dir copy deepcopy reduce reduce_ex setattr delattr setstate getstate".split()
)
"""Special methods that a call of a model does not read state by."""


class StateReads:
    """The state that a call of ``model`` may read, found from the names in the code that it may run.

    That code is each ``forward``, and the functions that it references, with those that these reference; functions of PyTorch,
    of the standard library and of installed packages from which the model has no module are not searched. An attribute counts
    as read if any of that code names it. ``assigned``: the values that a call assigns, by path, which are left out. Tensors of
    registered modules are not included.

    As of the last search, ``stores``: what may hold state, by its id; ``caches`` of functions; ``type_tests``: what asks for
    the class of a tensor, and where; ``by_class``: dicts by such classes, with their paths; names of ``clocks``; paths of
    ``compiled`` functions, whose weights a trace would take for constants.
    ``unregistered``: modules in lists and the like.
    """

    def __init__(self, roots: Mapping[str, torch.nn.Module], model: Any, assigned: Set[str]) -> None:
        self._roots, self._model, self._assigned = roots, model, assigned
        self._names, self._any_name, self._growing = {"forward"}, False, set[str]()
        kinds = {base.__module__ for root in roots.values() for _, each in modules_of(root) for base in type(each).__mro__}
        self._packages = {kind.partition(".")[0] for kind in (*kinds, getattr(model, "__module__", None) or "")}
        self._choices: list[Callable[[], None]] | None = []
        self.found()
        known = 0, False
        while known != (len(self._names), self._any_name):  # a name may lead to a function with other names
            known = len(self._names), self._any_name
            for choose in self._choices:  # which adds to them
                choose()
        self._choices = None
        self.found()

    def _is_searched(self, module: str) -> bool:
        """Whether code of ``module`` is: of the packages that the model's modules are from, and of what is not installed."""
        package = module.partition(".")[0]
        return package not in _LIBRARIES and (package in self._packages or not _is_installed(package))

    def is_read(self, name: str) -> bool:
        """Whether code that a call may run reads attributes of this name."""
        return self._any_name or name in self._names

    def stores_in(self, path: str) -> bool:
        """Whether a call assigns items of the container at ``path``."""
        return any(name.startswith(f"{path}[") for name in self._assigned)

    def found(self) -> PythonReads:
        """The current values."""
        self._found, self._sized, self._seen = dict[str, Read](), list[Any](), dict[int, Any]()
        self._numbers = defaultdict[str, Iterator[int]](lambda: count(1))
        self.stores, self.caches = dict[int, Store](), list[Any]()
        self.type_tests, self.by_class = list[tuple[str, str | None]](), list[tuple[str, dict[Any, Any]]]()
        self.clocks, self.compiled = set[str](), list[str]()
        self.unregistered = list[tuple[str, torch.nn.Module]]()
        for root, module in self._roots.items():
            self._modules(root, module)
        self._value("", self._model)
        return PythonReads(self._found, self._sized)

    def _add(self, path: str, store: Any, key: Any, value: Any) -> None:
        if path in self._assigned or isinstance(value, ReferenceType):
            return
        name = path
        while name in self._found:
            name = f"{path} ({next(self._numbers[path])})"
        self._found[name] = Read(store, key, value)
        self._value(path, value)

    def _value(self, path: str, value: Any) -> None:
        """Add what ``value``, at ``path``, holds."""
        if isinstance(value, type):
            self._class(cast("type[Any]", value))
        if isinstance(value, (*_LEAVES, type)) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        self.compiled += [path] * isinstance(value, Compiled)
        if isinstance(value, (dict, list, set, tuple, deque)):
            self._container(path, cast("Any", value))
        elif (inside := inside_of(path, value)) is not None:
            self.stores[id(value)] = inside
            if is_array(value) and len(elements := value.tobytes()) <= _LARGEST:
                self._found[f"the elements of {path}"] = Read(value, None, elements)
        elif isinstance(value, (WeakKeyDictionary, WeakValueDictionary)):
            self._value(path, cast("Any", value).data)
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, ModuleType):
            if self._is_searched(value.__name__):
                self._named(path, vars(value), self._names)
                self._chosen(lambda: sorted(vars(value).keys() & self._names), partial(self._attributes, path, vars(value)))
        elif isinstance(value, torch.nn.Module):
            for inner, module in self._modules(path, value):
                self.unregistered.append((inner, module))
                for table in (module._parameters, module._buffers, module._modules):
                    self._attributes(inner, table, list(table.keys()))
                    self._sized.append(table)
        elif (function := _wrapped(value)) is not None:
            self.caches += [value] * isinstance(value, functools._lru_cache_wrapper)
            self._value(path, function)
            self._value(path, getattr(value, "__self__", None))
        elif isinstance(value, _NAMESPACES) or self._is_searched(type(value).__module__):
            if isinstance(getattr(value, "__dict__", None), dict):
                self._object(path, value)
            elif slots_of(value):
                self.stores[id(value)] = store = Attributes(path, value)
                for name, each in store.contents().items():
                    self._add(store.place(name), Slots(value), name, each)

    def _named(self, path: str, attributes: Any, names: Set[str]) -> None:
        """Add the names in ``attributes`` of a class, or of the globals of a file, as a store."""
        store = self.stores.setdefault(id(attributes), Attributes(path, attributes, set()))
        assert isinstance(store, Attributes) and store.names is not None
        store.names.update(names)

    def _container(self, path: str, value: Any) -> None:
        is_dict, is_set, is_tuple = (isinstance(value, kind) for kind in (dict, set, tuple))
        if not is_tuple:
            self.stores[id(value)] = Items(path, value)
        items: list[Any] = [*value.items()] if is_dict else [] if is_set else [*enumerate(value)]
        if is_dict and not TENSOR_CLASSES.isdisjoint(value):
            self.by_class.append((path, value))
        if is_set and not TENSOR_CLASSES.isdisjoint(value):
            self.type_tests.append((f"{path!r} holds a class of tensors", None))
        inner: dict[str, tuple[Any, Any]] = {f"{path}[{key!r}]": (key, each) for key, each in items}
        if any(name.startswith(f"{path}[") and not name.startswith((*inner,)) for name in self._assigned):
            self._growing.add(path)  # with other entries in other calls
        if path in self._growing:
            return
        if is_set:
            self._found[f"the elements of {path}"] = Read(value, None, frozenset(value))
            return
        for name, (key, each) in inner.items():
            if is_tuple:
                self._value(name, each)
            else:
                self._add(name, value, key, each)
        if not is_tuple:
            self._sized.append(value)

    def _modules(self, root: str, model: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
        """Add the attributes of ``model`` and of the modules below it."""
        found = [(f"{root}.{path}" if root and path else root or path, module) for path, module in modules_of(model)]
        self._seen.update((id(module), module) for _, module in found)
        for path, module in found:
            self._object(path, module)
            for name, tensor in (*module._parameters.items(), *module._buffers.items()):
                if tensor is not None and (attributes := vars(tensor)):
                    add = partial(self._attributes, f"{path}.{name}" if path else name, attributes)
                    self._chosen(lambda held=attributes: held.keys() & self._names, add)
            hooks: list[Any] = [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]
            for hook in hooks:
                self._value(f"a hook of {path}" if path else "a hook", hook)
        return found

    def _object(self, path: str, value: Any) -> None:
        self._class(cast("type[Any]", type(value)))
        left_out = _MODULE if isinstance(value, torch.nn.Module) else frozenset[str]()
        self._chosen(
            lambda: [name for name in vars(value) if name not in left_out and self.is_read(name)],
            partial(self._attributes, path, vars(value)),
        )
        self._sized.append(vars(value))
        self.stores[id(vars(value))] = Attributes(path, vars(value))

    def _class(self, cls: type) -> None:
        """Add the class attributes that may be read, and search methods."""
        for base in cls.__mro__:
            if base in (object, torch.nn.Module) or id(base) in self._seen:
                continue
            self._seen[id(base)] = base
            if self._is_searched(base.__module__):
                self._named(base.__name__, base, self._names)
                self._chosen(partial(self._used, base), partial(self._attributes, base.__name__, vars(base)))
            elif issubclass(base, torch.nn.Module):
                self._chosen(partial(self._used, base), partial(self._methods, base))

    def _used(self, cls: type) -> list[str]:
        """The attributes of ``cls`` that a call may read."""
        special = {name for name in vars(cls) if name.startswith("__") and name.endswith("__")} - _UNCALLED
        return [name for name in vars(cls) if name in self._names or (name in special and callable(vars(cls)[name]))]

    def _methods(self, cls: type, names: Iterable[str]) -> None:
        for name in names:
            if isinstance(function := _wrapped(vars(cls)[name]) or vars(cls)[name], FunctionType):
                self._function(function)

    def _chosen(self, choose: Callable[[], Iterable[str]], add: Callable[[Iterable[str]], None]) -> None:
        """Add the attributes that ``choose`` returns, and while names are learned, those that it returns later."""
        known = set[str]()

        def add_new() -> None:
            names = [name for name in choose() if name not in known]
            known.update(names)
            add(names)

        if self._choices is not None:
            self._choices.append(add_new)
        add_new()

    def _attributes(self, path: str, attributes: Mapping[str, Any], names: Iterable[str]) -> None:
        for name in names:
            self._add(f"{path}.{name}" if path else name, attributes, name, attributes[name])

    def _function(self, function: FunctionType) -> None:
        """Add the names, globals and closure variables of ``function``."""
        names, texts = set[str](), set[str]()
        for code in _codes(function.__code__):
            names.update(code.co_names)
            texts.update(text for text in code.co_consts if isinstance(text, str))
        self._names |= names | texts
        if not self._is_searched(function.__globals__.get("__name__", "")):
            return
        self._any_name |= not names.isdisjoint(_ANY_NAME)
        if (names | texts) & _CLASSES and _tests_class(function.__code__):
            place = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
            self.type_tests.append((f"{function.__qualname__} compares the class of a tensor", place))
        self._named("", function.__globals__, names)
        if held := vars(function):
            self._chosen(lambda: sorted(held.keys() & self._names), partial(self._attributes, function.__qualname__, held))
        self.stores[id(vars(function))] = Attributes(function.__qualname__, vars(function))
        found = {name: function.__globals__[name] for name in sorted(names & function.__globals__.keys())}
        if not all(isinstance(value, ModuleType) for value in found.values()):
            found = {name: value for name, value in found.items() if name in _globals_read(function.__code__)}
        for name, value in found.items():
            if isinstance(value, ModuleType):
                self._value(name, value)
            else:
                self._add(name, function.__globals__, name, value)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self.stores[id(cell)] = cast("Inside", inside_of(name, cell))
            if cell != CellType():
                self._add(name, cell, None, cell.cell_contents)
        if not names.isdisjoint(_ENVIRONMENT):
            self._environment(texts)
        self.clocks |= {name for name, value in found.items() if _module_of(value) in _CLOCKS}
        for value in (function.__defaults__, function.__kwdefaults__):
            self._value(f"the defaults of {function.__qualname__}", value)

    def _environment(self, names: Set[str]) -> None:
        """Add the environment variables among ``names``."""
        data: dict[Any, Any] = cast("Any", os.environ)._data
        for name in sorted(names):
            if (key := os.fsencode(name)) in data:
                self._add(f"os.environ[{name!r}]", data, key, data[key])
        self._sized.append(data)


def _module_of(value: Any) -> str:
    """The name of a module, or of that of a function or class."""
    return str(value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", ""))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@functools.lru_cache(4096)
def _globals_read(code: CodeType) -> frozenset[str]:
    """The global names that ``code`` reads; ``co_names`` has attributes, too."""
    instructions = (each for inner in _codes(code) for each in dis.get_instructions(inner))
    return frozenset(each.argval for each in instructions if each.opname in _READS)


_ENVIRONMENT = frozenset({"environ", "getenv"})
_CLOCKS = frozenset({"time", "datetime", "uuid", "secrets"})
"""Modules whose functions return something else in each call."""

TENSOR_CLASSES = frozenset[Any]({torch.Tensor, torch.nn.Parameter})
_CLASSES, _KINDS = frozenset({"Tensor", "Parameter"}), frozenset({"type", "__class__"})
_COMPARISONS = frozenset({"IS_OP", "COMPARE_OP", "CONTAINS_OP"})


@functools.lru_cache(4096)
def _tests_class(code: CodeType) -> bool:
    """Whether ``code`` compares a class with one of tensors, as ``type(x) is Tensor``, or makes a dict by such classes."""
    for inner in _codes(code):
        names = deque[Any](maxlen=16)
        for each in dis.get_instructions(inner):
            asked = names if each.opname in _COMPARISONS else inner.co_names if each.opname == "BUILD_MAP" else ()
            if not (_CLASSES.isdisjoint(names) or _KINDS.isdisjoint(asked)):
                return True
            names.append(each.argval)
    return False


_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})


@functools.lru_cache(4096)
def _is_installed(package: str) -> bool:
    """Whether ``package`` lies where packages are installed, and not among the user's files."""
    places = [getattr(sys.modules.get(package), "__file__", None) or "", *getattr(sys.modules.get(package), "__path__", ())]
    return any(place.endswith("-packages") for each in places for place in map(str, Path(each).parents))


def _wrapped(value: Any) -> Any:
    """The function that a method, property or partial application calls, or None."""
    if isinstance(value, (MethodType, staticmethod, classmethod)):
        return cast("Any", value).__func__
    if isinstance(value, property):
        return value.fget
    if isinstance(value, (functools.partial, functools.cached_property)):
        return cast("Any", value).func
    return cast("Any", value).__wrapped__ if isinstance(value, functools._lru_cache_wrapper) else None
