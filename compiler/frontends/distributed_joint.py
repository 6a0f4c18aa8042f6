"""Capture of the forward and the backward of a model with DTensors, on the local tensors of this rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._pytree import TreeSpec, tree_leaves

from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.frontends.captured_model import Model
from fxc.frontends.distributed_capture import LocalCall, local_part
from fxc.frontends.joint_graph import import_joint
from fxc.frontends.layouts import record_layouts, spec_of
from fxc.program.program import Program


@dataclass(frozen=True)
class JointProgram:
    """``program``, that of ``graph``: the forward and the backward on local tensors of the model, inputs and tangents.

    ``state``, ``inputs``, ``results``: as for a LocalProgram; ``names`` of the inputs. ``differentiated``: which results have a
    tangent. ``gradients``: for each tensor of the model and each input None, or a tuple of the specification of its gradient,
    which is None for a plain tensor. ``nesting``: that of the inputs; ``returned``: that of the results.
    """

    program: Program
    graph: GraphModule
    state: Mapping[str, torch.Tensor]
    names: Sequence[str]
    inputs: Sequence[Any]
    results: Sequence[Any]
    differentiated: Sequence[bool]
    gradients: Sequence[tuple[Any] | None]
    nesting: TreeSpec
    returned: TreeSpec


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
    inputs = call.specs[len(call.state) :]
    return JointProgram(
        program, graph, call.state, call.names, inputs, call.results, differentiated, gradients, call.nesting, call.returned
    )
