"""Structural matching: find the operations of a pattern in a program, as the same calls of the same values."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from fxc.dialects.attributes.values import KnownTree, Tree, leaves, scalar_attr, scalar_of
from fxc.dialects.fx import CallFunctionOp
from fxc.dialects.text.call import CallOp
from fxc.dialects.torch_ops import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp
from fxc.errors import TargetError

if TYPE_CHECKING:
    from fxc.patterns.trace import Snippet

_SWITCHES = frozenset({"cudnn_enable", "cudnn_enabled"})
"""Arguments that select a library without changing semantics; torch.export writes them differently from Python calls."""


class PatternMatch:
    """A mapping of pattern values and operations to those of the program.

    ``loose``: ignore constants, as they may depend on sizes.
    """

    def __init__(self, usable: Callable[[Operation], bool], loose: bool = False) -> None:
        self.values = dict[SSAValue, SSAValue]()
        self.ops = dict[Operation, Operation]()
        self.usable, self.loose = usable, loose

    def copy(self) -> PatternMatch:
        other = PatternMatch(self.usable, self.loose)
        other.values, other.ops = dict(self.values), dict(self.ops)
        return other

    def value(self, pattern: SSAValue, value: SSAValue) -> bool:
        """Match ``value`` with ``pattern``, and record all implied matches."""
        if pattern in self.values:
            return self.values[pattern] is value
        if isinstance(pattern, BlockArgument):
            self.values[pattern] = value
            return True
        owner, made = pattern.owner, value.owner
        if not isinstance(owner, Operation) or not isinstance(made, Operation):
            return False
        return pattern.index == value.index and self.op(owner, made) and self.values.get(pattern) is value  # type: ignore[attr-defined]

    def op(self, pattern: Operation, op: Operation) -> bool:
        """Match ``op`` with ``pattern``: the same call of matching operands."""
        if pattern in self.ops:
            return self.ops[pattern] is op
        if op.name != pattern.name or op in self.ops.values() or not self.usable(op):
            return False
        if len(op.results) != len(pattern.results) or not self._same_block(op):
            return False
        self.ops[pattern] = op
        self.values.update(zip(pattern.results, op.results, strict=True))
        if isinstance(pattern, ConstantOp) and isinstance(op, ConstantOp):
            return self.loose or (pattern.value == op.value and pattern.result.type == op.result.type)
        return isinstance(pattern, CallOp) and isinstance(op, CallOp) and self._calls(pattern, op)

    def _same_block(self, op: Operation) -> bool:
        return all(other.parent is op.parent for other in self.ops.values())

    def _calls(self, pattern: CallOp, op: CallOp) -> bool:
        if pattern.call_target() != op.call_target() or len(pattern.regions) != len(op.regions):
            return False
        if any(not a.is_structurally_equivalent(b) for a, b in zip(pattern.regions, op.regions, strict=True)):
            return False
        old, new = _arguments(pattern), _arguments(op)
        for name in {**old, **new}:
            if name in _SWITCHES:
                continue
            if name in old and name in new:
                if not self.tree(old[name], new[name]):
                    return False
                continue
            tree = old.get(name, new.get(name))
            if not (self._is_default(op, name, tree) or (self.loose and _is_constant_tree(tree))):
                return False
        return True

    def _is_default(self, op: CallOp, name: str | int, tree: Tree) -> bool:
        """Whether an argument that only one of the calls passes equals its default."""
        if isinstance(op, CallFunctionOp):
            defaults = _python_parameters(op.call_target() or "")
            return isinstance(tree, Attribute) and name in defaults and scalar_attr(defaults[str(name)]) == tree
        if not isinstance(op, TorchOp) or not isinstance(name, str):
            return False
        default = op.SCHEMA.by_name[name].default
        return default is not None and _is_constant(tree, default)

    def tree(self, pattern: KnownTree, tree: KnownTree) -> bool:
        if isinstance(pattern, SSAValue):
            return isinstance(tree, SSAValue) and self.value(pattern, tree)
        if isinstance(pattern, Attribute):
            return pattern == tree or (self.loose and isinstance(tree, Attribute))
        if isinstance(pattern, (list, tuple)):
            if not isinstance(tree, (list, tuple)):
                return False
            if len(pattern) != len(tree):
                return self.loose and _is_constant_tree(pattern) and _is_constant_tree(tree)
            return all(self.tree(a, b) for a, b in zip(pattern, tree, strict=True))
        if isinstance(pattern, dict):
            return isinstance(tree, dict) and list(pattern) == list(tree) and self.tree([*pattern.values()], [*tree.values()])
        return isinstance(tree, slice) and self.tree(
            [pattern.start, pattern.stop, pattern.step], [tree.start, tree.stop, tree.step]
        )


def _arguments(op: CallOp) -> Mapping[str | int, Tree]:
    """Return the arguments of ``op``: by schema name, or by position and keyword."""
    if isinstance(op, TorchOp):
        return {**op.bound()}
    args, kwargs = op.trees()
    names = list(_python_parameters(op.call_target() or "")) if isinstance(op, CallFunctionOp) else []
    positions: list[str | int] = [*names[: len(args)], *range(len(names), len(args))]
    return {**dict(zip(positions, args, strict=True)), **kwargs}


@cache
def _python_parameters(target: str) -> Mapping[str, Any]:
    """Return parameter -> default (``Parameter.empty`` for none) of a Python function; empty without a plain signature."""
    from fxc.bridge.callables import resolve_function

    try:
        parameters = inspect.signature(resolve_function(target)).parameters.values()
    except (TargetError, TypeError, ValueError):  # implemented in C, or a function of this process
        return {}
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return {}
    return {p.name: p.default for p in parameters}


def _is_constant_tree(tree: Tree) -> bool:
    return not any(isinstance(leaf, SSAValue) for leaf in leaves(tree))


def _is_constant(tree: Tree, text: str) -> bool:
    """Whether ``tree`` is the constant ``text`` of a schema."""
    try:
        return _python(tree) == ast.literal_eval(text)
    except (ValueError, SyntaxError, KeyError):  # a name (contiguous_format), or a value
        return False


def _python(tree: KnownTree) -> Any:
    if isinstance(tree, (list, tuple)):
        return [_python(element) for element in tree]
    if not isinstance(tree, Attribute):
        raise ValueError
    return scalar_of(tree)


def roots(pattern: Snippet) -> list[Operation]:
    """Return the distinct operations that compute the outputs, the last one first."""
    owners = {value.owner for value in pattern.outputs}
    return [op for op in reversed(list(pattern.block.ops)) if op in owners]


def bindings(pattern: Snippet, root: Operation, binding: PatternMatch) -> Iterator[PatternMatch]:
    """Yield all matches of ``pattern`` whose last output operation is ``root``; other outputs are searched in the same block.

    The arguments of its block match any value.
    """
    first, *others = roots(pattern)
    if binding.op(first, root):
        yield from _rest(others, binding)


def _rest(others: Sequence[Operation], binding: PatternMatch) -> Iterator[PatternMatch]:
    if not others:
        yield binding
        return
    first, *more = others
    if first in binding.ops:
        yield from _rest(more, binding)
        return
    block = next(iter(binding.ops.values())).parent
    assert block is not None
    for op in block.ops:
        attempt = binding.copy()
        if op.name == first.name and attempt.op(first, op):
            yield from _rest(more, attempt)
