"""What graphs for users have in addition: fake values of nodes, and a plain signature."""

from __future__ import annotations

from torch.fx import Graph
from torch.utils._pytree import TreeSpec
from xdsl.dialects.builtin import DictionaryAttr

from fxc.bridge.nesting import has_keywords
from fxc.bridge.static_world import IS_PLAIN, StaticWorld
from fxc.bridge.tensors import FakeWorld
from fxc.dialects.attributes.types import SYMBOLS, ValueType
from fxc.errors import FxcError
from fxc.program.program import Program


def world_of(program: Program) -> FakeWorld:
    """A world for the types of the entry function: static if it can be, as that does not import Dynamo."""
    symbols = program.module.attributes.get(SYMBOLS)
    world = FakeWorld(symbols if isinstance(symbols, DictionaryAttr) else None)
    values = [*program.main.args, *(result for op in program.main.walk() for result in op.results)]
    try:
        static = StaticWorld() if IS_PLAIN and symbols is None else world
        for type in {value.type for value in values if not isinstance(value.type, ValueType)}:
            static.fake(type)
    except FxcError:
        return world
    return static


def is_plain(graph: Graph, in_spec: TreeSpec, out_spec: TreeSpec) -> bool:
    """Whether the placeholders of ``graph`` are the arguments of a call, and its output node can hold the nesting."""
    if not has_keywords(in_spec) or not all(child.is_leaf() for part in in_spec.children() for child in part.children()):
        return False
    keywords = in_spec.children()[1].context
    names = [str(node.target) for node in graph.find_nodes(op="placeholder")]
    has_names = len(names) == in_spec.num_leaves and names[in_spec.children()[0].num_children :] == keywords
    return has_names and _is_of_lists(out_spec)


def _is_of_lists(spec: TreeSpec) -> bool:
    return spec.is_leaf() or (spec.type in (tuple, list, dict) and all(map(_is_of_lists, spec.children())))


def argument_names(in_spec: TreeSpec) -> list[str]:
    children = in_spec.children()
    if has_keywords(in_spec):
        return [*(f"arg_{i}" for i in range(children[0].num_children)), *map(str, children[1].context)]
    return [f"arg_{i}" for i in range(in_spec.num_children)]
