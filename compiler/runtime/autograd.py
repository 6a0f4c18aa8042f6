"""A part of a program that was differentiated as a whole: forward by f, backward by df, one node for PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad

from fxc.errors import DerivativeError, InputError
from fxc.runtime import autocast
from fxc.runtime.lazy import resolved

Order = tuple[int, ...] | None


@dataclass(frozen=True)
class Gradient:
    """A function and its derivative, as plain data.

    ``f`` takes the inputs and returns a sequence of outputs, or the only one; those from ``real_outputs`` on are there for
    ``df`` alone. ``df`` takes the gradients of the outputs ``input_vjps``, then the inputs ``captured_inputs``, then the
    outputs ``captured_outputs``, and returns the gradients of the inputs ``output_vjps`` in the same way; where it has an
    attribute ``boxed``, it takes them in one list, and empties that. A gradient known to be zero is None, on both sides.
    ``unreached``: inputs whose gradient is zero whatever comes in. ``differentiable``: whether f consists of operators that
    autograd can differentiate; ``obstacle``: why what autograd makes of df is not the second derivative, asked where one is
    wanted for the first time; None where it is. ``orders``: the layout in which df takes each gradient, dimensions from the
    outermost in memory to the innermost, None for row-major; where they are not given, it is the layout of the output.
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
    obstacle: Callable[[], DerivativeError | None] = lambda: None
    unreached: tuple[int, ...] = ()


class DifferentiableSubgraph(torch.nn.Module):
    """``f`` as a module, whose results carry gradients that ``df`` computes. Modules become submodules."""

    def __init__(self, gradient: Gradient) -> None:
        super().__init__()
        self.gradient = gradient
        self.f, self.df = gradient.f, gradient.df
        self._wanted = frozenset((*gradient.output_vjps, *gradient.unreached))

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        """The real outputs of f. Where df does not serve (an input requires a gradient that it lacks, or derivatives are taken
        forward, or by torch.func) PyTorch differentiates f itself."""
        gradient = self.gradient
        wants = {i for i, value in enumerate(inputs) if _requires_grad(value)} if torch.is_grad_enabled() else frozenset[int]()
        if not wants <= self._wanted or _transformed():
            outputs = self._by_autograd(inputs)
        elif not wants.isdisjoint(gradient.output_vjps):
            outputs = _Subgraph.apply(gradient, *inputs)  # type: ignore[assignment]
        elif wants and not gradient.differentiable:  # what autograd would watch, kernels and operators with out= do not take
            outputs = _sequence(gradient.f(*map(_detached, inputs)))
        else:
            outputs = _sequence(gradient.f(*inputs))
        return outputs[: gradient.real_outputs]

    def _by_autograd(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self.gradient.differentiable:
            raise InputError(
                "a subgraph runs in kernels without derivatives, but an input requires a gradient that it was not compiled for,"
                " or derivatives are taken forward or by torch.func",
                hint="compile again where it is an input that requires a gradient now",
            )
        # copies of what is no leaf of the gradient: running statistics are written back while autograd still holds them
        return _sequence(self.gradient.f(*[_copied(value) for value in inputs]))


class _Subgraph(torch.autograd.Function):
    """Returns every output of f: a gradient that reaches a temporary in a second backward must find this node as well.
    Where none is saved for backward, an empty tensor behind them is: what backward makes is connected to this node by it."""

    @staticmethod
    def forward(ctx: Any, gradient: Gradient, *inputs: Any) -> tuple[Any, ...]:
        with torch.enable_grad():  # a fused LSTM layer keeps what its backward needs only where gradients are wanted
            outputs = _sequence(gradient.f(*map(_detached, inputs)))
        ctx.gradient = gradient
        ctx.set_materialize_grads(False)
        carried = set(gradient.input_vjps)
        ctx.mark_non_differentiable(*[o for i, o in enumerate(outputs) if isinstance(o, torch.Tensor) and i not in carried])
        link = [torch.empty(0)] if carried.isdisjoint(gradient.captured_outputs) else []
        captured = [*(inputs[i] for i in gradient.captured_inputs), *(outputs[i] for i in gradient.captured_outputs), *link]
        ctx.save_for_backward(*[value if isinstance(value, torch.Tensor) else None for value in captured])
        ctx.others = [None if isinstance(value, torch.Tensor) else value for value in captured]
        orders = gradient.orders
        ctx.orders = [_memory_order(outputs[i]) for i in gradient.input_vjps] if orders is None else orders
        return (*outputs, *link)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        if autocast.is_on():  # backward runs as forward did, as with torch.amp.custom_bwd
            with autocast.off():
                return _Subgraph.backward(ctx, *grads)
        gradient: Gradient = ctx.gradient
        vjps = [_in_order(grads[i], order) for i, order in zip(gradient.input_vjps, ctx.orders, strict=True)]
        # reading saved_tensors checks that none was written in place since
        pairs = zip(ctx.saved_tensors, ctx.others, strict=True)
        captured = [other if saved is None else saved for saved, other in pairs]
        found: list[torch.Tensor | None] = [None] * len(ctx.needs_input_grad)
        count = len(gradient.captured_inputs) + len(gradient.captured_outputs)
        args, link = [*vjps, *captured[:count]], captured[count:]
        del vjps, captured
        ctx.maybe_clear_saved_tensors()  # nothing but args holds them now, unless the graph is retained
        obstacle = gradient.obstacle() if torch.is_grad_enabled() else None
        if obstacle is None:
            results = _derived(gradient, args)
        else:
            with torch.no_grad():
                results = _derived(gradient, list(args))
            results = _Once.apply(obstacle, results, *link, *args)  # type: ignore[assignment]
        if len(results) != len(gradient.output_vjps):
            raise InputError(f"a derivative returned {len(results)} gradients instead of {len(gradient.output_vjps)}")
        for i, result in zip(gradient.output_vjps, results, strict=True):
            if ctx.needs_input_grad[i + 1]:
                found[i + 1] = result
        return tuple(found)


def _derived(gradient: Gradient, args: list[Any]) -> tuple[Any, ...]:
    """The results of df. One that takes its arguments in a list empties it, so that memory is freed on the way."""
    return _sequence(gradient.df(args) if getattr(gradient.df, "boxed", False) else gradient.df(*args))


def _sequence(returned: Any) -> tuple[Any, ...]:
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)


def _transformed() -> bool:
    """Whether torch.func or forward differentiation is at work: they see operators, but not into a node of ours."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def _copied(value: Any) -> Any:
    return value if not isinstance(value, torch.Tensor) or value.requires_grad else value.clone()


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


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
        return resolved(grad.contiguous())
    inverse = [order.index(i) for i in range(len(order))]
    return resolved(grad.permute(order).contiguous()).permute(inverse)


class _Once(torch.autograd.Function):
    """``results`` as a function of all ``sources`` that they were computed from, whose derivative is the error ``obstacle``."""

    @staticmethod
    def forward(ctx: Any, obstacle: DerivativeError, results: tuple[Any, ...], *sources: Any) -> tuple[Any, ...]:
        ctx.obstacle = obstacle
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> None:
        error: DerivativeError = ctx.obstacle
        raise DerivativeError(error.message, op=error.op, place=error.place, hint=error.hint)
