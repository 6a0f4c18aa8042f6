"""A graph through text and back, and graphs of one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.fx import Graph, GraphModule

import fxc
from fxc.dialects.verify.verifier import verify
from fxc.program.program import Program
from tests.graph_equality import assert_same_graph


def round_trip(captured: Any, args: list[Any] | None = None) -> GraphModule:
    """The graph that comes back from text, checked to be the one that went in."""
    program = fxc.import_fx(captured, args)
    verify(program.module)
    text = program.text(debuginfo=True)
    parsed = Program.parse(text, program.state)
    verify(parsed.module)
    assert parsed.text(debuginfo=True) == text
    parsed.live = program.live
    graph = fxc.to_fx(parsed, lifted=True)
    assert_same_graph(captured.graph, graph.graph)
    graph.graph.lint()
    return graph


def graph_of(build: Callable[[Graph, Any], Any], root: nn.Module | None = None) -> GraphModule:
    """The graph of ``output(build(graph, x))`` for one placeholder ``x``."""
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(build(graph, x))
    return GraphModule(root or nn.Module(), graph)
