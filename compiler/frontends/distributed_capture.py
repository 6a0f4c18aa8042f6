"""Capture of a model with DTensors: a program of the local tensors of this rank, with its collectives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten
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
from fxc.runtime.plan import Plan


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

    def call(self, plan: Plan) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """What ``Plan.call_through`` takes: calls with DTensors."""
        from fxc.runtime.distributed_call import DistributedCall, Part

        inputs, results = ([*map(Part.of, specs)] for specs in (self.inputs, self.results))
        found = ((name, tensor) for name, tensor in self.state.items() if spec_of(tensor) is not None)
        weights = {name: (tensor, self.program.state[name]) for name, tensor in found if name in self.program.state}
        return lambda run: DistributedCall(run, [spec.name for spec in plan.signature.inputs], inputs, results, weights)


def has_dtensors(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether inputs, parameters or buffers are DTensors."""
    tensors = (tensor for module in modules_of(model).values() for tensor in (*module.parameters(), *module.buffers()))
    return any(spec_of(value) is not None for value in (*tree_leaves((args, kwargs)), *tensors))


def capture_local(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> LocalProgram:
    """The program that this rank runs for ``model(*args, **kwargs)`` without gradients.

    CaptureError with PyTorch's reason; for results whose parts have different sizes; and for functions of modules.
    """
    from torch.distributed.tensor import DTensor
    from torch.fx.experimental.proxy_tensor import make_fx

    if not isinstance(model, torch.nn.Module) and modules_of(model):
        raise CaptureError("the function calls a module that it does not take", hint="compile the module, or pass its tensors")
    state = state_of(model)
    flat, nesting = tree_flatten((tuple(args), dict(kwargs)))
    specs = [spec_of(value) for value in (*state.values(), *flat)]
    parts = [getattr(value, "_local_tensor", value) for value in (*state.values(), *flat)]
    results, returned = list[Any](), list[TreeSpec]()

    def run(*values: Any) -> Any:
        pairs = zip(values, specs, strict=True)
        whole = [value if spec is None else DTensor(value, spec, requires_grad=False) for value, spec in pairs]
        a, k = tree_unflatten(whole[len(state) :], nesting)
        if isinstance(model, torch.nn.Module):
            result = torch.func.functional_call(model, dict(zip(state, whole, strict=False)), a, k)
        else:
            result = model(*a, **k)
        leaves, spec = tree_flatten(result)
        results[:], returned[:] = map(spec_of, leaves), [spec]
        for leaf in leaves:
            if isinstance(leaf, DTensor):
                again = DTensor.from_local(leaf._local_tensor, leaf.device_mesh, leaf.placements, run_check=False)
                if again.shape != leaf.shape:
                    message = f"the parts of a result of size {tuple(leaf.shape)} have different sizes on the ranks"
                    raise CaptureError(message, hint=f"use {TORCH_COMPILE}, or sizes that the number of ranks divides")
        return [leaf._local_tensor if isinstance(leaf, DTensor) else leaf for leaf in leaves]

    try:
        with compile_lock(dynamo=True), torch.no_grad():
            graph = make_fx(run, tracing_mode="fake", _allow_non_fake_inputs=True)(*parts)
    except FxcError:
        raise
    except Exception as error:
        message = f"no program of local tensors: {type(error).__name__}: {reason_of(error)}"
        raise CaptureError(message, place=place_of_error(error), hint=f"use {TORCH_COMPILE}") from error
    program = import_fx(graph)
    name_state(program, parts, dict(zip(state, parts, strict=False)), model)
    _name_inputs(program, model, args, kwargs)
    program.main.attributes[INPUTS] = nesting_attr(nesting)
    program.main.attributes[OUTPUTS] = nesting_attr(returned[0])
    record_layouts(program, specs, results)
    local_args, local_kwargs = tree_unflatten(parts[len(state) :], nesting)
    return LocalProgram(program, specs[len(state) :], results, local_args, local_kwargs, state)


def _name_inputs(program: Program, model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Name the inputs of ``program`` as the parameters of ``model`` that they are, or are leaves of."""
    parameters = inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model).parameters
    positional = zip(chain(parameters, (f"input_{i}" for i in count(len(parameters)))), args)
    leaves = [(name, len(tree_leaves(value))) for name, value in (*positional, *kwargs.items())]
    names = iter([name if size == 1 else f"{name}_{i}" for name, size in leaves for i in range(size)])
    known = argument_attributes(program.main)
    for i, facts in enumerate(known):
        if not ArgumentFacts.of(facts).is_state:
            known[i] = DictionaryAttr({**facts.data, "fx.name": str_attr(next(names))})
    if known:
        program.main.properties["arg_attrs"] = ArrayAttr(known)
