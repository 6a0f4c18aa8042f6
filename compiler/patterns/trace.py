"""Trace a Python function to a block of operations, for patterns: to ATen at operand types, or to calls by symbolic_trace.

Snippets have no mutation: the new values of written parameters are outputs, or dropped where only the results count.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
import torch.overrides
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.bridge.import_nodes import GraphImporter
from fxc.bridge.tensors import FakeWorld, type_of
from fxc.dialects.attributes.types import (
    SYMBOLS,
    FloatType,
    IntType,
    device,
    dtype_name,
    is_tensor,
    layout,
    sizes,
    strides,
    tensor_type,
)
from fxc.dialects.attributes.values import leaves, map_tree, scalar_attr, scalar_of, str_attr
from fxc.dialects.base.effects import has_side_effect, writes
from fxc.dialects.equations import COMPOSITE, Snippet, body_of, function_of, needed_operations, snippet_of
from fxc.dialects.text.call import CallOp
from fxc.dialects.text.diagnostics import one_line
from fxc.errors import CaptureError, FxcError
from fxc.passes.analysis.written_arguments import MUTATES
from fxc.passes.normalize.functionalize import FunctionalizePass
from fxc.passes.rewriting.unpacking import unpack_tuples
from fxc.program.program import new_context
from fxc.semantics.snippets import of_values, trace_values
from fxc.semantics.trace import first_line

PythonFunction = Callable[..., Any]


def parameter_count(function: PythonFunction) -> int:
    """Return the number of parameters of ``function`` without a default. CaptureError if that is not fixed."""
    return sum(parameter.default is parameter.empty for parameter in parameters_of(function))


def parameters_of(function: PythonFunction) -> list[inspect.Parameter]:
    """Return the parameters of ``function``. CaptureError if their number is not fixed."""
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


def trace_at_inputs(
    function: PythonFunction,
    values: Sequence[Any],
    what: str,
    level: str = COMPOSITE,
    needs: Sequence[bool] = (),
    where: str | None = None,
) -> Snippet:
    """Trace ``function`` to torch operations, at the numbers of ``values`` and fakes of its tensors, on ``where`` if given."""
    world = FakeWorld()
    return trace_values(function, [_fake(value, world, where) for value in values], world, what, level, needs)


def _fake(value: Any, world: FakeWorld, where: str | None) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    type = type_of(value)
    assert is_tensor(type)
    name = dtype_name(type.element_type)
    return world.fake(tensor_type(name, sizes(type), strides(type), where or device(type), layout(type)))


def with_numbers(
    trace: Callable[[Sequence[Any]], Snippet],
    inputs: Sequence[Any],
    what: str,
    *,
    needed: bool = True,
    computed: bool = True,
) -> Snippet:
    """``trace(inputs)``, in which each number of ``inputs`` is an argument of the block.

    A literal is the number if it differs in a trace at another number. CaptureError if the operations differ. ``needed``: a
    literal must be the number. ``computed``: other literals may differ, because they are computed from it.
    """
    snippet = trace(inputs)
    for i, number in enumerate(inputs):
        if isinstance(number, (int, float)):
            changed = other_number(number)
            other = trace([*inputs[:i], changed, *inputs[i + 1 :]])
            _insert_number(snippet, other, i, (number, changed), what, computed=computed)
            if needed and not snippet.block.args[min(i, len(snippet.block.args) - 1)].first_use:
                raise CaptureError(
                    f"parameter {i} of {what}, the number {number!r}, is no argument of an operation",
                    hint="a match must state it: pass it to an operator as it is",
                )
    return snippet


def other_number(number: Any) -> Any:
    """A number of the same type, near ``number``, and between 0 and 1 if ``number`` is."""
    if isinstance(number, bool):
        return not number
    if isinstance(number, int):
        return number + 1
    return number * 0.75 if number else 0.125


def _insert_number(
    snippet: Snippet, other: Snippet, position: int, pair: tuple[Any, Any], what: str, *, computed: bool
) -> None:
    """Replace the literals that are ``pair[0]`` in ``snippet``, and ``pair[1]`` in ``other``, by an argument of the block."""
    number, changed = pair
    ops, others = list(snippet.block.ops), list(other.block.ops)
    if [op.name for op in ops] != [op.name for op in others]:
        raise CaptureError(
            f"{what} has other operations where parameter {position} is {changed!r}", hint="make it a constant of the pattern"
        )
    kind = FloatType if isinstance(number, float) else IntType
    argument = snippet.block.insert_arg(kind(str_attr("")), min(position, len(snippet.block.args)))
    before, after = scalar_attr(number), scalar_attr(changed)
    for op, twin in zip(ops, others, strict=True):
        if isinstance(op, CallOp) and isinstance(twin, CallOp) and not op.regions:
            pairs = zip(leaves(op.trees()), leaves(twin.trees()), strict=True)
            differ = [a for a, b in pairs if isinstance(a, Attribute) and a != b and not (a == before and b == after)]
            if differ and not computed:
                message = f"{what} computes {scalar_of(differ[0])} from parameter {position}, the number {number!r}"
                raise CaptureError(message, op=one_line(op), hint="a file cannot state that: pass it as a parameter too")
            new = op.with_trees(*map_tree(op.trees(), partial(_parameter, leaves(twin.trees()), before, after, argument)))
            op.operands, op.properties = new.operands, new.properties
            new.drop_all_references()


def _parameter(
    second: Iterator[Any], before: Attribute | None, after: Attribute | None, argument: SSAValue, leaf: SSAValue | Attribute
) -> SSAValue | Attribute:
    """``argument`` where ``leaf`` is ``before``, and the next leaf of the other trace is ``after``; else ``leaf``."""
    changed = next(second) == after
    return argument if changed and leaf == before else leaf


def trace_symbolically(function: PythonFunction, what: str) -> Snippet:
    """Trace ``function`` to calls of Python functions, methods and modules, without types. A GraphModule stays as it is."""
    graph = function
    if not isinstance(graph, torch.fx.GraphModule):
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
    block = importer.block(graph, list(graph.graph.nodes), "", None)
    names = ("operators", "modules", "tensors", "state", "live")
    return of_values(snippet_of(block, **{name: getattr(importer, name) for name in names}), what)


def _without_defaults(function: PythonFunction) -> PythonFunction:
    """Return a function of the parameters without default, which symbolic_trace accepts."""
    if isinstance(function, torch.nn.Module):
        return function
    if inspect.isfunction(function) and all(p.default is p.empty for p in parameters_of(function)):
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


def as_module(snippet: Snippet, symbols: DictionaryAttr | None) -> ModuleOp:
    """A module with the operations of ``snippet``, which move into its only function."""
    declarations: list[Operation] = [each.clone() for each in snippet.operators.values()]
    return ModuleOp([*declarations, function_of(snippet)], {} if symbols is None else {SYMBOLS: symbols})


def functional(snippet: Snippet, symbols: DictionaryAttr | None) -> tuple[Snippet, dict[int, int]]:
    """``snippet`` without mutation, and parameter -> output with its new value. CaptureError if a write remains."""
    if not any(writes(op) for op in snippet.block.ops):
        return snippet, {}
    module = as_module(snippet, symbols)
    try:
        FunctionalizePass().apply(new_context(), module)
    except FxcError as error:
        raise CaptureError(f"its writes cannot be removed: {error.message}", hint=error.hint) from error
    unpack_tuples(module)
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    marks = [each.data.get(MUTATES) for each in function.res_attrs or ()]
    found = body_of(function)
    new = {mark.value.data: place for place, mark in enumerate(marks) if isinstance(mark, IntegerAttr)}
    return replace(snippet, block=found.block, outputs=found.outputs), new


def with_written(snippet: Snippet, new: dict[int, int], kept: Collection[int]) -> Snippet:
    """``snippet`` that returns its results and the new values of ``kept``, without operations that compute nothing else."""
    results = [value for place, value in enumerate(snippet.outputs) if place not in new.values()]
    changed = replace(snippet, outputs=[*results, *(snippet.outputs[new[i]] for i in sorted(kept))])
    return without_dead(changed)


def without_dead(snippet: Snippet) -> Snippet:
    """``snippet`` without operations that compute nothing that it returns, and have no effect."""
    needed = needed_operations(snippet)
    for op in reversed(list(snippet.block.ops)):
        if (
            op not in needed
            and not has_side_effect(op)
            and not writes(op)
            and not any(result.first_use for result in op.results)
        ):
            snippet.block.erase_op(op)
    return snippet
