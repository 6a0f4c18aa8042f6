"""Replace a pattern that is written as a Python function by another, like ``torch.fx.replace_pattern``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.dialects.builtin import UNKNOWN_LOC, CallSiteLoc, DictionaryAttr, FunctionType, ModuleOp, TupleType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import SYMBOLS, VALUE, ValueType, is_tensor
from fxc.dialects.attributes.values import bool_attr
from fxc.dialects.base.effects import aliases, writes
from fxc.dialects.fx import IN_PLACE_OPERATORS, CallFunctionOp, CallMethodOp, CallModuleOp
from fxc.dialects.text.diagnostics import one_line, place_of
from fxc.dialects.text.syntax import copy_names
from fxc.dialects.torch_ops import OperatorDeclOp, make_op_class
from fxc.driver.runner import verify_module
from fxc.errors import CaptureError, FxcError
from fxc.passes.analysis.memory import scopes, writes_anything
from fxc.passes.analysis.stride_changes import only_strides_differ
from fxc.passes.rewriting.patterns import Pattern, PatternRewriter
from fxc.passes.simplify.lower_simple_tuples import LowerSimpleTuplesPass
from fxc.patterns.matching import PatternMatch, bindings, roots
from fxc.patterns.stride_changes import settle_strides
from fxc.program.program import Program, require_program

if TYPE_CHECKING:
    from fxc.patterns.trace import PythonFunction, Snippet

_RANKS = (2, 3, 4, 1, 0, 5)
_MOST_TRACES = 256


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
    from fxc.patterns.trace import name_of, parameter_count

    require_program(program, "replace_pattern")
    count = parameter_count(pattern)
    if parameter_count(replacement) != count:
        raise CaptureError(
            f"the pattern takes {count} parameters, but {name_of(replacement)} takes {parameter_count(replacement)}",
            hint="the replacement gets the same values as the pattern",
        )
    copy = program.copy()
    result = Rewritten(copy.module, copy.state, copy.live, copy.context)
    if any(map(_is_untraced, result.main.walk())):
        traced = _FxPattern(result, pattern, replacement)
    else:
        traced = _TorchPattern(result, pattern, replacement, example_inputs)
    dispatch = dict.fromkeys((roots(shape)[0].name for shape in traced.shapes), (traced,))
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


class _TracedPattern(Pattern):
    """A pattern for the engine that applies the patterns of passes: an equation of two traced functions."""

    ROOTS: ClassVar = ()
    IS_FOR_DEAD: ClassVar = True
    shapes: Sequence[Snippet]
    """The possible structures of the pattern."""

    def __init__(self, program: Rewritten) -> None:
        self.program, self.inserted = program, set[Operation]()
        """``inserted``: operations of replacements, which are not matched again."""

    @abstractmethod
    def matches(self, root: Operation, binding: PatternMatch) -> Iterator[tuple[Snippet, PatternMatch]]:
        """Yield all matches of the pattern whose last output operation is ``root``, with the traced pattern."""

    @abstractmethod
    def replacement(self, pattern: Snippet, values: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Snippet:
        """Return the replacement of ``outputs``, computed from ``values``."""

    @abstractmethod
    def writes(self, op: Operation, values: Sequence[SSAValue], rewriter: PatternRewriter) -> bool:
        """Whether ``op`` may write the memory of one of ``values``."""

    @abstractmethod
    def may_alias(self, snippet: Snippet) -> bool:
        """Whether a result may share memory with a parameter."""

    def rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replace the first match whose last output operation is ``op``."""
        for pattern, found in self.matches(op, PatternMatch(lambda each: each not in self.inserted)):
            outputs = [found.values[value] for value in pattern.outputs]
            if set(found.ops) != _needed(pattern) or not _is_closed(found, outputs):
                continue
            values = [found.values[argument] for argument in pattern.block.args]
            before = _insertion_point(found, outputs, values)
            is_view = self.may_alias(pattern)
            if before is None or self.crosses_write(found, values, outputs, rewriter, is_view=is_view):
                continue
            snippet = self.replacement(pattern, values, outputs)
            if not is_view and self.may_alias(snippet) and self.crosses_write(found, values, outputs, rewriter, is_view=True):
                continue
            return self.replace(found, snippet, values, outputs, before, rewriter)

    def crosses_write(
        self,
        found: PatternMatch,
        values: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        rewriter: PatternRewriter,
        *,
        is_view: bool,
    ) -> bool:
        """Whether a write occurs between the operations of the match, or later to memory that a view in it shares."""
        if not writes_anything(rewriter.scope):
            return False
        ops = set(found.ops.values())
        touched = [value for op in ops for value in (*op.operands, *op.results)]
        started, pending = False, set(ops)
        for op in _block_of(found).ops:
            if op in ops:
                started = True
                pending.discard(op)
            elif started and pending and self.writes(op, touched, rewriter):
                return True
            elif started and not pending and (not is_view or self.writes(op, [*values, *outputs], rewriter)):
                return is_view
        return False

    def replace(
        self,
        found: PatternMatch,
        snippet: Snippet,
        values: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        before: Operation,
        rewriter: PatternRewriter,
    ) -> None:
        ops = sorted(found.ops.values(), key=list(_block_of(found).ops).index)
        names = [result._name or f"#{i}" for op in ops for i, result in enumerate(op.results)]
        self.program.matches.append(Match(tuple(names), tuple(map(_name, values)), place_of(ops[-1])))
        self.declare(snippet)
        new, changed = self.inline(snippet, values, ops[-1], before), list[tuple[SSAValue, Attribute]]()
        for i, (old, value) in enumerate(zip(outputs, new, strict=True)):
            if value.type != old.type and value.type == VALUE and isinstance(value.owner, Operation):
                new[i] = value = Rewriter.replace_value_with_new_type(value, old.type)
            if value.type != old.type and value.type != VALUE and old.type != VALUE:
                changed.append((value, old.type))
            if isinstance(old.owner, Operation) and isinstance(value.owner, Operation) and value not in values:
                value._name, value.owner.location = old._name, old.owner.location
        rewriter.replace_match(ops, outputs, new)
        for value, type in changed:
            settle_strides(value, type, self.program.context)

    def inline(self, snippet: Snippet, values: Sequence[SSAValue], root: Operation, before: Operation) -> list[SSAValue]:
        """Insert a copy of the operations before ``before``, and return the values of the outputs."""
        mapping: dict[SSAValue, SSAValue] = dict(zip(snippet.block.args, values, strict=True))
        needed = _needed(snippet) | {op for op in snippet.block.ops if writes(op) != []}
        for op in snippet.block.ops:
            if op not in needed:
                continue
            copy = op.clone(mapping, clone_name_hints=False)
            for old, new in zip(op.walk(), copy.walk(), strict=True):
                copy_names(old.results, new.results)
            copy.location = op.location if root.location == UNKNOWN_LOC else CallSiteLoc(op.location, root.location)
            Rewriter.insert_op(copy, InsertPoint.before(before))
            self.inserted.update(copy.walk())
        return [mapping[value] for value in snippet.outputs]

    def declare(self, snippet: Snippet) -> None:
        """Add declarations of the replacement that the program lacks."""
        block = self.program.module.body.block
        known = {op.properties.get("sym") or op.properties.get("path") for op in block.ops}
        for declaration in [*snippet.operators.values(), *snippet.modules.values(), *snippet.tensors.values()]:
            if (declaration.properties.get("sym") or declaration.properties.get("path")) not in known:
                assert block.first_op is not None
                block.insert_op_before(declaration.clone(), block.first_op)
            if isinstance(declaration, OperatorDeclOp):
                cls = make_op_class(declaration.sym.data, declaration.flags.data, declaration.signature.data)
                self.program.context._loaded_ops[cls.name] = cls
        self.program.state = {**snippet.state, **self.program.state}
        for name, value in snippet.live.items():
            self.program.live.setdefault(name, value)


class _FxPattern(_TracedPattern):
    """A pattern of calls without types."""

    def __init__(self, program: Rewritten, pattern: PythonFunction, replacement: PythonFunction) -> None:
        from fxc.patterns.trace import trace_symbolically

        super().__init__(program)
        self.shapes = [_checked(trace_symbolically(pattern, "the pattern"))]
        self.snippet = trace_symbolically(replacement, "the replacement")
        _same_count(self.shapes[0], self.snippet)

    def matches(self, root: Operation, binding: PatternMatch) -> Iterator[tuple[Snippet, PatternMatch]]:
        return ((self.shapes[0], found) for found in bindings(self.shapes[0], root, binding))

    def replacement(self, pattern: Snippet, values: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Snippet:
        return self.snippet

    def writes(self, op: Operation, values: Sequence[SSAValue], rewriter: PatternRewriter) -> bool:
        return _is_in_place(op)

    def may_alias(self, snippet: Snippet) -> bool:
        return False


class _TorchPattern(_TracedPattern):
    """A pattern of operators: matched by structure first, then traced again at the types of the match."""

    def __init__(
        self, program: Rewritten, pattern: PythonFunction, replacement: PythonFunction, inputs: Sequence[Any] | None
    ) -> None:
        super().__init__(program)
        self.function, self.other, self.inputs = pattern, replacement, inputs
        self.packed = any(isinstance(result.type, TupleType) for op in program.main.walk() for result in op.results)
        symbols = program.module.attributes.get(SYMBOLS)
        self.symbols = symbols if isinstance(symbols, DictionaryAttr) else None
        self.patterns = dict[tuple[Attribute, ...], "Snippet | None"]()
        self.replacements = dict[tuple[Attribute, ...], "Snippet"]()
        self.shapes = self.structures()

    def structures(self) -> list[Snippet]:
        """Return the structures of the pattern at example inputs or a few ranks. Their constants are ignored."""
        from fxc.patterns.trace import parameter_count, trace_at_inputs, trace_at_ranks

        if self.inputs is not None:
            return [_checked(self.form(trace_at_inputs(self.function, self.inputs, "the pattern")))]
        count = parameter_count(self.function)
        found, first = dict[Any, "Snippet"](), None
        equal = [(rank,) * count for rank in _RANKS]
        for ranks in (*equal, *islice(product((1, 2, 3, 4), repeat=count), _MOST_TRACES)):
            if found and ranks not in equal:
                break
            try:
                snippet = trace_at_ranks(self.function, ranks, "the pattern")
            except CaptureError as error:
                first = first or error
                continue
            snippet = self.form(snippet)
            found.setdefault(tuple(op.name for op in snippet.block.ops), _checked(snippet))
        if not found:
            assert first is not None
            first.hint = "give example_inputs: tensors that the pattern can be called with"
            raise first
        return list(found.values())

    def form(self, snippet: Snippet) -> Snippet:
        """Convert ``snippet`` to tuple results if the program has them, else to multiple results."""
        if self.packed or not any(isinstance(result.type, TupleType) for op in snippet.block.ops for result in op.results):
            return snippet
        snippet.block.add_op(ReturnOp(*snippet.outputs))
        function = FuncOp("snippet", ([], []), Region(snippet.block))
        LowerSimpleTuplesPass().apply(self.program.context, ModuleOp([function]))
        terminator = snippet.block.last_op
        assert terminator is not None
        outputs = list(terminator.operands)
        Rewriter.erase_op(terminator)
        function.body.detach_block(snippet.block)
        return replace(snippet, outputs=outputs)

    def matches(self, root: Operation, binding: PatternMatch) -> Iterator[tuple[Snippet, PatternMatch]]:
        for shape in self.shapes:
            loose = binding.copy()
            loose.loose = True
            for guess in bindings(shape, root, loose):
                types = tuple(guess.values[argument].type for argument in shape.block.args)
                pattern = self.at(types)
                if pattern is None:
                    continue
                for found in bindings(pattern, root, binding.copy()):
                    if tuple(found.values[argument].type for argument in pattern.block.args) == types:
                        yield pattern, found

    def at(self, types: tuple[Attribute, ...]) -> Snippet | None:
        """Return the pattern at operand types; None if it cannot be called with them."""
        from fxc.patterns.trace import trace_at_types

        if types not in self.patterns:
            try:
                self.patterns[types] = self.form(trace_at_types(self.function, types, self.symbols, "the pattern"))
            except FxcError:
                self.patterns[types] = None
        return self.patterns[types]

    def replacement(self, pattern: Snippet, values: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Snippet:
        from fxc.patterns.trace import trace_at_types

        types = tuple(value.type for value in values)
        if types not in self.replacements:
            snippet = self.form(trace_at_types(self.other, types, self.symbols, "the replacement"))
            _same_count(pattern, snippet)
            _check_writes(snippet)
            self.replacements[types] = snippet
        snippet = self.replacements[types]
        for old, new in zip(outputs, _at(snippet, values), strict=True):
            if old.type != new and not only_strides_differ(old.type, new):
                raise CaptureError(
                    f"the replacement returns {new}, but the pattern returns {old.type}",
                    op=one_line(old.owner) if isinstance(old.owner, Operation) else None,
                    place=place_of(old.owner) if isinstance(old.owner, Operation) else None,
                    hint="dtype and shape must stay: end the replacement with .to(x.dtype) or .reshape(...)",
                )
        return snippet

    def writes(self, op: Operation, values: Sequence[SSAValue], rewriter: PatternRewriter) -> bool:
        written = rewriter.memory.writes_of(op)
        return bool(written) and any(rewriter.memory.set_of(value) in written for value in values)

    def may_alias(self, snippet: Snippet) -> bool:
        returned = any(isinstance(value, BlockArgument) for value in snippet.outputs)
        return returned or any(any(aliases(op)) for op in snippet.block.ops)


def _at(snippet: Snippet, values: Sequence[SSAValue]) -> list[Attribute]:
    """Return the types of the outputs for the parameters ``values``."""
    return [values[v.index].type if isinstance(v, BlockArgument) else v.type for v in snippet.outputs]


def _checked(pattern: Snippet) -> Snippet:
    """Return ``pattern``, or raise CaptureError if it cannot be matched."""
    if not pattern.outputs:
        raise CaptureError("the pattern returns nothing", hint="return what it computes")
    if any(isinstance(value, BlockArgument) for value in pattern.outputs):
        raise CaptureError("the pattern returns one of its parameters", hint="return only what it computes")
    for argument in pattern.block.args:
        if not argument.first_use:
            raise CaptureError(
                f"the pattern does not use its parameter {argument._name}", hint="a match would leave it without a value"
            )
    for op in pattern.block.ops:
        if _is_in_place(op) or (not isinstance(op, (CallFunctionOp, CallMethodOp, CallModuleOp)) and writes(op)):
            raise CaptureError("the pattern writes to a tensor", op=one_line(op), hint="write it without in-place operators")
    return pattern


def _check_writes(snippet: Snippet) -> None:
    """Check that a replacement writes only to tensors that it makes."""
    made = {result for op in snippet.block.ops if not any(aliases(op)) for result in op.results}
    for op in snippet.block.ops:
        written = writes(op)
        if written is None or not made.issuperset(written):
            raise CaptureError(
                "the replacement writes to a tensor", op=one_line(op), hint="write it without in-place operators"
            )


def _same_count(pattern: Snippet, snippet: Snippet) -> None:
    if len(pattern.outputs) != len(snippet.outputs):
        raise CaptureError(
            f"the pattern returns {len(pattern.outputs)} values, but the replacement {len(snippet.outputs)}",
            hint="both must return the same number of tensors",
        )


def _is_in_place(op: Operation) -> bool:
    """Whether an ``fx`` call writes by its name or arguments: ``add_``, ``operator.iadd``, ``inplace=True``."""
    if not isinstance(op, (CallFunctionOp, CallMethodOp, CallModuleOp)):
        return False
    module, _, name = (op.call_target() or "").rpartition(".")
    if isinstance(op, CallFunctionOp) and module == "operator":  # its and_, or_, not_ and is_ write nothing
        return name in IN_PLACE_OPERATORS
    in_place = op.trees()[1].get("inplace") == bool_attr(True)
    return in_place or (not isinstance(op, CallModuleOp) and name.endswith("_") and not name.endswith("__"))


def _block_of(found: PatternMatch) -> Block:
    block = next(iter(found.ops.values())).parent
    assert block is not None
    return block


def _is_closed(found: PatternMatch, outputs: Sequence[SSAValue]) -> bool:
    """Whether inner values of the match have no uses outside of it."""
    ops = set(found.ops.values())
    inside = [result for op in ops for result in op.results if result not in outputs]
    return all(use.operation in ops for result in inside for use in result.uses)


def _insertion_point(found: PatternMatch, outputs: Sequence[SSAValue], values: Sequence[SSAValue]) -> Operation | None:
    """Return the operation before which to insert the replacement: after all operands, before all users; None if impossible."""
    ops, block = set(found.ops.values()), _block_of(found)
    users = {
        ancestor
        for value in outputs
        for use in value.uses
        if use.operation not in ops and (ancestor := block.find_ancestor_op_in_block(use.operation)) is not None
    }
    owners = [value.owner for value in values]
    pending, operands = set(ops), {o for o in owners if isinstance(o, Operation) and o.parent is block}
    for op in block.ops:
        if op in users:
            return None if operands else op
        pending.discard(op)
        operands.discard(op)
        if not pending:
            return op.next_op if not operands else None
    return None


def _needed(pattern: Snippet) -> set[Operation]:
    """Return the operations of the pattern that its outputs depend on."""
    needed, pending = set[Operation](), [value.owner for value in pattern.outputs]
    while pending:
        op = pending.pop()
        if isinstance(op, Operation) and op not in needed:
            needed.add(op)
            pending += [operand.owner for operand in op.operands]
    return needed


def _name(value: SSAValue) -> str:
    return value._name or f"#{value.index}"  # type: ignore[attr-defined]


def _retype(function: FuncOp) -> None:
    """Update the signature, as types of returned values may have changed."""
    terminator = function.body.block.last_op
    assert terminator is not None
    types = [argument.type for argument in function.args], terminator.operand_types
    function.properties["function_type"] = FunctionType.from_lists(*types)
