"""A module as nodes and edges, for drawing: a node for each op or argument, a cluster for each function or region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from fxc.dialects.attributes import types
from fxc.dialects.entry import ArgumentFacts
from fxc.dialects.text.call import CallOp
from fxc.dialects.text.syntax import type_text

DECLARATIONS = frozenset({"fx.module", "fx.tensor", "torch.operator"})
"""Ops that only declare names."""


@dataclass(frozen=True)
class Node:
    """``kind``: ``input``, ``parameter``, ``op``, ``module`` or ``output``. ``lines``: its text."""

    id: str
    kind: str
    lines: tuple[str, ...]
    cluster: int


@dataclass(frozen=True)
class Cluster:
    """A function or region. ``owner``: the node of the op with the region."""

    id: int
    label: str
    parent: int | None
    owner: str | None


@dataclass(frozen=True)
class Edge:
    """From the definition of a value to a use."""

    source: str
    target: str
    label: str


@dataclass
class GraphView:
    nodes: list[Node] = field(default_factory=list[Node])
    edges: list[Edge] = field(default_factory=list[Edge])
    clusters: list[Cluster] = field(default_factory=list[Cluster])


def view_of(module: ModuleOp) -> GraphView:
    """All of ``module`` except declarations."""
    builder = _Builder()
    builder.region(module.body, builder.cluster("module", None, None))
    return builder.view


class _Builder:
    def __init__(self) -> None:
        self.view = GraphView()
        self.makers = dict[SSAValue, str]()

    def cluster(self, label: str, parent: int | None, owner: str | None) -> int:
        number = len(self.view.clusters)
        self.view.clusters.append(Cluster(number, label, parent, owner))
        return number

    def node(self, kind: str, lines: Sequence[str], cluster: int) -> str:
        name = f"n{len(self.view.nodes)}"
        self.view.nodes.append(Node(name, kind, tuple(line for line in lines if line), cluster))
        return name

    def region(self, region: Region, cluster: int, kinds: Sequence[str] = ()) -> None:
        for block in region.blocks:
            for value in block.args:
                kind = kinds[value.index] if value.index < len(kinds) else "input"
                name = f"%{value.name_hint}" if value.name_hint else f"%{value.index}"
                self.makers[value] = self.node(kind, (name, short_type(value.type)), cluster)
            for op in block.ops:
                self.op(op, cluster)

    def op(self, op: Operation, cluster: int) -> None:
        if isinstance(op, FuncOp):
            self.region(op.body, self.cluster(f"@{op.sym_name.data}", cluster, None), _kinds(op))
            return
        if isinstance(op, ModuleOp):
            self.region(op.body, self.cluster("module", cluster, None))
            return
        if op.name in DECLARATIONS:
            return
        kind = "output" if op.has_trait(IsTerminator) else "op"
        name = self.node(kind, (op_label(op), ", ".join(short_type(r.type) for r in op.results)), cluster)
        self.makers |= dict.fromkeys(op.results, name)
        for operand in op.operands:
            if operand in self.makers:
                self.view.edges.append(Edge(self.makers[operand], name, short_type(operand.type)))
        names = op.region_names() if isinstance(op, CallOp) else []
        for index, region in enumerate(op.regions):
            label = names[index] if index < len(names) else f"{op.name} {index}" if len(op.regions) > 1 else op.name
            self.region(region, self.cluster(label, cluster, name))


def _kinds(function: FuncOp) -> list[str]:
    kinds = (ArgumentFacts.of(attributes).kind for attributes in function.arg_attrs or ())
    return ["input" if kind == "input" else "parameter" for kind in kinds]


def op_label(op: Operation) -> str:
    """A short label of ``op``: ``aten.relu.default``, ``call_module fc1``."""
    target = op.call_target() if isinstance(op, CallOp) else None
    callee = op.get_attr_or_prop("callee")
    if target is None and callee is not None:
        target = str(callee)
    name = op.name.removeprefix("torch.").removeprefix("fx.").removesuffix(".default")
    return f"{name} {target}" if target else name


def short_type(type: Attribute) -> str:
    """A short form of a type: ``3x5xf32``, ``s0x5xf32``."""
    if isinstance(type, TensorType):
        tensor = cast("TensorType[Attribute]", type)
        sizes = "x".join(str(size) or "?" for size in types.sizes(tensor))
        element = type_text(tensor.element_type)
        return f"{sizes}x{element}" if sizes else element
    return type_text(type).removeprefix("!").removeprefix("fx.").removeprefix("torch.")
