"""The live model of a plan: detect whether it still has the tensors and submodules that the plan uses."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence, Set
from contextlib import AbstractContextManager
from functools import cache
from types import CellType, FunctionType, MappingProxyType
from typing import Any, NamedTuple, Protocol, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor

from fxc.errors import InputError
from fxc.runtime.guards import PLAIN, CodeNames, all_of
from fxc.runtime.shared_memory import starts_later

_AGAIN = "compile the model again"
_LONGEST = 32
"""The maximum number of comparisons that are generated one by one; more of them compile slowly."""

_WIDEST = 100
"""The longest text of a value in a message, in characters."""

_STATE = ("_parameters", "_buffers", "_modules", "_is_full_backward_hook", "training")
"""Attributes of a module that are compared separately, or ignored: a backward hook flag."""

_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")


class Read(NamedTuple):
    """``value`` at ``key`` of ``store``: a dictionary, a list, ``Slots``, or a closure cell.

    Or ``value`` is a copy of the elements of ``store``: of a set, or as bytes of an array.
    """

    store: Any
    key: Any
    value: Any


class Slots:
    """The attributes of an object with ``__slots__``, as a mapping."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __getitem__(self, name: str) -> Any:
        return getattr(self._owner, name)


def is_array(value: Any) -> bool:
    """Whether ``value`` is an array of NumPy or of the standard library."""
    return type(value).__module__ in ("numpy", "array") and hasattr(value, "tobytes")


class PythonReads(NamedTuple):
    """``values``: what a call may read, by path. ``sized``: the containers among it, whose lengths matter."""

    values: Mapping[str, Read]
    sized: Sequence[Any]


class ReadState(Protocol):
    """The Python state of a model that a call may read."""

    def found(self) -> PythonReads:
        """The current values."""
        ...

    def is_read(self, name: str) -> bool:
        """Whether a call may read attributes of this name."""
        ...

    def stores_in(self, path: str) -> bool:
        """Whether a call assigns items of the container at ``path``."""
        ...


class LiveModel:
    """``is_same``: whether a model has the submodules, tensors, Python state and hooks of compilation, at almost no cost.

    ``roots``: the modules by path. ``state``: the tensors of the plan by name; those in ``at_start`` must begin at the start of
    their storage. ``python``: the Python state that a call may read. ``training``: whether the plan is differentiated.
    ``lock``: held while a tracer may have replaced tensors of the model.
    """

    def __init__(
        self,
        roots: Mapping[str, torch.nn.Module],
        state: MutableMapping[str, torch.Tensor],
        python: ReadState,
        lock: Callable[[], AbstractContextManager[Any]],
        at_start: Set[str],
        training: bool,
    ) -> None:
        self.roots, self.state, self.lock, self.at_start = dict(roots), state, lock, sorted(state.keys() & at_start)
        self._dtype, self.moved = torch.get_default_dtype(), dict[str, Any]()
        self.python, self.training, self._kinds = python, training, (*_HOOKS, *_BACKWARD_HOOKS * training)
        self._modes = {path: module.training for path, module in _modules(self.roots) if _reads_mode(type(module))}
        self._watch()

    def _watch(self) -> None:
        """Record the current state of the modules as the expected one."""
        used = set(map(id, self.state.values()))
        self._modules, self._tensors = dict(_modules(self.roots)), dict[str, Any]()
        self._dtypes = dict[int, tuple[torch.Tensor, torch.dtype]]()
        self._read, sized = self.python.found()
        self._hooks = {path: self._hooks_of(module) for path, module in self._modules.items()}
        places, stores = [*self._read.values()], [*sized]
        for path, module in self._modules.items():
            tables = [module._modules, *(getattr(module, kind) for kind in self._kinds)]
            places += (Read(table, key, value) for table in tables for key, value in table.items())
            places += [Read(vars(module), "training", module.training)] * (path in self._modes)
            stores += tables
            for store in (module._parameters, module._buffers):
                for name, tensor in store.items():
                    if tensor is None or id(tensor) in used:
                        self._tensors[_joined(path, name)] = tensor
                        places.append(Read(store, name, tensor))
                        if tensor is not None:
                            self._dtypes[id(tensor)] = tensor, tensor.dtype
        at_start = [self.state[name] for name in self.at_start]
        self.is_same = _comparison(places, stores, at_start, [*self._dtypes.values()], self._dtype)

    def changes(self) -> dict[int, torch.Tensor] | None:
        """Return the replaced tensors: old id -> current tensor, if all fit; None while the model is being traced.

        Replaced containers in which a call stores are ``moved``, by path.

        InputError, with the path, for changes that a plan cannot follow.
        """
        modules = dict(_modules(self.roots))
        for path, old in self._modules.items():
            if path not in modules:
                raise InputError(f"the model has no submodule {path!r} any more", hint=_AGAIN)
            if (difference := _difference(old, modules[path])) is not None:
                raise InputError(f"submodule {path!r} was replaced, and {difference}", hint=_AGAIN)
            if not _is_equal(self._hooks[path], self._hooks_of(modules[path])):
                raise InputError(f"{path or 'the model'!r} has other hooks than when it was compiled", hint=_AGAIN)
        self._check_added(modules)
        found = dict[int, torch.Tensor]()
        for path, old in self._tensors.items():
            root, _, name = path.rpartition(".")
            new = _tensor(modules[root], name)
            if isinstance(new, FakeTensor):
                return None
            if (complaint := _complaint(old, new, self.training)) is not None:
                raise InputError(f"{path!r} was replaced, and {complaint}", hint=_AGAIN)
            if old is new and old is not None and old.dtype is not (dtype := self._dtypes[id(old)][1]):
                raise InputError(f"{path!r} has dtype {old.dtype} where it had {dtype}", hint=_AGAIN)
            if old is not None and found.setdefault(id(old), new) is not new:
                raise InputError(f"{path!r} was one tensor with another of the model, and is no more", hint=_AGAIN)
        if (dtype := torch.get_default_dtype()) is not self._dtype:
            message = f"the default dtype was {self._dtype} when the model was compiled, and is {dtype}"
            raise InputError(message, hint=f"{_AGAIN}, or call torch.set_default_dtype({self._dtype})")
        self._check_read(found)
        for name in self.at_start:
            tensor = found.get(id(self.state[name]), self.state[name])
            if offset := tensor.storage_offset():
                message, hint = starts_later(repr(name), f"give the model a copy, {name}.clone()", offset)
                raise InputError(message, hint=hint)
        self._warn_of_mode()
        owners = dict[int, int]()
        for old_id, new in found.items():
            if new.numel() and owners.setdefault(new.untyped_storage()._cdata, old_id) != old_id and id(new) != old_id:
                path = next(path for path, tensor in self._tensors.items() if id(tensor) == old_id)
                raise InputError(f"{path!r} was replaced by what shares memory with another tensor of the model", hint=_AGAIN)
        return {old: new for old, new in found.items() if id(new) != old}

    def _warn_of_mode(self) -> None:
        """Warn once if a module that reads its mode is in another one than that of compilation, which the plan computes."""
        changed = [path for path, mode in self._modes.items() if vars(self._modules[path]).get("training") is not mode]
        if changed:
            modes = ("eval", "train")[:: 1 if self._modes[changed[0]] is False else -1]
            self._modes = {}
            message = (
                f"{changed[0] or 'the model'!r} is in {modes[1]} mode, but the plan computes what it did in {modes[0]} mode"
            )
            warnings.warn(f"{message}; {_AGAIN} after {modes[1]}()", stacklevel=2)

    def _hooks_of(self, module: torch.nn.Module) -> list[Any]:
        return [hook for kind in self._kinds for hook in getattr(module, kind).values()]

    def _check_added(self, modules: Mapping[str, torch.nn.Module]) -> None:
        """Raise InputError if ``modules`` has more submodules that a call may run."""
        for path in modules:
            parent, _, name = path.rpartition(".")
            if path not in self._modules and (self.python.is_read(name) or hasattr(type(modules[parent]), "__len__")):
                raise InputError(f"the model had no submodule {path!r} when it was compiled", hint=_AGAIN)

    def _check_read(self, replaced: Mapping[int, torch.Tensor]) -> None:
        """Raise InputError if the Python state that a call may read has changed other than by ``replaced`` tensors."""
        before, now, self.moved = self._read, self.python.found().values, dict[str, Any]()
        for path in dict.fromkeys([*before, *now]):
            was, value = (reads[path].value if path in reads else _ABSENT for reads in (before, now))
            if was is not value and type(was) is type(value) and self.python.stores_in(path):
                self.moved[path] = value
                continue
            if not _is_equal(was, value, replaced):
                message = f"{path!r} was {_shown(was)} when the model was compiled, and is {_shown(value, was)}"
                if path in before and is_array(before[path].store):
                    message = f"{path!r} are not those when the model was compiled"
                raise InputError(message, hint=_AGAIN)

    def follow(self, changes: Mapping[int, torch.Tensor]) -> None:
        """Apply ``changes`` to the state of the plan, and record the current state of the modules as expected."""
        for name, tensor in list(self.state.items()):
            self.state[name] = changes.get(id(tensor), tensor)
        self._watch()


def _modules(roots: Mapping[str, torch.nn.Module]) -> Iterator[tuple[str, torch.nn.Module]]:
    for root, module in roots.items():
        yield from ((_joined(root, path), inner) for path, inner in cast(Any, module).named_modules(remove_duplicate=False))


@cache
def _reads_mode(type: type[torch.nn.Module]) -> bool:
    """Whether a method of a class of modules names ``training``."""
    methods = [value for base in type.__mro__ if base is not torch.nn.Module for value in vars(base).values()]
    return any("training" in value.__code__.co_names for value in methods if isinstance(value, FunctionType))


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def _comparison(
    places: Sequence[Read],
    stores: Sequence[Any],
    at_start: Sequence[torch.Tensor],
    dtypes: Sequence[tuple[torch.Tensor, torch.dtype]],
    default: torch.dtype,
) -> Callable[[], bool]:
    """Return a check that values, lengths of containers and dtypes are unchanged, and where tensors begin."""
    names = CodeNames()
    cells = [place for place in places if isinstance(place.store, CellType)]
    sets = [place for place in places if isinstance(place.store, set)]
    arrays = [place for place in places if is_array(place.store)]
    places = [place for place in places if not (isinstance(place.store, (CellType, set)) or is_array(place.store))]
    tests = [f"{names.of(cell)}.cell_contents is {names.of(value)}" for cell, _, value in cells]
    tests += [f"{names.of(elements)} == {names.of(copy)}" for elements, _, copy in sets]
    tests += [f"{names.of(elements)}.tobytes() == {names.of(copy)}" for elements, _, copy in arrays]
    tests.append(f"{names.of(torch.get_default_dtype)}() is {names.of(default)}")
    if len(places) + len(stores) + len(at_start) + len(dtypes) <= _LONGEST:
        tests += [f"{names.of(store)}[{names.of(key)}] is {names.of(value)}" for store, key, value in places]
        tests += [f"len({names.of(store)}) == {len(store)}" if store else f"not {names.of(store)}" for store in stores]
        tests += [f"not {names.of(tensor)}.storage_offset()" for tensor in at_start]
        tests += [f"{names.of(tensor)}.dtype is {names.of(dtype)}" for tensor, dtype in dtypes]
    else:
        found, keys, values = map(names.of, zip(*places, strict=True) if places else ((), (), ()))
        is_, item, offset = map(names.of, (operator.is_, operator.getitem, operator.methodcaller("storage_offset")))
        tensors, expected = map(names.of, zip(*dtypes, strict=True) if dtypes else ((), ()))
        tests += [
            f"all(map({is_}, map({item}, {found}, {keys}), {values}))",
            f"[*map(len, {names.of(stores)})] == {names.of([*map(len, stores)])}",
            f"not any(map({offset}, {names.of(at_start)}))",
            f"all(map({is_}, map({names.of(operator.attrgetter('dtype'))}, {tensors}), {expected}))",
        ]
    return names.function([], [f"try: return {all_of(tests)}", "except (LookupError, ValueError): return False"])


def _tensor(module: torch.nn.Module, name: str) -> Any:
    return module._parameters.get(name, module._buffers.get(name))


def _difference(old: torch.nn.Module, new: torch.nn.Module) -> str | None:
    """Describe how ``new`` differs from ``old`` other than in tensors and submodules; None if both compute the same."""
    if old is new:
        return None
    if type(old) is not type(new):
        return f"is a {type(new).__name__} where it was a {type(old).__name__}"
    before, now = vars(old), vars(new)
    for name in dict.fromkeys([*before, *now]):
        if name not in _STATE and not (name in before and name in now and _is_equal(before[name], now[name])):
            return f"its {name!r} is not what it was"
    for store in ("_parameters", "_buffers", "_modules"):
        if names := before[store].keys() ^ now[store].keys():
            return f"{', '.join(map(repr, sorted(names)))} is in one of the two only"
    return None


def _is_equal(a: Any, b: Any, replaced: Mapping[int, torch.Tensor] = MappingProxyType({})) -> bool:
    """Whether two attributes are equal plain values, or the same object, or ``b`` is the tensor that has ``replaced`` ``a``."""
    if replaced.get(id(a), a) is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        before = cast("Sequence[Any]", a)
        return len(before) == len(b) and all(_is_equal(was, now, replaced) for was, now in zip(before, b, strict=True))
    if isinstance(a, dict):
        named = cast("dict[Any, Any]", a)
        return list(named) == list(b) and all(_is_equal(was, b[key], replaced) for key, was in named.items())
    return isinstance(a, (bool, int, float, complex, str, bytes, set, frozenset)) and a == b


def _complaint(old: Any, new: Any, training: bool) -> str | None:
    """Describe why the plan cannot use ``new`` (a tensor or None) instead of ``old``; None if it can."""
    if old is new:
        return None
    if old is None or new is None:
        return f"is {_kind(new)} where it was {_kind(old)}"
    if not isinstance(new, torch.Tensor) or type(new) not in PLAIN or new.layout is not torch.strided:
        return f"is {_kind(new)}, no plain tensor"
    facts = ["dtype", "device", "shape", *["requires_grad"] * training]
    for fact in facts:
        if getattr(old, fact) != getattr(new, fact):
            return f"has {fact} {_text(getattr(new, fact))} where it had {_text(getattr(old, fact))}"
    moves = [size > 1 and new.numel() > 0 for size in new.shape]
    strides = [step for step, matters in zip(new.stride(), moves, strict=True) if matters]
    if strides != [step for step, matters in zip(old.stride(), moves, strict=True) if matters]:
        return f"has strides {new.stride()} where it had {old.stride()}"
    return "is lazily negated or conjugated" if new.is_neg() or new.is_conj() else None


class _Absent:
    def __repr__(self) -> str:
        return "not there"


_ABSENT = _Absent()


def _shown(value: Any, other: Any = None) -> str:
    """``value`` in a message, or its class; ``other``: a value that the message has shown before."""
    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        return f"another {type(value).__name__}" if type(value) is type(other) else _kind(value)
    text = repr(value)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _text(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value)
