"""Python state that a model changes between calls. A program has no such state, so its results must not depend on it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from fxc.bridge.modules import modules_of
from fxc.bridge.operators import is_random
from fxc.bridge.values import is_dict
from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.frontends.host_generators import HostGenerators, draws_refused
from fxc.semantics.trace import first_line

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MOST = 256
"""The largest global container that is checked, in entries."""
_OF_TORCH = "_is_torch_compile"
"""An attribute that ``torch.compile`` sets on a module."""


class PythonState:
    """The Python state of ``module``.

    Attributes of all its modules, contents of lists, dictionaries and sets among them, attributes of objects among them, and
    the objects and containers that functions reference as globals or in closures: each ``forward``, hook and function among the
    attributes, and the functions and methods of the same file that these name. ``registered``: include parameters, buffers and
    submodules.
    """

    def __init__(self, module: torch.nn.Module, *, registered: bool) -> None:
        self._left_out = () if registered else ("_parameters", "_buffers", "_modules")
        self._found = dict[int, tuple[str, Any]]()
        called, functions = dict[tuple[int, type], Any](), dict[int, Any]()
        for path, inner in modules_of(module):
            prefix = f"{path}." if path else ""
            self._add(prefix, vars(inner), nested=True)
            for name, value in vars(inner).items():
                if _is_object(value):
                    self._add(f"{prefix}{name}.", vars(value), nested=True)
            hooks: list[Any] = [*inner._forward_pre_hooks.values(), *inner._forward_hooks.values()]
            given = [value for value in vars(inner).values() if isinstance(value, FunctionType)]
            for each in (cast(Any, inner.forward), *hooks, *given):
                function = getattr(each, "__func__", each)
                called[id(function), type(inner)] = function
        for (_, kind), function in called.items():
            functions |= {id(each): each for each in _reached(function, kind)}
        for function in functions.values():
            self._add_named(function)
        self._generators = HostGenerators(each for _, value in self._found.values() for each in _elements(value))
        self._saved = {key: _contents(value) for key, (_, value) in self._found.items()}

    def _add_named(self, function: Any) -> None:
        """Add the globals and closure variables that ``function`` references."""
        variables = Variables(function)
        self._add("", variables, nested=False)
        for name, value in variables.all().items():
            if type(value) in (dict, list, set):
                if len(value) <= _MOST:
                    self._add(name, value, nested=False)
            elif _is_object(value):
                self._add(f"{name}.", vars(value), nested=False)

    def _add(self, path: str, value: Any, *, nested: bool) -> None:
        if id(value) in self._found:
            return
        self._found[id(value)] = (path, value)
        if nested and not isinstance(value, set):
            for key, inner in value.items() if is_dict(value) else enumerate(value):
                if type(inner) in (dict, list, set, tuple) and key not in self._left_out:
                    self._add(_place(path, value, key), inner, nested=True)

    def changed(self) -> dict[str, tuple[Any, Any]]:
        """The values that differ from the saved ones, by path: (before, now); without what ``torch.compile`` adds."""
        found = dict[str, tuple[Any, Any]]()
        for key, (path, value) in self._found.items():
            was, now = self._saved[key], _contents(value)
            for name in dict.fromkeys([*was, *now]):
                if name != _OF_TORCH and not _is_unchanged(was.get(name, _ABSENT), now.get(name, _ABSENT)):
                    found[_place(path, value, name)] = was.get(name, _ABSENT), now.get(name, _ABSENT)
        return found

    def drawn(self) -> list[Any]:
        """The generators whose state differs from the saved one: ``random`` and ``numpy.random`` for those of the process."""
        return self._generators.drawn()

    def put_back(self) -> bool:
        """Restore the saved values and states. Returns whether ``changed`` or ``drawn`` lists any."""
        is_changed = bool(self.changed() or self.drawn())
        self._generators.put_back()
        changed = [key for key, (_, value) in self._found.items() if not _is_same(value, self._saved[key])]
        for key in changed:
            value, was = self._found[key][1], self._saved[key]
            if isinstance(value, Variables):
                value.put(was)
                continue
            value.clear()
            value.extend(was.values()) if hasattr(value, "extend") else value.update(was)
        return is_changed


class Variables:
    """Globals and closure variables that ``function`` references."""

    def __init__(self, function: Any) -> None:
        code = function.__code__
        self._globals, self._names = function.__globals__, [name for name in code.co_names if name in function.__globals__]
        self._cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))

    def all(self) -> dict[str, Any]:
        """All that have a value, by name."""
        found = {name: self._globals[name] for name in self._names if name in self._globals}
        return found | {name: cell.cell_contents for name, cell in self._cells.items() if cell != CellType()}

    def values(self) -> dict[str, Any]:
        """Those that are numbers, strings or tensors."""
        return {name: value for name, value in self.all().items() if isinstance(value, (*_PLAIN, torch.Tensor))}

    def put(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if name in self._cells:
                self._cells[name].cell_contents = value
            else:
                self._globals[name] = value


def _reached(function: Any, kind: type) -> Iterator[FunctionType]:
    """``function``, if it is one of Python, and those of its file that it names, as globals or methods of ``kind``."""
    known, waiting = set[int](), [function]
    while waiting:
        function = inspect.unwrap(waiting.pop())
        if not isinstance(function, FunctionType) or id(function) in known:
            continue
        known.add(id(function))
        yield function
        named = [
            *Variables(function).all().values(),
            *(inspect.getattr_static(kind, name, None) for name in function.__code__.co_names),
        ]
        waiting += [each for each in named if getattr(each, "__globals__", None) is function.__globals__]


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


def _is_object(value: Any) -> bool:
    """Whether ``value`` is an instance of a user class, other than a module."""
    if isinstance(value, (type, torch.nn.Module)) or not isinstance(getattr(value, "__dict__", None), dict):
        return False
    package = type(value).__module__.partition(".")[0]
    return package == "__main__" or (package != "torch" and package not in sys.stdlib_module_names)


def _is_unchanged(was: Any, now: Any) -> bool:
    """Whether ``now`` is identical to ``was``, or a tuple of identical values: Dynamo replaces the tuples of a model."""
    if {type(was), type(now)} == {tuple}:
        return len(was) == len(now) and all(map(_is_unchanged, was, now))
    return was is now


def _is_same(container: Any, was: Mapping[Any, Any]) -> bool:
    now = _contents(container)
    return now.keys() == was.keys() and all(now[key] is value for key, value in was.items())


def _elements(value: Any) -> Iterable[Any]:
    if isinstance(value, Variables):
        return value.all().values()
    return value.values() if is_dict(value) else value


def _contents(value: Any) -> dict[Any, Any]:
    if isinstance(value, Variables):
        return value.values()
    if is_dict(value):
        return dict(value)
    return {each if isinstance(value, set) else place: each for place, each in enumerate(value)}


def _place(path: str, container: Any, key: Any) -> str:
    return f"{path}{key}" if path.endswith(".") or not path else f"{path}[{key!r}]"


@contextmanager
def watched(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Generator[Mapping[str, Any], None, None]:
    """Capture ``module`` in this context; yields the attributes that a call assigns, by path.

    CaptureError where one of them, or what a generator outside of PyTorch draws, changes what the next call computes.
    """
    state, changed, drawn = PythonState(module, registered=False), dict[str, tuple[Any, Any]](), list[Any]()

    def compare(*_: Any) -> None:
        changed.update(state.changed())
        drawn.extend(state.drawn())

    handle = module.register_forward_hook(compare)
    try:
        yield changed
    finally:
        handle.remove()
        state.put_back()
    if drawn:
        raise draws_refused(drawn)
    if changed:
        _refuse_state_change(module, args, kwargs, state)


def _refuse_state_change(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], state: PythonState) -> None:
    """CaptureError where the state after a first call with fake tensors changes what a second call computes.

    A model branches in these calls as it does in an export. State is allowed if it is equal after every call, or if it is
    built once from values other than inputs.
    """
    from torch._export.utils import _compiling_state_context
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)
    known = dict[int, torch.Tensor]()

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in known:
            known[id(tensor)] = mode.from_tensor(tensor)
        return known[id(tensor)]

    tensors = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    fakes = {name: fake(tensor) for name, tensor in tensors.items()}
    given = [tree_map_only(torch.Tensor, lambda t: mode.from_tensor(_alias(t)), (args, dict(kwargs))) for _ in range(2)]
    calls, left = [_Calls(tree_leaves(inputs)) for inputs in given], list[dict[str, _Change]]()
    generator = torch.get_rng_state()
    try:
        for call, (positional, keywords) in zip(calls, given, strict=True):
            with _compiling_state_context(), _reparametrize_module(module, fakes), mode, call:
                module(*positional, **keywords)
            left.append({name: _Change.of(*values) for name, values in state.changed().items()})
    except Exception as error:
        names = ", ".join(map(repr, state.changed()))
        raise CaptureError(
            f"a call of the model changes {names}, and a second one fails: {first_line(error)}", hint=_HINT
        ) from error
    finally:
        state.put_back()
        torch.set_rng_state(generator)
    first, second = left
    for name, change in second.items():
        then = first[name].now if name in first else change.before
        if then != change.now:
            raise _refusal(name)
    kept = {id(tensor) for change in second.values() for tensor in change.tensors}
    for name, change in first.items():
        for tensor in change.tensors:
            if id(tensor) in calls[1].read and (id(tensor) in calls[0].of_inputs or id(tensor) not in kept):
                raise _refusal(name)
    if calls[0].made != calls[1].made:
        raise _refusal(min(first, key=lambda name: first[name].now[0] != _VALUE))


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
_DEEPEST = 4


@dataclass(frozen=True)
class _Change:
    """A description of an attribute before and ``now``, without the elements of its ``tensors``."""

    before: Any
    now: Any
    tensors: Sequence[torch.Tensor]

    @classmethod
    def of(cls, before: Any, now: Any) -> _Change:
        return cls(_described(before), _described(now), list(_tensors(now)))


def _described(value: Any, depth: int = 0) -> tuple[Any, ...]:
    kind = cast("type[Any]", type(value))
    if isinstance(value, _PLAIN) or value is _ABSENT:
        return _VALUE, kind, repr(value)
    if isinstance(value, torch.Tensor):
        return "tensor", value.dtype, tuple("?" if isinstance(size, torch.SymInt) else size for size in value.shape)
    inner = _inside(value) if depth < _DEEPEST else {}
    return kind, tuple((str(key), _described(each, depth + 1)) for key, each in inner.items())


def _tensors(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif not isinstance(value, _PLAIN) and depth < _DEEPEST:
        for each in _inside(value).values():
            yield from _tensors(each, depth + 1)


def _inside(value: Any) -> dict[Any, Any]:
    """The elements of a container or the attributes of an object."""
    if isinstance(value, (dict, list, tuple, set)):
        return _contents(value)
    return {**value.__dict__} if _is_object(value) else {}


class _Calls(TorchDispatchMode):
    """Records the operators that depend on ``inputs``, with their arguments. ``read``: all tensor operands; ``of_inputs``:
    tensors that depend on inputs or on random operators."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        super().__init__()
        self.of_inputs, self.read = {id(value) for value in inputs if isinstance(value, torch.Tensor)}, set[int]()
        self.made = list[Any]()
        self._held = list[Any]()  # prevents reuse of the ids of these tensors

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        self._held += (given, result)
        self.read.update(map(id, given))
        drawn = is_random(func)
        if drawn or any(id(tensor) in self.of_inputs for tensor in given):
            self.made.append((str(func), [_described(leaf) for leaf in tree_leaves((args, kwargs))]))
            self.of_inputs.update(id(leaf) for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
        return result
