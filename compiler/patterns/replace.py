"""Replace a pattern that is written as a Python function by another, like ``torch.fx.replace_pattern``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from xdsl.dialects.builtin import FunctionType, TupleType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from fxc.bridge.callables import resolve_function
from fxc.dialects.attributes.types import ValueType, is_tensor
from fxc.dialects.attributes.values import Tree, scalar_attr
from fxc.dialects.equations import Snippet
from fxc.dialects.fx import CallFunctionOp, CallMethodOp, CallModuleOp
from fxc.dialects.text.call import CallOp
from fxc.dialects.text.diagnostics import OpVerifyException, one_line, place_of
from fxc.driver.runner import verify_module
from fxc.errors import CaptureError, InputError, TargetError
from fxc.passes.analysis.memory import scopes
from fxc.passes.analysis.stride_changes import only_strides_differ, settle_strides
from fxc.passes.patterns.traced.engine import Site, TracedPattern, TwoStagePattern
from fxc.passes.patterns.traced.matching import Misses, PatternMatch, bindings
from fxc.passes.rewriting.patterns import PatternRewriter
from fxc.patterns.equation import PythonEquation, checked, examples_of, is_in_place, same_count, same_parameters
from fxc.patterns.trace import PythonFunction, name_of, trace_symbolically
from fxc.program.program import Program, require_program


class CallMatch(PatternMatch):
    """A match of calls of Python functions."""

    def arguments(self, op: CallOp) -> Mapping[str | int, Tree]:
        if not isinstance(op, CallFunctionOp):
            return super().arguments(op)
        args, kwargs = op.trees()
        names = list(_python_parameters(op.call_target() or ""))
        positions: list[str | int] = [*names[: len(args)], *range(len(names), len(args))]
        return {**dict(zip(positions, args, strict=True)), **kwargs}

    def is_default(self, op: CallOp, name: str | int, tree: Tree) -> bool:
        if not isinstance(op, CallFunctionOp):
            return super().is_default(op, name, tree)
        defaults = _python_parameters(op.call_target() or "")
        return isinstance(tree, Attribute) and name in defaults and scalar_attr(defaults[str(name)]) == tree


@cache
def _python_parameters(target: str) -> Mapping[str, Any]:
    """Return parameter -> default (``Parameter.empty`` for none) of a Python function; empty without a plain signature."""
    try:
        parameters = inspect.signature(resolve_function(target)).parameters.values()
    except (TargetError, TypeError, ValueError):  # implemented in C, or a function of this process
        return {}
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return {}
    return {p.name: p.default for p in parameters}


@dataclass(frozen=True)
class Match:
    """One match: the names of its operation results, the values of the parameters, and the user's source line.

    ``nodes_map``: name of a result in the traced pattern -> in the program. ``replacements``: the names of the new results.
    ``ops``: the operations, in program order, for ``match_filters`` and ``replacement_callback``; they are erased afterwards.
    """

    replaced: tuple[str, ...]
    arguments: tuple[str, ...]
    place: str | None
    nodes_map: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    ops: tuple[Operation, ...] = field(default=(), compare=False, repr=False)
    replacements: tuple[str, ...] = ()


@dataclass
class Rewritten(Program):
    """The result of ``replace_pattern``: a program, and ``matches``, one for each replacement, in program order."""

    matches: list[Match] = field(default_factory=list[Match])


FxPattern = PythonFunction | Graph
"""A function, module, GraphModule or Graph."""


@dataclass(frozen=True)
class _Rules:
    """The conditions of ``replace_pattern`` on matches, and the replacement that depends on the match."""

    filters: Sequence[Callable[[Match], object]]
    ignore_literals: bool
    callback: Callable[[Match], FxPattern] | None


def replace_pattern(
    program: Program,
    pattern: FxPattern,
    replacement: FxPattern | None = None,
    *,
    example_inputs: Sequence[Any] | None = None,
    match_filters: Sequence[Callable[[Match], object]] = (),
    ignore_literals: bool = False,
    replacement_callback: Callable[[Match], FxPattern] | None = None,
) -> Rewritten:
    """Return a new program with each match of ``pattern`` replaced by ``replacement``; ``result.matches`` lists the matches.

    Both are Python functions over tensors, modules, or FX graphs, with the same number of parameters and results. A parameter
    matches any value, but the same value at all uses; operators, constants and attributes must be equal, constants only without
    ``ignore_literals``. Inner operations of a match must have no uses outside of it, no write may occur between its operations,
    and an operation is part of one match only: the first in program order. A match is replaced where all ``match_filters``
    return true for it. ``replacement_callback`` returns the replacement of a match, in place of ``replacement``.

    On the torch level (``fxc.capture``) both are traced to operators at the operand types of each match. The replacement must
    return the same dtypes and shapes; different strides are propagated to later operations. ``example_inputs`` are tensors that
    the pattern accepts, needed if it does not accept tensors of equal sizes. On the fx level (``route="symbolic_trace"`` or
    ``"dynamo"``) both are traced with ``torch.fx.symbolic_trace``, so that calls match calls, and shapes are not checked. The
    entry function and its regions are searched. CaptureError if pattern or replacement cannot be traced, or do not fit;
    InputError if ``program`` is not a program.
    """
    require_program(program, "replace_pattern")
    if (replacement is None) == (replacement_callback is None):
        raise InputError("a pattern needs a replacement", hint="pass either replacement or replacement_callback")
    search = _function(pattern)
    new = search if replacement is None else _function(replacement)
    same_parameters(search, new)
    copy, rules = program.copy(), _Rules(match_filters, ignore_literals, replacement_callback)
    result = Rewritten(copy.module, copy.state, copy.live, copy.context)
    if any(map(_is_untraced, result.main.walk())):
        traced: TracedPattern = _FxPattern(result, rules, search, new)
    else:
        examples = examples_of(search) if example_inputs is None else [example_inputs]
        traced = _TorchPattern(result, rules, PythonEquation(name_of(search), search, new, examples))
    dispatch = traced.dispatch()
    for scope in (result.main, *scopes(result.main)):
        PatternRewriter(scope, dispatch).run()
    # Update the signature, as types of returned values may have changed.
    function = result.main
    terminator = function.body.block.last_op
    assert terminator is not None
    types = [argument.type for argument in function.args], terminator.operand_types
    function.properties["function_type"] = FunctionType.from_lists(*types)
    verify_module(result.module)
    return result


def _function(pattern: FxPattern) -> PythonFunction:
    return GraphModule(torch.nn.Module(), pattern) if isinstance(pattern, Graph) else pattern


def _is_untraced(op: Operation) -> bool:
    """Whether ``op`` is a captured call on tensors. Size arithmetic and ``getitem`` also occur on the torch level."""
    if not isinstance(op, (CallFunctionOp, CallMethodOp, CallModuleOp)):
        return False
    types = [value.type for value in (*op.operands, *op.results)]
    return any(isinstance(t, ValueType) for t in types) or (
        any(is_tensor(t) for t in types) and not any(isinstance(t, TupleType) for t in types)
    )


class _UserPattern(TracedPattern):
    """A pattern with the rules of the user."""

    program: Rewritten
    rules: _Rules
    match: Match

    def obstacle(self, pattern: Snippet, site: Site, rewriter: PatternRewriter) -> tuple[str | None, Operation | None]:
        reason = super().obstacle(pattern, site, rewriter)
        if reason[0] is None:
            pairs = site.found.values.items()
            names = {_name(a): _name(b) for a, b in pairs if isinstance(b, OpResult) and isinstance(a, OpResult)}
            results = tuple(map(_name, _results(site.ops)))
            self.match = Match(results, tuple(map(_name, site.values)), place_of(site.ops[-1]), names, tuple(site.ops))
            if not all(accepts(self.match) for accepts in self.rules.filters):
                return "a match filter rejects it", None
        return reason

    def called_back(self, search: PythonFunction) -> PythonFunction | None:
        """The replacement of the current match by the callback, if there is one."""
        if self.rules.callback is None:
            return None
        function = _function(self.rules.callback(self.match))
        same_parameters(search, function)
        return function

    def replace(self, site: Site, snippet: Snippet, rewriter: PatternRewriter) -> None:
        known = set(self.inserted)
        super().replace(site, snippet, rewriter)
        made = sorted(self.inserted - known, key=list(rewriter.scope.walk()).index)
        self.program.matches.append(replace(self.match, replacements=tuple(map(_name, _results(made)))))


class _FxPattern(_UserPattern):
    """A pattern of calls without types."""

    def __init__(self, program: Rewritten, rules: _Rules, pattern: PythonFunction, replacement: PythonFunction) -> None:
        super().__init__(program.module, program.context, name_of(pattern))
        self.program, self.rules, self.search = program, rules, pattern
        self.shapes = [checked(trace_symbolically(pattern, "the pattern"))]
        self.snippet = trace_symbolically(replacement, "the replacement")
        same_count(self.shapes[0], self.snippet)

    def new_match(self, misses: Misses | None) -> PatternMatch:
        return CallMatch(lambda each: each not in self.inserted, self.rules.ignore_literals, misses)

    def matches(self, root: Operation, binding: PatternMatch) -> Iterator[tuple[Snippet, PatternMatch]]:
        return ((self.shapes[0], found) for found in bindings(self.shapes[0], root, binding))

    def replacement(self, pattern: Snippet, values: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Snippet:
        function = self.called_back(self.search)
        if function is None:
            return self.snippet
        snippet = trace_symbolically(function, "the replacement")
        same_count(pattern, snippet)
        return snippet

    def writes(self, op: Operation, values: Sequence[SSAValue], rewriter: PatternRewriter) -> bool:
        return is_in_place(op)

    def may_alias(self, snippet: Snippet) -> bool:
        return False

    def declare(self, snippet: Snippet) -> None:
        super().declare(snippet)
        self.program.state = {**snippet.state, **self.program.state}
        for name, value in snippet.live.items():
            self.program.live.setdefault(name, value)


class _TorchPattern(_UserPattern, TwoStagePattern):
    """A pattern of operators. A replacement that does not fit is an error."""

    equation: PythonEquation

    def __init__(self, program: Rewritten, rules: _Rules, equation: PythonEquation) -> None:
        super().__init__(program.module, program.context, equation)
        self.program, self.rules = program, rules

    def new_match(self, misses: Misses | None) -> PatternMatch:
        match = super().new_match(misses)
        match.loose = self.rules.ignore_literals
        return match

    def replacement(self, pattern: Snippet, values: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Snippet | None:
        key = pattern.level, self.arguments
        function = self.called_back(self.equation.search)
        if function is not None or key not in self.replacements:
            equation = self.equation if function is None else replace(self.equation, replace=function)
            snippet = self.form(equation.replacement_at(*key, self.symbols))
            same_count(pattern, snippet)
            self.replacements[key] = snippet
        return super().replacement(pattern, values, outputs)

    def fits(self, old: SSAValue, new: Attribute) -> bool:
        if only_strides_differ(old.type, new):
            return True
        raise CaptureError(
            f"the replacement returns {new}, but the pattern returns {old.type}",
            op=one_line(old.owner) if isinstance(old.owner, Operation) else None,
            place=place_of(old.owner) if isinstance(old.owner, Operation) else None,
            hint="dtype and shape must stay: end the replacement with .to(x.dtype) or .reshape(...)",
        )

    def shares_otherwise(self, pattern: Snippet, snippet: Snippet, output: int) -> bool:
        return False

    def settle(self, value: SSAValue, old: Attribute) -> None:
        try:
            settle_strides(value, old, self.context, returned=True)
        except OpVerifyException as error:
            hint = "end the replacement in an operation that returns the strides of the pattern, such as .contiguous()"
            raise CaptureError(str(error), op=one_line(error.op), place=place_of(error.op), hint=hint) from error


def _results(ops: Iterable[Operation]) -> list[SSAValue]:
    return [result for op in ops for result in op.results]


def _name(value: SSAValue) -> str:
    return value._name or f"#{value.index}"  # type: ignore[attr-defined]
