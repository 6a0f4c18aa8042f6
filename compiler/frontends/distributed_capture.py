"""Capture of a model with DTensors: a program of the local tensors of this rank, with its collectives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr

from fxc.bridge.nesting import INPUTS, OUTPUTS, nesting_attr
from fxc.dialects.attributes.values import str_attr
from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.errors import TORCH_COMPILE, CaptureError, FxcError
from fxc.frontends.captured_model import Model, compile_lock, modules_of, name_state, state_of
from fxc.frontends.import_fx import import_fx
from fxc.frontends.layouts import record_layouts, spec_of
from fxc.frontends.user_lines import place_of_error, reason_of
from fxc.program.program import Program


@dataclass(frozen=True)
class LocalProgram:
    """``program`` of local tensors. ``inputs``, ``results``: specifications of the DTensors that they are parts of, or None.

    ``args`` and ``kwargs``: the example with local tensors. ``state``: the tensors of the model, by name.
    """

    program: Program
    inputs: Sequence[Any]
    results: Sequence[Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    state: Mapping[str, torch.Tensor]

    def weights(self) -> dict[str, tuple[Any, torch.Tensor]]:
        """The DTensors of the model that the program has, each with its local tensor."""
        known = self.program.state
        return {
            name: (whole, known[name]) for name, whole in self.state.items() if spec_of(whole) is not None and name in known
        }


def has_dtensors(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether inputs, parameters or buffers are DTensors."""
    tensors = (tensor for module in modules_of(model).values() for tensor in (*module.parameters(), *module.buffers()))
    return any(spec_of(value) is not None for value in (*tree_leaves((args, kwargs)), *tensors))


def capture_local(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> LocalProgram:
    """The program that this rank runs for ``model(*args, **kwargs)`` without gradients.

    CaptureError with PyTorch's reason, for results whose parts have different sizes, and for functions of modules.
    """
    call = LocalCall(model, args, kwargs)
    with torch.no_grad():
        program = import_fx(call.traced(lambda *values: [local_part(leaf) for leaf in call.run(values)], call.parts))
    name_state(program, call.parts, dict(zip(call.state, call.parts, strict=False)), model)
    known, names = argument_attributes(program.main), iter(call.names)
    for i, facts in enumerate(known):
        if not ArgumentFacts.of(facts).is_state:
            known[i] = DictionaryAttr({**facts.data, "fx.name": str_attr(next(names))})
    if known:
        program.main.properties["arg_attrs"] = ArrayAttr(known)
    program.main.attributes[INPUTS] = nesting_attr(call.nesting)
    program.main.attributes[OUTPUTS] = nesting_attr(call.returned)
    record_layouts(program, call.specs, call.results)
    local_args, local_kwargs = tree_unflatten(call.parts[len(call.state) :], call.nesting)
    return LocalProgram(program, call.specs[len(call.state) :], call.results, local_args, local_kwargs, call.state)


class LocalCall:
    """A call of ``model`` on tensors that stand for the local parts of its tensors (``state``) and inputs (``flat``)."""

    def __init__(self, model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if not isinstance(model, torch.nn.Module) and modules_of(model):
            raise CaptureError(
                "the function calls a module that it does not take", hint="compile the module, or pass its tensors"
            )
        self.model, self.state = model, state_of(model)
        self.flat, self.nesting = tree_flatten((tuple(args), dict(kwargs)))
        self.specs = [spec_of(value) for value in (*self.state.values(), *self.flat)]
        self.parts = [local_part(value) for value in (*self.state.values(), *self.flat)]
        try:
            parameters = [*inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model).parameters]
        except ValueError:  # a builtin function
            parameters = list[str]()
        positional = zip(chain(parameters, (f"input_{i}" for i in count(len(parameters)))), args)
        sizes = [(name, len(tree_leaves(value))) for name, value in (*positional, *kwargs.items())]
        self.names = [name if size == 1 else f"{name}_{i}" for name, size in sizes for i in range(size)]

    def run(self, values: Sequence[Any], wanted: Sequence[bool] | None = None) -> list[Any]:
        """The leaves of the result for these local tensors, of which those ``wanted`` require a gradient."""
        from torch.distributed.tensor import DTensor

        given = zip(values, self.specs, wanted or [False] * len(values), strict=True)
        self.wholes = [_whole(DTensor, *each) for each in given]
        args, kwargs = tree_unflatten(self.wholes[len(self.state) :], self.nesting)
        if isinstance(self.model, torch.nn.Module):
            result = torch.func.functional_call(self.model, dict(zip(self.state, self.wholes, strict=False)), args, kwargs)
        else:
            result = self.model(*args, **kwargs)
        leaves, self.returned = tree_flatten(result)
        self.results = [spec_of(leaf) for leaf in leaves]
        for leaf in leaves:
            if isinstance(leaf, DTensor):
                again = DTensor.from_local(leaf._local_tensor, leaf.device_mesh, leaf.placements, run_check=False)
                if again.shape != leaf.shape:
                    message = f"the parts of a result of size {tuple(leaf.shape)} have different sizes on the ranks"
                    raise CaptureError(message, hint=f"use {TORCH_COMPILE}, or sizes that the number of ranks divides")
        return leaves

    def traced(self, function: Callable[..., list[Any]], examples: Sequence[Any]) -> GraphModule:
        """The graph of ``function``; CaptureError with PyTorch's reason."""
        from torch.fx.experimental.proxy_tensor import make_fx

        try:
            with compile_lock(dynamo=True):
                return make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*examples)
        except FxcError:
            raise
        except Exception as error:
            message = f"no program of local tensors: {type(error).__name__}: {reason_of(error)}"
            raise CaptureError(message, place=place_of_error(error), hint=f"use {TORCH_COMPILE}") from error


def local_part(value: Any) -> Any:
    """The local tensor of a DTensor; other values unchanged."""
    return value if spec_of(value) is None else value._local_tensor


def _whole(cls: Any, value: Any, spec: Any, wants: bool) -> Any:
    if spec is None:
        return value.requires_grad_() if wants else value
    return cls(value, spec, requires_grad=wants)
