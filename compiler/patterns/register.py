"""``fxc.register_pattern`` and ``fxc.trace_pattern``: patterns that every compilation applies, from two Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from fxc.bridge.tensors import type_of
from fxc.bridge.values import attribute_of
from fxc.dialects.attributes.types import SYMBOLS, device, dtype_name, is_tensor, layout, tensor_type
from fxc.dialects.attributes.values import int_attr
from fxc.dialects.equations import COMPOSITE, JOINT, OPERATORS, Snippet, function_of
from fxc.dialects.text.syntax import print_module
from fxc.driver.runner import verify_module
from fxc.errors import WRITE_ELSEWHERE, CaptureError, InputError, nearest
from fxc.passes.patterns.traced.files import EXCLUSIVE, KEEPS_GRADIENTS, LEVEL, REPLACEMENT, SEARCH
from fxc.passes.rewriting.unpacking import unpack_tuples
from fxc.patterns import registry
from fxc.patterns.equation import (
    Candidate,
    PythonEquation,
    checked,
    differentiable_results,
    examples_of,
    same_count,
    same_parameters,
)
from fxc.patterns.trace import (
    PythonFunction,
    as_module,
    functional,
    name_of,
    parameters_of,
    trace_at_inputs,
    with_numbers,
    with_written,
    without_dead,
)
from fxc.patterns.try_out import try_out as compare
from fxc.program.program import Program
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


@dataclass(frozen=True)
class RegisteredPattern:
    """A registered pattern. ``remove()`` ends the registration, as the end of a ``with`` block does. ``name``: in remarks."""

    equation: PythonEquation

    @property
    def name(self) -> str:
        return self.equation.name

    def remove(self) -> None:
        """Apply the pattern in no later compilation. Compiled programs stay as they are."""
        registry.remove(self.equation)

    def save(self, path: str | Path) -> None:
        """Write the pattern to the IR file ``path``, which ``fxc-opt -p 'apply-patterns{files=PATH}'`` applies.

        The file matches the dtypes, ranks and devices of the example, at sizes that are equal where those of the example are;
        sizes 0 and 1 stay. CaptureError for a pattern with a check, and for one that is another one at other sizes; InputError
        where ``path`` cannot be written.
        """
        try:
            Path(path).write_text(print_module(pattern_module(self.equation)), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}", hint=WRITE_ELSEWHERE) from error

    def __enter__(self) -> RegisteredPattern:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()


def register_pattern(
    search: PythonFunction,
    replace: PythonFunction,
    example_inputs: Sequence[Any] | None = None,
    *,
    name: str | None = None,
    training: bool = False,
    exclusive: Sequence[str] = (),
    check: Callable[[Candidate], object] | None = None,
    try_out: bool = True,
    same_strides: bool = True,
    special_values: bool = True,
    same_gradients: bool | None = None,
) -> RegisteredPattern:
    """Replace what ``search`` computes by ``replace`` in all later compilations, wherever it is found exactly.

    Both are functions of tensors and numbers with the same parameters and results. ``example_inputs`` are inputs of ``search``
    in a rank that it should match, at which its structure is traced. A number among them is a parameter too: it matches a
    literal of its type, and ``replace`` gets that literal. All other literals, dtypes and arguments must be equal; operands of
    sums and products may be exchanged. Both are traced again at the types of each match, and a match is replaced if the results
    have the same dtype, sizes and device. New values of parameters that only ``search`` writes must be unused.

    ``training``: match the forward together with the whole backward, in joint graphs; gradients are those of the examples that
    require them. ``exclusive``: parameters that must be distinct values. ``check(match)``: whether to replace a match;
    ``match.arguments`` has a fake tensor or number for each parameter. ``try_out``: first call both with random inputs of
    other sizes, strides and dtypes, and compare. ``same_strides``: results must also have equal strides there; if not, results
    of a match are copied where their strides matter. ``special_values``: they must be equal also where an element is NaN or 0.
    ``same_gradients``: whether autograd gets the same gradients of both; only then the pattern applies before autograd in
    training. By default as found by ``try_out``, and False without. ``name``: in remarks and errors; by default
    that of ``search``.

    CaptureError, with the inputs, if they differ, and if a function cannot be traced or matched; InputError for a name or a
    pattern that is registered already.
    """
    names = [each.name for each in parameters_of(search)][: same_parameters(search, replace)]
    if example_inputs is not None and len(example_inputs) != len(names):
        raise InputError(f"the pattern takes {len(names)} parameters, but there are {len(example_inputs)} example inputs")
    for each in exclusive:
        if each not in names:
            raise InputError(f"the pattern has no parameter {each!r}", hint=nearest(each, names))
    examples = examples_of(search) if example_inputs is None else [example_inputs]
    needs = [isinstance(value, torch.Tensor) and value.requires_grad for value in examples[0]] if training else ()
    if training and not any(needs):
        raise InputError("no example input requires a gradient", hint="call requires_grad_() on those that have one")
    equation = PythonEquation(
        name or name_of(search),
        search,
        replace,
        examples,
        names,
        levels=(JOINT,) if training else (COMPOSITE, OPERATORS),
        exclusive=[names.index(each) for each in exclusive],
        check=check,
        needs=needs,
        is_functional=True,
    )
    if try_out:
        equal = {"same_strides": same_strides, "special_values": special_values}
        found = [compare(search, replace, inputs, needs, **equal) for inputs in examples]
        same_gradients = all(found) if same_gradients is None else same_gradients
    equation.keeps_gradients = bool(same_gradients)
    key = _texts(equation), check
    if (known := registry.add(equation, key)) is not None:
        problem = "has this name" if known == equation.name else "is equal"
        raise InputError(f"the registered pattern {known} {problem}", hint="remove it, or pass name=")
    return RegisteredPattern(equation)


def _texts(equation: PythonEquation) -> list[str]:
    """The structures and replacements, as a key. CaptureError if they cannot be matched."""
    found = list[str]()
    for structure in equation.structures():
        inputs = equation.examples[0]
        replacement = equation.example(inputs, structure.level, equation.replace, "the replacement", needed=False)
        if len(equation.examples) == 1:
            same_count(structure, replacement)
        found += ["\n".join(map(str, each.block.ops)) for each in (structure, replacement)]
    return found


def trace_pattern(function: PythonFunction, example_inputs: Sequence[Any], *, device: str | None = None) -> Program:
    """The operations of ``function`` as a program, in the form in which a pattern is searched.

    It is traced to ATen before autograd, at fake inputs like ``example_inputs``, on ``device`` if given. Dead operations are
    removed, then write-backs to parameters (of running statistics), then what only they needed. A number is an argument of
    the program. CaptureError if it cannot be traced.
    """

    def at(values: Sequence[Any]) -> Snippet:
        snippet, new = functional(without_dead(trace_at_inputs(function, values, what, where=device)), None)
        return with_written(snippet, new, ())

    what = name_of(function)
    program = Program(as_module(with_numbers(at, example_inputs, what, needed=False), None))
    verify_module(program.module)
    return program
