"""Captures of the zoo's models by every route, each made once a session."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import aot_module, make_boxed_func
from torch._functorch.partitioners import default_partition
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from fxc.bridge.eager_strides import states_as_in_eager
from fxc.frontends.without_effects import unchanged
from tests.models.zoo import ZOO, load

ROUTES = ("symbolic_trace", "export", "export_dynamic", "dynamo", "make_fx", "joint")
EXPORTING = ("symbolic_trace", "export", "export_dynamic")
"""The routes whose graph takes and returns what the model does."""


def cases(routes: Sequence[str] = ROUTES) -> list[tuple[str, bool, str]]:
    """(model, train mode, route), for every route that the zoo says works."""
    found = list[tuple[str, bool, str]]()
    for name, entry in ZOO.items():
        works = {
            "symbolic_trace": entry.symbolic_trace,
            "export": entry.export,
            "export_dynamic": entry.export and entry.dynamic_batch is not None,
            "dynamo": entry.dynamo,
            "make_fx": entry.make_fx,
            "joint": True,
        }
        modes = (False, True) if entry.train_mode else (False,)
        found += [(name, train, route) for train in modes for route in routes if works[route]]
    return found


def case_name(case: tuple[str, bool, str]) -> str:
    name, train, route = case
    return f"{name}-{'train' if train else 'eval'}-{route}"


@functools.cache
def model_of(name: str, train: bool) -> tuple[nn.Module, tuple[Any, ...]]:
    """The small model in this mode, and its inputs. Use ``kept`` around what may change its buffers."""
    model, inputs = load(name)
    return model.train(train), inputs


@functools.cache
def capture_of(name: str, train: bool, route: str) -> GraphModule | ExportedProgram:
    """The model's graph by ``route``."""
    model, inputs = model_of(name, train)
    with warnings.catch_warnings(), kept(model):
        warnings.simplefilter("ignore")
        return _CAPTURES[route](name, model, inputs)


def kept(model: nn.Module) -> AbstractContextManager[None]:
    """Gives the model's tensors their values and gradients back, and the generator its state."""
    return unchanged([*state_of(model).values()])


def state_of(model: nn.Module) -> dict[str, Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def example_inputs(name: str, inputs: tuple[Any, ...], graph: GraphModule) -> list[Any] | None:
    """One example a placeholder, where inputs and placeholders correspond."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    return list(inputs) if len(placeholders) == len(inputs) else None


def _symbolic_trace(name: str, model: nn.Module, inputs: tuple[Any, ...]) -> GraphModule:
    return torch.fx.symbolic_trace(model)


def _export(name: str, model: nn.Module, inputs: tuple[Any, ...]) -> ExportedProgram:
    with states_as_in_eager():
        return torch.export.export(model, inputs, strict=False)


def _export_dynamic(name: str, model: nn.Module, inputs: tuple[Any, ...]) -> ExportedProgram:
    with states_as_in_eager():
        return torch.export.export(model, inputs, strict=False, dynamic_shapes=ZOO[name].dynamic_batch)


def _dynamo(name: str, model: nn.Module, inputs: tuple[Any, ...]) -> GraphModule:
    return _compiled_graphs(name, model.training)[0]


def _make_fx(name: str, model: nn.Module, inputs: tuple[Any, ...]) -> GraphModule:
    state = state_of(model)
    flat, spec = tree_flatten(inputs)

    def run(*values: Any) -> Any:
        tensors = dict(zip(state, values, strict=False))
        return torch.func.functional_call(model, tensors, tree_unflatten(list(values[len(state) :]), spec))

    return make_fx(run, tracing_mode="fake", _allow_non_fake_inputs=True)(*state.values(), *flat)


def _joint(name: str, model: nn.Module, inputs: tuple[Any, ...]) -> GraphModule:
    return _compiled_graphs(name, model.training)[1]


@functools.cache
def _compiled_graphs(name: str, train: bool) -> tuple[GraphModule, GraphModule]:
    """Dynamo's graph and AOTAutograd's joint graph; for a model that Dynamo does not take, the joint graph twice."""
    model, inputs = model_of(name, train)
    graphs = list[GraphModule]()

    def partition(graph: GraphModule, joint_inputs: Any, **more: Any) -> Any:
        graphs.append(copy.deepcopy(graph))
        return default_partition(graph, joint_inputs, **more)

    def keep(graph: GraphModule, _: Any) -> Any:
        return make_boxed_func(graph.forward)

    def backend(graph: GraphModule, example: list[Any]) -> Callable[..., Any]:
        graphs.append(copy.deepcopy(graph))
        return aot_autograd(fw_compiler=keep, partition_fn=partition)(graph, example)

    if ZOO[name].dynamo:
        torch._dynamo.reset()
        torch.compile(model, backend=backend, fullgraph=True)(*inputs)
        torch._dynamo.reset()
    else:
        aot_module(model, fw_compiler=keep, partition_fn=partition)(*inputs)
    return graphs[0], graphs[-1]


_CAPTURES: dict[str, Callable[[str, nn.Module, tuple[Any, ...]], GraphModule | ExportedProgram]] = {
    "symbolic_trace": _symbolic_trace,
    "export": _export,
    "export_dynamic": _export_dynamic,
    "dynamo": _dynamo,
    "make_fx": _make_fx,
    "joint": _joint,
}


def loss_of(outputs: Any) -> Tensor:
    """A number that every floating-point output has a part in, each element with a weight of its own."""
    total = torch.zeros(())
    for i, leaf in enumerate(tree_leaves(outputs)):
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            weights = torch.linspace(-1, 1 + i, leaf.numel()).reshape(leaf.shape)
            total = total + (leaf * weights).sum()
    return total
