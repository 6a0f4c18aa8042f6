"""Capture of a model with DTensors, also with its backward: a program of local tensors of this rank with collectives."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, cast

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
from fxc.frontends.joint_graph import import_joint
from fxc.frontends.layouts import record_layouts, spec_of
from fxc.frontends.unrecorded import Unrecorded
from fxc.frontends.user_lines import place_of_error, reason_of
from fxc.program.program import Program


@dataclass(frozen=True)
class LocalProgram:
    """``program`` of the local tensors of ``call``."""

    program: Program
    call: LocalCall

    def weights(self) -> dict[str, tuple[Any, torch.Tensor]]:
        """The DTensors of the model that the program has, each with its local tensor."""
        known = self.program.state
        return {
            name: (whole, known[name])
            for name, whole in self.call.state.items()
            if spec_of(whole) is not None and name in known
        }


def has_dtensors(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether inputs, parameters or buffers are DTensors."""
    tensors = (tensor for module in modules_of(model).values() for tensor in (*module.parameters(), *module.buffers()))
    return any(spec_of(value) is not None for value in (*tree_leaves((args, kwargs)), *tensors))


def refuse_fsdp(model: Model) -> None:
    """CaptureError for modules of FSDP. It can run in parts after its first call, which sets the modules up."""
    fsdp: Any = sys.modules.get("torch.distributed.fsdp")
    kinds: tuple[Any, ...] = () if fsdp is None else (fsdp.FSDPModule, fsdp.FullyShardedDataParallel)
    inner = [each for module in modules_of(model).values() for each in module.modules() if isinstance(each, kinds)]
    if not inner:
        return
    states: list[Any] = [each._get_fsdp_state() if isinstance(each, kinds[0]) else each for each in cast("Any", inner)]
    message = "modules of FSDP gather their weights in hooks, which a program has not"
    if any(state._is_root is None for state in states):
        raise CaptureError(message, hint="call the model once before you compile it, which then runs in parts")
    raise CaptureError(message, hint=f"use {TORCH_COMPILE}") from Unrecorded(message)


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
    return LocalProgram(program, call)


class LocalCall:
    """A call of ``model`` on tensors that stand for the local parts of its tensors (``state``) and inputs (``flat``).

    ``inputs``, ``results``: specifications of the DTensors that they are parts of, or None; ``names`` of the inputs.
    ``nesting``, ``returned``: that of the inputs, and of the results.
    """

    def __init__(self, model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if not isinstance(model, torch.nn.Module) and modules_of(model):
            raise CaptureError(
                "the function calls a module that it does not take", hint="compile the module, or pass its tensors"
            )
        self.model, self.state = model, state_of(model)
        self.flat, self.nesting = tree_flatten((tuple(args), dict(kwargs)))
        self.specs = [spec_of(value) for value in (*self.state.values(), *self.flat)]
        self.parts = [local_part(value) for value in (*self.state.values(), *self.flat)]
        self.inputs = self.specs[len(self.state) :]
        try:
            parameters = [*inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model).parameters]
        except ValueError:  # a builtin function
            parameters = list[str]()
        positional = zip(chain(parameters, (f"input_{i}" for i in count(len(parameters)))), args)
        sizes = [(name, len(tree_leaves(value))) for name, value in (*positional, *kwargs.items())]
        self.names = [name if size == 1 else f"{name}_{i}" for name, size in sizes for i in range(size)]

    def local_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The example with local tensors."""
        return tree_unflatten(self.parts[len(self.state) :], self.nesting)

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


@dataclass(frozen=True)
class JointProgram(LocalProgram):
    """``program``, that of ``graph``: the forward and the backward of ``call``, and tangents.

    ``differentiated``: which results have a tangent. ``gradients``: for each tensor of the model and each input None, or a
    tuple of the specification of its gradient, which is None for a plain tensor.
    """

    graph: GraphModule
    differentiated: Sequence[bool]
    gradients: Sequence[tuple[Any] | None]


def capture_local_joint(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JointProgram:
    """The forward and the backward that this rank runs for ``model(*args, **kwargs)``.

    CaptureError as for ``capture_local``, for a model that writes a tensor, and where no result requires a gradient.
    """
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor._dtensor_spec import DTensorSpec

    call = LocalCall(model, args, kwargs)
    wanted = [isinstance(value, torch.Tensor) and value.requires_grad for value in (*call.state.values(), *call.flat)]
    differentiated, gradients = list[bool](), list[tuple[Any] | None]()

    def tangent(leaf: Any, local: torch.Tensor) -> Any:
        """A gradient of a result: that of a partial one is the same on all ranks."""
        if (spec := spec_of(leaf)) is None:
            return local
        placements = tuple(Replicate() if each.is_partial() else each for each in spec.placements)
        return type(leaf)(local, DTensorSpec(spec.mesh, placements, tensor_meta=spec.tensor_meta), requires_grad=False)

    def forward(*values: Any) -> list[Any]:
        leaves = call.run(values, wanted)
        differentiated[:] = [isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves]
        return [local_part(leaf) for leaf in leaves]

    def joint(*values: Any) -> list[Any]:
        leaves = call.run(values[: len(call.parts)], wanted)
        ends = [leaf for leaf, has in zip(leaves, differentiated, strict=True) if has]
        given = [tangent(leaf, local) for leaf, local in zip(ends, values[len(call.parts) :], strict=True)]
        sources = [whole for whole, wants in zip(call.wholes, wanted, strict=True) if wants]
        found = iter(torch.autograd.grad(ends, sources, given, allow_unused=True))
        each = [next(found) if wants else None for wants in wanted]
        gradients[:] = [None if gradient is None else (spec_of(gradient),) for gradient in each]
        return [*map(local_part, leaves), *map(local_part, each)]

    with torch.enable_grad():
        first = call.traced(forward, call.parts)
        if not any(differentiated):
            raise CaptureError("no result of the model requires a gradient", hint="leave out training=True")
        found = zip(tree_leaves(first.graph.output_node().args), differentiated, strict=True)
        ends = [torch.empty_like(node.meta["val"], device=node.meta["val"].device) for node, has in found if has]
        graph = call.traced(joint, [*call.parts, *ends])
    for i, node in enumerate(graph.graph.find_nodes(op="placeholder")):
        node.target = f"primals_{i}" if i < len(call.parts) else f"tangents_{i - len(call.parts)}"
    for node in graph.graph.nodes:
        if getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            raise CaptureError("the model writes a tensor", op=node.format_node(), hint=f"use {TORCH_COMPILE}")
    program = import_joint(graph, len(call.results))
    record_layouts(program, [*call.specs, *[None] * len(ends)], [*call.results, *[None] * len(gradients)])
    return JointProgram(program, call, graph, differentiated, gradients)
