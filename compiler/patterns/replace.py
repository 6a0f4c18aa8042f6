"""Replace a pattern that is written as a Python function by another, like ``torch.fx.replace_pattern``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import FunctionType, TupleType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.attributes.types import ValueType, is_tensor
from fxc.dialects.equations import Snippet
from fxc.dialects.fx import CallFunctionOp, CallMethodOp, CallModuleOp
from fxc.dialects.text.diagnostics import OpVerifyException, one_line, place_of
from fxc.driver.runner import verify_module
from fxc.errors import CaptureError
from fxc.passes.analysis.memory import scopes
from fxc.passes.analysis.stride_changes import only_strides_differ
from fxc.passes.patterns.traced.engine import TracedPattern, TwoStagePattern
from fxc.passes.patterns.traced.matching import Misses, PatternMatch, bindings
from fxc.passes.patterns.traced.stride_changes import settle_strides
from fxc.passes.rewriting.patterns import PatternRewriter
from fxc.patterns.calls import CallMatch
from fxc.patterns.equation import PythonEquation, checked, examples_of, is_in_place, same_count, same_parameters
from fxc.patterns.trace import PythonFunction, name_of, trace_symbolically
from fxc.program.program import Program, require_program


@dataclass(frozen=True)
class Match:
    """One match: the names of its operation results, the values of the parameters, and the user's source line."""

    replaced: tuple[str, ...]
    arguments: tuple[str, ...]
    place: str | None


@dataclass
class Rewritten(Program):
    """The result of ``replace_pattern``: a program, and ``matches``, one for each replacement, in program order."""

    matches: list[Match] = field(default_factory=list[Match])


def replace_pattern(
    program: Program,
    pattern: PythonFunction,
    replacement: PythonFunction,
    *,
    example_inputs: Sequence[Any] | None = None,
) -> Rewritten:
    """Return a new program with each match of ``pattern`` replaced by ``replacement``; ``result.matches`` lists the matches.

    Both are Python functions over tensors with the same number of parameters and of results. A parameter matches any value, but
    the same value at all uses; operators, constants and attributes must be equal. Inner operations of a match must have no uses
    outside of it, no write may occur between its operations, and an operation is part of one match only: the first in program
    order.

    On the torch level (``fxc.capture``) both are traced to operators at the operand types of each match. The replacement must
    return the same dtypes and shapes; different strides are propagated to later operations. ``example_inputs`` are tensors that
    the pattern accepts, needed if it does not accept tensors of equal sizes. On the fx level (``route="symbolic_trace"`` or
    ``"dynamo"``) both are traced with ``torch.fx.symbolic_trace``, so that calls match calls, and shapes are not checked. The
    entry function and its regions are searched. CaptureError if pattern or replacement cannot be traced, or do not fit;
    InputError if ``program`` is not a program.
    """
    require_program(program, "replace_pattern")
    same_parameters(pattern, replacement)
    copy = program.copy()
    result = Rewritten(copy.module, copy.state, copy.live, copy.context)
    if any(map(_is_untraced, result.main.walk())):
        traced: TracedPattern = _FxPattern(result, pattern, replacement)
    else:
        examples = examples_of(pattern) if example_inputs is None else [example_inputs]
        traced = _TorchPattern(result, PythonEquation(name_of(pattern), pattern, replacement, examples))
    dispatch = traced.dispatch()
    for scope in (result.main, *scopes(result.main)):
        PatternRewriter(scope, dispatch).run()
    _retype(result.main)
    verify_module(result.module)
    return result


def _is_untraced(op: Operation) -> bool:
    """Whether ``op`` is a captured call on tensors. Size arithmetic and ``getitem`` also occur on the torch level."""
    if not isinstance(op, (CallFunctionOp, CallMethodOp, CallModuleOp)):
        return False
    types = [value.type for value in (*op.operands, *op.results)]
    return any(isinstance(t, ValueType) for t in types) or (
        any(is_tensor(t) for t in types) and not any(isinstance(t, TupleType) for t in types)
    )


class _FxPattern(TracedPattern):
    """A pattern of calls without types."""

    def __init__(self, program: Rewritten, pattern: PythonFunction, replacement: PythonFunction) -> None:
        super().__init__(program.module, program.context, name_of(pattern))
        self.program = program
        self.shapes = [checked(trace_symbolically(pattern, "the pattern"))]
        self.snippet = trace_symbolically(replacement, "the replacement")
        same_count(self.shapes[0], self.snippet)

    def new_match(self, misses: Misses | None) -> PatternMatch:
        return CallMatch(lambda each: each not in self.inserted, misses=misses)

    def matches(self, root: Operation, binding: PatternMatch) -> Iterator[tuple[Snippet, PatternMatch]]:
        return ((self.shapes[0], found) for found in bindings(self.shapes[0], root, binding))

    def replacement(self, pattern: Snippet, values: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Snippet:
        return self.snippet

    def writes(self, op: Operation, values: Sequence[SSAValue], rewriter: PatternRewriter) -> bool:
        return is_in_place(op)

    def may_alias(self, snippet: Snippet) -> bool:
        return False

    def matched(self, ops: Sequence[Operation], values: Sequence[SSAValue]) -> None:
        self.program.matches.append(_match(ops, values))

    def declare(self, snippet: Snippet) -> None:
        super().declare(snippet)
        self.program.state = {**snippet.state, **self.program.state}
        for name, value in snippet.live.items():
            self.program.live.setdefault(name, value)


class _TorchPattern(TwoStagePattern):
    """A pattern of operators. A replacement that does not fit is an error."""

    equation: PythonEquation

    def __init__(self, program: Rewritten, equation: PythonEquation) -> None:
        super().__init__(program.module, program.context, equation)
        self.program = program

    def replacement(self, pattern: Snippet, values: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Snippet | None:
        key = pattern.level, self.arguments
        if key not in self.replacements:
            snippet = self.form(self.equation.replacement_at(*key, self.symbols))
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

    def matched(self, ops: Sequence[Operation], values: Sequence[SSAValue]) -> None:
        self.program.matches.append(_match(ops, values))

    def settle(self, value: SSAValue, old: Attribute) -> None:
        try:
            settle_strides(value, old, self.context, returned=True)
        except OpVerifyException as error:
            hint = "end the replacement in an operation that returns the strides of the pattern, such as .contiguous()"
            raise CaptureError(str(error), op=one_line(error.op), place=place_of(error.op), hint=hint) from error


def _match(ops: Sequence[Operation], values: Sequence[SSAValue]) -> Match:
    names = [result._name or f"#{i}" for op in ops for i, result in enumerate(op.results)]
    return Match(tuple(names), tuple(map(_name, values)), place_of(ops[-1]))


def _name(value: SSAValue) -> str:
    return value._name or f"#{value.index}"  # type: ignore[attr-defined]


def _retype(function: FuncOp) -> None:
    """Update the signature, as types of returned values may have changed."""
    terminator = function.body.block.last_op
    assert terminator is not None
    types = [argument.type for argument in function.args], terminator.operand_types
    function.properties["function_type"] = FunctionType.from_lists(*types)
