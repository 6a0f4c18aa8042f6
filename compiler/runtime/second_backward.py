"""Differentiable replacements for backward operators of PyTorch that have no derivative.

PyTorch also uses another backward when grad mode is on. Each function here replaces such an operator and returns the same.
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
