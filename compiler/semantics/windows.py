"""``Tensor.unfold`` by views whose writes PyTorch's functionalization undoes right.

Its inverse of ``unfold`` makes all elements that no window has 0: what is written to the windows would clear those beside them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node


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
        if not isinstance(inner, GraphModule) or not any(map(_may_write, inner.graph.nodes)):
            continue
        for node in inner.graph.nodes:
            if node.op == "call_method" and node.target == "unfold":
                node.op, node.target = "call_function", windows
        inner.recompile()


def _may_write(node: Node) -> bool:
    if node.op not in ("call_function", "call_method"):
        return False
    target: Any = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    return name.endswith("_") or name == "setitem" or "out" in node.kwargs or bool(node.kwargs.get("inplace"))
