"""Remove dropouts that drop nothing from Dynamo's graphs: they return their argument, so writes to one affect the other.

PyTorch's decomposition of ``aten.dropout``, which AOTAutograd traces, copies it: writes to the copy do not reach the argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch.fx import GraphModule, Node


def _dropout(input: Any, p: float, train: bool) -> None:
    """The signature of ``torch.dropout``."""


_SIGNATURES: Mapping[Callable[..., Any], inspect.Signature] = MappingProxyType({
    torch.nn.functional.dropout: inspect.signature(torch.nn.functional.dropout),
    **dict.fromkeys((torch.dropout, torch.ops.aten.dropout, torch.ops.aten.dropout.default), inspect.signature(_dropout)),
})  # fmt: skip


def remove_idle_dropouts(module: GraphModule) -> None:
    """Replace each such dropout by its argument, in ``module`` and its nested graphs."""
    for inner in module.modules():
        if not isinstance(inner, GraphModule):
            continue
        idle = [node for node in inner.graph.nodes if is_idle(node)]
        for node in idle:
            node.replace_all_uses_with(dropped(node))
            inner.graph.erase_node(node)
        if idle:
            inner.recompile()


def is_idle(node: Node) -> bool:
    """Whether ``node`` is a dropout that drops nothing.

    For one with ``p`` 0 that is training, the fake result is a copy, so fakes of its views do not show the aliasing.
    """
    if node.op != "call_function" or node.target not in _SIGNATURES:
        return False
    found = _arguments(node)
    trains = found.get("training", found.get("train"))
    return trains is False or (isinstance(found["p"], (int, float)) and found["p"] == 0)


def dropped(node: Node) -> Any:
    """The input of a dropout."""
    return _arguments(node)["input"]


def _arguments(node: Node) -> Mapping[str, Any]:
    assert callable(node.target)
    bound = _SIGNATURES[node.target].bind(*node.args, **node.kwargs)
    bound.apply_defaults()
    return bound.arguments
