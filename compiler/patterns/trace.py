"""Trace a Python function to a block of operations, for patterns: to ATen at operand types, or to calls by symbolic_trace."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.overrides
from torch.fx import GraphModule
from torch.utils._pytree import tree_flatten
from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, Block, SSAValue

from fxc.bridge.import_nodes import GraphImporter
from fxc.bridge.tensors import FakeWorld
from fxc.dialects.attributes.values import leaves
from fxc.dialects.fx import OutputOp, TensorDeclOp
from fxc.dialects.semantics import CannotInfer
from fxc.dialects.torch_ops import OperatorDeclOp
from fxc.errors import CaptureError
from fxc.semantics.any_sizes import traced_for_any_sizes
from fxc.semantics.trace import first_line, trace

PythonFunction = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Snippet:
    """The operations of a function: ``block`` has no terminator; ``outputs`` are the results, flat.

    The other fields have what the operations refer to: operators missing in the table, submodules, tensors, and live objects.
    """

    block: Block
    outputs: list[SSAValue]
    operators: dict[str, OperatorDeclOp] = field(default_factory=dict[str, OperatorDeclOp], compare=False)
    modules: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)
    tensors: dict[str, TensorDeclOp] = field(default_factory=dict[str, TensorDeclOp], compare=False)
    state: dict[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor], compare=False)
    live: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)


def parameter_count(function: PythonFunction) -> int:
    """Return the number of parameters of ``function`` without a default. CaptureError if that is not fixed."""
    return sum(parameter.default is parameter.empty for parameter in _parameters(function))


def _parameters(function: PythonFunction) -> list[inspect.Parameter]:
    called = function.forward if isinstance(function, torch.nn.Module) else function
    overrides = cast(Any, torch.overrides).get_testing_overrides()  # the only source of signatures of functions in C
    try:
        parameters = list(inspect.signature(overrides.get(called, called)).parameters.values())
    except (TypeError, ValueError) as error:
        raise CaptureError(f"{name_of(function)} has no signature", hint="wrap it: lambda x: ...") from error
    for parameter in parameters:
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if variadic or (parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty):
            raise CaptureError(f"{name_of(function)} takes {parameter}", hint="use plain positional parameters")
    return parameters


def name_of(function: PythonFunction) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def trace_at_types(function: PythonFunction, types: Sequence[Attribute], symbols: DictionaryAttr | None, what: str) -> Snippet:
    """Trace ``function`` at ``types``, to torch operations in the symbols of the module."""

    def at(world: FakeWorld) -> Snippet:
        return _traced(function, [world.fake(type) for type in types], world, what)

    try:
        return traced_for_any_sizes(at, FakeWorld(symbols), symbols)
    except CannotInfer as error:
        raise CaptureError(f"{what} is another one at other sizes: {error}", hint="compute without asking for sizes") from error


def trace_at_inputs(function: PythonFunction, inputs: Sequence[Any], what: str) -> Snippet:
    """Trace ``function`` at tensors like ``inputs``, to torch operations."""
    world = FakeWorld()
    fakes = [world.mode.from_tensor(value) if isinstance(value, torch.Tensor) else value for value in inputs]
    return _traced(function, fakes, world, what)


def trace_at_ranks(function: PythonFunction, ranks: Sequence[int], what: str) -> Snippet:
    """Trace ``function`` at float32 tensors of these ranks, with all sizes 4, without logging errors."""
    world = FakeWorld()
    with world.active():
        fakes = [torch.empty([4] * rank, dtype=torch.float32, device="cpu") for rank in ranks]
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        return _traced(function, fakes, world, what)
    finally:
        log.setLevel(level)


def _traced(function: PythonFunction, fakes: Sequence[Any], world: FakeWorld, what: str) -> Snippet:
    def run(*values: Any) -> list[Any]:
        outputs, _ = tree_flatten(function(*values))
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                raise CaptureError(f"{what} returns a {type(output).__name__}", hint="return tensors, and nestings of them")
        return outputs

    graph = trace(run, fakes, world, what)
    importer = GraphImporter(world.type_of, constants_inline=True)
    return _snippet(importer, graph)


def trace_symbolically(function: PythonFunction, what: str) -> Snippet:
    """Trace ``function`` to calls of Python functions, methods and modules, without types."""
    try:
        graph = torch.fx.symbolic_trace(_without_defaults(function))
    except Exception as error:
        raise CaptureError(f"{what} cannot be traced: {first_line(error)}", hint="see torch.fx.symbolic_trace") from error
    importer = GraphImporter()
    for name, parameter in graph.named_parameters():
        importer.declare_tensor(name, parameter, "parameter")
    persistent = graph.state_dict().keys()
    for name, buffer in graph.named_buffers():
        importer.declare_tensor(name, buffer, "buffer", persistent=name in persistent)
    return _snippet(importer, graph)


def _without_defaults(function: PythonFunction) -> PythonFunction:
    """Return a function of the parameters without default, which symbolic_trace accepts."""
    if isinstance(function, torch.nn.Module):
        return function
    if inspect.isfunction(function) and all(p.default is p.empty for p in _parameters(function)):
        return function
    f = function
    plain: list[PythonFunction] = [
        lambda: f(),
        lambda a: f(a),
        lambda a, b: f(a, b),
        lambda a, b, c: f(a, b, c),
        lambda a, b, c, d: f(a, b, c, d),
    ]
    count = parameter_count(function)
    if count >= len(plain):
        raise CaptureError(f"{name_of(function)} has defaults beside {count} parameters", hint="wrap it: lambda x: ...")
    return plain[count]


def _snippet(importer: GraphImporter, graph: GraphModule) -> Snippet:
    block = importer.block(graph, list(graph.graph.nodes), "", None)
    output = block.last_op
    assert isinstance(output, OutputOp)
    returned = list(leaves(output.trees()[0][0]))
    block.erase_op(output)
    values = [value for value in returned if isinstance(value, SSAValue)]
    if len(values) != len(returned):
        raise CaptureError("a pattern or replacement returns a constant", hint="return what it computes")
    return Snippet(block, values, importer.operators, importer.modules, importer.tensors, importer.state, importer.live)
