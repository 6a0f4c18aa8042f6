"""Lazy tensors: conjugates and negatives, whose memory holds other numbers, and ZeroTensors, which have no memory.

Code that takes addresses must not get them.
"""

from __future__ import annotations

from typing import Any

import torch


def is_lazy(value: torch.Tensor) -> bool:
    """Whether the memory of ``value`` does not hold its elements."""
    return value.is_neg() or value.is_conj() or value._is_zerotensor()


def marks(value: torch.Tensor) -> tuple[bool, bool]:
    """Return the conjugate bit and the negative bit of ``value``."""
    return value.is_conj(), value.is_neg()


def marked_like(value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Set the conjugate and negative bits of ``value`` to those of ``other``, whose memory it shares."""
    if value.is_conj() != other.is_conj():
        value = value.conj()
    return value if value.is_neg() == other.is_neg() else torch.ops.aten._neg_view(value)


def resolved(value: Any) -> Any:
    """Return ``value``, or for a lazy tensor a materialized copy with the same strides."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or not is_lazy(value):
        return value
    if value._is_zerotensor():  # such as the derivative of sgn; operators on it return ZeroTensors again, clone does not
        made = value.clone()
        return made if made.stride() == value.stride() else made.new_empty_strided(value.shape, value.stride()).zero_()
    made = value.resolve_conj().resolve_neg()
    if made.stride() == value.stride():
        return made
    held = value.conj() if value.is_conj() else value
    held = torch.ops.aten._neg_view(held) if held.is_neg() else held
    reach = 1 + sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True)) if value.numel() else 0
    line = held.as_strided((reach,), (1,))
    line = line.conj_physical() if value.is_conj() else line
    return (line.neg() if value.is_neg() else line).as_strided(value.shape, value.stride())
