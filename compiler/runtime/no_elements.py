"""Replacements for operators that do wrong on tensors without elements, which eager mode checks before the call.

They crash the process or raise; ``native_dropout`` returns its operand, which autograd then takes for the result of an
operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def _batch_norm_backward(grad: Tensor, x: Tensor, *args: Any) -> Sequence[Tensor | None]:
    if x.numel():
        return torch.ops.aten.native_batch_norm_backward.default(grad, x, *args)
    channels = torch.zeros(x.shape[1], dtype=x.dtype if args[0] is None else args[0].dtype, device=x.device)
    return tuple(
        made if wanted else None for made, wanted in zip((grad.clone(), channels, channels.clone()), args[-1], strict=True)
    )


def _batch_norm(operator: Any) -> Callable[..., Sequence[Tensor]]:
    """``operator`` returns its result, statistics for backward, and new running statistics, if it does not write them."""

    names = [argument.name for argument in operator._schema.arguments[3:]]

    def run(x: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any) -> Sequence[Tensor]:
        if x.numel():
            return operator(x, weight, bias, *rest)
        result = x.clone() if weight is None else x * weight[0]
        result = result if bias is None else result + bias[0]
        channels = x.shape[1] if dict(zip(names, rest)).get("training") else 0
        statistics = torch.zeros(channels, dtype=torch.promote_types(x.dtype, torch.float32), device=x.device)
        running = [value.clone() for value in rest[: len(operator._schema.returns) - 3]]
        return result, statistics, statistics.clone(), *running

    return run


def _flash_attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
    if _has_rows(query, key):
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(query, key, value, *args, **kwargs)
    sums = torch.float32 if query.dtype in (torch.float16, torch.bfloat16) else query.dtype
    return query @ key.mT @ value, query.new_zeros(query.shape[:-1], dtype=sums)


def _flash_attention_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any
) -> Sequence[Tensor]:
    if _has_rows(query, key):
        operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
        return operator(grad, query, key, value, *args, **kwargs)
    return torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)


def _native_dropout(x: Tensor, *args: Any) -> Sequence[Tensor]:
    return torch.ops.aten.native_dropout.default(x if x.numel() else torch.ops.aten.alias.default(x), *args)


def _has_rows(query: Tensor, key: Tensor) -> bool:
    """Whether there is at least one head, query and key."""
    return 0 not in (query.shape[1], query.shape[2], key.shape[2])


_BATCH_NORMS = (
    torch.ops.aten._native_batch_norm_legit.default,
    torch.ops.aten._native_batch_norm_legit.no_stats,
    torch.ops.aten._native_batch_norm_legit_functional.default,
    torch.ops.aten._native_batch_norm_legit_no_training.default,
    torch.ops.aten.native_batch_norm.default,
)

NO_ELEMENTS: Mapping[Any, Callable[..., Any]] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default: _flash_attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _flash_attention_backward,
    **{operator: _batch_norm(operator) for operator in _BATCH_NORMS},
    torch.ops.aten.native_batch_norm_backward.default: _batch_norm_backward,
    torch.ops.aten.native_dropout.default: _native_dropout,
}
"""Operator -> replacement."""
