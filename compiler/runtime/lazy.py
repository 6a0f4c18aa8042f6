"""Tensors that PyTorch conjugates or negates only when they are read: code that takes addresses sees other numbers."""

from __future__ import annotations

from typing import Any

import torch


def is_lazy(value: torch.Tensor) -> bool:
    """Whether the memory of ``value`` holds the conjugates or negatives of its numbers."""
    return value.is_neg() or value.is_conj()


def marks(value: torch.Tensor) -> tuple[bool, bool]:
    """Whether the memory of ``value`` holds conjugates, and whether it holds negatives."""
    return value.is_conj(), value.is_neg()


def marked_like(value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """``value``, whose memory holds what that of ``other`` does, as lazy as ``other``."""
    if value.is_conj() != other.is_conj():
        value = value.conj()
    return value if value.is_neg() == other.is_neg() else torch.ops.aten._neg_view(value)


def resolved(value: Any) -> Any:
    """``value``; a lazy tensor as a copy whose memory holds its numbers, with the same strides."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or not is_lazy(value):
        return value
    made = value.resolve_conj().resolve_neg()
    if made.stride() == value.stride():
        return made
    held = value.conj() if value.is_conj() else value
    held = torch.ops.aten._neg_view(held) if held.is_neg() else held
    reach = 1 + sum((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True)) if value.numel() else 0
    line = held.as_strided((reach,), (1,))
    line = line.conj_physical() if value.is_conj() else line
    return (line.neg() if value.is_neg() else line).as_strided(value.shape, value.stride())
