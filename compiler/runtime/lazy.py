"""Tensors whose memory does not hold their elements: code that takes addresses must not get them.

Lazy tensors are conjugates and negatives, whose memory holds other numbers, and ZeroTensors, which have no memory. Transforms
of torch.func wrap tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch.autograd import forward_ad

_functorch = cast(Any, torch._C)._functorch
transforms_are_active: Callable[[], bool] = torch._C._are_functorch_transforms_active
"""Whether a transform of torch.func is active in this thread; takes 0.1 us."""

is_legacy_batched: Callable[[torch.Tensor], bool] = _functorch.is_legacy_batchedtensor
"""Whether a tensor is a batch of gradients, as of a Jacobian."""

_is_included: Callable[[Any], bool] = torch._C._dispatch_tls_is_dispatch_key_included
_jit_trace: Callable[[], Any] = torch._C._get_tracing_state
_mode: Callable[[Any], Any] = cast(Any, torch._C)._get_dispatch_mode
_PROXY, _PRE_DISPATCH = torch._C._TorchDispatchModeKey.PROXY, torch._C.DispatchKey.PreDispatch

_WRAPPED = _functorch.is_functorch_wrapped_tensor, is_legacy_batched, cast(Any, torch)._is_functional_tensor


def is_recorded() -> bool:
    """Whether make_fx, torch.export or torch.jit.trace records the operators of this thread, and no kernels."""
    return _mode(_PROXY) is not None or _is_included(_PRE_DISPATCH) or _jit_trace() is not None


def is_lazy(value: torch.Tensor) -> bool:
    """Whether the memory of ``value`` does not hold its elements."""
    return value.is_neg() or value.is_conj() or value._is_zerotensor()


def is_wrapped(value: Any) -> bool:
    """Whether ``value`` is a wrapper of a transform, such as a batched tensor: it has no memory that kernels can read."""
    return isinstance(value, torch.Tensor) and any(test(value) for test in _WRAPPED)


def around_transforms(values: Iterable[Any]) -> AbstractContextManager[Any]:
    """Return a context for code that reads ``values``: if none is wrapped, transforms do not wrap the tensors that it makes."""
    reached = not transforms_are_active() or any(map(is_wrapped, values))
    return nullcontext() if reached else cast(Any, torch._C)._DisableFuncTorch()


def has_tangent(value: torch.Tensor) -> bool:
    """Whether ``value`` is a dual tensor of forward-mode differentiation."""
    return cast(Any, forward_ad)._current_level >= 0 and forward_ad.unpack_dual(value).tangent is not None


def takes_gradient(value: Any) -> bool:
    """Whether a transform of torch.func takes a derivative by ``value``."""
    while isinstance(value, torch.Tensor) and _functorch.is_functorch_wrapped_tensor(value):
        if value.requires_grad:
            return True
        value = _functorch.get_unwrapped(value)
    return False


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
