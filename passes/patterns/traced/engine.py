"""Apply equations of traced functions: match by structure, trace again at the types of the match, and match exactly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import dropwhile, takewhile
from typing import ClassVar

from xdsl.dialects.builtin import UNKNOWN_LOC, CallSiteLoc, DictionaryAttr, ModuleOp, TupleType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue, TypeAttribute
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import NUMBERS, SYMBOLS, VALUE, is_tensor, strides
from fxc.dialects.base.effects import aliases, is_random, writes
from fxc.dialects.context import FxcContext
from fxc.dialects.equations import Equation, Snippet, body_of, function_of, needed_operations
from fxc.dialects.text.diagnostics import OpVerifyException, place_of
from fxc.dialects.text.syntax import copy_names, type_text
from fxc.dialects.torch_ops import OperatorDeclOp, TorchOp, make_op_class
from fxc.passes.analysis.memory import writes_anything
from fxc.passes.analysis.stride_changes import contiguous_copy, only_strides_differ, settle_strides
from fxc.passes.patterns import all_patterns
from fxc.passes.patterns.traced.matching import Misses, PatternMatch, bindings, roots
from fxc.passes.rewriting.patterns import Dispatch, Pattern, PatternRewriter, apply_patterns, dispatch_table
from fxc.passes.rewriting.remarks import remark, wanted
from fxc.passes.rewriting.unpacking import unpack_tuples

REMARKS = "apply-patterns"
ANOTHER_USER = "an inner value has another user"
NO_POSITION = "no position is after all operands and before all users"
WRITE_BETWEEN = "a write lies between its operations"
RANDOM_BETWEEN = "a random operator lies between its operations, and would be sampled before them"
OTHER_MEMORY = "a returned value would share memory with other values"
"""Reasons of near misses."""


@dataclass(frozen=True)
class Site:
    """A match: its operations in order, the values of the parameters and of the results, and where its replacement goes.

    ``found``: the values of the pattern and those that they match. ``before``: the operation after all operands and before all
    users; None if there is none.
    """

    found: PatternMatch
    block: Block
    ops: Sequence[Operation]
    values: Sequence[SSAValue]
    outputs: Sequence[SSAValue]
    before: Operation | None


class TracedPattern(Pattern):
    """A pattern for the engine that applies the patterns of passes: an equation of two traced functions."""

    ROOTS: ClassVar = ()
    IS_FOR_DEAD: ClassVar = True
    shapes: Sequence[Snippet]
    """The possible structures of the pattern."""

    def __init__(self, module: ModuleOp, context: FxcContext, name: str) -> None:
        self.module, self.context, self.name = module, context, name
        self.inserted = set[Operation]()
        """Operations of replacements, which are not matched again."""

    @property
    def label(self) -> str:
        return self.name

    def dispatch(self) -> dict[str, list[Pattern]]:
        return {root: [self] for root in dict.fromkeys(roots(shape)[0].name for shape in self.shapes)}

    @abstractmethod
    def matches(self, root: Operation, binding: PatternMatch) -> Iterator[tuple[Snippet, PatternMatch]]:
        """Yield all matches of the pattern whose last output operation is ``root``, with the traced pattern."""

    @abstractmethod
    def replacement(self, pattern: Snippet, values: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Snippet | None:
        """Return the replacement of ``outputs``, computed from ``values``; None if it does not fit."""

    @abstractmethod
    def writes(self, op: Operation, values: Sequence[SSAValue], rewriter: PatternRewriter) -> bool:
        """Whether ``op`` may write the memory of one of ``values``."""

    @abstractmethod
    def may_alias(self, snippet: Snippet) -> bool:
        """Whether a result may share memory with a parameter."""

    def shares_otherwise(self, pattern: Snippet, snippet: Snippet, output: int) -> bool:
        """Whether the result ``output`` shares memory with other parameters or results in ``snippet`` than in ``pattern``."""
        return False

    def new_match(self, misses: Misses | None) -> PatternMatch:
        """An empty match. It uses operations of replacements, and those with marks of the partition, at most as operands."""
        return PatternMatch(lambda each: each not in self.inserted and not _is_marked(each), misses=misses)

    def matched(self, ops: Sequence[Operation], values: Sequence[SSAValue]) -> None:
        """Called with the operations of a match, in order, and the values of the parameters, before the replacement."""

    def settle(self, value: SSAValue, old: Attribute) -> None:
        """Adapt the users of ``value``, whose strides were those of ``old``; or copy it to these strides where one cannot."""
        try:
            settle_strides(value, old, self.context, returned=False)
        except OpVerifyException:  # a value computed from it needs its old strides, which are not contiguous
            copy, new = contiguous_copy(value, old), value.type
            value.replace_uses_with_if(copy, lambda use: use.operation is not copy.owner)
            settle_strides(copy, new, self.context, returned=True)

    def missed(self, reason: str, op: Operation) -> None:
        remark(REMARKS, f"{self.name}: {reason}", op)

    def rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replace the first match whose last output operation is ``op``."""
        misses = Misses() if wanted(REMARKS) else None
        missed: tuple[str, Operation] | None = None
        for pattern, found in self.matches(op, self.new_match(misses)):
            block, inside = next(iter(found.ops.values())).parent, set(found.ops.values())
            assert block is not None
            values, outputs = ([found.of(each) for each in some] for some in (pattern.block.args, pattern.outputs))
            ops = [op for op in block.ops if op in inside]
            site = Site(found, block, ops, values, outputs, _insertion_point(block, inside, values, outputs))
            reason, where = self.obstacle(pattern, site, rewriter)
            if set(found.ops) != needed_tensors(pattern):
                reason, where = "an operation is missing", None
            snippet = None if reason is not None else self.replacement(pattern, site.values, site.outputs)
            if snippet is not None:
                if self.may_alias(snippet) and self.crosses_write(site, rewriter, is_view=True):
                    reason = WRITE_BETWEEN
                elif any(
                    self.shares_otherwise(pattern, snippet, i)
                    for i, output in enumerate(site.outputs)
                    if rewriter.memory.reaches_output(output)
                ):
                    reason = OTHER_MEMORY
                else:
                    self.replace(site, snippet, rewriter)
                    return
            if reason is not None:
                missed = reason, where or op
        if missed is None and misses is not None and misses.op is not None:
            missed = misses.reason, misses.op
        if missed is not None:
            self.missed(*missed)

    def obstacle(self, pattern: Snippet, site: Site, rewriter: PatternRewriter) -> tuple[str | None, Operation | None]:
        """The reason why a match cannot be replaced, and the operation to blame; (None, None) if it can."""
        inside = [result for op in site.ops for result in op.results if result not in site.outputs]
        users = [use.operation for result in inside for use in result.uses if use.operation not in site.ops]
        if users:
            return ANOTHER_USER, users[0]
        if site.before is None:
            return NO_POSITION, None
        if (between := _random_between(site)) is not None:
            return RANDOM_BETWEEN, between
        if self.crosses_write(site, rewriter, is_view=self.may_alias(pattern)):
            return WRITE_BETWEEN, None
        return None, None

    def crosses_write(self, site: Site, rewriter: PatternRewriter, *, is_view: bool) -> bool:
        """Whether a write occurs between the operations of the match, or later to memory that a view in it shares."""
        if not writes_anything(rewriter.scope):
            return False
        touched = [value for op in site.ops for value in (*op.operands, *op.results)]
        started, pending = False, set(site.ops)
        for op in site.block.ops:
            if op in site.ops:
                started = True
                pending.discard(op)
            elif started and pending and self.writes(op, touched, rewriter):
                return True
            elif started and not pending and (not is_view or self.writes(op, [*site.values, *site.outputs], rewriter)):
                return is_view
        return False

    def replace(self, site: Site, snippet: Snippet, rewriter: PatternRewriter) -> None:
        self.matched(site.ops, site.values)
        self.declare(snippet)
        new, changed = self.inline(snippet, site), list[tuple[SSAValue, Attribute]]()
        for i, (old, value) in enumerate(zip(site.outputs, new, strict=True)):
            if value.type != old.type and value.type == VALUE and isinstance(value.owner, Operation):
                new[i] = value = Rewriter.replace_value_with_new_type(value, old.type)
            if value.type != old.type and value.type != VALUE and old.type != VALUE:
                changed.append((value, old.type))
            if isinstance(old.owner, Operation) and isinstance(value.owner, Operation) and value not in site.values:
                value._name, value.owner.location = old._name, old.owner.location
        rewriter.replace_match(site.ops, site.outputs, new)
        for value, type in changed:
            self.settle(value, type)

    def inline(self, snippet: Snippet, site: Site) -> list[SSAValue]:
        """Insert a copy of the operations at ``site``, and return the values of the outputs."""
        mapping: dict[SSAValue, SSAValue] = dict(zip(snippet.block.args, site.values, strict=True))
        root = site.ops[-1]
        needed = needed_operations(snippet) | {op for op in snippet.block.ops if writes(op) != []}
        for op in snippet.block.ops:
            if op not in needed:
                continue
            copy = op.clone(mapping, clone_name_hints=False)
            for old, new in zip(op.walk(), copy.walk(), strict=True):
                copy_names(old.results, new.results)
            copy.location = op.location if root.location == UNKNOWN_LOC else CallSiteLoc(op.location, root.location)
            Rewriter.insert_op(copy, InsertPoint(site.block, site.before))
            self.inserted.update(copy.walk())
        return [mapping[value] for value in snippet.outputs]

    def declare(self, snippet: Snippet) -> None:
        """Add declarations of the replacement that the program lacks."""
        block = self.module.body.block
        known = {op.properties.get("sym") or op.properties.get("path") for op in block.ops}
        for declaration in [*snippet.operators.values(), *snippet.modules.values(), *snippet.tensors.values()]:
            if (declaration.properties.get("sym") or declaration.properties.get("path")) not in known:
                assert block.first_op is not None
                block.insert_op_before(declaration.clone(), block.first_op)
            if isinstance(declaration, OperatorDeclOp):
                cls = make_op_class(declaration.sym.data, declaration.flags.data, declaration.signature.data)
                self.context._loaded_ops[cls.name] = cls


class TwoStagePattern(TracedPattern):
    """A pattern of operators: matched by structure first, then traced again at the types of the match.

    ``canonical``: match also its canonical form, for programs to which ``canonicalize`` was applied.
    """

    def __init__(self, module: ModuleOp, context: FxcContext, equation: Equation, *, canonical: bool = False) -> None:
        super().__init__(module, context, equation.name)
        self.equation, self.canonical = equation, canonical
        self.packed = any(isinstance(result.type, TupleType) for op in module.walk() for result in op.results)
        symbols = module.attributes.get(SYMBOLS)
        self.symbols = symbols if isinstance(symbols, DictionaryAttr) else None
        self.patterns = dict[tuple[str, tuple[Attribute, ...]], Sequence[Snippet]]()
        self.replacements = dict[tuple[str, tuple[Attribute, ...]], Snippet | None]()
        self.arguments: tuple[Attribute, ...] = ()
        forms = [form for structure in equation.structures() for form in self.forms(structure)]
        self.shapes = [form for form in forms if flaw(form) is None]

    def forms(self, snippet: Snippet) -> list[Snippet]:
        """The forms in which a program may have ``snippet``: as traced, and canonical."""
        plain = self.form(snippet)
        if not self.canonical:
            return [plain]
        other = _changed(plain, lambda module: apply_patterns(module, canonical_patterns()))
        differs = [op.name for op in plain.block.ops] != [op.name for op in other.block.ops]
        return [plain, other] if differs and flaw(other) is None else [plain]

    def form(self, snippet: Snippet) -> Snippet:
        """Convert ``snippet`` to tuple results if the program has them, else to multiple results."""
        if self.packed or not any(isinstance(result.type, TupleType) for op in snippet.block.ops for result in op.results):
            return snippet
        return _changed(snippet, unpack_tuples)

    def matches(self, root: Operation, binding: PatternMatch) -> Iterator[tuple[Snippet, PatternMatch]]:
        for shape in self.shapes:
            if roots(shape)[0].name != root.name:
                continue
            loose = binding.copy()
            loose.loose, loose.misses = True, None
            for guess in bindings(shape, root, loose):
                found = [guess.values[argument] for argument in shape.block.args]
                if any(found[a] is found[b] for b in self.equation.exclusive for a in self.equation.exclusive if a < b):
                    self.missed("two exclusive parameters are one value", root)
                    continue
                self.arguments = tuple(each.type if isinstance(each, SSAValue) else each for each in found)
                types = [each for each in self.arguments if isinstance(each, TypeAttribute)]
                forms = self.at(shape.level, self.arguments)
                if not forms:
                    given = ", ".join(map(type_text, types))
                    self.missed(f"it does not accept the types of a match, as ({given})", root)
                for pattern in forms:
                    if roots(pattern)[0].name == root.name:
                        yield from self.exact(pattern, root, binding, types)

    def exact(
        self, pattern: Snippet, root: Operation, binding: PatternMatch, types: Sequence[Attribute]
    ) -> Iterator[tuple[Snippet, PatternMatch]]:
        """Yield the exact matches of ``pattern``, traced at ``types``, which the condition of the user accepts."""
        arguments = self.arguments
        for found in bindings(pattern, root, binding.copy()):
            if [found.of(argument).type for argument in pattern.block.args] != types:
                continue
            self.arguments = arguments
            if self.equation.accepts(arguments, self.symbols, place_of(root)):
                yield pattern, found
            else:
                self.missed("the check rejects it", root)

    def at(self, level: str, arguments: tuple[Attribute, ...]) -> Sequence[Snippet]:
        """The forms of the pattern at ``arguments``."""
        key = level, arguments
        if key not in self.patterns:
            traced = self.equation.pattern(level, arguments, self.symbols)
            self.patterns[key] = [] if traced is None else [form for form in self.forms(traced) if flaw(form) is None]
        return self.patterns[key]

    def replacement(self, pattern: Snippet, values: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> Snippet | None:
        key = pattern.level, self.arguments
        if key not in self.replacements:
            traced = self.equation.replacement(*key, self.symbols)
            self.replacements[key] = None if traced is None else self.form(traced)
        snippet = self.replacements[key]
        if snippet is None:
            self.missed("the replacement does not accept these types", outputs[-1].owner)  # type: ignore[arg-type]
            return None
        for old, value in zip(outputs, snippet.outputs, strict=True):
            new = (values[value.index] if isinstance(value, BlockArgument) else value).type
            if old.type != new and not self.fits(old, new):
                return None
        return snippet

    def shares_otherwise(self, pattern: Snippet, snippet: Snippet, output: int) -> bool:
        found = [shared_memory(each, self.context) for each in (pattern, snippet)]
        return {pair for pair in found[0] if output in pair} != {pair for pair in found[1] if output in pair}

    def fits(self, old: SSAValue, new: Attribute) -> bool:
        """Whether a value of type ``new`` can replace ``old``, of another type: a copy restores only contiguous strides."""
        if only_strides_differ(old.type, new) and is_tensor(old.type) and strides(old.type) is None:
            return True
        self.missed(f"the replacement returns {type_text(new)} for {type_text(old.type)}", old.owner)  # type: ignore[arg-type]
        return False

    def writes(self, op: Operation, values: Sequence[SSAValue], rewriter: PatternRewriter) -> bool:
        written = rewriter.memory.writes_of(op)
        return bool(written) and any(rewriter.memory.set_of(value) in written for value in values)

    def may_alias(self, snippet: Snippet) -> bool:
        returned = any(isinstance(value, BlockArgument) for value in snippet.outputs)
        return returned or any(any(aliases(op)) for op in snippet.block.ops)


@cache
def canonical_patterns() -> Dispatch:
    """The patterns of ``canonicalize``."""
    return dispatch_table(all_patterns())


def flaw(pattern: Snippet) -> tuple[str, str] | None:
    """Why ``pattern`` cannot be matched, and a hint; None if it can: it reads its arguments to compute all outputs."""
    if not pattern.outputs:
        return "the pattern returns nothing", "return what it computes"
    if any(isinstance(value, BlockArgument) for value in pattern.outputs):
        return "the pattern returns one of its parameters", "return only what it computes"
    read = {operand for op in needed_tensors(pattern) for operand in op.operands}
    unread = [f"the pattern does not use its parameter {each._name}" for each in pattern.block.args if each not in read]
    return (unread[0], "a match would leave it without a value") if unread else None


def _is_marked(op: Operation) -> bool:
    """Whether ``op`` states in which part of a joint graph it is, or whether it is saved or recomputed."""
    return any(name.startswith("autodiff.") for name in op.attributes)


def shared_memory(snippet: Snippet, context: FxcContext) -> set[tuple[int, int]]:
    """Pairs of outputs that share memory, and of outputs and parameters, which are counted from -1 downwards."""
    bases = dict[SSAValue, frozenset[SSAValue]]()
    for op in snippet.block.ops:
        pairs = list(aliases(op))
        if pairs and isinstance(op, TorchOp):
            with suppress(VerifyException):  # where it is unknown, they may
                pairs = [(result, op.operands[operand]) for result, operand in context.semantics.aliases(op)]
        for result in op.results:
            sources = [bases.get(value, frozenset([value])) for index, value in pairs if index == result.index]
            bases[result] = frozenset[SSAValue]().union(*sources) if sources else frozenset([result])
    memory = [bases.get(value, frozenset([value])) for value in snippet.outputs]
    shared = {(i, j) for i, a in enumerate(memory) for j, b in enumerate(memory) if i != j and a & b}
    return shared | {(i, -1 - arg.index) for i, a in enumerate(memory) for arg in snippet.block.args if arg in a}


def needed_tensors(snippet: Snippet) -> set[Operation]:
    """The operations that compute the outputs, without those that compute sizes and other numbers, which match by value."""
    return needed_operations(snippet, lambda value: not isinstance(value.type, NUMBERS))


def _changed(snippet: Snippet, change: Callable[[ModuleOp], object]) -> Snippet:
    """A copy of ``snippet`` after ``change`` of a module with it as the only function."""
    original = function_of(snippet)
    function = original.clone()
    body_of(original)
    change(ModuleOp([function]))
    new = body_of(function)
    return replace(snippet, block=new.block, outputs=new.outputs)


def _insertion_point(
    block: Block, ops: Set[Operation], values: Sequence[SSAValue], outputs: Sequence[SSAValue]
) -> Operation | None:
    owners = [value.owner for value in values]
    if not ops.isdisjoint(owners):
        return None
    users = {
        ancestor
        for value in outputs
        for use in value.uses
        if use.operation not in ops and (ancestor := block.find_ancestor_op_in_block(use.operation)) is not None
    }
    pending, operands = set(ops), {o for o in owners if isinstance(o, Operation) and o.parent is block}
    for op in block.ops:
        if op in users:
            return None if operands else op
        pending.discard(op)
        operands.discard(op)
        if not pending:
            return op.next_op if not operands else None
    return None


def _random_between(site: Site) -> Operation | None:
    """A random operator outside of the match after one inside of it, and above its replacement; None if there is none."""
    above = takewhile(lambda op: op is not site.before, site.block.ops)
    below = dropwhile(lambda op: op not in site.ops or not is_random(op), above)
    return next((op for op in below if op not in site.ops and any(map(is_random, op.walk()))), None)
