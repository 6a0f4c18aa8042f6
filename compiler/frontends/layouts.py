"""Meshes, process groups and layouts of DTensors, recorded in the programs of AOTAutograd's graphs.

Such a graph may take Python objects, as device meshes, and return them as parts of its results. A program has no such
arguments; ``ObjectArguments`` returns them around its function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from torch._library.fake_class_registry import FakeScriptObject
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Attribute, SSAValue

from fxc.dialects.attributes.discardable import LAYOUT
from fxc.dialects.dist import LayoutAttr
from fxc.dialects.dist.mesh import REDUCTIONS
from fxc.dialects.entry import argument_attributes
from fxc.errors import TORCH_COMPILE, CaptureError
from fxc.frontends.import_fx import import_fx
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


Boxed = Callable[[list[Any]], Any]
"""A function of one list of inputs, which it may empty."""


def is_object(node: Node) -> bool:
    """Whether ``node`` is an argument that is an object."""
    return node.op == "placeholder" and isinstance(node.meta.get("val"), FakeScriptObject)


@dataclass(frozen=True)
class ObjectArguments:
    """``count``: the number of inputs. ``taken``: indices of those that the program takes. ``returned``: for each result the
    index of the input that it is, or None for a result of the program."""

    count: int
    taken: Sequence[int]
    returned: Sequence[int | None]

    @classmethod
    def of(cls, graph: GraphModule) -> ObjectArguments:
        inputs = graph.graph.find_nodes(op="placeholder")
        objects = {node: i for i, node in enumerate(inputs) if is_object(node)}
        results = tree_leaves(graph.graph.output_node().args, is_leaf=lambda leaf: leaf is None)
        returned = [objects.get(result) if isinstance(result, Node) else None for result in results]
        return cls(len(inputs), [i for i, node in enumerate(inputs) if node not in objects], returned)

    def computed(self, count: int) -> int:
        """How many of the first ``count`` results the program computes."""
        return [*self.returned[:count]].count(None)

    def indices(self, inputs: Collection[int]) -> list[int]:
        """The indices of these inputs among the arguments of the program."""
        return [new for new, old in enumerate(self.taken) if old in inputs]

    def around(self, run: Boxed) -> Boxed:
        """The function of the graph, given that of the program."""

        def around(inputs: list[Any]) -> list[Any]:
            objects = [None if i is None else inputs[i] for i in self.returned]
            taken = [inputs[i] for i in self.taken]
            inputs.clear()
            computed = iter(run(taken))
            return [next(computed) if i is None else each for i, each in zip(self.returned, objects, strict=True)]

        chosen: Any = run if len(self.taken) == self.count else around
        chosen._boxed_call = True
        return chosen


def without_objects(graph: GraphModule) -> GraphModule:
    """``graph``, or a copy of it without the arguments and results that are objects.

    CaptureError where an operator takes one.
    """
    objects = [node for node in graph.graph.find_nodes(op="placeholder") if is_object(node)]
    if not objects:
        return graph
    copies, plain = dict[Node, Node](), Graph()
    plain.output(plain.graph_copy(graph.graph, copies))
    last, meta = plain.output_node(), dict(graph.graph.output_node().meta)
    results: Any = last.args[0]
    computed = [i for i, result in enumerate(results) if not (isinstance(result, Node) and is_object(result))]
    last.args = (type(results)(results[i] for i in computed),)
    last.meta = meta | {"desc": [meta["desc"][i] for i in computed]} if "desc" in meta else meta
    for node in objects:
        if (user := next(iter(copies[node].users), None)) is not None:
            kind = node.meta["val"].script_class_name
            message = f"{user.target} takes an object, a {kind}, which fxc cannot represent"
            raise CaptureError(message, op=user.format_node(), hint=f"use {TORCH_COMPILE}")
        plain.erase_node(copies[node])
    return GraphModule(graph, plain)
