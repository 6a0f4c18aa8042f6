"""Differentiated subgraphs: a forward function f and a backward function df as one node of PyTorch's autograd.

A host program runs as a module in place of such a subgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.autograd import forward_ad

from fxc.errors import DerivativeError, InputError
from fxc.runtime import autocast
from fxc.runtime.entry import check
from fxc.runtime.host_program import HostProgram
from fxc.runtime.lazy import resolved
from fxc.runtime.signature import Signature

Order = tuple[int, ...] | None


@dataclass(frozen=True)
class Gradient:
    """A function and its derivative, as plain data.

    ``f`` takes the inputs and returns a sequence of outputs, or a single output. Outputs from index ``real_outputs`` on are
    used by ``df`` only. ``df`` takes the gradients of the outputs ``input_vjps``, then the inputs ``captured_inputs``, then
    the outputs ``captured_outputs``, and returns the gradients of the inputs ``output_vjps``, as a sequence or a single
    value. If ``df`` has an attribute ``boxed``, it takes its arguments in one list and empties it. A gradient known to be
    zero is None, as an argument and as a result.

    ``unreached``: inputs whose gradient is always zero. ``differentiable``: whether f consists of operators that autograd can
    differentiate. ``obstacle``: returns the error that explains why differentiating df with autograd does not yield the
    second derivative, or None if it does; called in each backward with grad mode on. ``orders``: the layout of each gradient
    that df takes, as dimensions from the outermost in memory to the innermost, None for row-major; without ``orders``, the
    layouts are those of the outputs.
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
    """``f`` as a module, whose gradients ``df`` computes. If ``f`` and ``df`` are modules, they become submodules."""

    def __init__(self, gradient: Gradient) -> None:
        super().__init__()
        self.gradient = gradient
        self.f, self.df = gradient.f, gradient.df
        self._wanted = frozenset((*gradient.output_vjps, *gradient.unreached))

    def forward(self, *inputs: Any) -> tuple[Any, ...]:
        """Return the real outputs of f.

        PyTorch differentiates f itself if df cannot be used: an input requires a gradient that df does not compute, or
        forward-mode differentiation or torch.func is active.
        """
        gradient = self.gradient
        wants = {i for i, value in enumerate(inputs) if _requires_grad(value)} if torch.is_grad_enabled() else frozenset[int]()
        if not wants <= self._wanted or _transformed():
            outputs = self._by_autograd(inputs)
        elif not wants.isdisjoint(gradient.output_vjps):
            outputs = cast(Any, _Subgraph).apply(gradient, *inputs)
        elif wants and not gradient.differentiable:  # kernels and out= operators reject inputs that require grad
            outputs = _sequence(gradient.f(*map(_detached, inputs)))
        else:
            outputs = _sequence(gradient.f(*inputs))
        return outputs[: gradient.real_outputs]

    def _by_autograd(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self.gradient.differentiable:
            raise InputError(
                "a subgraph runs in kernels without derivatives, but an input requires a gradient that it was not compiled for,"
                " or derivatives are taken forward or by torch.func",
                hint="compile again where it is an input that requires a gradient now; for torch.func with"
                """ options={"target": None}, or use torch.compile(model, backend='fxc')""",
            )
        # copy inputs without a gradient: running statistics are written back while autograd has them saved
        return _sequence(self.gradient.f(*[_copied(value) for value in inputs]))


class _Subgraph(torch.autograd.Function):
    """The autograd node of a gradient. Returns all outputs of f, so that the second backward of a temporary reaches this node.

    If no output is saved for backward, an additional empty tensor is: it connects the results of backward to this node.
    """

    @staticmethod
    def forward(ctx: Any, gradient: Gradient, *inputs: Any) -> tuple[Any, ...]:
        with torch.enable_grad():  # a fused LSTM layer saves tensors for backward only with grad mode on
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
        if autocast.is_on():  # same autocast state as in forward, like torch.amp.custom_bwd
            with autocast.off():
                return _Subgraph.backward(ctx, *grads)
        gradient: Gradient = ctx.gradient
        vjps = [_in_order(grads[i], order) for i, order in zip(gradient.input_vjps, ctx.orders, strict=True)]
        # reading saved_tensors checks that none was written in place since forward
        pairs = zip(ctx.saved_tensors, ctx.others, strict=True)
        captured = [other if saved is None else saved for saved, other in pairs]
        found: list[torch.Tensor | None] = [None] * len(ctx.needs_input_grad)
        count = len(gradient.captured_inputs) + len(gradient.captured_outputs)
        args, link = [*vjps, *captured[:count]], captured[count:]
        del vjps, captured
        ctx.maybe_clear_saved_tensors()  # args has the only references now, unless the graph is retained
        obstacle = gradient.obstacle() if torch.is_grad_enabled() else None
        if obstacle is None:
            results = _derived(gradient, args)
        else:
            with torch.no_grad():
                results = _derived(gradient, list(args))
            results = cast(Any, _Once).apply(obstacle, results, *link, *args)
        if len(results) != len(gradient.output_vjps):
            raise InputError(f"a derivative returned {len(results)} gradients instead of {len(gradient.output_vjps)}")
        for i, result in zip(gradient.output_vjps, results, strict=True):
            if ctx.needs_input_grad[i + 1]:
                found[i + 1] = result
        return tuple(found)


def _derived(gradient: Gradient, args: list[Any]) -> tuple[Any, ...]:
    """Return the results of df. A boxed df empties its argument list, which frees memory early."""
    return _sequence(gradient.df(args) if getattr(gradient.df, "boxed", False) else gradient.df(*args))


def _sequence(returned: Any) -> tuple[Any, ...]:
    return tuple(cast(Sequence[Any], returned)) if isinstance(returned, (tuple, list)) else (returned,)


def _transformed() -> bool:
    """Whether torch.func or forward-mode differentiation is active; both trace operators, not custom autograd nodes."""
    return torch._C._are_functorch_transforms_active() or cast(Any, forward_ad)._current_level >= 0


def _copied(value: Any) -> Any:
    return value if not isinstance(value, torch.Tensor) or value.requires_grad else value.clone()


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def memory_order(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions sorted by stride, the largest first."""
    return tuple(sorted(range(len(sizes)), key=lambda i: (-strides[i], -sizes[i])))


def _memory_order(output: torch.Tensor) -> Order:
    """Return the dimension order of ``output`` if it is dense, without overlap; else None, row-major."""
    if output.layout is not torch.strided or output.is_contiguous():
        return None
    order = memory_order(output.shape, output.stride())
    return order if output.permute(order).is_contiguous() else None


def _in_order(grad: torch.Tensor | None, order: Order) -> torch.Tensor | None:
    """Convert ``grad`` to the layout that df takes. Gradients have any layout, such as zero strides for an expanded sum."""
    if grad is None or grad.layout is not torch.strided:
        return grad
    if order is None:
        return resolved(grad.contiguous())
    inverse = [order.index(i) for i in range(len(order))]
    return resolved(grad.permute(order).contiguous()).permute(inverse)


class _Once(torch.autograd.Function):
    """An autograd node from ``sources`` to ``results``, which they compute, that raises ``obstacle`` in its backward."""

    @staticmethod
    def forward(ctx: Any, obstacle: DerivativeError, results: tuple[Any, ...], *sources: Any) -> tuple[Any, ...]:
        ctx.obstacle = obstacle
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> None:
        error: DerivativeError = ctx.obstacle
        raise DerivativeError(error.message, op=error.op, place=error.place, hint=error.hint)


class HostSubgraph(torch.nn.Module):
    """``host`` as a module, behind a check of its arguments.

    ``module`` makes the graph for tensors that do not fit: other layouts, or fake tensors. ``used``: the positions of the
    arguments that ``signature`` describes; the others are ignored, and may be None. ``name``: of the module in the source
    program; empty for later compilations. ``boxed``: all arguments are in one list, which is emptied, so that each is released
    after its last use.
    """

    def __init__(
        self,
        host: HostProgram,
        signature: Signature,
        used: Sequence[int],
        module: Callable[[], torch.nn.Module],
        *,
        boxed: bool = False,
        name: str = "",
    ) -> None:
        super().__init__()
        self.host, self.signature, self.used, self.boxed, self.name = host, signature, tuple(used), boxed, name
        self._make, self._graph = module, list[torch.nn.Module]()
        self._fits = check(host, signature, self.used)

    @property
    def code(self) -> str:
        """The Python code that runs."""
        return self.host.source

    def __call__(self, *args: Any) -> Any:
        given = args[0] if self.boxed else args
        return self.host.main(*args) if self._fits(given) else self.graph()(*args)

    forward = __call__

    def graph(self) -> torch.nn.Module:
        """Return the equivalent graph, made on first use."""
        if not self._graph:
            self._graph.append(self._make())
        return self._graph[0]

    def __deepcopy__(self, memo: dict[int, Any]) -> HostSubgraph:
        return HostSubgraph(deepcopy(self.host, memo), self.signature, self.used, self._make, boxed=self.boxed, name=self.name)
