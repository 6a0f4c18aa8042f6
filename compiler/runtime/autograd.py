"""A part of a program that was differentiated as a whole: forward by f, backward by df, one node for PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fxc.errors import InputError

Order = tuple[int, ...] | None


@dataclass(frozen=True)
class Gradient:
    """A function and its derivative, as plain data.

    ``f`` takes the inputs and returns a sequence of outputs, or the only one; those from ``real_outputs`` on are there for
    ``df`` alone. ``df`` takes the gradients of the outputs ``input_vjps``, then the inputs ``captured_inputs``, then the
    outputs ``captured_outputs``, and returns the gradients of the inputs ``output_vjps`` in the same way. A gradient that is
    known to be zero is None, on both sides. ``differentiable``: whether df consists of operators that autograd can
    differentiate again. ``orders``: the layout in which df takes each gradient, dimensions from the outermost in memory to the
    innermost, None for row-major; where they are not given, it is the layout of the output.
    """

    f: Callable[..., Any]
    df: Callable[..., Any]
    real_outputs: int
    input_vjps: tuple[int, ...]
    captured_inputs: tuple[int, ...]
    captured_outputs: tuple[int, ...]
    output_vjps: tuple[int, ...]
    differentiable: bool = True
    orders: tuple[Order, ...] | None = None


class DifferentiableSubgraph(torch.nn.Module):
    """``f`` as a module, whose results carry gradients that ``df`` computes. Modules become submodules."""

    def __init__(self, gradient: Gradient) -> None:
        super().__init__()
        self.gradient = gradient
        self.f, self.df = gradient.f, gradient.df

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        """The real outputs of f."""
        gradient = self.gradient
        if torch.is_grad_enabled() and any(_requires_grad(inputs[i]) for i in gradient.output_vjps):
            outputs: tuple[Any, ...] = _Subgraph.apply(gradient, *inputs)  # type: ignore[assignment]
        else:
            outputs = _sequence(gradient.f(*inputs))
        return outputs[: gradient.real_outputs]


class _Subgraph(torch.autograd.Function):
    """Returns every output of f: a gradient that reaches a temporary in a second backward must find this node as well."""

    @staticmethod
    def forward(ctx: Any, gradient: Gradient, *inputs: Any) -> tuple[Any, ...]:
        outputs = _sequence(gradient.f(*inputs))
        ctx.gradient = gradient
        ctx.set_materialize_grads(False)
        carried = set(gradient.input_vjps)
        ctx.mark_non_differentiable(*[o for i, o in enumerate(outputs) if isinstance(o, torch.Tensor) and i not in carried])
        captured = [*(inputs[i] for i in gradient.captured_inputs), *(outputs[i] for i in gradient.captured_outputs)]
        ctx.save_for_backward(*[value if isinstance(value, torch.Tensor) else None for value in captured])
        ctx.others = [None if isinstance(value, torch.Tensor) else value for value in captured]
        orders = gradient.orders
        ctx.orders = [_memory_order(outputs[i]) for i in gradient.input_vjps] if orders is None else orders
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        gradient: Gradient = ctx.gradient
        vjps = [_in_order(grads[i], order) for i, order in zip(gradient.input_vjps, ctx.orders, strict=True)]
        # reading saved_tensors checks that none was written in place since
        pairs = zip(ctx.saved_tensors, ctx.others, strict=True)
        captured = [other if saved is None else saved for saved, other in pairs]
        found: list[torch.Tensor | None] = [None] * len(ctx.needs_input_grad)
        if gradient.differentiable or not torch.is_grad_enabled():
            results = _sequence(gradient.df(*vjps, *captured))
        else:
            with torch.no_grad():
                results = _once(_sequence(gradient.df(*vjps, *captured)))
        if len(results) != len(gradient.output_vjps):
            raise InputError(f"a derivative returned {len(results)} gradients instead of {len(gradient.output_vjps)}")
        for i, result in zip(gradient.output_vjps, results, strict=True):
            if ctx.needs_input_grad[i + 1]:
                found[i + 1] = result
        return tuple(found)


def _sequence(returned: Any) -> tuple[Any, ...]:
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def memory_order(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The dimensions by their strides, the largest first."""
    return tuple(sorted(range(len(sizes)), key=lambda i: (-strides[i], -sizes[i])))


def _memory_order(output: torch.Tensor) -> Order:
    """The layout of ``output`` where it has no gaps and overlaps, else row-major."""
    if output.layout is not torch.strided or output.is_contiguous():
        return None
    order = memory_order(output.shape, output.stride())
    return order if output.permute(order).is_contiguous() else None


def _in_order(grad: torch.Tensor | None, order: Order) -> torch.Tensor | None:
    """``grad`` in the layout that df was compiled for; autograd gives any, such as the zero strides of an expanded sum."""
    if grad is None or grad.layout is not torch.strided:
        return grad
    if order is None:
        return grad.contiguous()
    inverse = [order.index(i) for i in range(len(order))]
    return grad.permute(order).contiguous().permute(inverse)


def _once(results: Sequence[Any]) -> list[Any]:
    """Gradients that raise when they are differentiated."""
    message = (
        "fxc: the backward of this subgraph cannot be differentiated again: it runs in kernels without derivatives\n"
        "  hint: compile without training=True what you need second derivatives of"
    )
    fail = torch._C._functions.DelayedError(message, len(results))  # type: ignore[attr-defined]
    leaves = [r.detach().requires_grad_() if isinstance(r, torch.Tensor) else r for r in results]
    return list(fail(*leaves))
