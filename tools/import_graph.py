"""Draw the import graph: ``python -m fxc.tools.import_graph > imports.svg`` puts importers above the packages they import.

Reads the sources of a checkout without importing them. ``tests/test_layering.py`` checks the same order: arrows point down.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx

from fxc.report.graph_view import Cluster, Edge, GraphView, Node
from fxc.report.svg import render

ROOT = Path(__file__).resolve().parent.parent

LAYERS = {
    "dialects/attributes": "xdsl",
    "dialects/base": "xdsl",
    "dialects": "xdsl",
    "passes/analysis": "xdsl",
    "passes/rewriting": "xdsl",
    "passes/operators": "xdsl",
    "passes/patterns": "xdsl",
    "passes/simplify": "xdsl",
    "passes/normalize": "xdsl numpy",
    "passes/autodiff": "xdsl",
    "passes/joint": "xdsl networkx",
    "passes/dist": "xdsl",
    "passes/library": "xdsl numpy",
    "passes/fusion": "xdsl numpy",
    "passes/kernels": "xdsl",
    "passes/plan": "xdsl",
    "passes": "xdsl",
    "compiler/errors.py": "",
    "compiler/options.py": "",
    "compiler/runtime": "torch llvmlite",
    "compiler/distributed": "torch",
    "compiler/bridge": "torch xdsl numpy sympy",
    "compiler/driver": "xdsl",
    "compiler/pipelines.py": "",
    "compiler/interpret": "torch xdsl numpy sympy",
    "compiler/semantics": "torch xdsl sympy",
    "compiler/program": "torch xdsl safetensors",
    "compiler/frontends": "torch xdsl numpy",
    "compiler/patterns": "torch xdsl",
    "compiler/codegen": "torch xdsl numpy llvmlite triton",
    "compiler/export": "torch xdsl",
    "compiler/numerics": "torch xdsl",
    "compiler/measure": "torch xdsl",
    "compiler/artifact": "torch xdsl",
    "compiler/compilation": "torch xdsl",
    "compiler/report": "torch xdsl networkx jinja2 pygments",
    "compiler": "torch xdsl",
    "tools": "torch xdsl click matplotlib networkx rich safetensors",
}
"""Folder or file, the lowest first -> the libraries that it may import, in addition to the standard library and the entries
before it. The longest matching entry applies to a file."""


def python_files() -> list[Path]:
    return [path for top in ("compiler", "dialects", "passes", "tools") for path in sorted((ROOT / top).rglob("*.py"))]


@cache
def imports(path: Path, *, top_level_only: bool = False) -> tuple[tuple[str, int], ...]:
    """(module, line) of each import in ``path``, except those under ``TYPE_CHECKING``."""
    return tuple(_imports(path, top_level_only))


def _imports(path: Path, top_level_only: bool) -> Iterator[tuple[str, int]]:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for node in _import_nodes(tree.body, nested=not top_level_only):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        else:
            assert node.level == 0 and node.module, f"{path.relative_to(ROOT)}:{node.lineno}: imports are absolute"
            named = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((name if node.module == "fxc" or name in MODULES else node.module, node.lineno) for name in named)


def _import_nodes(body: list[ast.stmt], *, nested: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
            continue
        for_types = isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
        function = isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef))
        if not for_types and (nested or not function):
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from _import_nodes(getattr(statement, name, []), nested=nested)


def is_within(module: str, packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages.split())


def module_name(path: Path) -> str:
    top, *rest = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["fxc", *[top] * (top != "compiler"), *rest]).removesuffix(".__init__")


MODULES = {module_name(path): path for path in python_files()}


@cache
def layer(path: Path) -> str:
    return max((name for name in LAYERS if path.is_relative_to(ROOT / name)), key=len)


def fxc_module(module: str) -> str:
    """The fxc module that ``module`` names, or that defines the name ``module``."""
    while module not in MODULES:
        module = module.rpartition(".")[0]
    return module


def fxc_imports(name: str, *, top_level_only: bool = False) -> Iterator[str]:
    for module, _ in imports(MODULES[name], top_level_only=top_level_only):
        if is_within(module, "fxc"):
            yield fxc_module(module)


def layer_graph() -> nx.DiGraph[str]:
    """An edge for each folder or file of ``LAYERS`` that imports from another, in the order of ``LAYERS``."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(LAYERS)
    for name, path in MODULES.items():
        targets = (layer(MODULES[other]) for other in fxc_imports(name))
        graph.add_edges_from((layer(path), target) for target in targets if target != layer(path))
    return graph


def view() -> GraphView:
    """The layers as boxes, from the highest down. Edges that follow from others are omitted; none points up."""
    order, graph = list(LAYERS), layer_graph()
    down: nx.DiGraph[str] = nx.DiGraph((a, b) for a, b in graph.edges if order.index(a) > order.index(b))
    reduced = nx.transitive_reduction(down)
    counts = {name: sum(layer(path) == name for path in MODULES.values()) for name in LAYERS}
    nodes = [Node(name, "op", (name, f"{counts[name]} modules"), 0) for name in reversed(order)]
    edges = [Edge(a, b, f"{a} imports {b}") for a, b in sorted(reduced.edges, key=lambda e: tuple(map(order.index, e)))]
    return GraphView(nodes, edges, [Cluster(0, "fxc", None, None)])


if __name__ == "__main__":
    sys.stdout.write(render(view()))
