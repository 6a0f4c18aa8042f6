"""Verify the rules of ops, once for all ops with equal local state.

The local state of an op, its *key*, is its class, properties, attributes, operand and result types, number of successors, and
for each region the number of blocks and the argument types of the entry block. The IRDL definition of an op, and rules marked
``local``, depend on these only: if one op obeys them, so does every op with equal key. Other rules, and those of traits, may
depend on definitions, users, parents, children and symbols, and are checked for every op.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from inspect import getclosurevars
from typing import TypeAlias, TypeVar

from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import OpDef
from xdsl.traits import IsolatedFromAbove, NoTerminator, OpTrait, ReturnLike, SameOperandsAndResultType

from fxc.dialects.attributes.attribute_numbers import AttributeNumbers

Rule: TypeAlias = Callable[[Operation], None]
RuleT = TypeVar("RuleT", bound=Callable[..., None])

LOCAL_TRAITS = (NoTerminator, ReturnLike, SameOperandsAndResultType)
"""Traits whose rule depends on the key of an op only."""

LOCAL_RULES = frozenset({"xdsl.dialects.linalg.abstract_ops.LinalgStructuredOperation.verify_"})
"""``verify_`` methods of xDSL whose rule depends on the key of an op only."""

_MARK = "__local__"


def local(rule: RuleT) -> RuleT:
    """Mark a ``verify_`` that reads only the key of an op."""
    vars(rule)[_MARK] = True
    return rule


def is_local(rule: Rule) -> bool:
    """Whether ``rule`` is marked ``local``."""
    return hasattr(rule, _MARK)


class OpRules:
    """Caches the key of valid ops, and the valid ``functions``."""

    def __init__(self) -> None:
        self.functions = Snapshots()
        self._seen, self._numbers = set[Hashable](), AttributeNumbers()

    def verify(self, op: Operation, *, is_isolated: bool = False, callee: Attribute | None = None) -> None:
        """Check the rules of ``op``, without those of nested ops. Raises the exceptions of the rules.

        ``is_isolated``: no nested op reads a value from outside. ``callee``: ``op`` is a call of a function of this type, the
        only thing that its rules depend on beside its key.
        """
        full, beyond, isolation = _rules(type(op))
        key = self._key(op)
        if callee is not None:
            key, beyond = (key, self._numbers.of(callee)), ()
        if key not in self._seen:
            full(op)
            self._seen.add(key)
            return
        for rule in beyond:
            rule(op)
        if isolation is not None and not is_isolated:
            isolation(op)

    def _key(self, op: Operation) -> Hashable:
        numbers = self._numbers
        return (
            type(op),
            numbers.of_types(op._operands) if op._operands else (),
            numbers.of_types(op.results) if op.results else (),
            numbers.of_all(op.properties) if op.properties else (),
            numbers.of_all(op.attributes) if op.attributes else (),
            len(op._successors),
            tuple([self._region_key(region) for region in op.regions]) if op.regions else (),
        )

    def _region_key(self, region: Region) -> Hashable:
        first = region.first_block
        if first is None:
            return 0
        return len(region.blocks), self._numbers.of_types(first.args)


@lru_cache(maxsize=1 << 12)
def _rules(kind: type[Operation]) -> tuple[Rule, Sequence[Rule], Rule | None]:
    """All rules of a class of ops as one; the rules that do not depend on key only; the rule of ``IsolatedFromAbove``."""
    if kind.verify is not Operation.verify:
        return _verify_alone, (_verify_alone,), None
    beyond = _beyond(kind, kind.verify_)
    isolation = next((trait.verify for trait in kind.traits if isinstance(trait, IsolatedFromAbove)), None)
    return kind.verify_, [rule for rule in beyond if rule != isolation], isolation


def _verify_alone(op: Operation) -> None:
    op.verify(verify_nested_ops=False)


def _beyond(kind: type[Operation], rule: Callable[..., None]) -> list[Rule]:
    """The parts of ``rule`` that depend on more than the key of an op."""
    if rule is Operation.verify_ or is_local(rule) or f"{rule.__module__}.{rule.__qualname__}" in LOCAL_RULES:
        return []
    parts = getclosurevars(rule).nonlocals  # xDSL's decorator combines the rules of the definition and of the class
    if not isinstance(parts.get("op_def"), OpDef):
        return [rule]
    traits = [trait for trait in kind.traits if type(trait).verify is not OpTrait.verify]
    asked = [trait.verify for trait in traits if type(trait) not in LOCAL_TRAITS]
    return [*asked, *_beyond(kind, parts["custom_verify"])] if "custom_verify" in parts else asked


# Snapshots of valid functions of a module: a function that no pass changed is not verified again.


Snapshot = list[object]
"""An op and its nested ops, flat. Equal for the same ops, in the same order, of the same values, with equal attributes and
types."""


class Snapshots:
    """Caches snapshots of valid functions."""

    def __init__(self) -> None:
        self._heads, self._functions = Snapshot(), dict[Operation, Snapshot]()
        self._found = dict[Operation, Snapshot]()

    def start(self, module: Operation) -> None:
        """Record the parts of functions of ``module`` that other functions can see; a change invalidates all snapshots."""
        heads: Snapshot = [module, dict(module.properties), dict(module.attributes)]
        for op in _ops(module):
            _add_head(op, heads)
        if heads != self._heads:
            self._heads = heads
            self._functions.clear()

    def is_known(self, function: Operation) -> bool:
        """Whether ``function`` is unchanged since it was found valid."""
        if not function.has_trait(IsolatedFromAbove):
            return False
        found: Snapshot = [function.parent, function._operands, function.results]
        _add_regions(function, found)
        self._found[function] = found
        return self._functions.get(function) == found

    def add(self, function: Operation) -> None:
        """Record that ``function`` is valid, in its state at the last call of ``is_known``."""
        if (found := self._found.pop(function, None)) is not None:
            self._functions[function] = found


def _ops(op: Operation) -> Iterator[Operation]:
    return (inner for region in op.regions for block in region.blocks for inner in block.ops)


def _add_head(op: Operation, to: Snapshot) -> None:
    to += (op, dict(op.properties), dict(op.attributes))
    for region in op.regions:
        if (first := region.first_block) is not None:
            to.append([argument._type for argument in first.args])


def _add_regions(op: Operation, to: Snapshot) -> None:
    for region in op.regions:
        to.append(region)
        block = region.first_block
        while block is not None:
            _add_block(block, to)
            block = block.next_block


def _add_block(block: Block, to: Snapshot) -> None:
    to += (block, block._args, [argument._type for argument in block._args])
    op = block._first_op
    while op is not None:
        results = op.results
        to += (op, op.parent, op._operands, results, op.properties.copy(), op.attributes.copy())
        if results:
            to.append([result._type for result in results])
        if op._successors:
            to.append(op._successors)
        if op.regions:
            _add_regions(op, to)
        op = op._next_op
