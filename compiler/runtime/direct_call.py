"""Call the graph of a plan without pytree flattening and unflattening, which cost 4 us a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Graph, GraphModule
from torch.fx.graph import _PyTreeCodeGen
from torch.utils._pytree import TreeSpec

_LARGEST = 4096
"""The maximum number of nodes. Longer graphs run so long that pytrees do not matter, so they are not compiled twice."""


def direct_call(module: GraphModule) -> Callable[..., Any] | None:
    """Return ``module.forward`` for positional arguments; None if arguments or results are nested, or the graph is too long."""
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
