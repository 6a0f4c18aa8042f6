"""Operators as views whose writes PyTorch's functionalization inverts correctly.

Its inverse of ``unfold`` sets elements outside of all windows to 0, so writes to windows would clear the elements between them.
``fill_diagonal_`` writes through ``as_strided``, which functionalization does not support on views.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fxc.bridge.tensors import type_of
from fxc.dialects.attributes.types import is_tensor, overlaps
from fxc.dialects.fx import IN_PLACE_OPERATORS


def windows(
    self: torch.Tensor, dimension: int, size: int, step: int, *, as_strided: Callable[..., torch.Tensor] = torch.as_strided
) -> torch.Tensor:
    """Return ``self.unfold(dimension, size, step)`` as views; ``unfold`` where elements share memory or sizes are unknown."""
    if not self.dim() or not size or isinstance(self.shape[dimension], torch.SymInt):
        return self.unfold(dimension, size, step)
    dim = dimension % self.dim()
    count = (self.shape[dim] - size) // step + 1
    if count == 1:
        return self.narrow(dim, 0, size).unsqueeze(dim).movedim(dim + 1, -1)
    if step < size:
        return self.unfold(dim, size, step)
    if count * step <= self.shape[dim]:
        whole: Any = self.narrow(dim, 0, count * step)
        return whole.unflatten(dim, (count, step)).narrow(dim + 1, 0, size).movedim(dim + 1, -1)
    found, type = self.unfold(dim, size, step), type_of(self)
    if is_tensor(type) and overlaps(type):
        return found  # the derivative of ``as_strided`` shares gradients among elements that share memory
    return as_strided(self, found.shape, found.stride())  # relative to the storage offset of ``self``


def fill_diagonal(
    self: torch.Tensor, fill_value: Any, wrap: bool = False, *, as_strided: Callable[..., torch.Tensor] = torch.as_strided
) -> torch.Tensor:
    """Run ``self.fill_diagonal_(fill_value, wrap)`` by views; itself on invalid shapes, or if it wraps with unknown sizes."""
    if self.dim() < 2 or (self.dim() > 2 and any(size != self.shape[0] for size in self.shape)):
        return self.fill_diagonal_(fill_value, wrap)
    blocks = [self]
    if wrap and self.dim() == 2:
        (rows, columns), (down, right) = self.shape, self.stride()
        if isinstance(rows, torch.SymInt) or isinstance(columns, torch.SymInt):
            return self.fill_diagonal_(fill_value, wrap)
        blocks = [self[start : start + columns] for start in range(0, rows, columns + 1)]
        if len(blocks) > 2 and down != columns * right:  # a wrapped diagonal continues in memory, not in the next block
            count = -(-rows * columns // (columns + 1)) - columns
            first = self.storage_offset() + down * (columns + 1)
            blocks[1:] = [as_strided(self, (count,), (down + right,), first)]
    for block in blocks:
        while block.dim() > 1:
            block = block.diagonal(0, 0, 1 if block.dim() == 2 else -1)
        block.fill_(fill_value)
    return self


BY_VIEWS: Mapping[str, Callable[..., torch.Tensor]] = MappingProxyType(
    {"aten.unfold.default": windows, "aten.fill_diagonal_.default": fill_diagonal}
)
"""Operator -> its implementation by such views, some of which use ``as_strided``."""


def _by_targets() -> dict[Any, Callable[..., Any]]:
    """Return callee in a graph -> implementation by such views."""
    found = dict[Any, Callable[..., Any]]()
    for operator, function in BY_VIEWS.items():
        name = operator.removeprefix("aten.").removesuffix(".default")
        packet = getattr(torch.ops.aten, name)
        found |= dict.fromkeys([name, getattr(torch.Tensor, name), packet, packet.default], function)
    return found


_BY_TARGETS: Mapping[Any, Callable[..., Any]] = MappingProxyType(_by_targets())


def makes_windows(node: Node) -> bool:
    """Whether ``node`` calls ``unfold`` of tensors (not that of images, ``torch.nn.functional.unfold``)."""
    return node.op in ("call_method", "call_function") and _BY_TARGETS.get(node.target) is windows


def counts_in_memory(node: Node) -> bool:
    """Whether ``node`` calls an operator whose views require ``as_strided``, or have unknown sizes."""
    if node.op not in ("call_method", "call_function") or (by_views := _BY_TARGETS.get(node.target)) is None:
        return False
    args: Any
    kwargs: Any
    args, kwargs = map_arg((node.args, node.kwargs), lambda operand: operand.meta.get("example_value"))
    x = args[0]
    numbers = (*x.shape, *x.stride(), *args[1:], *kwargs.values()) if isinstance(x, torch.Tensor) else (x,)
    if not all(isinstance(number, (int, float, complex)) for number in numbers):
        return True
    found = list[bool]()

    def as_strided(x: torch.Tensor, size: Sequence[int], *_: Any) -> torch.Tensor:
        found.append(True)
        return x.new_empty(size)

    by_views(torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta"), *args[1:], **kwargs, as_strided=as_strided)
    return bool(found)


def replace_windows(module: GraphModule) -> None:
    """Replace windows and diagonals by such views in graphs of ``module`` that may write."""
    for inner in module.modules():
        if not isinstance(inner, GraphModule) or not any(map(may_write, inner.graph.nodes)):
            continue
        for node in inner.graph.nodes:
            if node.op in ("call_method", "call_function") and (by_views := _BY_TARGETS.get(node.target)) is not None:
                node.op, node.target = "call_function", by_views
        inner.recompile()


def name_of(node: Node) -> str:
    """Return the name of the callee of ``node``, without overload; "" if it calls no function or method."""
    if node.op not in ("call_function", "call_method"):
        return ""
    target: Any = node.target
    return target if isinstance(target, str) else str(getattr(target, "__name__", "")).split(".")[0]


def may_write(node: Node) -> bool:
    """Whether ``node`` calls a function that writes to an operand."""
    name = name_of(node)
    schema = getattr(node.target, "_schema", None)
    return (
        (name.endswith("_") and not name.endswith("__"))
        or name in IN_PLACE_OPERATORS
        or "out" in node.kwargs
        or bool(node.kwargs.get("inplace"))
        or bool(schema is not None and schema.is_mutable)
    )
