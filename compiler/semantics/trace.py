"""Traces a Python callable to an FX graph of ATen operators at fake inputs, before autograd decomposes it."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch._guards import tracing
from torch._subclasses.fake_tensor import DynamicOutputShapeException
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

from fxc.bridge.functional_rules import Rules
from fxc.bridge.tensors import FakeWorld
from fxc.errors import CaptureError, FxcError


def trace(
    run: Callable[..., Any], inputs: Sequence[Any], world: FakeWorld, what: str, rules: Rules | None = None
) -> GraphModule:
    """The graph of ``run(*inputs)``: pre-dispatch ATen, one placeholder an input. ``what`` names the call in errors.
    ``rules``: what is traced in the place of some operators.

    CaptureError where PyTorch cannot trace it, with the way out for control flow that depends on data.
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
    """``module``, in which sums and products of sizes have two operands: make_fx writes a size that it finds for the first time
    as one call of all that are in it, which ``operator.mul`` does not take."""
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
