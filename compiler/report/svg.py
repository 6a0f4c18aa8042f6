"""Draw a graph as SVG, without Graphviz: one layer for each topological generation, from top to bottom."""

from __future__ import annotations

from collections import defaultdict
from html import escape

import networkx as nx
from xdsl.dialects.builtin import ModuleOp

from fxc.report.graph_view import GraphView, Node, view_of

FILLS = {"input": "#dbeafe", "parameter": "#f3f4f6", "op": "#ffffff", "output": "#dcfce7", "module": "#fef3c7"}
CHARACTER, LINE, PADDING, GAP, LAYER = 6.7, 14, 8, 24, 46
"""Pixels: width of a character, height of a line, inside a box, between boxes, between layers."""
SWEEPS = 4
"""The number of times that each layer is sorted by the positions of neighbours."""


def emit_svg(module: ModuleOp, options: object) -> str:
    """``fxc-opt --emit=svg``: all of ``module``."""
    return render(view_of(module))


def render(view: GraphView) -> str:
    """``view`` as SVG."""
    layers = _layers(view)
    boxes, width, height = _boxes(layers)
    shapes = [_edge(boxes[a], boxes[b], label, dashed) for a, b, label, dashed in _edges(view)]
    shapes += [_node(node, boxes[node.id]) for node in view.nodes]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
    head += f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="11">'
    arrow = '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    arrow += '<path d="M0 0L8 4L0 8z" fill="#6b7280"/></marker>'
    back = f'<rect class="back" width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
    return "\n".join([head, f"<defs>{arrow}</defs>", back, *shapes, "</svg>"]) + "\n"


def _edges(view: GraphView) -> list[tuple[str, str, str, bool]]:
    """(from, to, label, dashed): values, and dashed edges from an op to its regions."""
    edges = [(edge.source, edge.target, edge.label, False) for edge in view.edges]
    for cluster in view.clusters:
        inside = next((node.id for node in view.nodes if node.cluster == cluster.id), None)
        if cluster.owner is not None and inside is not None:
            edges.append((cluster.owner, inside, cluster.label, True))
    return edges


def _layers(view: GraphView) -> list[list[Node]]:
    """Assign each node to the layer below all that it reads; a node without operands to the one above its first reader."""
    order = {node.id: index for index, node in enumerate(view.nodes)}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(order)
    graph.add_edges_from((a, b) for a, b, _, _ in _edges(view) if order[a] < order[b])  # cut cycles of graph regions
    depth = {name: layer for layer, names in enumerate(nx.topological_generations(graph)) for name in names}
    for name in order:
        readers = [depth[reader] for reader in graph.successors(name)]
        if readers and not graph.in_degree(name):
            depth[name] = min(readers) - 1
    layers = defaultdict[int, list[Node]](list)
    for node in view.nodes:
        layers[depth[node.id]].append(node)
    ordered = [layers[layer] for layer in sorted(layers)]
    for sweep in range(SWEEPS):
        neighbours = graph.predecessors if sweep % 2 == 0 else graph.successors
        place = {node.id: index / len(layer) for layer in ordered for index, node in enumerate(layer)}
        for layer in ordered if sweep % 2 == 0 else reversed(ordered):
            key = {node.id: [place[other] for other in neighbours(node.id)] for node in layer}
            layer.sort(key=lambda node: sum(key[node.id]) / len(key[node.id]) if key[node.id] else place[node.id])
            place |= {node.id: index / len(layer) for index, node in enumerate(layer)}
    return ordered


Box = tuple[float, float, float, float]
"""x, y, width and height."""


def _boxes(layers: list[list[Node]]) -> tuple[dict[str, Box], float, float]:
    """The position of each node, and the total size; layers are centred."""
    widths = {node.id: max(map(len, node.lines), default=1) * CHARACTER + 2 * PADDING for layer in layers for node in layer}
    totals = [sum(widths[node.id] for node in layer) + GAP * (len(layer) - 1) for layer in layers]
    full = max(totals, default=0.0) + 2 * GAP
    boxes, y = dict[str, Box](), float(GAP)
    for layer, total in zip(layers, totals, strict=True):
        x = (full - total) / 2
        tallest = max(len(node.lines) for node in layer) * LINE + PADDING
        for node in layer:
            boxes[node.id] = (x, y, widths[node.id], len(node.lines) * LINE + PADDING)
            x += widths[node.id] + GAP
        y += tallest + LAYER
    return boxes, full, y


def _node(node: Node, box: Box) -> str:
    x, y, width, height = box
    radius = height / 2 if node.kind in ("input", "parameter") else 5
    color = "#6b7280" if node.kind == "parameter" else "#111827"
    texts = "".join(
        f'<text x="{x + width / 2:.1f}" y="{y + LINE * (index + 1):.1f}" text-anchor="middle" '
        f'fill="{color if index == 0 else "#6b7280"}">{escape(line)}</text>'
        for index, line in enumerate(node.lines)
    )
    rectangle = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:.0f}" '
    return f'<g class="{node.kind}">{rectangle}fill="{FILLS[node.kind]}" stroke="#9ca3af"/>{texts}</g>'


def _edge(source: Box, target: Box, label: str, dashed: bool) -> str:
    x1, y1, x2, y2 = source[0] + source[2] / 2, source[1] + source[3], target[0] + target[2] / 2, target[1]
    bend = max((y2 - y1) / 2, LAYER / 2)
    path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    style = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<path d="{path}" fill="none" stroke="#6b7280"{style} marker-end="url(#arrow)"><title>{escape(label)}</title></path>'
    )
