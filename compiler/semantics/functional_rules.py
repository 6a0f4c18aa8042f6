"""What functionalization puts in place of mutation is not always the same: in draws, layouts and derivatives it may differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Rules = dict[torch._ops.OpOverload, Callable[..., Any]]
"""Operator -> what make_fx traces in its place; where that gives NotImplemented, the operator itself."""


def _memory_order(x: torch.Tensor) -> list[int]:
    """The dimensions from the outermost in memory to the innermost."""
    return sorted(range(x.dim()), key=lambda i: (-x.stride(i), -x.shape[i]))


def _as_memory_lies(x: torch.Tensor, run: Callable[[list[int]], torch.Tensor]) -> torch.Tensor:
    """What ``run`` gives for the dimensions of ``x`` from the outermost in memory to the innermost, with these put back."""
    order = _memory_order(x)
    return run(order).permute([order.index(i) for i in range(len(order))])


def _bernoulli(x: torch.Tensor, p: float = 0.5, *, generator: Any = None) -> Any:
    """``bernoulli`` fills its result in row-major order, the ``bernoulli_`` that it stands for as memory lies."""
    if x.is_contiguous():
        return NotImplemented
    draw = torch.ops.aten.bernoulli.p
    return _as_memory_lies(x, lambda order: draw(x.permute(order).contiguous(), p, generator=generator))


def _copy(x: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> Any:
    """``copy`` has no derivative, unlike the ``copy_`` that it stands for."""
    filled = source.to(x.dtype).expand(x.shape)
    return _as_memory_lies(x, lambda order: filled.permute(order).clone(memory_format=torch.contiguous_format))


def _scatter(operator: torch._ops.OpOverload) -> Callable[..., Any]:
    """The derivatives of ``operator`` are for tensors of one dtype, unlike those of the write that it stands for."""

    def scatter(x: torch.Tensor, source: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented if x.dtype == source.dtype else operator(x, source.to(x.dtype), *args, **kwargs)

    return scatter


def _scatter_parts(operator: torch._ops.OpOverload) -> Callable[..., Any]:
    """As ``_scatter``; for complex tensors ``operator`` has no derivative, unlike that for their parts."""
    scatter = _scatter(operator)

    def run(x: torch.Tensor, source: torch.Tensor, dim: int = 0, *args: Any, **kwargs: Any) -> Any:
        if not x.is_complex():
            return scatter(x, source, dim, *args, **kwargs)
        parts = (torch.view_as_real(value.to(x.dtype).resolve_conj()) for value in (x, source))
        return torch.view_as_complex(operator(*parts, dim % x.dim(), *args, **kwargs))

    return run


def _zero(x: torch.Tensor) -> Any:
    """``zero`` of complex tensors has no derivative, unlike ``fill``."""
    return torch.ops.aten.fill.Scalar(x, 0) if x.is_complex() else NotImplemented


def _as_strided_scatter(
    x: torch.Tensor, source: torch.Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """The derivative of ``as_strided_scatter`` is wrong, unlike that of the write to elements that it stands for."""
    order = _memory_order(x)
    in_memory = x.permute(order)
    if not in_memory.is_contiguous():
        return _scatter(torch.ops.aten.as_strided_scatter.default)(x, source, size, stride, storage_offset)
    first = 0 if storage_offset is None else storage_offset - x.storage_offset()
    places = torch.zeros([1] * len(size), dtype=torch.int64, device=x.device).add(first)  # type: ignore[arg-type]
    for dim, (count, step) in enumerate(zip(size, stride, strict=True)):
        line = torch.arange(count, device=x.device) * step
        places = places + line.view([count if i == dim else 1 for i in range(len(size))])
    written = in_memory.reshape(-1).index_put((places.reshape(-1),), source.to(x.dtype).reshape(-1))
    return written.view(in_memory.shape).permute([order.index(i) for i in range(x.dim())])


FUNCTIONAL: Rules = {
    torch.ops.aten.bernoulli.p: _bernoulli,
    torch.ops.aten.copy.default: _copy,
    torch.ops.aten.as_strided_scatter.default: _as_strided_scatter,
    torch.ops.aten.diagonal_scatter.default: _scatter(torch.ops.aten.diagonal_scatter.default),
    torch.ops.aten.select_scatter.default: _scatter_parts(torch.ops.aten.select_scatter.default),
    torch.ops.aten.slice_scatter.default: _scatter_parts(torch.ops.aten.slice_scatter.default),
    torch.ops.aten.zero.default: _zero,
}
"""What must stand for operators that functionalization has put in place of mutation."""
