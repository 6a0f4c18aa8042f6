"""Models that no route captures as a whole: ``torch.compile(backend="fxc")`` compiles their parts."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from fxc.errors import CaptureError, FallbackWarning, PipelineError, PlanFileError
from fxc.frontends.capture import Model, as_module
from fxc.frontends.python_state import PythonState
from fxc.frontends.state_stores import Items, Place
from fxc.frontends.unrecorded import FlagRead
from fxc.frontends.user_lines import place_of_error, reason_of
from fxc.frontends.without_effects import quiet, unchanged
from fxc.options import Options
from fxc.runtime.cache import Compiled


class CompiledInParts(Compiled):
    """A model that PyTorch runs, with compiled parts. It has no ``plan``: ``reason`` is raised for it and for what needs it."""

    def __init__(self, model: Model, modes: Mapping[str, bool], training: bool, options: Options, reason: CaptureError) -> None:
        self.model, self.modes, self.reason, self._training = model, modes, reason, training
        self.cache, self._options = None, options
        named = {field.name: getattr(options, field.name) for field in fields(options)}
        self._run: Any = torch.compile(model, backend="fxc", options=named)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        keeps_mode = self.training or isinstance(self.reason.__cause__, FlagRead)
        gradients = nullcontext() if keeps_mode else torch.no_grad()  # a model may leave another mode
        with in_modes(self.model, self.modes), gradients, _dynamo_as_in_eager():
            return self._run(*args, **kwargs)

    def _of(self, model: Model) -> Any:
        return type(self), (model, self.modes, self.training, self._options, self.reason)

    def __reduce__(self) -> Any:
        """PlanFileError for a model that cannot be pickled, such as a function inside of another."""
        try:
            pickle.Pickler(_Nowhere()).dump(self.model)
        except Exception as error:
            hint = "define its functions and classes at the top of a module, or pickle its state_dict"
            raise PlanFileError(f"the model that runs in parts cannot be pickled: {error}", hint=hint) from error
        return self._of(self.model)

    def __copy__(self) -> CompiledInParts:
        kind, arguments = self._of(self.model)
        return kind(*arguments)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledInParts:
        kind, arguments = self._of(copy.deepcopy(self.model, memo))
        return kind(*arguments)

    @property
    def plan(self) -> Any:
        """Raises ``reason``."""
        raise self.reason

    def report(self, path: str | Path) -> None:
        """PipelineError: there is no program of the whole model."""
        message = f"a model that runs in parts has no page: {self.reason.message.partition(chr(10))[0]}"
        hint = "move what breaks the graph out of the model, or call report on a compiled submodule"
        raise PipelineError(message, place=self.reason.place, hint=hint)

    @property
    def training(self) -> bool:
        """Whether results carry gradients."""
        return self._training

    def __repr__(self) -> str:
        return f"<fxc.Compiled in parts{', training' * self.training}>"


def compiled_in_parts(
    model: Model,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    modes: Mapping[str, bool],
    training: bool,
    options: Options,
    reason: CaptureError,
) -> CompiledInParts:
    """Compile ``model``, which cannot be captured for ``reason``, in parts, and warn of it.

    Runs it on copies of the inputs, in eager mode and in parts. Raises ``reason`` where that fails, changes state that Dynamo
    does not follow, loses gradients, or has other results, and where options exclude it.
    """
    if reason.__cause__ is None or options.strict or not options.fallback or options.pipeline:
        raise reason
    state = PythonState(as_module(model))
    made = CompiledInParts(model, modes, training, options, reason)
    inputs = tuple(args), dict(kwargs)
    restored = [*state.tensors, *tree_leaves(inputs)]
    plain = [value for value in restored if not is_traceable_wrapper_subclass(value)]
    try:
        expected = _results(model, inputs, plain)
    except Exception as failure:
        message = f"the model raises {type(failure).__name__} at these inputs: {reason_of(failure)}"
        hint = "see that the model runs in PyTorch at these inputs"
        raise CaptureError(message, place=place_of_error(failure), hint=hint) from failure
    finally:
        state.put_back()
    try:
        results = _results(made, inputs, plain)
        if training and _gradients(results) != _gradients(expected):
            raise NotImplementedError("a gradient of a gradient is lost, as AOTAutograd has no second derivatives")
        if not _agree(results, expected) and _agree(_results(model, inputs, plain), expected):
            raise NotImplementedError("the results are not those of eager mode")
    except Exception as error:
        message = f"{reason.message}\n  in parts: {type(error).__name__}: {reason_of(error)}"
        raise CaptureError(message, op=reason.op, place=reason.place, hint=reason.hint) from error
    finally:
        changed = [path for path, place in state.places().items() if not _follows(place)]
        state.put_back()
    if changed:
        message = f"{reason.message}\n  in parts: the model changes {', '.join(changed)}"
        raise CaptureError(message, op=reason.op, place=reason.place, hint=reason.hint) from reason
    where = f"\n  at: {reason.place}" if reason.place else ""
    message = f"the model runs in PyTorch, and only parts of it are compiled: {reason.message}{where}"
    warnings.warn(message, FallbackWarning, stacklevel=3)
    return made


@dataclass(frozen=True)
class _Results:
    """The tensors that a model returned; ``is_random``: it has drawn from PyTorch's generator."""

    tensors: list[torch.Tensor]
    is_random: bool


def _results(model: Callable[..., Any], inputs: tuple[tuple[Any, ...], dict[str, Any]], restored: Sequence[Any]) -> _Results:
    """What ``model`` returns at copies of ``inputs``."""
    with unchanged(restored), quiet(), torch.set_grad_enabled(torch.is_grad_enabled()):
        args, kwargs = _copies(inputs)
        before = torch.get_rng_state()
        tensors = [leaf for leaf in tree_leaves(model(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
        return _Results(tensors, not torch.equal(before, torch.get_rng_state()))


def _agree(actual: _Results, expected: _Results) -> bool:
    """Whether floating-point results agree in a quarter of their digits, or are random: the order of draws may differ."""
    if expected.is_random or len(actual.tensors) != len(expected.tensors):
        return expected.is_random
    return all(map(_is_close, actual.tensors, expected.tensors))


def _is_close(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    is_compared = type(expected) is torch.Tensor and expected.layout is torch.strided and not expected.is_meta
    if not is_compared or not expected.is_floating_point() or torch.finfo(expected.dtype).bits < 16:
        return True
    tolerance = torch.finfo(expected.dtype).eps ** 0.25
    largest = expected.detach().nan_to_num(0, 0, 0).abs().amax().item() if expected.numel() else 0.0
    return actual.shape == expected.shape and torch.allclose(actual, expected, tolerance, tolerance * largest, equal_nan=True)


def _gradients(results: _Results) -> list[bool]:
    """Which tensors of ``results`` require a gradient."""
    return [tensor.requires_grad for tensor in results.tensors]


def _dynamo_as_in_eager() -> Any:
    """Options of Dynamo: draws of NumPy are its own, and derivatives within a model are traced, where Dynamo can."""
    config: Any = torch._dynamo.config
    return config.patch({name: True for name in ("use_numpy_random_stream", "trace_autograd_ops") if hasattr(config, name)})


def _follows(place: Place) -> bool:
    """Whether Dynamo notices in later calls what a call changes there; it does not compare the length of a deque."""
    if isinstance(place.store, Items):
        return not isinstance(place.store.container, deque)
    return place.is_simple


class _Nowhere:
    def write(self, data: Any) -> None:
        """Drop what a pickle would hold."""


def _copies(inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A deep copy of ``inputs``: tensors share memory as there, and are leaves or not as there, which Dynamo assumes."""
    copies = dict[int, Any]()
    for value in tree_leaves(inputs):
        if isinstance(value, torch.Tensor):
            is_strided, plain = value.layout is torch.strided, value.detach()  # PyTorch cannot deep-copy each other layout
            is_plain = type(value) is torch.Tensor or is_traceable_wrapper_subclass(value)
            if not is_plain:  # nor each class
                plain = plain.as_subclass(torch.Tensor)
            copied = copy.deepcopy(plain, copies) if is_strided else plain.clone()
            if not is_plain:
                copied = copied.as_subclass(type(value))
                vars(copied).update(vars(value))
            copied.requires_grad_(value.requires_grad)
            with torch.enable_grad():
                copies[id(value)] = copied if value.is_leaf else copied.clone()
    return copy.deepcopy(inputs, copies)


def modes_of(model: Any) -> dict[str, bool]:
    """Train or eval mode of each submodule, by path; empty for a function."""
    return {path: module.training for path, module in model.named_modules()} if hasattr(model, "named_modules") else {}


@contextmanager
def in_modes(model: Any, modes: Mapping[str, bool]) -> Generator[None, None, None]:
    """A context in which submodules have these modes."""
    before = modes_of(model)
    changed = {path: mode for path, mode in modes.items() if before.get(path, mode) != mode}
    try:
        for path, mode in changed.items():
            model.get_submodule(path).training = mode
        yield
    finally:
        for path in changed:
            model.get_submodule(path).training = before[path]
