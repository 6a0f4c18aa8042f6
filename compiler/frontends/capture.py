"""Capture models as programs, by PyTorch's capture routes."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch._guards import TracingContext
from torch.fx import GraphModule
from torch.fx.graph import _PyTreeCodeGen
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map_only, tree_unflatten

from fxc.bridge import autograd_functions
from fxc.bridge.eager_strides import dropouts_as_in_eager, in_all_fakes, states_as_in_eager
from fxc.bridge.flex_attention import attention_by_scores, attention_called
from fxc.bridge.loops import loops_separated
from fxc.bridge.nesting import INPUTS, OUTPUTS, nesting_attr
from fxc.bridge.static_world import IS_PLAIN
from fxc.errors import TORCH_COMPILE, CaptureError, FxcError, InputError
from fxc.frontends.captured_model import Model, compile_lock, modules_of, name_state, state_of
from fxc.frontends.changed_inputs import ChangedInputs, has_changed
from fxc.frontends.check_call import (
    check_call,
    checked_results,
    flattenable,
    misfit,
    refuse_subclasses,
    require_data,
    results_checked,
)
from fxc.frontends.distributed_capture import capture_local, has_dtensors, refuse_fsdp
from fxc.frontends.eager_calls import EagerCalls, IndexedWrites, grad_mode_recorded, inference_as_no_grad
from fxc.frontends.free_sizes import export_free
from fxc.frontends.function_transforms import without_transforms
from fxc.frontends.host_results import Texts, stand_in
from fxc.frontends.import_fx import import_fx, import_traced, merge_constants
from fxc.frontends.non_strict_trace import traced
from fxc.frontends.packed_sequences import KnownLengths, NoPackedSequence, refuse_packed
from fxc.frontends.python_state import PythonState, watched
from fxc.frontends.replaced_tensors import replacements_refused
from fxc.frontends.restore_signature import resign
from fxc.frontends.state_stores import Place
from fxc.frontends.stored_values import StoredValues
from fxc.frontends.unrecorded import (
    SEED_BEFORE,
    Unrecorded,
    UnrecordedRefused,
    hidden_calls_refused,
    replaces_memory,
    state_read,
)
from fxc.frontends.user_lines import place_of_error, reason_of
from fxc.frontends.without_effects import quiet, unchanged, with_forward
from fxc.program.program import Program
from fxc.runtime.object_inputs import contents, opened

ROUTES = ("export", "symbolic_trace", "dynamo", "make_fx")
"""Capture routes: ATen before autograd; the fx level; Dynamo's graph of Python calls; ATen after decomposition."""


def capture(
    model: Model,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    route: str = "export",
    dynamic_shapes: Any = None,
    packed: bool = False,
    concrete_args: Mapping[str, Any] | None = None,
    tracer: torch.fx.Tracer | type[torch.fx.Tracer] = torch.fx.Tracer,
) -> Program:
    """The program of ``model`` called with ``args`` and ``kwargs``; the model is not changed.

    ``route``: ``export`` (as torch.export, non-strict: ATen operators, with the nestings and mutations of the model),
    ``symbolic_trace`` (the fx level: calls as in the source), ``dynamo`` (Dynamo's graph, inputs and outputs flat),
    ``make_fx`` (ATen after decomposition). ``dynamic_shapes``: as for torch.export; for ``make_fx`` a true value makes all
    sizes symbolic. ``packed``: with ``export``, specialize to the lengths of the packed sequences of this call.
    ``concrete_args``, ``tracer``: with ``symbolic_trace``, the arguments to specialize to, by name, as for torch.fx, and the
    tracer, which decides what is a leaf. Of a model with DTensors, the program of this rank is captured, whatever the route.
    Raises CaptureError with a hint, InputError for ``args``, ``kwargs`` or ``dynamic_shapes`` that do not fit.
    """
    return _captured(model, args, kwargs or {}, _Route(route, dynamic_shapes, packed, concrete_args or {}, tracer))


@dataclass(frozen=True)
class _Route:
    """The parameters of ``capture``.

    ``stores``: the program returns what the model stores in its attributes, too. ``training``: it is differentiated.
    """

    name: str = "export"
    dynamic_shapes: Any = None
    packed: bool = False
    concrete_args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tracer: torch.fx.Tracer | type[torch.fx.Tracer] = torch.fx.Tracer
    stores: bool = False
    training: bool = False

    def check(self, has_objects: bool) -> None:
        """Raise CaptureError if there is no such route, or it does not take what is given."""
        if self.name not in ROUTES:
            raise CaptureError(f"there is no capture route {self.name!r}", hint=f"one of {', '.join(ROUTES)}")
        if self.dynamic_shapes is not None and self.name not in ("export", "make_fx"):
            raise CaptureError(f"route {self.name!r} takes no dynamic_shapes", hint="use route='export'")
        if (self.concrete_args or self.tracer is not torch.fx.Tracer) and self.name != "symbolic_trace":
            message = f"route {self.name!r} takes no concrete_args or tracer"
            raise CaptureError(message, hint="use route='symbolic_trace'")
        if has_objects and self.name in ("symbolic_trace", "dynamo"):
            raise CaptureError(f"route {self.name!r} takes no objects of classes as inputs", hint="use route='export'")


def _captured(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any], route: _Route) -> Program:
    check_call(model, args, kwargs, route.dynamic_shapes)
    refuse_fsdp(model)
    if has_dtensors(model, args, kwargs):
        return capture_local(model, args, kwargs).program
    refuse_packed(_name(model), tuple(args), dict(kwargs))
    changed = ChangedInputs(args, kwargs)
    dynamic_shapes = changed.shapes(model, route.dynamic_shapes)
    args, kwargs = _without_repeats((changed.args, changed.kwargs))
    route.check(changed.has_objects)
    try:
        module = as_module(model)
        lock = compile_lock(dynamo=route.name in ("dynamo", "make_fx"))
        with (
            lock,
            quiet(),
            in_all_fakes(),
            dropouts_as_in_eager(),
            attention_by_scores(),
            inference_as_no_grad(),
            loops_separated(),
            torch.set_grad_enabled(torch.is_grad_enabled()),  # a model may leave another mode
        ):
            if route.name == "symbolic_trace":
                return _symbolic_trace(model, args, kwargs, route.concrete_args, route.tracer)
            if route.name == "dynamo":
                return _dynamo(model, args, kwargs)
            if route.name == "make_fx":
                with changed.around(module):
                    program = _make_fx(module, args, kwargs, bool(dynamic_shapes))
            else:
                export = _export_packed if route.packed else functools.partial(_export, dynamic_shapes=dynamic_shapes)
                export = functools.partial(export, training=route.training)
                with changed.around(module):
                    program, stored = export(module, args, kwargs)
                if route.stores and stored:
                    changed.stored = StoredValues(stored)
                    with changed.around(module):
                        program, _ = export(module, args, kwargs)
            require_data(program, f"{route.name} cannot capture {_name(model)}")
            changed.mark(program)
            return program
    except FxcError:
        raise
    except Exception as error:
        if isinstance(error, TypeError) and (reason := misfit(model, args, kwargs)) is not None:
            hint = "args is a tuple of the positional inputs, kwargs a dictionary of those by name"
            raise CaptureError(f"the inputs are not those of {_name(model)}: {reason}", hint=hint) from None
        message = f"{route.name} cannot capture {_name(model)}: {type(error).__name__}: {reason_of(error)}"
        raise CaptureError(message, place=place_of_error(error), hint=_hint(route.name, error)) from error


def capture_somehow(
    model: Model, args: Sequence[Any], kwargs: Mapping[str, Any], *, dynamic_shapes: Any, training: bool
) -> Program:
    """The program of ``model`` by ``export``, or else by the first route whose program has the signature of ``model``.

    ``make_fx`` is skipped for ``training``, as it would lose custom derivatives of the model. Only ``export`` supports
    ``dynamic_shapes``. Raises CaptureError with the reason for which each route failed.
    """
    check_call(model, args, kwargs, dynamic_shapes)
    refuse_subclasses(model, (args, kwargs))
    try:
        return _captured(model, args, kwargs, _Route(dynamic_shapes=dynamic_shapes, stores=True, training=training))
    except (CaptureError, InputError) as error:
        if isinstance(error, CaptureError) and error.__cause__ is None:  # no other route can capture it either
            raise
        first = error
    reasons = dict[str, str]()
    unrecorded = isinstance(first.__cause__, Unrecorded)
    refused = isinstance(first, InputError)  # an autograd.Function whose derivative a program cannot have
    routes = ("packed sequences", "dynamo", *["make_fx"] * (not training))
    for route in () if dynamic_shapes is not None or unrecorded or (training and refused) else routes:
        state = PythonState(as_module(model))
        try:
            packed = route == "packed sequences"
            program = _captured(
                model, args, kwargs, _Route("export" if packed else route, packed=packed, stores=True, training=training)
            )
        except NoPackedSequence:
            continue
        except FxcError as error:
            if error.message == first.message:
                continue
            reasons[route] = error.message.removeprefix(f"{route} cannot capture {_name(model)}: ")
            continue
        finally:
            changed = state.put_back()
        if not changed and INPUTS in program.main.attributes:
            return program
        reasons[route] = "the model changes its attributes" if changed else "its graph is not called as the model is"
    if not reasons and not refused:
        raise first
    message = "".join(f"\n  {route}: {reason}" for route, reason in reasons.items())
    hint = f"{first.hint}; or {_PARTLY}" if (first.hint or "").startswith((_CONTROL_FLOW, _NUMBER)) else _PARTLY
    raise CaptureError(first.message + message, op=first.op, place=first.place, hint=hint) from first


_PARTLY = f"use {TORCH_COMPILE}, which runs what cannot be captured in Python, or move that out of the model"


def _without_repeats(inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """``inputs`` with a copy of each repeated tensor, as a later call may pass two tensors."""
    tensors = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    if len(set(map(id, tensors))) == len(tensors):
        return inputs
    seen = set[int]()

    def distinct(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in seen:
            return tensor.detach().requires_grad_(tensor.requires_grad)
        seen.add(id(tensor))
        return tensor

    return tree_map_only(torch.Tensor, distinct, inputs)


def _name(model: Model) -> str:
    return type(model).__name__ if isinstance(model, torch.nn.Module) else getattr(model, "__name__", repr(model))


_CONTROL_FLOW = "the Python control flow depends on tensor values"
_NUMBER = (
    "an operator needs a number there that a tensor holds: compute with the tensor"
    " (a batch norm with momentum=None takes its count: give it a momentum)"
)


def _hint(route: str, error: Exception) -> str:
    text = f"{type(error).__name__} {error}".lower()
    if "could not extract specialized" in text:
        return _NUMBER
    if "control flow" in text or "data-dependent" in text or "traceerror" in text or "could not guard" in text:
        return (
            f"{_CONTROL_FLOW}: write it with torch.cond or torch.where"
            + (", state the argument in concrete_args, or capture with route='export'" if route == "symbolic_trace" else "")
        )  # fmt: skip
    if "not in range" in text:
        return "widen the bounds of this size: torch.export.Dim(name, min=..., max=...) in dynamic_shapes"
    if "specialized it to be a constant" in text:
        return "the model needs this size as a number, as a loop does: give it Dim.AUTO, and fxc.compile the option recompile"
    if "suggested fixes" in text:
        return " ".join(str(error)[text.index("suggested fixes") - len(type(error).__name__) - 1 :].split("\n\n")[0].split())
    if (seed := re.search(r"the function `(\w*seed\w*|set_rng_state)`", str(error))) is not None:
        return f"the model calls {seed[1]}: {SEED_BEFORE}"
    other = [r for r in ROUTES if r != route]
    tries = f"try another route ({', '.join(other)}), or move the part that fails out of the captured model"
    return f"see that the model runs in PyTorch at these inputs; if it does, {tries}"


class FunctionModule(torch.nn.Module):
    """A function as the forward of a module, with the same argument names; modules that it references are submodules."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        for name, module in modules_of(function).items():
            if not hasattr(self, name):
                self.add_module(name, module)
        self.forward = _named_forward(function)


def as_module(model: Model) -> torch.nn.Module:
    """``model``, or a module that calls it."""
    return model if isinstance(model, torch.nn.Module) else FunctionModule(model)


def _named_forward(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` renamed to ``forward``: torch.export records source locations of frames of this name."""
    if not isinstance(function, FunctionType):
        return function if _has_signature(function) else lambda *args, **kwargs: function(*args, **kwargs)
    code = function.__code__.replace(co_name="forward")
    named = FunctionType(code, function.__globals__, "forward", function.__defaults__, function.__closure__)
    named.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(named, function)


def _has_signature(function: Callable[..., Any]) -> bool:
    """Whether ``function`` has a Python signature; ``torch.relu`` has none."""
    try:
        inspect.signature(function)
    except ValueError:
        return False
    return True


def _export(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, training: bool
) -> tuple[Program, Mapping[str, Place]]:
    """The program, and what a call stores (``Assigned.stored``)."""
    if dynamic_shapes is None and IS_PLAIN and (trace := traced(module, args, kwargs)) is not None:
        return import_traced(trace), {}
    kinds = [kind for kind in torch._C._autocast_supported_devices() if torch.is_autocast_enabled(kind)]
    dtypes, forward = {kind: torch.get_autocast_dtype(kind) for kind in kinds}, module.forward

    def run(*args: Any, **kwargs: Any) -> Any:  # torch.export records autocast regions inside the model, not the enclosing one
        with _autocast(dtypes, enabled=True):
            return forward(*args, **kwargs)

    with (
        with_forward(module, run) if kinds else contextlib.nullcontext(),
        compile_lock(dynamo=True),
        watched(module, args, kwargs) as assigned,
        results_checked(module, training),
        _autocast(dict.fromkeys(kinds), enabled=False),
        autograd_functions.recorded(),
        grad_mode_recorded(),
        UnrecordedRefused(module, training),
        state_read() as state_reads,
        Texts() as texts,
        IndexedWrites(),
        EagerCalls(),
        hidden_calls_refused(),
        states_as_in_eager(),
        attention_called(),
    ):
        if dynamic_shapes is None:
            exported = torch.export.export(module, args, kwargs, strict=False)
        else:
            exported = export_free(module, args, kwargs, dynamic_shapes)
        exported = without_transforms(exported)
        if any(replaces_memory(node.target) for node in exported.graph.nodes):
            raise Unrecorded("the memory of a tensor, which the model replaces, is not recorded")
    merge_constants(exported)
    program = import_fx(exported)
    texts.refuse_results(program)
    program.assigned = frozenset(assigned.places)
    program.reads = tuple(state_reads.items())
    return program, assigned.stored


def _export_packed(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], training: bool
) -> tuple[Program, Mapping[str, Place]]:
    """``_export`` with ``KnownLengths``. NoPackedSequence where the model packs no sequence."""
    lengths, forward, gradients = KnownLengths(args, kwargs), module.forward, torch.is_grad_enabled()

    def run(*args: Any, **kwargs: Any) -> Any:
        lengths.begin(args, kwargs)
        with lengths:
            return forward(*args, **kwargs)

    try:  # versions of tensors are compared
        with with_forward(module, run), torch.inference_mode(False), torch.set_grad_enabled(gradients):
            args, kwargs = tree_map_only(torch.Tensor, lambda t: t.clone() if t.is_inference() else t, (args, kwargs))
            program, stored = _export(module, args, kwargs, None, training)
    except Exception:
        if not lengths.is_used:
            raise NoPackedSequence(f"{_name(module)} packs no sequence") from None
        raise
    if not lengths.is_used:
        raise NoPackedSequence(f"{_name(module)} packs no sequence")
    lengths.mark(program, args, kwargs)
    return program, stored


@contextlib.contextmanager
def _autocast(dtypes: Mapping[str, torch.dtype | None], *, enabled: bool) -> Generator[None, None, None]:
    with contextlib.ExitStack() as stack:
        for kind, dtype in dtypes.items():
            stack.enter_context(torch.autocast(kind, dtype, enabled=enabled))
        yield


def _symbolic_trace(
    model: Model,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    concrete: Mapping[str, Any],
    tracer: torch.fx.Tracer | type[torch.fx.Tracer],
) -> Program:
    tracer = tracer() if callable(tracer) else tracer
    bound = inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model).bind(*args, **kwargs)
    bound.apply_defaults()
    absent = {name: None for name, value in bound.arguments.items() if value is None}
    with hidden_calls_refused():
        graph = tracer.trace(model, {**absent, **concrete} or None)
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in bound.signature.parameters.values()):
        raise CaptureError("symbolic_trace does not type *args and **kwargs", hint="name each input of forward")
    values = list(bound.arguments.values())
    is_nested = isinstance(graph._codegen, _PyTreeCodeGen)
    return import_fx(GraphModule(tracer.root, graph), tree_leaves(values) if is_nested else values)


def _dynamo(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
    """Dynamo's only graph, with the signature of the model: inputs and outputs are matched by identity in one run."""
    captured = list[GraphModule]()
    inputs, outputs = list[Any](), list[Any]()

    def backend(graph: GraphModule, _: list[Any]) -> Callable[..., Any]:
        _refuse_assumptions()
        captured.append(graph)

        def run(*values: Any) -> Any:
            inputs[:], outputs[:] = values, map(stand_in, graph.forward(*values))
            return tuple(outputs)

        return run

    torch._dynamo.reset()
    state = state_of(model)
    given, nesting = tree_flatten((args, kwargs))
    given = _distinct(given)  # Dynamo makes one input of a repeated tensor, and guards on it
    args, kwargs = tree_unflatten(given, nesting)
    containers = opened(args, kwargs)[2]
    before = [*map(contents, containers)]
    with unchanged([*PythonState(as_module(model)).tensors, *given]):
        try:
            result = torch.compile(model, backend=backend, fullgraph=True)(*args, **kwargs)
        finally:
            torch._dynamo.reset()
    if any(map(has_changed, before, map(contents, containers))):
        raise CaptureError("the model changes a list or dict among its inputs", hint="use route='export'")
    if len(captured) != 1:
        raise CaptureError(
            f"Dynamo made {len(captured)} graphs of {_name(model)}", hint="a graph must hold at least one operator"
        )
    if any("_functorch" in str(getattr(node.target, "__module__", "")) for node in captured[0].graph.nodes):
        hint = f"use route='make_fx', or {TORCH_COMPILE}"
        raise CaptureError("Dynamo's graph calls transforms of torch.func, which change the state of the process", hint=hint)
    program = import_fx(captured[0])
    name_state(program, inputs, state, model)
    resign(program, inputs, given, nesting, outputs, flattenable(model, result))
    return program


def _refuse_assumptions() -> None:
    """CaptureError where Dynamo's graph holds for some values of numbers in tensors only: a program does not check them."""
    tracing = TracingContext.try_get()
    env = None if tracing is None or tracing.fake_mode is None else tracing.fake_mode.shape_env
    assumed = [] if env is None else [*(str(guard.expr) for guard in env.guards), *map(str, env.replacements)]
    if assumed:
        message = f"Dynamo's graph holds for some numbers in tensors, or sizes, only: {', '.join(assumed[:3])}"
        raise CaptureError(message, hint=f"use {TORCH_COMPILE}, which checks them")


def _distinct(values: Sequence[Any]) -> list[Any]:
    """``values`` with a copy of each repeated tensor."""
    seen = set[int]()
    distinct = list[Any]()
    for value in values:
        repeated = isinstance(value, torch.Tensor) and id(value) in seen
        distinct.append(value.detach().clone().requires_grad_(value.requires_grad) if repeated else value)
        seen.add(id(value))
    return distinct


def _make_fx(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], symbolic: bool) -> Program:
    from torch.fx.experimental.proxy_tensor import make_fx

    state = state_of(model)
    flat, nesting = tree_flatten((args, kwargs))
    if any(isinstance(leaf, torch.Generator) for leaf in flat):  # operators would read its fake as one, which crashes
        raise NotImplementedError("an input is a random generator")
    returned = list[TreeSpec]()

    def run(*values: Any) -> Any:
        tensors, inputs = values[: len(state)], values[len(state) :]
        a, k = tree_unflatten(list(inputs), nesting)
        result = checked_results(model, torch.func.functional_call(model, dict(zip(state, tensors, strict=True)), a, k))
        leaves, spec = tree_flatten(result)
        returned[:] = [spec]
        return tuple(leaves)

    trace = make_fx(run, tracing_mode="symbolic" if symbolic else "fake", _allow_non_fake_inputs=True)
    with UnrecordedRefused(model, training=False), replacements_refused(model), Texts() as texts, hidden_calls_refused():
        graph = trace(*state.values(), *flat)
    program = import_fx(graph)
    name_state(program, [*state.values(), *flat], state, model)
    program.main.attributes[INPUTS] = nesting_attr(nesting)
    program.main.attributes[OUTPUTS] = nesting_attr(returned[0])
    texts.refuse_results(program)
    return program
