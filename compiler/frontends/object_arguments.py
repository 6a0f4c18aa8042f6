"""Arguments of AOTAutograd's graphs that are Python objects, as the device meshes of DTensors. A program has no such arguments.

A graph only returns them, as parts of its results; ``ObjectArguments`` does that around the function of a program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from torch._library.fake_class_registry import FakeScriptObject
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves

from fxc.errors import TORCH_COMPILE, CaptureError

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
