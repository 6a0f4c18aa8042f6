"""From a model to a program, by each of PyTorch's capture routes."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_flatten, tree_unflatten
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr

from fxc.dialects.values import str_attr
from fxc.errors import CaptureError, FxcError
from fxc.frontends.fx import import_fx
from fxc.program import Program
from fxc.semantics.trace import first_line

ROUTES = ("export", "symbolic_trace", "dynamo", "make_fx")
"""Capture routes: ATen before autograd; the fx level; Dynamo's graph of Python calls; ATen after decomposition."""

Model = torch.nn.Module | Callable[..., Any]


def capture(
    model: Model,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    route: str = "export",
    dynamic_shapes: Any = None,
) -> Program:
    """The program of ``model`` called with ``args`` and ``kwargs``; the model itself is not changed.

    ``route``: ``export`` (torch.export, non-strict: ATen operators, nestings and mutations of the model kept),
    ``symbolic_trace`` (the fx level: calls as the code has them), ``dynamo`` (Dynamo's graph, inputs and outputs flat),
    ``make_fx`` (ATen after decomposition). ``dynamic_shapes``: as torch.export takes it; for ``make_fx`` a true value makes all
    sizes symbolic. Raises CaptureError with PyTorch's reason and the way out.
    """
    args, kwargs = tuple(args), dict(kwargs or {})
    if route not in ROUTES:
        raise CaptureError(f"there is no capture route {route!r}", hint=f"one of {', '.join(ROUTES)}")
    if dynamic_shapes is not None and route not in ("export", "make_fx"):
        raise CaptureError(f"route {route!r} takes no dynamic_shapes", hint="use route='export'")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if route == "export":
                return _export(model, args, kwargs, dynamic_shapes)
            if route == "symbolic_trace":
                return _symbolic_trace(model, args, kwargs)
            return _dynamo(model, args, kwargs) if route == "dynamo" else _make_fx(model, args, kwargs, bool(dynamic_shapes))
    except FxcError:
        raise
    except Exception as error:
        raise CaptureError(f"{route} cannot capture {_name(model)}: {first_line(error)}", hint=_hint(route, error)) from error


def _name(model: Model) -> str:
    return type(model).__name__ if isinstance(model, torch.nn.Module) else getattr(model, "__name__", repr(model))


def _hint(route: str, error: Exception) -> str:
    text = f"{type(error).__name__} {error}".lower()
    if "control flow" in text or "data-dependent" in text or "traceerror" in text or "could not guard" in text:
        return (
            "the Python control flow depends on tensor values: write it with torch.cond or torch.where"
            + (", or capture with route='export'" if route == "symbolic_trace" else "")
        )  # fmt: skip
    other = [r for r in ROUTES if r != route]
    return f"try another route ({', '.join(other)}), or keep the part that fails outside of the captured model"


class _FunctionModule(torch.nn.Module):
    """A function as the forward of a module, with the function's own argument names."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function


def _export(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> Program:
    module = model if isinstance(model, torch.nn.Module) else _FunctionModule(model)
    return import_fx(torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False))


def _symbolic_trace(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
    graph = torch.fx.symbolic_trace(model)
    forward = model.forward if isinstance(model, torch.nn.Module) else model
    bound = inspect.signature(forward).bind(*args, **kwargs)
    bound.apply_defaults()
    values = list[Any]()
    for parameter in inspect.signature(forward).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise CaptureError("symbolic_trace gives *args and **kwargs no types", hint="name each input of forward")
        values.append(bound.arguments[parameter.name])
    return import_fx(graph, values)


def _dynamo(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
    captured = list[tuple[GraphModule, list[Any]]]()

    def backend(graph: GraphModule, _: list[Any]) -> Callable[..., Any]:
        captured.append((graph, []))

        def run(*inputs: Any) -> Any:
            captured[-1][1][:] = inputs
            return graph.forward(*inputs)

        return run

    torch._dynamo.reset()
    saved = {name: tensor.detach().clone() for name, tensor in _state(model).items()}
    generator = torch.get_rng_state()
    try:
        torch.compile(model, backend=backend, fullgraph=True)(*args, **kwargs)
    finally:
        torch._dynamo.reset()
        torch.set_rng_state(generator)
        with torch.no_grad():
            for name, tensor in _state(model).items():
                if tensor.numel() and not torch.equal(tensor, saved[name]):
                    tensor.copy_(saved[name])
    if len(captured) != 1:
        raise CaptureError(
            f"Dynamo made {len(captured)} graphs of {_name(model)}", hint="a graph must hold at least one operator"
        )
    graph, inputs = captured[0]
    program = import_fx(graph)
    _name_state(program, inputs, _state(model), model)
    return program


def _make_fx(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], symbolic: bool) -> Program:
    from torch.fx.experimental.proxy_tensor import make_fx

    state = _state(model)
    flat, spec = tree_flatten((args, kwargs))

    def run(*values: Any) -> Any:
        tensors, inputs = values[: len(state)], values[len(state) :]
        a, k = tree_unflatten(list(inputs), spec)
        if not isinstance(model, torch.nn.Module):
            return model(*a, **k)
        return torch.func.functional_call(model, dict(zip(state, tensors, strict=True)), a, k)

    graph = make_fx(run, tracing_mode="symbolic" if symbolic else "fake", _allow_non_fake_inputs=True)(*state.values(), *flat)
    program = import_fx(graph)
    _name_state(program, [*state.values(), *flat], state, model)
    return program


def _state(model: Model) -> dict[str, torch.Tensor]:
    if not isinstance(model, torch.nn.Module):
        return {}
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _name_state(program: Program, inputs: Sequence[Any], state: Mapping[str, torch.Tensor], model: Model) -> None:
    """Marks the arguments that were given the model's own tensors, so that the program holds them."""
    names = {id(tensor): name for name, tensor in state.items()}
    parameters = {id(p) for p in model.parameters()} if isinstance(model, torch.nn.Module) else set[int]()
    function = program.main
    attributes = list[DictionaryAttr]()
    for value, known in zip(inputs, function.arg_attrs or (), strict=True):
        name = names.get(id(value))
        if name is not None:
            kind = "parameter" if id(value) in parameters else "buffer"
            known = DictionaryAttr({**known.data, "fx.kind": str_attr(kind), "fx.name": str_attr(name)})
            program.state[name] = value
        attributes.append(known)
    function.properties["arg_attrs"] = ArrayAttr(attributes)
