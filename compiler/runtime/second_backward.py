"""Backwards that autograd can differentiate, where PyTorch's own operator for one has no derivative.

PyTorch takes another backward where grad mode is on. Each function here stands for such an operator, and gives what it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def _of(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The backward of a function of one tensor that reads nothing else."""

    def backward(grad: Tensor, x: Tensor, *args: Any) -> Tensor:
        (found,) = _gradients(lambda y: forward(y, *args), [x], grad)
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
    """The statistics depend on ``x``, so they are computed again; ``rstd`` says what was added to the variance."""
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
    """``function`` where grad mode is on, else ``operator``; also for batches of gradients, of which autograd takes none."""

    def run(*args: Any) -> Any:
        again = torch.is_grad_enabled() and not any(map(is_batched, args))
        return function(*args) if again else operator(*args)

    return run


def is_batched(value: Any) -> bool:
    """Whether ``value`` is many tensors at once, as for a Jacobian: it has no memory that kernels could read."""
    tests = torch._C._functorch.is_legacy_batchedtensor, torch._C._functorch.is_functorch_wrapped_tensor  # type: ignore[attr-defined]
    return isinstance(value, torch.Tensor) and any(test(value) for test in tests)


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
"""Operator of a backward -> what stands for it."""

NAMES = frozenset(f"{target._schema.name.replace('::', '.')}.{target._overloadname}" for target in DIFFERENTIABLE)
"""The operators, as the IR has their names."""


def replace_operators(module: torch.nn.Module, functions: Mapping[Any, Callable[..., Any]]) -> None:
    """Puts ``functions`` in the place of their operators in all graphs of ``module``."""
    for each in module.modules():
        if isinstance(each, torch.fx.GraphModule):
            nodes = [node for node in each.graph.nodes if node.target in functions]
            for node in nodes:
                node.target = functions[node.target]
            if nodes:
                each.recompile()
