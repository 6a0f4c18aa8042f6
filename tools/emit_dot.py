"""``--emit=dot``: a module as Graphviz text. Reads the IR only."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp

from fxc.report.graph_view import Cluster, GraphView, Node, view_of
from fxc.tools.emitters import EmitOptions

STYLES = {
    "input": 'shape=ellipse, style=filled, fillcolor="#dbeafe"',
    "parameter": 'shape=ellipse, style=filled, fillcolor="#f3f4f6", fontcolor="#6b7280"',
    "op": 'shape=box, style="rounded,filled", fillcolor="#ffffff"',
    "output": 'shape=box, style=filled, fillcolor="#dcfce7"',
}
"""Kind of node -> Graphviz attributes."""


def emit_dot(module: ModuleOp, options: EmitOptions) -> str:
    view = view_of(module)
    lines = [
        "digraph fxc {",
        "  rankdir=TB;",
        '  node [fontname="Helvetica", fontsize=11];',
        '  edge [fontsize=9, color="#6b7280"];',
    ]
    lines += _cluster(view, view.clusters[0], "  ")
    for edge in view.edges:
        lines.append(f"  {edge.source} -> {edge.target} [label={_quoted(edge.label)}];")
    for cluster in view.clusters:
        inside = [node for node in view.nodes if node.cluster == cluster.id]
        if cluster.owner is not None and inside:
            lines.append(f"  {cluster.owner} -> {inside[0].id} [style=dashed, label={_quoted(cluster.label)}];")
    return "\n".join([*lines, "}"]) + "\n"


def _cluster(view: GraphView, cluster: Cluster, indent: str) -> Iterator[str]:
    inner, is_root = indent + "  ", cluster.parent is None
    if not is_root:
        yield f"{indent}subgraph cluster_{cluster.id} {{"
        yield f"{inner}label={_quoted(cluster.label)};"
    for node in view.nodes:
        if node.cluster == cluster.id:
            yield _node(node, indent if is_root else inner)
    for child in view.clusters:
        if child.parent == cluster.id:
            yield from _cluster(view, child, indent if is_root else inner)
    if not is_root:
        yield f"{indent}}}"


def _node(node: Node, indent: str) -> str:
    return f"{indent}{node.id} [label={_quoted(chr(10).join(node.lines))}, {STYLES[node.kind]}];"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
