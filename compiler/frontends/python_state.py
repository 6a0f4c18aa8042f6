"""Python state that a model changes between calls. A program has no such state, so its results must not depend on it."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CellType
from typing import Any, TypeGuard, cast

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only

from fxc.bridge.memory import memory_of
from fxc.bridge.modules import HOOKS, modules_of
from fxc.bridge.operators import is_random
from fxc.bridge.values import SYMBOLIC_NUMBERS
from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.frontends.replaced_tensors import replacements_refused
from fxc.frontends.state_reads import TENSOR_CLASSES, StateReads
from fxc.frontends.state_stores import (
    ABSENT,
    DEEPEST,
    PLAIN,
    Attributes,
    Hooks,
    Inside,
    Place,
    Store,
    draws_refused,
    held_in,
    inside_of,
    is_random_generator,
    tensors_in,
)
from fxc.frontends.unrecorded import Unrecorded
from fxc.frontends.without_effects import unchanged
from fxc.semantics.trace import first_line

_OF_TORCH = "_is_torch_compile"
"""An attribute that ``torch.compile`` sets on a module."""


class PythonState:
    """The Python state of ``module``: of its modules, and all that code which a call may run names (``StateReads``).

    ``type_tests``: what in that code asks for the class of a tensor, which is another one in a trace, and where. ``by_class``:
    dicts by such classes, with what they held. ``clocks``: names of what returns something else in each call, such as ``time``.
    ``compiled``: paths of compiled functions.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        reads = StateReads({"": module}, module, frozenset())
        stores: dict[int, Store] = {
            id(each): inside for each in (random, np.random) if (inside := inside_of(each.__name__, each))
        }
        for path, inner in [*modules_of(module), *reads.unregistered]:
            for table in (inner._parameters, inner._buffers, inner._modules):
                stores[id(table)] = Registered(path, table)
            for name in HOOKS:
                stores[id(getattr(inner, name))] = Hooks(path, inner, name)
        self._saved = [(store, store.contents()) for store in {**reads.stores, **stores}.values()]
        self.type_tests, self.clocks, self.compiled = reads.type_tests, reads.clocks, reads.compiled
        self.by_class = [(path, table, dict(table)) for path, table in reads.by_class]
        self._leaves = [tensor for tensor in self.tensors if tensor.grad_fn is None and not tensor._is_view()]
        self._caches = [(cache, cache.cache_info().misses) for cache in reads.caches]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The saved tensors."""
        return [value for _, was in self._saved for value in was.values() if isinstance(value, torch.Tensor)]

    def changed(self) -> dict[str, tuple[Any, Any]]:
        """The values that differ from the saved ones, by path: (before, now).

        Without what ``drawn`` lists, what ``torch.compile`` adds to a module, and replaced parameters, buffers and submodules.
        """
        return {place.store.place(place.key): (was, now) for place, was, now in self._differing()}

    def places(self) -> dict[str, Place]:
        """The places of what ``changed``, by path."""
        return {place.store.place(place.key): place for place, _, _ in self._differing()}

    def _differing(self) -> Iterator[tuple[Place, Any, Any]]:
        for store, was in self._saved:
            if not _is_random(store) and not (isinstance(store, Inside) and isinstance(store.object, torch.Generator)):
                now = store.contents()
                if _is_same(now, was):
                    continue
                for key in dict.fromkeys([*was, *now]):
                    if isinstance(store, Registered) and (was.get(key) is None) == (now.get(key) is None):
                        continue
                    if key != _OF_TORCH and not _is_unchanged(was.get(key, ABSENT), now.get(key, ABSENT)):
                        yield Place(store, key), was.get(key, ABSENT), now.get(key, ABSENT)

    def drawn(self) -> list[Any]:
        """The generators outside of PyTorch that have drawn: ``random`` and ``numpy.random`` for those of the process."""
        return [store.object for store, was in self._saved if _is_random(store) and store.contents() != was]

    def begin(self) -> None:
        """Restore what was saved before another call in a trace, which has replaced registered tensors: not these."""
        for store, was in self._saved:
            if not isinstance(store, Registered) and not _is_same(store.contents(), was):
                store.put(was)

    def put_back(self) -> bool:
        """Restore what was saved, and empty caches of functions that were filled.

        Returns whether anything was ``changed`` or ``drawn``.
        """
        differing = [(store, was) for store, was in self._saved if not _is_same(store.contents(), was)]
        is_changed = bool(differing and (self.changed() or self.drawn()))
        for store, was in differing:
            store.put(was)
        for tensor in self._leaves:
            if tensor.grad_fn is not None:  # a write to it in a trace has read what requires a gradient
                tensor.detach_()
        for cache, misses in self._caches:
            if cache.cache_info().misses != misses:
                cache.cache_clear()
        return is_changed


class Registered(Attributes):
    """The parameters, buffers or submodules of a module. A capture replaces their values for a time."""


def variables_of(function: Any) -> dict[str, Any]:
    """The globals and closure variables that ``function`` references and that have a value, by name."""
    code = function.__code__
    found = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    return found | {name: cell.cell_contents for name, cell in cells if cell != CellType()}


def _is_filled(table: Mapping[Any, Any], was: Mapping[Any, Any]) -> bool:
    """Whether a call has given another class the value of a class of tensors, as it does with what it looks up and lacks."""
    known = [value for key, value in was.items() if key in TENSOR_CLASSES]
    added = [value for key, value in table.items() if key not in was]
    return bool(added) and all(any(value is each for each in known) for value in added)


def _is_random(store: Store) -> TypeGuard[Inside]:
    return isinstance(store, Inside) and is_random_generator(store.object)


def _is_unchanged(was: Any, now: Any) -> bool:
    """Whether ``now`` is identical to ``was``, or a tuple of identical values: Dynamo replaces the tuples of a model."""
    if {type(was), type(now)} == {tuple}:
        return len(was) == len(now) and all(map(_is_unchanged, was, now))
    return _is_identical(was, now)


def _is_same(now: Mapping[Any, Any], was: Mapping[Any, Any]) -> bool:
    return now.keys() == was.keys() and all(_is_identical(value, now[key]) for key, value in was.items())


def _is_identical(was: Any, now: Any) -> bool:
    """Whether they are one object, or the bytes that two looks into an object gave are equal."""
    return was is now or (isinstance(was, bytes) and was == now)


@dataclass
class Assigned:
    """``places``: what a call assigns, by path; ``stored``: the same if it computes some of it from inputs or weights."""

    places: dict[str, Place] = field(default_factory=dict[str, Place])
    stored: Mapping[str, Place] = field(default_factory=dict[str, Place])


@contextmanager
def watched(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Generator[Assigned, None, None]:
    """Capture ``module`` in this context; yields what a call assigns.

    CaptureError where some of it, or what a generator outside of PyTorch draws, changes what the next call computes.
    """
    state, assigned, drawn, missing = PythonState(module), Assigned(), list[Any](), dict[int, tuple[str, Any]]()

    def refuse(asks: str, place: str | None) -> None:
        message = f"{asks}, which is another one in a trace"
        raise CaptureError(message, place=place, hint="use isinstance(x, torch.Tensor)") from TypeError(message)

    for test in state.type_tests[:1]:
        refuse(*test)
    for path in state.compiled:
        message = f"the model calls {path!r}, which is compiled: a program would have its weights as constants"
        raise CaptureError(message, hint="compile the whole model instead") from Unrecorded(message)

    def look_up() -> None:
        """Keep the dicts in which a call has not looked up the class of a tensor, or has not found it."""
        missing.update({id(table): (path, table) for path, table, was in state.by_class if not _is_filled(table, was)})

    def refuse_missing(asked: Sequence[tuple[str, Any]]) -> None:
        for path, _ in asked[:1]:
            refuse(f"{path!r} has a class of tensors as a key", None)

    def compare(*_: Any) -> None:
        assigned.places.update(state.places())
        drawn.extend(state.drawn())
        _refuse_registered(assigned.places)
        look_up()

    def start(*_: Any) -> None:
        state.begin()

    handles = module.register_forward_pre_hook(start, prepend=True), module.register_forward_hook(compare)
    try:
        with replacements_refused(module, assigned=True):
            yield assigned
    except Exception as error:
        if not isinstance(error, CaptureError):
            look_up()
            refuse_missing([*missing.values()])
        raise
    finally:
        for handle in handles:
            handle.remove()
        state.put_back()
    if missing:
        refuse_missing(_looked_up(module, args, kwargs, state, [*missing.values()]))
    if drawn:
        raise draws_refused(drawn)
    if assigned.places or state.clocks:
        assigned.stored = _stored(module, args, kwargs, state, assigned.places)


def _refuse_registered(places: Mapping[str, Place]) -> None:
    for path in (path for path, place in places.items() if isinstance(place.store, Registered)):
        message = f"a call of the model registers or removes {path!r}, a parameter, buffer or submodule"
        raise CaptureError(message, hint="call the model once before you compile it") from Unrecorded(message)


class _Fakes:
    """Fakes of the tensors of ``module``: ``state``, by name, and ``known``, by the identity of the tensor.

    ``others``: tensors that have none, to which calls really write.
    """

    def __init__(self, module: torch.nn.Module, state: PythonState) -> None:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        self._module = module
        self._mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)
        named = (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False))
        tensors = {name: tensor for each in named for name, tensor in each}
        distinct = {id(tensor): tensor for tensor in tensors.values()}
        self.known: dict[int, torch.Tensor] = {key: self._mode.from_tensor(tensor) for key, tensor in distinct.items()}
        self.state = {name: self.known[id(tensor)] for name, tensor in tensors.items()}
        self.others = [tensor for tensor in state.tensors if id(tensor) not in self.known]

    def inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Fakes of the inputs of a call."""
        return tree_map_only(torch.Tensor, lambda t: self._mode.from_tensor(_alias(t)), (args, dict(kwargs)))

    @contextmanager
    def calls(self) -> Generator[None, None, None]:
        """A context in which a call of the module has its fakes, and branches as in an export."""
        from torch._export.utils import _compiling_state_context

        with unchanged(self.others), _compiling_state_context(), _reparametrize_module(self._module, self.state), self._mode:
            yield


class _Probe(type):
    """A key of the dict ``table`` that notices whether FakeTensor is looked up there: it has the same hash."""

    table: dict[Any, Any]
    is_asked: bool

    def __new__(cls, table: dict[Any, Any]) -> _Probe:
        made = super().__new__(cls, "Probe", (), {})
        made.table = table
        table[made], made.is_asked = None, False
        return made

    def __init__(cls, table: dict[Any, Any]) -> None:
        super().__init__("Probe", (), {})

    def __hash__(cls) -> int:
        return hash(FakeTensor)

    def __eq__(cls, other: object) -> bool:
        cls.is_asked = cls.is_asked or other is FakeTensor
        return cls is other


def _looked_up(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    state: PythonState,
    tables: Sequence[tuple[str, dict[Any, Any]]],
) -> list[tuple[str, Any]]:
    """Those of ``tables`` in which a call with fake tensors looks up their class; all if it fails."""
    fakes = _Fakes(module, state)
    positional, keywords = fakes.inputs(args, kwargs)
    probes = [_Probe(table) for _, table in tables]
    try:
        with fakes.calls():
            module(*positional, **keywords)
        return [each for each, probe in zip(tables, probes, strict=True) if probe.is_asked]
    except Exception:
        return [*tables]
    finally:
        for probe in probes:
            probe.table.pop(probe, None)
        state.put_back()


def _stored(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    state: PythonState,
    assigned: Mapping[str, Place],
) -> Mapping[str, Place]:
    """What a call assigns, if it computes some of it from inputs, weights or random numbers; empty if it does not.

    CaptureError where the state after a first call with fake tensors changes what a second call computes. A model branches in
    these calls as it does in an export. State is allowed if it is equal after every call, or if it is built once from values
    other than inputs. The second call finds another integer where the first one left one, as sizes differ between calls.
    """
    fakes = _Fakes(module, state)
    given = [fakes.inputs(args, kwargs) for _ in range(2)]
    before = [*fakes.state.values(), *fakes.others]
    calls = [_Calls(tree_leaves(inputs), before) for inputs in given]
    left, places, is_followed = list[dict[str, _Change]](), dict[str, Place](), False
    symbols, others_left = dict[str, set[Any]](), dict[str, Any]()
    added = set[str]()  # to lists, which the caller may empty
    try:
        for call, (positional, keywords) in zip(calls, given, strict=True):
            with fakes.calls(), call:
                module(*positional, **keywords)
            changed = {name: values for name, values in state.changed().items() if not _stand_for(fakes.known, *values)}
            left.append({name: _Change.of(*values) for name, values in changed.items()})
            if call is calls[0]:
                places = {name: place for name, place in state.places().items() if name in changed}
                _refuse_registered(places)  # what has two names is a proxy in a trace, to which it may not be added
                symbols = {name: _symbols(place.value) for name, place in places.items()}
                is_followed = any(symbols.values()) or any(place.value is ABSENT for place in places.values())
                for name, place in {**assigned, **places}.items():
                    if type(place.value) is int and place.is_simple:
                        place.assign(place.value + 1)
                        others_left[name] = _described(place.value)
            else:
                call.symbols |= _symbols([place.value for place in state.places().values()])
                added = {name for name, place in state.places().items() if place.is_list_item and name not in places}
    except CaptureError:
        raise
    except Exception as error:
        names = ", ".join(map(repr, state.changed()))
        raise CaptureError(
            f"a call of the model changes {names}, and a second one fails: {first_line(error)}", hint=_HINT
        ) from error
    finally:
        state.put_back()
    first, second = left
    for name, found in symbols.items():
        if found & calls[1].symbols:
            raise _refusal(name)
    for name, change in second.items():
        if others_left.get(name) == change.now:
            continue
        then = first[name].now if name in first else change.before
        if then != change.now:
            raise _refusal(name) from (Unrecorded(f"each call adds {name!r}") if name in added else None)
    own = set(map(id, before))
    kept = {id(tensor) for change in second.values() for tensor in change.tensors} - own
    for name, change in first.items():
        for tensor in change.tensors:
            of_inputs, is_kept = memory_of(tensor) in calls[0].of_inputs, id(tensor) in kept
            if id(tensor) in own:
                continue
            if (of_inputs and is_kept) or (id(tensor) in calls[1].read and (of_inputs or not is_kept)):
                raise _refusal(name)
    if calls[0].made != calls[1].made:
        if not first and others_left:
            raise _refusal(min(others_left))
        if not first:
            message = f"what the model computes depends on {', '.join(sorted(state.clocks))}, and what is captured is one call"
            raise CaptureError(message, hint=f"give it to forward, or use {TORCH_COMPILE}") from Unrecorded(message)
        raise _refusal(min(first, key=lambda name: first[name].now[0] != _VALUE))
    made = [tensor for change in first.values() for tensor in change.tensors if id(tensor) not in kept]
    return places if is_followed or any(memory_of(tensor) in calls[0].computed for tensor in made) else {}


def _stand_for(known: Mapping[int, torch.Tensor], was: Any, now: Any) -> bool:
    """Whether ``now`` is ``was`` with the fake tensors of the same weights."""
    (before, nesting), (after, other) = tree_flatten(was), tree_flatten(now)
    return nesting == other and all(known.get(id(a), a) is b for a, b in zip(before, after, strict=True))


def _symbols(value: Any) -> set[Any]:
    """The symbols of numbers from tensors in ``value``."""
    expressions: list[Any] = [leaf.node.expr for leaf in tree_leaves(value) if isinstance(leaf, SYMBOLIC_NUMBERS)]
    return {symbol for expression in expressions for symbol in expression.free_symbols}


def _alias(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_(tensor.requires_grad)


_HINT = (
    "register a buffer (self.register_buffer(name, tensor)) and write to it, give it to forward and return it, "
    f"or use {TORCH_COMPILE}"
)


def _refusal(name: str) -> CaptureError:
    return CaptureError(
        f"a call of the model changes {name!r}, on which the next one depends, and what is captured is one call", hint=_HINT
    )


_VALUE = "value"


@dataclass(frozen=True)
class _Change:
    """A description of an attribute before and ``now``, without the elements of its ``tensors``."""

    before: Any
    now: Any
    tensors: Sequence[torch.Tensor]

    @classmethod
    def of(cls, before: Any, now: Any) -> _Change:
        return cls(_described(before), _described(now), list(tensors_in(now)))


def _described(value: Any, depth: int = 0) -> tuple[Any, ...]:
    kind = cast("type[Any]", type(value))
    if isinstance(value, PLAIN) or value is ABSENT:
        return _VALUE, kind, repr(value)
    if isinstance(value, torch.Tensor):
        return "tensor", value.dtype, tuple("?" if isinstance(size, torch.SymInt) else size for size in value.shape)
    inner: Mapping[Any, Any] = held_in(value) if depth < DEEPEST else {}
    return kind, tuple((str(key), _described(each, depth + 1)) for key, each in inner.items())


class _Calls(TorchDispatchMode):
    """Records the operators that depend on ``inputs``, with their arguments. ``read``: all tensor operands; ``of_inputs``:
    tensors that depend on inputs or on random operators; ``computed``: those, and tensors that depend on ``others``."""

    supports_higher_order_operators = True

    def __init__(self, inputs: Iterable[Any], others: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.of_inputs, self.read = {memory_of(value) for value in inputs if isinstance(value, torch.Tensor)}, set[int]()
        self.computed, self.symbols = {*self.of_inputs, *map(memory_of, others)}, set[Any]()
        self.made = list[Any]()
        self._held = list[Any]()  # prevents reuse of the ids of these tensors

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        self._held += (given, result)
        self.read.update(map(id, given))
        self.symbols |= _symbols((args, kwargs))
        made = {memory_of(leaf) for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)}
        drawn = is_random(func)
        if drawn or any(memory_of(tensor) in self.computed for tensor in given):
            self.computed.update(made)
        if drawn or any(memory_of(tensor) in self.of_inputs for tensor in given):
            self.made.append((str(func), [_described(leaf) for leaf in tree_leaves((args, kwargs))]))
            self.of_inputs.update(made)
        return result
