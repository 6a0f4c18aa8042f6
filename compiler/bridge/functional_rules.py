"""Replacements for functional operators that functionalization emits, where their numbers, layout or derivatives differ."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.weak import WeakTensorKeyDictionary

from fxc.runtime.autograd import memory_order

_np: Any = np
_DETACHED: MutableMapping[torch.Tensor, None] = WeakTensorKeyDictionary()
Rules = dict[torch._ops.OpOverload, Callable[..., Any]]
"""Operator -> the function that make_fx traces instead; if that returns NotImplemented, the operator itself."""


def _in_memory_order(x: torch.Tensor, run: Callable[[list[int]], torch.Tensor]) -> torch.Tensor:
    """Call ``run`` with the dimensions of ``x`` from the outermost in memory to the innermost, and permute its result back."""
    order = [*memory_order(x.shape, x.stride())]
    return run(order).permute([order.index(i) for i in range(len(order))])


def _bernoulli(x: torch.Tensor, p: float = 0.5, *, generator: Any = None) -> Any:
    """``bernoulli`` fills its result in row-major order; ``bernoulli_``, which it replaces, fills it in memory order."""
    if x.is_contiguous():
        return NotImplemented
    draw = torch.ops.aten.bernoulli.p
    return _in_memory_order(x, lambda order: draw(x.permute(order).contiguous(), p, generator=generator))


def _detached(draw: torch._ops.OpOverload, rule: Callable[..., Any]) -> Callable[..., Any]:
    """What ``draw`` draws does not depend on its first argument, and it has no derivative, unlike the call that it replaces."""

    def drawn(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if x in _DETACHED:
            return rule(x, *args, **kwargs)
        _DETACHED[detached := x.detach()] = None
        return draw(detached, *args, **kwargs)

    return drawn


def _random_between(x: torch.Tensor, start: int, stop: int | None, *, generator: Any = None) -> Any:
    """``random.from`` draws numbers below ``stop - start`` and adds ``start``. FX cannot print it: ``from`` is a keyword."""
    if stop is None or x.dtype is torch.bool or not all(_is_within(x.dtype, number) for number in (start, stop - 1)):
        return NotImplemented
    drawn = torch.ops.aten.random.to(x.detach().to(torch.int64), stop - start, generator=generator)
    return (drawn + start).to(x.dtype)


def _is_within(dtype: torch.dtype, number: int) -> bool:
    """Whether ``dtype`` has each integer up to ``number``: eager draws between other bounds where it does not."""
    if dtype.is_floating_point:
        return abs(number) <= 2 / torch.finfo(dtype).eps
    return torch.iinfo(dtype).min <= number <= torch.iinfo(dtype).max


def _copy(x: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> Any:
    """``copy`` has no derivative; ``copy_``, which it replaces, has one."""
    filled = source if source.device == x.device else source.to(x.device)  # a constant of Python is on the CPU
    filled = filled.to(x.dtype).expand(x.shape)
    return _in_memory_order(x, lambda order: filled.permute(order).clone(memory_format=torch.contiguous_format))


def _scatter(operator: torch._ops.OpOverload) -> Callable[..., Any]:
    """The derivatives of ``operator`` require equal dtypes; those of the write that it replaces do not."""

    def scatter(x: torch.Tensor, source: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented if x.dtype == source.dtype else operator(x, source.to(x.dtype), *args, **kwargs)

    return scatter


def _scatter_parts(operator: torch._ops.OpOverload) -> Callable[..., Any]:
    """Like ``_scatter``; complex tensors are split into real parts, as ``operator`` has no complex derivative."""
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
    """Replace ``as_strided_scatter`` by writes to elements.

    Its derivative is wrong, and its fakes reject tensors with gaps.
    """
    order = [*memory_order(x.shape, x.stride())]
    in_memory = x.permute(order)
    first = 0 if storage_offset is None else storage_offset - x.storage_offset()
    has_gaps = not in_memory.is_contiguous()
    if has_gaps and not is_within(x.shape, x.stride(), size, stride, first):
        return _scatter(torch.ops.aten.as_strided_scatter.default)(x, source, size, stride, storage_offset)
    places = torch.zeros([1] * len(size), dtype=torch.int64, device=x.device).add(first)
    for dim, (count, step) in enumerate(zip(size, stride, strict=True)):
        line = torch.arange(count, device=x.device) * step
        places = places + line.view([count if i == dim else 1 for i in range(len(size))])
    places, values = places.reshape(-1), source.to(x.dtype).reshape(-1)
    if has_gaps:
        written = x.index_put(_indices(x, order, places), values)
        return torch.slice_scatter(x.new_empty_strided(x.shape, x.stride()), written, 0)
    written = in_memory.reshape(-1).index_put((places,), values)
    return written.view(in_memory.shape).permute([order.index(i) for i in range(x.dim())])


def is_within(
    shape: Sequence[Any], steps: Sequence[Any], size: Sequence[Any], stride: Sequence[Any], first: Any
) -> bool | None:
    """Whether elements from ``first`` on, with ``size`` and ``stride``, belong to a tensor of ``shape`` and ``steps``.

    False if one is in a gap; None if a number is unknown.
    """
    if not all(isinstance(number, int) for number in (*shape, *steps, *size, *stride, first)):
        return None
    places = _np.full([1] * len(size), first)
    for dim, (count, step) in enumerate(zip(size, stride, strict=True)):
        places = places + (_np.arange(count) * step).reshape([count if i == dim else 1 for i in range(len(size))])
    within = places >= 0
    for step, count in sorted(zip(steps, shape, strict=True), reverse=True):
        if count > 1 and step > 0:
            within, places = within & (places // step < count), places % step
    return bool(_np.all(within & (places == 0)))


def _indices(x: torch.Tensor, order: Sequence[int], places: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the indices of elements of ``x`` at memory offsets ``places``; ``order`` is its dimensions in memory order."""
    indices = [torch.zeros_like(places)] * x.dim()
    for dim in order:
        if x.shape[dim] > 1:
            indices[dim], places = places // x.stride(dim), places % x.stride(dim)
    return tuple(indices)


FUNCTIONAL: Rules = {
    torch.ops.aten.bernoulli.p: _bernoulli,
    torch.ops.aten.copy.default: _copy,
    torch.ops.aten.as_strided_scatter.default: _as_strided_scatter,
    torch.ops.aten.diagonal_scatter.default: _scatter(torch.ops.aten.diagonal_scatter.default),
    torch.ops.aten.select_scatter.default: _scatter_parts(torch.ops.aten.select_scatter.default),
    torch.ops.aten.slice_scatter.default: _scatter_parts(torch.ops.aten.slice_scatter.default),
    getattr(torch.ops.aten.random, "from"): _random_between,
    torch.ops.aten.zero.default: _zero,
}
"""The replacements for operators that functionalization emits instead of mutation."""

BEFORE_AUTOGRAD: Rules = {
    **FUNCTIONAL,
    torch.ops.aten.bernoulli.p: _detached(torch.ops.aten.bernoulli.p, _bernoulli),
    torch.ops.aten.normal_functional.default: _detached(
        torch.ops.aten.normal_functional.default, lambda *_, **__: NotImplemented
    ),
}
"""The same for programs that are differentiated later."""
