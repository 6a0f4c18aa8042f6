"""Structural matching: find the operations of a pattern in a program, as the same calls of the same values."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, i1
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from fxc.dialects.attributes.types import NUMBERS, FloatType, IntType
from fxc.dialects.attributes.values import KnownTree, Tree, isa, leaves, scalar_of
from fxc.dialects.equations import Snippet
from fxc.dialects.text.call import CallOp
from fxc.dialects.torch_ops import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.passes.operators.table import OPERATORS

_SWITCHES = frozenset({"cudnn_enable", "cudnn_enabled"})
"""Arguments that select a library without changing semantics; torch.export writes them differently from Python calls."""

Pairs = list[tuple[SSAValue, "SSAValue | Attribute"]]


class Misses:
    """The reason of the attempt that matched the most operations before it failed."""

    def __init__(self) -> None:
        self.depth, self.reason = 0, ""
        self.op: Operation | None = None

    def note(self, depth: int, op: Operation, reason: str) -> None:
        if depth >= self.depth:
            self.depth, self.op, self.reason = depth, op, reason


class PatternMatch:
    """A mapping of pattern values and operations to those of the program. A number may match a literal.

    ``loose``: ignore constants, as they may depend on sizes. ``misses`` records why an attempt failed.
    """

    def __init__(self, usable: Callable[[Operation], bool], loose: bool = False, misses: Misses | None = None) -> None:
        self.values = dict[SSAValue, SSAValue | Attribute]()
        self.ops = dict[Operation, Operation]()
        self.pending: Pairs = []
        self.usable, self.loose, self.misses = usable, loose, misses

    def copy(self) -> PatternMatch:
        other = type(self)(self.usable, self.loose, self.misses)
        other.values, other.ops, other.pending = dict(self.values), dict(self.ops), list(self.pending)
        return other

    def of(self, value: SSAValue) -> SSAValue:
        """The value of the program that ``value``, which is not a number, matches."""
        found = self.values[value]
        assert isinstance(found, SSAValue)
        return found

    def at(self, pattern: Operation, op: Operation) -> Iterator[PatternMatch]:
        """Yield the matches in which ``op`` is ``pattern``: the same call of matching operands."""
        for attempt in self._op(pattern, op):
            yield from attempt._solutions()

    def _solutions(self) -> Iterator[PatternMatch]:
        """Yield the matches that extend this one by all pending pairs."""
        while self.pending:
            pattern, value = self.pending.pop()
            known = self.values.get(pattern)
            if known is not None:
                if known is not value and (isinstance(value, SSAValue) or known != value):
                    return
            elif isinstance(pattern, BlockArgument):
                self.values[pattern] = value
            elif isinstance(pattern.type, NUMBERS) and isinstance(value, SSAValue) and isinstance(value.type, NUMBERS):
                if not self.loose and not _same_number(pattern.type, value.type):
                    return
                self.values[pattern] = value
            else:
                for attempt in self._producers(pattern, value):
                    yield from attempt._solutions()
                return
        yield self

    def _producers(self, pattern: SSAValue, value: SSAValue | Attribute) -> list[PatternMatch]:
        """Return the attempts to match the operation that computes ``value`` with that of ``pattern``."""
        if not isinstance(value, SSAValue) or pattern.index != value.index:  # type: ignore[attr-defined]
            return []
        owner, made = pattern.owner, value.owner
        return self._op(owner, made) if isinstance(owner, Operation) and isinstance(made, Operation) else []

    def _op(self, pattern: Operation, op: Operation) -> list[PatternMatch]:
        """Return the attempts to match ``op`` with ``pattern``; their operands are pending."""
        if pattern in self.ops:
            return [self] if self.ops[pattern] is op else []
        if op.name != pattern.name or op in self.ops.values() or not self.usable(op):
            return []
        if len(op.results) != len(pattern.results) or not all(other.parent is op.parent for other in self.ops.values()):
            return []
        choices = self._choices(pattern, op)
        attempts = [self, *(self.copy() for _ in choices[1:])] if choices else []
        for attempt, pairs in zip(attempts, choices, strict=True):
            attempt.ops[pattern] = op
            attempt.values.update(zip(pattern.results, op.results, strict=True))
            attempt.pending += pairs
        return attempts

    def _choices(self, pattern: Operation, op: Operation) -> list[Pairs]:
        """Return the pairs of values that must match for ``op`` to match; two lists where operands may be exchanged."""
        if isinstance(pattern, ConstantOp) and isinstance(op, ConstantOp):
            same = self.loose or (pattern.value == op.value and pattern.result.type == op.result.type)
            return [[]] if same else self._miss(op, "a constant differs")
        if not isinstance(pattern, CallOp) or not isinstance(op, CallOp):
            return []
        if pattern.call_target() != op.call_target() or len(pattern.regions) != len(op.regions):
            return []
        if any(not a.is_structurally_equivalent(b) for a, b in zip(pattern.regions, op.regions, strict=True)):
            return []
        old, new = self.arguments(pattern), self.arguments(op)
        orders = [new]
        if isinstance(op, TorchOp) and _commutes(op, new):
            orders.append({**new, "self": new["other"], "other": new["self"]})
        found = [self._pairs_of(op, old, order) for order in orders]
        return [pairs for pairs in found if pairs is not None]

    def _pairs_of(self, op: CallOp, old: Mapping[str | int, Tree], new: Mapping[str | int, Tree]) -> Pairs | None:
        pairs: Pairs = []
        for name in {**old, **new}:
            if name in _SWITCHES:
                continue
            if name in old and name in new:
                if not self._tree(op, name, old[name], new[name], pairs):
                    return None
                continue
            tree = old.get(name, new.get(name))
            if not (self.is_default(op, name, tree) or (self.loose and _is_constant_tree(tree))):
                self._miss(op, f"the argument {name} is passed in only one of them")
                return None
        return pairs

    def arguments(self, op: CallOp) -> Mapping[str | int, Tree]:
        """Return the arguments of ``op``: by schema name, or by position and keyword."""
        if isinstance(op, TorchOp):
            return {**op.bound()}
        args, kwargs = op.trees()
        return {**dict(enumerate(args)), **kwargs}

    def is_default(self, op: CallOp, name: str | int, tree: Tree) -> bool:
        """Whether an argument that only one of the calls passes equals its default."""
        if not isinstance(op, TorchOp) or not isinstance(name, str):
            return False
        default = op.SCHEMA.by_name[name].default
        return default is not None and _is_constant(tree, default)

    def _tree(self, op: Operation, name: str | int, pattern: KnownTree, tree: KnownTree, pairs: Pairs) -> bool:
        """Match the argument ``name``; pairs of values go to ``pairs``."""
        if isinstance(pattern, SSAValue):
            if isinstance(tree, SSAValue) or (isinstance(tree, Attribute) and _is_literal_of(pattern, tree)):
                pairs.append((pattern, tree))
                return True
            if (
                self.loose
                and isinstance(pattern.type, NUMBERS)
                and not isinstance(pattern, BlockArgument)
                and isinstance(tree, Attribute)
            ):
                return True
            self._miss(op, f"{name} is another kind of value")
            return False
        if isinstance(pattern, Attribute):
            if pattern == tree or (self.loose and (isinstance(tree, Attribute) or _is_size(tree))):
                return True
            if isinstance(tree, Attribute):
                self._miss(op, f"{name} differs: {_shown(tree)} for {_shown(pattern)}")
            return False
        if isinstance(pattern, (list, tuple)):
            if not isinstance(tree, (list, tuple)):
                return False
            if len(pattern) != len(tree):
                return self.loose and _is_constant_tree(pattern) and _is_constant_tree(tree)
            return all(self._tree(op, name, a, b, pairs) for a, b in zip(pattern, tree, strict=True))
        if isinstance(pattern, dict):
            if not isinstance(tree, dict) or list(pattern) != list(tree):
                return False
            return self._tree(op, name, [*pattern.values()], [*tree.values()], pairs)
        return isinstance(tree, slice) and self._tree(
            op, name, [pattern.start, pattern.stop, pattern.step], [tree.start, tree.stop, tree.step], pairs
        )

    def _miss(self, op: Operation, reason: str) -> list[Any]:
        if self.misses is not None:
            self.misses.note(len(self.ops), op, reason)
        return []


def _commutes(op: TorchOp, arguments: Mapping[str | int, Tree]) -> bool:
    """Whether ``self`` and ``other`` of ``op`` may be exchanged: two tensors that are not scaled."""
    record = OPERATORS.get(op.operator)
    if record is None or not record.commutes or not arguments.keys() >= {"self", "other"}:
        return False
    rest = [(name, tree) for name, tree in arguments.items() if name not in ("self", "other")]
    both = [arguments["self"], arguments["other"]]
    return all(_is_constant(tree, op.SCHEMA.by_name[str(name)].default or "") for name, tree in rest) and (
        both[0] is not both[1] and all(isinstance(each, SSAValue) for each in both)
    )


def _is_size(tree: KnownTree) -> bool:
    return isinstance(tree, SSAValue) and isinstance(tree.type, NUMBERS)


def _same_number(a: Attribute, b: Attribute) -> bool:
    """Whether two numbers are equal: their types state the same expression of sizes that depend on no data."""
    if a != b or not isinstance(a, NUMBERS):
        return False
    symbols = re.findall(r"\b[a-z]+\d+\b", a.expression.data)
    return bool(a.expression.data) and all(symbol.startswith("s") for symbol in symbols)


def _is_literal_of(pattern: SSAValue, tree: Attribute) -> bool:
    """Whether the parameter ``pattern`` is a number, and ``tree`` a literal of the same Python type."""
    if not isinstance(pattern, BlockArgument):
        return False
    if isinstance(pattern.type, FloatType):
        return isinstance(tree, FloatAttr)
    return isinstance(pattern.type, IntType) and isa(tree, IntegerAttr) and tree.type != i1


def _is_constant_tree(tree: Tree) -> bool:
    return all(isinstance(leaf, Attribute) or _is_size(leaf) for leaf in leaves(tree))


def _is_constant(tree: Tree, text: str) -> bool:
    """Whether ``tree`` is the constant ``text`` of a schema."""
    try:
        return repr(_python(tree)) == repr(ast.literal_eval(text))  # 1, 1.0 and True differ, and so do 0.0 and -0.0
    except (ValueError, SyntaxError, KeyError):  # a name (contiguous_format), or a value
        return False


def _python(tree: KnownTree) -> Any:
    if isinstance(tree, (list, tuple)):
        return [_python(element) for element in tree]
    if not isinstance(tree, Attribute):
        raise ValueError
    return scalar_of(tree)


def _shown(literal: Attribute) -> str:
    try:
        return repr(scalar_of(literal))
    except KeyError:
        return str(literal)


def roots(pattern: Snippet) -> list[Operation]:
    """Return the distinct operations that compute the outputs, the last one first."""
    owners = {value.owner for value in pattern.outputs}
    return [op for op in reversed(list(pattern.block.ops)) if op in owners]


def bindings(pattern: Snippet, root: Operation, binding: PatternMatch) -> Iterator[PatternMatch]:
    """Yield all matches of ``pattern`` whose last output operation is ``root``; other outputs are searched in the same block.

    The arguments of its block match any value.
    """
    first, *others = roots(pattern)
    for found in binding.at(first, root):
        yield from _rest(others, found)


def _rest(others: Sequence[Operation], binding: PatternMatch) -> Iterator[PatternMatch]:
    if not others:
        yield binding
        return
    first, *more = others
    if first in binding.ops:
        yield from _rest(more, binding)
        return
    for op in _candidates(first, binding):
        if op.name == first.name:
            for attempt in binding.copy().at(first, op):
                yield from _rest(more, attempt)


def _candidates(pattern: Operation, binding: PatternMatch) -> Iterable[Operation]:
    """The operations that may be ``pattern``: the users of an operand that is matched already, else all of the block."""
    for operand in pattern.operands:
        if isinstance(value := binding.values.get(operand), SSAValue):
            return dict.fromkeys(use.operation for use in value.uses)
    block = next(iter(binding.ops.values())).parent
    assert block is not None
    return block.ops
