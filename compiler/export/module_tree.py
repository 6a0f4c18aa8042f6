"""Build the module tree of a GraphModule, with what graphs for users have in addition: fake values and a plain signature."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import torch
from torch.fx import Graph, GraphModule
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


def _owner(root: torch.nn.Module, path: str) -> tuple[torch.nn.Module, str]:
    """The parent module of ``path``, created if it is missing, and the last component of ``path``."""
    *parents, last = path.split(".")
    for name in parents:
        child = getattr(root, name, None)
        if not isinstance(child, torch.nn.Module):
            child = torch.nn.Module()
            root.add_module(name, child)
        root = child
    return root, last


@cache
def _taken() -> frozenset[str]:
    """The names of attributes that every GraphModule has."""
    return frozenset(dir(GraphModule(torch.nn.Module(), Graph())))


def _free(path: str) -> str:
    """``path`` with another first name where every GraphModule has such an attribute; models have one of the name, too."""
    return f"model_{path}" if path.partition(".")[0] in _taken() else path


def set_tensor(root: torch.nn.Module, path: str, tensor: torch.Tensor, kind: str, persistent: bool) -> str:
    """Set the attribute, and return its path in a GraphModule."""
    path = _free(path)
    owner, name = _owner(root, path)
    if getattr(owner, name, None) is tensor:
        return path
    if kind == "parameter" and isinstance(tensor, torch.nn.Parameter):
        owner.register_parameter(name, tensor)
    elif kind == "parameter":
        owner.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=tensor.is_floating_point()))
    elif kind == "buffer":
        owner.register_buffer(name, tensor, persistent=persistent)
    else:
        setattr(owner, name, tensor)
    return path


def set_module(root: torch.nn.Module, path: str, module: torch.nn.Module) -> str:
    """Add the submodule, and return its path in a GraphModule."""
    path = _free(path)
    owner, name = _owner(root, path)
    owner.add_module(name, module)
    return path


def copy_persistence(root: torch.nn.Module, module: torch.nn.Module) -> None:
    """Mark non-persistent buffers of ``root`` in ``module`` again, since GraphModule copies every buffer as persistent."""
    copies, owners = (
        dict[str, torch.nn.Module](cast(Any, each).named_modules(remove_duplicate=False)) for each in (module, root)
    )
    for path, owner in owners.items():
        if path in copies:
            copies[path]._non_persistent_buffers_set |= owner._non_persistent_buffers_set & copies[path]._buffers.keys()


def training(root: torch.nn.Module) -> bool:
    """Whether a module that the graph calls is in train mode."""
    return any(module.training for module in root.modules() if type(module) is not torch.nn.Module)
