"""The graph of a plan as a function of plain arguments, without the flattening and nesting that cost 4 us a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Graph, GraphModule
from torch.fx.graph import _PyTreeCodeGen
from torch.utils._pytree import TreeSpec

_LARGEST = 4096
"""Nodes: a longer graph runs for so long that the nesting does not matter, and is not compiled a second time."""


def direct_call(module: GraphModule) -> Callable[..., Any] | None:
    """What ``module.forward`` does, for positional arguments; None where an argument or a result is nested deeper."""
    codegen = module.graph._codegen
    if not isinstance(codegen, _PyTreeCodeGen) or len(module.graph.nodes) > _LARGEST:
        return None
    inputs, out = codegen.pytree_info.in_spec.children(), codegen.pytree_info.out_spec
    if inputs[1].num_leaves or not _is_flat(inputs[0]) or out is None or not (out.is_leaf() or _is_flat(out)):
        return None
    forward = _compiled(module.graph)
    if out.is_leaf():
        return lambda *args: forward(module, *args)[0]
    build = out.type
    return lambda *args: build(forward(module, *args))


def _is_flat(spec: TreeSpec) -> bool:
    return spec.type in (tuple, list) and all(child.is_leaf() for child in spec.children())


def _compiled(graph: Graph) -> Callable[..., Any]:
    plain = Graph()
    plain.output(plain.graph_copy(graph, {}))
    code = plain.python_code("self")
    namespace: dict[str, Any] = dict(code.globals)
    exec(compile(code.src, "<plan>", "exec"), namespace)
    return namespace["forward"]
