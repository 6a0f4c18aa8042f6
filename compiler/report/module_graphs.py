"""The dataflow graph of a captured program by modules of the user: one small graph for each, its submodules folded to nodes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from fxc.bridge.location import module_stack
from fxc.dialects.entry import ArgumentFacts, argument_attributes
from fxc.report.graph_view import Cluster, Edge, GraphView, Node, op_label, short_type


@dataclass
class ModuleGraph:
    """``name``: the path of the module, ``type`` its class. ``ops``: all operations in it. ``view``: its graph, drawn flat."""

    name: str
    type: str
    ops: int = 0
    view: GraphView = field(default_factory=lambda: GraphView(clusters=[Cluster(0, "module", None, None)]))
    inner: dict[str, ModuleGraph] = field(default_factory=dict[str, "ModuleGraph"])

    @property
    def title(self) -> str:
        """``Linear, 1 op``."""
        return f"{self.type}, {self.ops} op{'s' if self.ops != 1 else ''}"


def module_graph(function: FuncOp) -> ModuleGraph:
    """The graph of ``function``, with the graphs of all modules inside. Parameters are not drawn."""
    graph = ModuleGraph("", "")
    for op in function.body.block.ops:
        _add(graph, op)
    _Drawing(function, graph).draw()
    return graph


def _stack(op: Operation) -> list[tuple[str, str]]:
    """Path and class of each module around ``op`` below the model, but PyTorch's name for a size that an input has."""
    return [(path, kind) for _, path, kind in module_stack(op.location) if path and not path.startswith("_empty_nn_module")]


def _add(root: ModuleGraph, op: Operation) -> None:
    root.ops += 1
    here = root
    for path, kind in _stack(op):
        here = here.inner.setdefault(path, ModuleGraph(path, kind.rpartition(".")[2]))
        here.ops += 1


class _Drawing:
    """Draws each operation as a node of its module, and each edge in every module that it enters, leaves or crosses."""

    def __init__(self, function: FuncOp, root: ModuleGraph) -> None:
        self.function, self.root = function, root
        self.nodes = defaultdict[int, dict[object, str]](dict)
        """Graph -> what a node stands for -> its name."""
        self.edges = set[tuple[int, str, str]]()
        self.paths = dict[SSAValue, list[ModuleGraph]]()
        """Value -> the modules around its definition, from the outermost."""

    def draw(self) -> None:
        for value, attributes in zip(self.function.body.block.args, argument_attributes(self.function), strict=True):
            if ArgumentFacts.of(attributes).kind == "input":
                self.paths[value] = [self.root]
                self.node(self.root, value, "input", (f"%{value.name_hint or value.index}", short_type(value.type)))
        for op in self.function.body.block.ops:
            self.operation(op)
        _inputs_first(self.root)

    def operation(self, op: Operation) -> None:
        graphs = [self.root]
        for path, _ in _stack(op):
            graphs.append(graphs[-1].inner[path])
        types = ", ".join(short_type(result.type) for result in op.results)
        for outer, inner in pairwise(graphs):
            self.node(outer, inner.name, "module", (inner.name, inner.title))
        self.node(graphs[-1], op, "op" if op.results else "output", (op_label(op), types))
        for value in dict.fromkeys(op.operands):
            if value in self.paths:
                self.edge(value, op, graphs)
        self.paths |= dict.fromkeys(op.results, graphs)

    def edge(self, value: SSAValue, op: Operation, graphs: list[ModuleGraph]) -> None:
        """From the definition of ``value`` to ``op``, in the graph of the innermost common module and all modules inside it."""
        source = self.paths[value]
        common = 0
        while common + 1 < min(len(source), len(graphs)) and source[common + 1] is graphs[common + 1]:
            common += 1
        maker = value.owner if isinstance(value.owner, Operation) else value
        start = source[common + 1].name if common + 1 < len(source) else maker
        end = graphs[common + 1].name if common + 1 < len(graphs) else op
        label = short_type(value.type)
        self.connect(graphs[common], start, end, label)
        for depth in range(common + 1, len(graphs)):
            here, inside = graphs[depth], graphs[depth + 1].name if depth + 1 < len(graphs) else op
            self.node(here, value, "input", (f"%{value.name_hint or '_'}", label))
            self.connect(here, value, inside, label)
        for depth in range(common + 1, len(source)):
            here, inside = source[depth], source[depth + 1].name if depth + 1 < len(source) else maker
            self.node(here, ("result", value), "output", (f"%{value.name_hint or '_'}", label))
            self.connect(here, inside, ("result", value), label)

    def node(self, graph: ModuleGraph, what: object, kind: str, lines: tuple[str, ...]) -> None:
        known = self.nodes[id(graph)]
        if what not in known:
            known[what] = f"n{len(graph.view.nodes)}"
            graph.view.nodes.append(Node(known[what], kind, tuple(line for line in lines if line), 0))

    def connect(self, graph: ModuleGraph, start: object, end: object, label: str) -> None:
        names = self.nodes[id(graph)]
        edge = id(graph), names[start], names[end]
        if edge not in self.edges and names[start] != names[end]:
            self.edges.add(edge)
            graph.view.edges.append(Edge(names[start], names[end], label))


def _inputs_first(graph: ModuleGraph) -> None:
    """Order what enters a module before what reads it, as layers are drawn in the order of nodes."""
    graph.view.nodes.sort(key=lambda node: node.kind != "input")
    for inner in graph.inner.values():
        _inputs_first(inner)
