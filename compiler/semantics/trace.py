"""Trace a Python callable to an FX graph of ATen operators at fake inputs, before autograd decomposes it."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import torch
from torch._guards import tracing
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    autograd_would_have_decomposed,
)
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

from fxc.bridge.functional_rules import Rules
from fxc.bridge.operators import is_overload
from fxc.bridge.static_world import IS_PLAIN, StaticWorld
from fxc.bridge.tensors import FakeWorld
from fxc.bridge.values import is_dict, is_sequence
from fxc.errors import CaptureError, FxcError


def trace(
    run: Callable[..., Any], inputs: Sequence[Any], world: FakeWorld, what: str, rules: Rules | None = None
) -> GraphModule:
    """Return the graph of ``run(*inputs)``: pre-dispatch ATen, with a placeholder for each input.

    ``what``: the name of the call in errors. ``rules``: replacements for operators. CaptureError if PyTorch cannot trace it,
    with a hint for data-dependent control flow.
    """
    mode = "symbolic" if world.is_symbolic else "fake"
    try:
        with warnings.catch_warnings(), preserve_node_meta(), tracing(None), world.active():  # as in ``record``
            warnings.simplefilter("ignore")
            return in_pairs(make_fx(run, rules, tracing_mode=mode, pre_dispatch=True, _allow_non_fake_inputs=True)(*inputs))
    except FxcError:
        raise
    except Exception as error:
        raise CaptureError(f"{what} cannot be traced: {first_line(error)}", hint=_hint(error)) from error


def in_pairs(module: GraphModule) -> GraphModule:
    """Split sums and products of sizes into binary operations.

    make_fx writes a size that it sees for the first time as one call with all its operands, which ``operator.mul`` rejects.
    """
    for node in [node for node in module.graph.nodes if node.target in (operator.add, operator.mul) and len(node.args) > 2]:
        with module.graph.inserting_before(node):
            first: Any = node.args[0]
            for other in node.args[1:-1]:
                pair = module.graph.call_function(node.target, (first, other))
                pair.meta["val"] = node.target(_value(first), _value(other))
                first = pair
        node.args = first, node.args[-1]
    module.recompile()
    return module


def _value(argument: Any) -> Any:
    return argument.meta["val"] if isinstance(argument, Node) else argument


def first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def _hint(error: BaseException) -> str | None:
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    if isinstance(error, GuardOnDataDependentSymNode) or "data-dependent" in str(error).lower():
        return (
            "the control flow depends on tensor values: use torch.cond or torch.where, or keep that part outside of the graph"
        )
    if isinstance(error, DynamicOutputShapeException):
        return "the output's size depends on tensor values: use an operator with a fixed size, such as torch.where"
    return None


# tracing of a callable to the ATen operators that it calls below autograd, like ``make_fx``


_LIFTS = (torch.ops.aten.lift_fresh.default, torch.ops.aten.lift_fresh_copy.default)
_ACCESSORS = (torch.ops.aten.size.default, torch.ops.aten.stride.default, torch.ops.aten.storage_offset.default)


class _NotRecorded(Exception):
    """The recorder does not support an operator or argument."""


def record(run: Callable[..., Any], fakes: Sequence[Any], world: FakeWorld, rules: Rules | None = None) -> GraphModule:
    """Return the graph of ``run(*fakes)``, with a placeholder for each fake. ``rules``: replacements for operators.

    Composite operators are replaced by their calls. Errors of PyTorch pass through.
    """
    with warnings.catch_warnings(), tracing(None), world.active():  # isolates from an enclosing Dynamo trace
        warnings.simplefilter("ignore")
        if not world.is_symbolic:
            try:
                return _Recorder(rules or {}).trace(run, fakes)
            except Exception:  # make_fx raises the error, if any
                if isinstance(world, StaticWorld):
                    raise
        mode = "symbolic" if world.is_symbolic else "fake"
        return _with_quotients(in_pairs(make_fx(run, rules, tracing_mode=mode, _allow_non_fake_inputs=True)(*fakes)))


def _with_quotients(module: GraphModule) -> GraphModule:
    """Divide numbers as the C++ code of PyTorch does: by 0 the quotient is infinite or NaN, and Python would raise."""
    for node in [node for node in module.graph.nodes if node.target is operator.truediv]:
        are_sizes = all(isinstance(_value(argument), (int, torch.SymInt)) for argument in node.args)
        node.target = torch.ops.aten.div.int if are_sizes else torch.ops.aten.div.float
    module.recompile()
    return module


def current_graph() -> Graph:
    """Return the graph of the current trace."""
    for mode in reversed(_get_current_dispatch_mode_stack()):
        if isinstance(mode, _Recorder):
            return mode.graph
    proxy: Any = get_proxy_mode()
    assert proxy is not None
    return proxy.tracer.graph


class _Recorder(TorchDispatchMode):
    """Records operators. ``nodes`` has weak references to tensors: PyTorch copies new tensors that have other references."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self.rules, self.graph = rules, Graph()
        self.nodes: MutableMapping[torch.Tensor, Node] = WeakTensorKeyDictionary()

    def trace(self, run: Callable[..., Any], fakes: Sequence[Any]) -> GraphModule:
        for place, fake in enumerate(fakes):
            self._track(self.graph.placeholder(f"arg{place}_1"), fake)
        with self:
            results = run(*fakes)
        self.graph.output(self._arguments(results))
        return GraphModule(torch.nn.Module(), self.graph)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return not IS_PLAIN

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        if not is_overload(func) or torch.Tag.data_dependent_output in func.tags or func in _LIFTS:
            raise _NotRecorded
        if func in self.rules:
            with self:
                result = self.rules[func](*args, **kwargs)
            if result is not NotImplemented:
                return result
        if func not in _ACCESSORS and autograd_would_have_decomposed(func, tree_leaves((args, kwargs))):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        name = self.graph._target_to_str(func.overloadpacket.__name__)
        node = self.graph.create_node("call_function", func, self._arguments(args), self._arguments(kwargs), name)
        result = func(*args, **kwargs)
        self._track(node, result)
        return result

    def _track(self, node: Node, value: Any) -> None:
        """Map ``value`` to ``node``, and its elements to ``getitem`` nodes."""
        node.meta["val"] = tree_map_only(torch.Tensor, torch.Tensor.detach, value)
        if isinstance(value, torch.Tensor):
            if type(value) is not FakeTensor:
                raise _NotRecorded
            self.nodes[value] = node
        elif is_sequence(value):
            for place, element in enumerate(value):
                self._track(self.graph.call_function(operator.getitem, (node, place)), element)
        elif value is not None and node.op != "placeholder":
            raise _NotRecorded

    def _arguments(self, value: Any) -> Any:
        """Return ``value`` with nodes instead of tensors."""
        if isinstance(value, torch.Tensor):
            if (node := self.nodes.get(value)) is None:
                raise _NotRecorded
            return node
        if is_sequence(value):
            nodes = map(self._arguments, value)
            return list(nodes) if type(value) is list else tuple(nodes)
        if is_dict(value):
            return {name: self._arguments(each) for name, each in value.items()}
        return value
