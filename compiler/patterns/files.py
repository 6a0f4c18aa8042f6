"""Patterns as IR text: the functions traced at symbolic sizes, for files that ``apply-patterns`` reads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from fxc.bridge.tensors import type_of
from fxc.bridge.values import attribute_of
from fxc.dialects.attributes.types import SYMBOLS, device, dtype_name, is_tensor, layout, tensor_type
from fxc.dialects.attributes.values import int_attr
from fxc.dialects.equations import JOINT, OPERATORS, Snippet, function_of
from fxc.errors import CaptureError
from fxc.passes.patterns.traced.files import EXCLUSIVE, KEEPS_GRADIENTS, LEVEL, REPLACEMENT, SEARCH
from fxc.passes.rewriting.unpacking import unpack_tuples
from fxc.patterns.equation import PythonEquation, checked, differentiable_results, same_count
from fxc.patterns.trace import PythonFunction, with_numbers
from fxc.semantics.snippets import trace_at


def pattern_module(equation: PythonEquation) -> ModuleOp:
    """A module with ``@search`` and ``@replacement`` of ``equation``, or with such a module for each level and example."""
    if equation.check is not None:
        raise CaptureError(f"the pattern {equation.name} has a check, which a file cannot hold")
    modules = dict[tuple[str, ...], ModuleOp]()
    for level in equation.levels:
        for inputs in equation.examples:
            module = _module(equation, level, inputs)
            modules.setdefault(tuple(op.name for op in module.walk()), module)
    if len(modules) == 1:
        return next(iter(modules.values()))
    for place, each in enumerate(modules.values()):
        each.properties["sym_name"] = StringAttr(equation.name if place == 0 else f"{equation.name}_{place}")
    return ModuleOp(list(modules.values()))


def _module(equation: PythonEquation, level: str, inputs: Sequence[Any]) -> ModuleOp:
    """``@search`` and ``@replacement`` at ``level``, at the dtypes and ranks of ``inputs``, at symbolic sizes."""
    facts = dict[str, Attribute]()
    types = [_symbolic(value, facts) if isinstance(value, torch.Tensor) else value for value in inputs]
    symbols = DictionaryAttr(facts)
    tangents = list[Attribute]()
    if level == JOINT:
        forward = trace_at(equation.search, list(map(_argument, types)), symbols, "the pattern", OPERATORS)
        results = differentiable_results(equation.search, inputs, equation.needs)
        tangents = [forward.outputs[i].type for i in results]

    def at(function: PythonFunction, values: Sequence[Any]) -> Snippet:
        return equation.at([*map(_argument, values), *tangents], level, symbols, function)

    search = checked(with_numbers(partial(at, equation.search), types, "the pattern", computed=False))
    replacement = with_numbers(partial(at, equation.replace), types, "the replacement", needed=False, computed=False)
    same_count(search, replacement)
    declared = {**search.operators, **replacement.operators}
    declarations: list[Operation] = [each.clone() for each in declared.values()]
    functions = [_function(SEARCH, search, equation.exclusive), _function(REPLACEMENT, replacement, ())]
    marks = {KEEPS_GRADIENTS: UnitAttr()} if equation.keeps_gradients else {}
    module = ModuleOp([*declarations, *functions], {LEVEL: StringAttr(level), **marks, SYMBOLS: symbols})
    unpack_tuples(module)
    return module


def _argument(value: Any) -> Attribute:
    return value if isinstance(value, Attribute) else attribute_of(value)


def _symbolic(value: torch.Tensor, facts: dict[str, Attribute]) -> Attribute:
    """The type of ``value`` with a symbol for each size but 0 and 1, the same for equal sizes; ``facts`` gets the symbols."""
    type = type_of(value)
    assert is_tensor(type)
    known = {fact: name for name, fact in facts.items()}
    dims = list[int | str]()
    for size in value.shape:
        fact = DictionaryAttr({"hint": int_attr(size), "min": int_attr(2)})
        if size > 1 and fact not in known:
            known[fact] = f"s{len(known)}"
            facts[known[fact]] = fact
        dims.append(known[fact] if size > 1 else size)
    return tensor_type(dtype_name(type.element_type), tuple(dims), None, device(type), layout(type))


def _function(name: str, snippet: Snippet, exclusive: Sequence[int]) -> FuncOp:
    for argument in snippet.block.args:
        argument._name = f"arg{argument.index}"
    function = function_of(snippet, name)
    if exclusive:
        marks = [DictionaryAttr({EXCLUSIVE: UnitAttr()} if i in exclusive else {}) for i in range(len(function.args))]
        function.properties["arg_attrs"] = ArrayAttr(marks)
    return function
