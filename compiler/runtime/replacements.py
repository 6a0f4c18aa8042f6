"""Replacements for operators of PyTorch: backwards without a derivative, and operators that fail on tensors without elements.

PyTorch also uses another backward when grad mode is on. Without elements, operators that eager mode checks before the call
crash the process or raise; ``native_dropout`` returns its operand, which autograd then takes for the result of an operation.
Each function here replaces such an operator and returns the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fxc.runtime.lazy import is_wrapped


def _of(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the backward of a function of one tensor that depends on no other tensor."""

    def backward(grad: Tensor, x: Tensor, *args: Any) -> Tensor:
        def of(y: Tensor) -> Tensor:
            return forward(y, *args)

        (found,) = _gradients(of, [x], grad)
        assert found is not None
        return found

    return backward


def _group_norm_backward(
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    n: int,
    channels: int,
    places: int,
    groups: int,
    mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """The backward of group_norm. Statistics depend on ``x``, so they are recomputed; ``rstd`` contains epsilon."""
    normed = (n, groups, channels // groups * places)
    with torch.no_grad():
        added = rstd.view(n, groups, 1).pow(-2) - x.reshape(normed).var(-1, unbiased=False, keepdim=True)
    shape = [1, channels, *[1] * (x.dim() - 2)]

    def forward(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        rows = x.reshape(normed)
        variance = rows.var(-1, unbiased=False, keepdim=True) + added
        normal = (rows - rows.mean(-1, keepdim=True)) * variance.rsqrt()
        return (normal.reshape(x.shape) * scale.view(shape) + shift.view(shape)).to(x.dtype)

    scale = x.new_ones(channels) if weight is None else weight
    found = _gradients(forward, [x, scale, x.new_zeros(channels)], grad)
    return tuple(value if wanted else None for value, wanted in zip(found, mask, strict=True))


def _where_differentiated(operator: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Use ``function`` when grad mode is on, else ``operator``; also ``operator`` for batched gradients."""

    def run(*args: Any) -> Any:
        again = torch.is_grad_enabled() and not any(map(is_wrapped, args))
        return function(*args) if again else operator(*args)

    return run


def _gradients(forward: Callable[..., Tensor], inputs: Sequence[Tensor], grad: Tensor) -> tuple[Tensor | None, ...]:
    own = [x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs]
    return torch.autograd.grad(forward(*own), own, grad, create_graph=True)


DIFFERENTIABLE: Mapping[Any, Callable[..., Any]] = {
    operator: _where_differentiated(operator, function)
    for operator, function in (
        (torch.ops.aten._weight_norm_interface_backward.default, torch.ops.aten._weight_norm_differentiable_backward.default),
        (torch.ops.aten.cumprod_backward.default, torch.ops.aten.cumprod_backward.default),
        (torch.ops.aten.logit_backward.default, _of(torch.logit)),
        (torch.ops.aten.mish_backward.default, _of(torch.nn.functional.mish)),
        (torch.ops.aten.native_group_norm_backward.default, _group_norm_backward),
        (torch.ops.aten.silu_backward.default, _of(torch.nn.functional.silu)),
    )
}
"""Backward operator -> differentiable replacement."""

NAMES = frozenset(f"{target._schema.name.replace('::', '.')}.{target._overloadname}" for target in DIFFERENTIABLE)
"""The names of these operators in the IR."""


def replace_operators(module: torch.nn.Module, functions: Mapping[Any, Callable[..., Any]]) -> None:
    """Replace operators by ``functions`` in all graphs of ``module``."""
    for each in module.modules():
        if isinstance(each, torch.fx.GraphModule):
            nodes = [node for node in each.graph.nodes if node.target in functions]
            for node in nodes:
                node.target = functions[node.target]
            if nodes:
                each.recompile()


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
