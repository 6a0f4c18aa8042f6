"""Functions as snippets: traced at given arguments before autograd, below it, or together with their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.functional_tensor import FunctionalTensorMode, dispatch_functionalize
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves
from xdsl.dialects.builtin import DictionaryAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue, TypeAttribute

from fxc.bridge.functional_rules import FUNCTIONAL
from fxc.bridge.import_nodes import GraphImporter
from fxc.bridge.tensors import FakeWorld, as_leaf
from fxc.bridge.values import value_of
from fxc.dialects.equations import COMPOSITE, JOINT, OPERATORS, Snippet, snippet_of
from fxc.dialects.semantics import CannotInfer
from fxc.errors import CaptureError, FxcError
from fxc.interpret.torch_level import ReferenceInterpreter
from fxc.semantics.any_sizes import traced_for_any_sizes
from fxc.semantics.trace import first_line, record, trace

_NO_OPERATIONS = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)


def trace_at(
    function: Callable[..., Any],
    arguments: Sequence[Attribute],
    symbols: DictionaryAttr | None,
    what: str,
    level: str = COMPOSITE,
    needs: Sequence[bool] = (),
) -> Snippet:
    """Trace ``function`` at ``arguments``: types of tensors, and literals, which are no arguments of the block.

    For ``JOINT`` the arguments are those of ``function``, of which those in ``needs`` require gradients, and the gradients of
    its results; the outputs are its results and the gradients of arguments. CaptureError if it cannot be traced, or is another
    one at other sizes.
    """

    def at(world: FakeWorld) -> Snippet:
        values = [world.fake(each) if isinstance(each, TypeAttribute) else value_of(each) for each in arguments]
        return trace_values(function, values, world, what, level, needs)

    try:
        return traced_for_any_sizes(at, FakeWorld(symbols), symbols)
    except CannotInfer as error:
        raise CaptureError(f"{what} is another one at other sizes: {error}", hint="compute without asking for sizes") from error


def trace_values(
    function: Callable[..., Any],
    values: Sequence[Any],
    world: FakeWorld,
    what: str,
    level: str = COMPOSITE,
    needs: Sequence[bool] = (),
) -> Snippet:
    """Trace ``function`` at fake tensors and numbers of ``world``."""
    places = [i for i, value in enumerate(values) if not isinstance(value, (bool, int, float))]

    def run(*tensors: Any) -> list[Any]:
        given = dict(zip(places, tensors, strict=True))
        return flat([given.get(i, value) for i, value in enumerate(values)])

    def flat(given: Sequence[Any]) -> list[Any]:
        if level == JOINT and needs:
            return _with_gradients(function, given, needs, what)
        return _flat(function(*given), what)

    fakes = [values[i] for i in places]
    if level == COMPOSITE:
        graph = trace(run, fakes, world, what)
    else:
        graph = _recorded(run, fakes, world, what)
    importer = GraphImporter(world.type_of, constants_inline=True)
    block = importer.block(graph, list(graph.graph.nodes), "", None)
    return of_values(snippet_of(block, level, operators=importer.operators), what)


def of_values(snippet: Snippet, what: str) -> Snippet:
    """``snippet``. CaptureError if an output is a constant."""
    outputs: list[Any] = list(snippet.outputs)
    if not all(isinstance(value, SSAValue) for value in outputs):
        raise CaptureError(f"{what} returns a constant", hint="return what it computes")
    return snippet


def _recorded(run: Callable[..., Any], fakes: Sequence[Any], world: FakeWorld, what: str) -> GraphModule:
    """The operators that ``run`` calls below autograd, without mutation."""
    try:
        with torch.no_grad(), enable_python_dispatcher():  # as AOTAutograd does
            graph = record(dispatch_functionalize(run, FunctionalTensorMode()), fakes, world, FUNCTIONAL)
    except FxcError:
        raise
    except Exception as error:
        raise CaptureError(f"{what} cannot be traced: {first_line(error)}") from error
    for node in list(graph.graph.nodes):
        if node.op == "call_function" and node.target in _NO_OPERATIONS:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    return graph


def _with_gradients(function: Callable[..., Any], given: Sequence[Any], needs: Sequence[bool], what: str) -> list[Any]:
    """The results of ``function``, and the gradients of the arguments in ``needs`` for the gradients after the arguments."""
    primals, tangents = given[: len(needs)], given[len(needs) :]
    own = [as_leaf(value.detach()) if need else value for value, need in zip(primals, needs, strict=True)]
    with torch.enable_grad():
        results = _flat(function(*own), what)
        differentiable = [result for result in results if result.requires_grad]
        if len(tangents) != len(differentiable):
            message = f"{what} has {len(differentiable)} differentiable results, but {len(tangents)} gradients of results"
            raise CaptureError(message)
        wanted = [value for value, need in zip(own, needs, strict=True) if need]
        gradients = cast(Sequence[Any], torch.autograd.grad(differentiable, wanted, tangents, allow_unused=True))
    return [*results, *(gradient for gradient in gradients if gradient is not None)]


def _flat(returned: Any, what: str) -> list[Any]:
    outputs = tree_leaves(returned)
    for output in outputs:
        if not isinstance(output, torch.Tensor):
            raise CaptureError(f"{what} returns a {type(output).__name__}", hint="return tensors, and nestings of them")
    return outputs


def retrace(function: FuncOp, level: str, arguments: Sequence[Attribute], symbols: DictionaryAttr | None) -> Snippet | None:
    """Trace the operations of ``function`` again, at other arguments; None if they do not accept them."""
    run = partial(_interpreted, function)
    try:
        return trace_at(run, arguments, symbols, f"@{function.sym_name.data}", COMPOSITE if level == COMPOSITE else OPERATORS)
    except FxcError:
        return None


def _interpreted(function: FuncOp, *values: Any) -> Any:
    return ReferenceInterpreter({}).call(function, values)
