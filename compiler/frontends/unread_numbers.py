"""Drop the values that Dynamo records for 0-d float64 tensors on the CPU, where its graph does not use them.

AOTAutograd would specialize on such a value and restart Dynamo, which then removes the tensor with every write to it:
``x.add_(1.0)`` has no effect.
"""

from __future__ import annotations

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from fxc.bridge.tensors import hints_of, symbolic_parts


def drop_unread_numbers(graph: GraphModule) -> None:
    """Remove from the shape environment of ``graph`` the hints of tensor values that no node or guard uses."""
    from torch._dynamo.source import CallMethodItemSource

    nodes = [node for module in graph.modules() if isinstance(module, GraphModule) for node in module.graph.nodes]
    values = tree_leaves([node.meta.get("example_value") for node in nodes])
    mode = detect_fake_mode([value for value in values if isinstance(value, torch.Tensor)])
    if mode is None or mode.shape_env is None:
        return
    env, hints = mode.shape_env, hints_of(mode.shape_env)
    used = {symbol for part in symbolic_parts(values) for symbol in part.node.expr.free_symbols}
    used |= {symbol for guard in env.guards for symbol in guard.expr.free_symbols}
    for symbol in list(hints):
        is_number = any(isinstance(source, CallMethodItemSource) for source in env.var_to_sources.get(symbol, ()))
        if is_number and symbol not in used:
            del hints[symbol]
