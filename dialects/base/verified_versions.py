"""The functions of a module as they were when they obeyed all rules, so that what no pass changed is not verified again.

Functions here are all ops of the module that see no value of their surroundings. A function obeys its rules or not by what is
in it, and by what can be seen of the others without looking into them: their names, attributes, and arguments.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation
from xdsl.traits import IsolatedFromAbove

Snapshot = list[object]
"""An op and all in it, flat: equal for the same ops, in the same order, of the same values, with equal attributes and types."""


class Snapshots:
    """What obeyed the rules, as long as this is kept."""

    def __init__(self) -> None:
        self._heads, self._functions = Snapshot(), dict[Operation, Snapshot]()
        self._found = dict[Operation, Snapshot]()

    def start(self, module: Operation) -> None:
        """Note what functions of ``module`` can see of each other; all are to be verified where that is not as it was."""
        heads: Snapshot = [module, dict(module.properties), dict(module.attributes)]
        for op in _ops(module):
            _add_head(op, heads)
        if heads != self._heads:
            self._heads = heads
            self._functions.clear()

    def is_known(self, function: Operation) -> bool:
        """Whether ``function`` is as it was when it obeyed the rules."""
        if not function.has_trait(IsolatedFromAbove):
            return False
        found: Snapshot = [function.parent, function._operands, function.results]
        _add_regions(function, found)
        self._found[function] = found
        return self._functions.get(function) == found

    def add(self, function: Operation) -> None:
        """Note that ``function``, as it was when ``is_known`` was asked, obeys the rules."""
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
