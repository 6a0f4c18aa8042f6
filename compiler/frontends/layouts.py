"""Meshes, process groups and layouts of DTensors, recorded in the programs of AOTAutograd's graphs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Attribute, SSAValue

from fxc.dialects.attributes.discardable import LAYOUT
from fxc.dialects.dist import LayoutAttr
from fxc.dialects.dist.mesh import REDUCTIONS
from fxc.dialects.entry import argument_attributes
from fxc.frontends.import_fx import import_fx
from fxc.frontends.object_arguments import without_objects
from fxc.passes.analysis.joint_graph import returned
from fxc.program.process_groups import declare_groups
from fxc.program.program import Program


def spec_of(value: Any) -> Any:
    """PyTorch's specification of ``value``, with ``mesh`` and ``placements``; None where it is no DTensor."""
    api = sys.modules.get("torch.distributed.tensor")
    return value._spec if api is not None and isinstance(value, api.DTensor) else None


@dataclass(frozen=True)
class Layouts:
    """The specifications of DTensors among the inputs and the results of a graph of Dynamo."""

    inputs: Sequence[Any]
    results: Sequence[Any]

    @classmethod
    def of(cls, graph: GraphModule, inputs: Iterable[Any]) -> Layouts:
        results = tree_leaves(graph.graph.output_node().args)
        values = (node.meta.get("example_value") if isinstance(node, Node) else None for node in results)
        return cls([*map(spec_of, inputs)], [*map(spec_of, values)])

    def imported(self, graph: GraphModule) -> Program:
        """The program of a graph of AOTAutograd."""
        plain = without_objects(graph)
        return self.record(import_fx(plain), plain)

    def record(self, program: Program, graph: GraphModule) -> Program:
        """``program``, that of ``graph``, with meshes, process groups, and layouts; those of gradients are not known.

        Its types are AOTAutograd's, and are not inferred again.
        """
        program.context.semantics.remember(program.module)
        arguments = [self._spec(node.meta.get("desc")) for node in graph.graph.find_nodes(op="placeholder")]
        described = graph.graph.output_node().meta.get("desc") or [None] * len(returned(program.main))
        return record_layouts(program, arguments, [self._spec(desc) for desc in described])

    def _spec(self, desc: Any) -> Any:
        """The specification of the DTensor of which ``desc`` describes the local part."""
        if getattr(desc, "attr", "") != "_local_tensor":
            return None
        of = {"PlainAOTInput": self.inputs, "PlainAOTOutput": self.results}.get(type(desc.base).__name__, ())
        return of[desc.base.idx] if of and desc.base.idx < len(of) else None


def record_layouts(program: Program, arguments: Sequence[Any], results: Sequence[Any]) -> Program:
    """``program`` with these specifications of arguments and results as layouts, and their meshes and process groups.

    There is no layout where a specification is None, or where an attribute cannot state it.
    """
    meshes = list(dict.fromkeys(spec.mesh for spec in (*arguments, *results) if spec is not None))
    symbols = dict(zip(meshes, declare_groups(program.module, meshes), strict=True))
    if not meshes:
        return program

    def laid_out(known: Mapping[str, Attribute], spec: Any) -> DictionaryAttr:
        layout = None if spec is None else layout_of(spec, symbols[spec.mesh])
        return DictionaryAttr({**known, **({} if layout is None else {LAYOUT: layout})})

    function = program.main
    given = zip(argument_attributes(function), arguments, strict=True)
    function.properties["arg_attrs"] = ArrayAttr([laid_out(known.data, spec) for known, spec in given])
    found = zip(returned(function), results, strict=True)
    attributes = [laid_out(known, spec) for (leaf, known), spec in found if isinstance(leaf, SSAValue)]
    function.properties["res_attrs"] = ArrayAttr(attributes)
    return program


def layout_of(spec: Any, mesh: str) -> LayoutAttr | None:
    """The layout of a DTensor on the mesh of this symbol; None where an attribute cannot state it."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    placements = list[tuple[str, int | str | None]]()

    for each in spec.placements:
        if type(each) is Replicate:
            placements.append(("replicate", None))
        elif type(each) is Shard:
            placements.append(("shard", cast(int, each.dim)))
        elif type(each) is Partial and each.reduce_op in REDUCTIONS:
            placements.append(("partial", each.reduce_op))
        else:
            return None
    return LayoutAttr.of(mesh, placements)
