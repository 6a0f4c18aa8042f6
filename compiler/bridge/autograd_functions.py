"""Import of ``torch.autograd.Function``: as Dynamo's ``autograd_function_apply``, with a forward and a backward region."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._C import _TorchDispatchModeKey
from torch._higher_order_ops import utils
from torch._subclasses.functional_tensor import PythonFunctionalizeAPI, disable_functional_mode
from torch.autograd.graph import saved_tensors_hooks
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, track_tensor_tree
from torch.fx.passes import runtime_assert
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from fxc.bridge.values import is_sequence
from fxc.errors import InputError

NAME = "autograd_function_apply"
_utils: Any = utils
_ops: Any = torch._ops
_Base: Any = torch.autograd.function._SingleLevelFunction
_APPLY: Any = torch._C._FunctionBase.__dict__["apply"]


def apply(forward: Callable[..., Any], backward: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Return the results of ``forward(*args)``, without its saved values, with ``backward`` as their derivative.

    ``forward`` returns (results, saved). ``backward`` takes the gradients of the results and the saved values, and returns a
    gradient for each argument. A trace before dispatch records the call as one node, which retains the derivative.
    """
    functional = _ops._get_dispatch_mode_pre_dispatch(_TorchDispatchModeKey.FUNCTIONAL)
    if functional is not None:  # the inner traces begin and end within it
        inside: Any = PythonFunctionalizeAPI(functional, pre_dispatch=True)
        with disable_functional_mode():
            given = inside.unwrap_tensors(list(args))
            results: Any = apply(inside.functionalize(forward), inside.functionalize(backward), given, options)
        return inside.wrap_tensors(results)
    mode = _ops._get_dispatch_mode_pre_dispatch(_TorchDispatchModeKey.PROXY)
    if mode is None:
        return _applied(forward, backward, args, options)
    graphs = [_traced(forward, args)]
    with disable_proxy_modes_tracing():
        results, saved = forward(*args)
        example = _applied(forward, backward, args, options)
        gradients = [torch.zeros_like(result) for result in results]
    graphs.append(_traced(backward, [*gradients, *saved]))
    root, number = mode.tracer.root, 0
    while hasattr(root, f"fwd_body_{number}"):
        number += 1
    for name, graph in zip((f"fwd_body_{number}", f"bwd_body_{number}"), graphs, strict=True):
        root.register_module(name, graph)
    given = tree_map(mode.tracer.unwrap_proxy, (*graphs, *args))
    node = mode.tracer.create_proxy("call_function", torch.ops.higher_order.autograd_function_apply, given, dict(options))
    return track_tensor_tree(example, node, constant=None, tracer=mode.tracer)


def _traced(function: Callable[..., Any], args: Sequence[Any]) -> GraphModule:
    """Trace ``function``, without grad mode switches: autograd does not record inside an autograd.Function.

    After the trace PyTorch computes sizes of its fake tensors, which the outer trace would record.
    """
    insert = runtime_assert.insert_deferred_runtime_asserts

    def unrecorded(*args: Any) -> None:
        with disable_proxy_modes_tracing():
            insert(*args)

    with patch.object(runtime_assert, "insert_deferred_runtime_asserts", unrecorded):
        graph: GraphModule = _utils.reenter_make_fx(function)(*args)
    for node in list(graph.graph.nodes):
        if node.target is torch._C._set_grad_enabled:
            graph.graph.erase_node(node)
    graph.recompile()
    return graph


def _applied(forward: Callable[..., Any], backward: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    class Applied(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            results, ctx.saved = forward(*args)
            constant = set(options.get("non_differentiable_idx", ()))
            ctx.mark_non_differentiable(*(result for i, result in enumerate(results) if i in constant))
            return tuple(results)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            found = backward(*gradients, *ctx.saved)
            return tuple(found) if is_sequence(found) else found

    applied: Any = Applied
    return applied.apply(*args)


@contextmanager
def recorded() -> Generator[None, None, None]:
    """Record each call of a ``torch.autograd.Function`` as one node with forward and backward, in a trace before dispatch.

    PyTorch traces only the forward, which loses the derivative, if gradients are enabled. ``Function.apply`` itself stays,
    because users bind it, as ``scale = Scale.apply``; it calls the method of its base, which is replaced.
    """

    thread = threading.get_ident()  # modes before dispatch are those of all threads

    def call(cls: type[torch.autograd.Function], *args: Any, **kwargs: Any) -> Any:
        is_traced = threading.get_ident() == thread and not kwargs and torch.is_grad_enabled()
        if not is_traced or _ops._get_dispatch_mode_pre_dispatch(_TorchDispatchModeKey.PROXY) is None:
            return _APPLY.__get__(None, cls)(*args, **kwargs)
        return _Parts(cls, args).apply()

    enter = saved_tensors_hooks.__enter__

    def enter_unless_changed(hooks: saved_tensors_hooks) -> None:
        is_changed = not type(hooks).__module__.startswith("torch.") or type(hooks) is saved_tensors_hooks
        if is_changed and threading.get_ident() == thread:
            message = "a program has no saved_tensors_hooks, which may change what a backward reads"
            raise InputError(message, hint="enter them around the call of the compiled model, or compile without training")
        enter(hooks)

    with (
        patch.object(_Base, "apply", classmethod(call), create=True),
        patch.object(saved_tensors_hooks, "__enter__", enter_unless_changed),
    ):
        yield


class _Context:
    """The ``ctx`` argument of forward and backward."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.saved_tensors: tuple[Any, ...] = ()
        self.constant: tuple[Any, ...] = ()

    def save_for_backward(self, *values: Any) -> None:
        self.saved_tensors = values

    def save_for_forward(self, *values: Any) -> None:
        """Do nothing: programs have no derivatives in forward mode."""

    def mark_non_differentiable(self, *values: Any) -> None:
        self.constant = values

    def mark_dirty(self, *values: Any) -> None:
        message = "an autograd.Function that writes to its arguments cannot be captured with its derivative"
        raise InputError(message, hint="return a new tensor instead")

    def set_materialize_grads(self, value: bool) -> None:
        """Do nothing: gradients in the IR are always materialized."""


class _Parts:
    """One call of an autograd.Function: its forward and backward as functions of tensors only."""

    def __init__(self, cls: type[torch.autograd.Function], args: tuple[Any, ...]) -> None:
        self.cls, self.args = cls, args
        self.places = [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
        self.context = _Context(tuple(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args))
        self.is_single, self.constant = False, list[int]()
        self.spec, self.held = tree_flatten(())[1], list[tuple[Any, bool]]()

    def apply(self) -> Any:
        with disable_proxy_modes_tracing():
            self.forward(*(self.args[i] for i in self.places))
        options = {"non_differentiable_idx": self.constant, "saved_for_backward_idx": []}
        results = apply(self.forward, self.backward, [self.args[i] for i in self.places], options)
        return results[0] if self.is_single else results

    def forward(self, *tensors: torch.Tensor) -> tuple[tuple[Any, ...], list[Any]]:
        args = list(self.args)
        for i, tensor in zip(self.places, tensors, strict=True):
            args[i] = tensor
        context: Any = _Context(self.context.needs_input_grad)
        versions = [tensor._version for tensor in tensors]
        if self.cls.setup_context is torch.autograd.Function.setup_context:
            output = self.cls.forward(context, *args)
        else:
            output = self.cls.forward(*args)
            self.cls.setup_context(context, tuple(args), output)
        if versions != [tensor._version for tensor in tensors]:
            context.mark_dirty()
        self.is_single = not isinstance(output, (tuple, list))
        results = (output,) if self.is_single else tuple(output)
        self.constant = [i for i, result in enumerate(results) if any(result is value for value in context.constant)]
        context.constant = ()
        saved, self.spec = tree_flatten(vars(context))
        self.held = [(None, True) if isinstance(value, torch.Tensor) else (value, False) for value in saved]
        return results, [value for value in saved if isinstance(value, torch.Tensor)]

    def backward(self, *values: Any) -> tuple[Any, ...]:
        first = len(values) - sum(is_tensor for _, is_tensor in self.held)
        gradients, saved = values[:first], iter(values[first:])
        context: Any = _Context(self.context.needs_input_grad)
        context.__dict__.update(
            tree_unflatten([next(saved) if is_tensor else value for value, is_tensor in self.held], self.spec)
        )
        found = self.cls.backward(context, *gradients)
        found = found if is_sequence(found) else (found,)
        return tuple(found[i] for i in self.places)
