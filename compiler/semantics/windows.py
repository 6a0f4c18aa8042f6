"""``Tensor.unfold`` by views whose writes PyTorch's functionalization undoes right.

Its inverse of ``unfold`` makes all elements that no window has 0: what is written to the windows would clear those beside them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxc.dialects.effects import IN_PLACE_OPERATORS


def windows(self: torch.Tensor, dimension: int, size: int, step: int) -> torch.Tensor:
    """``self.unfold(dimension, size, step)``; that itself where windows overlap, or where sizes are not known."""
    if not self.dim() or not size or not isinstance(self.shape[dimension], int):
        return self.unfold(dimension, size, step)
    dim = dimension % self.dim()
    count = (self.shape[dim] - size) // step + 1
    if count == 1:
        return self.narrow(dim, 0, size).unsqueeze(dim).movedim(dim + 1, -1)
    if step < size:
        return self.unfold(dim, size, step)
    if count * step <= self.shape[dim]:
        return self.narrow(dim, 0, count * step).unflatten(dim, (count, step)).narrow(dim + 1, 0, size).movedim(dim + 1, -1)
    found = self.unfold(dim, size, step)
    return self.as_strided(found.shape, found.stride())  # from where ``self`` starts in its storage


def replace_windows(module: GraphModule) -> None:
    """Let graphs that may write, in ``module``, have their windows by ``windows``."""
    for inner in module.modules():
        if not isinstance(inner, GraphModule) or not any(map(may_write, inner.graph.nodes)):
            continue
        for node in inner.graph.nodes:
            if node.op == "call_method" and node.target == "unfold":
                node.op, node.target = "call_function", windows
        inner.recompile()


def name_of(node: Node) -> str:
    """The name of what ``node`` calls, without an operator's overload; "" where it calls no function or method."""
    if node.op not in ("call_function", "call_method"):
        return ""
    target: Any = node.target
    return target if isinstance(target, str) else str(getattr(target, "__name__", "")).split(".")[0]


def may_write(node: Node) -> bool:
    """Whether ``node`` calls what writes to an operand."""
    name = name_of(node)
    schema = getattr(node.target, "_schema", None)
    return (
        (name.endswith("_") and not name.endswith("__"))
        or name in IN_PLACE_OPERATORS
        or "out" in node.kwargs
        or bool(node.kwargs.get("inplace"))
        or bool(schema is not None and schema.is_mutable)
    )
