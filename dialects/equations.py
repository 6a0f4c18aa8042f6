"""Patterns and replacements as traced functions, for passes that apply them. The compiler traces them with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from xdsl.dialects.builtin import DictionaryAttr, FunctionType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from fxc.dialects.attributes.values import leaves
from fxc.dialects.fx import OutputOp

COMPOSITE, OPERATORS, JOINT = "composite", "operators", "joint"
"""Levels of a trace: before autograd, with composite operators; below autograd; with the gradients of the results."""


@dataclass(frozen=True, eq=False)
class Snippet:
    """The operations of a function: ``block`` has no terminator; ``outputs`` are the results, flat.

    The other fields have what the operations refer to: operators missing in the table, submodules, tensors, and live objects.
    """

    block: Block
    outputs: list[SSAValue]
    operators: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)
    modules: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)
    tensors: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)
    state: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)
    live: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)
    level: str = field(default=COMPOSITE, compare=False)


class Equation(Protocol):
    """A pattern and its replacement.

    ``arguments`` has an attribute for each parameter: the type of a tensor, or the literal of a number. ``symbols``: those of
    the module.
    """

    name: str
    exclusive: Sequence[int]
    """Parameters that match distinct values."""
    keeps_gradients: bool
    """Whether autograd computes the same gradients of both."""

    def structures(self) -> Sequence[Snippet]:
        """The structures of the pattern, one for each level and rank. Their constants and types are those of one example.

        A number that is a parameter is an argument of the block, of type ``!torch.int`` or ``!torch.float``.
        """
        ...

    def pattern(self, level: str, arguments: Sequence[Attribute], symbols: DictionaryAttr | None) -> Snippet | None:
        """The pattern at ``arguments``, whose block has an argument for each tensor; None if it does not accept them."""
        ...

    def replacement(self, level: str, arguments: Sequence[Attribute], symbols: DictionaryAttr | None) -> Snippet | None:
        """The replacement at ``arguments``; None if it does not accept them."""
        ...

    def accepts(self, arguments: Sequence[Attribute], symbols: DictionaryAttr | None, place: str | None) -> bool:
        """Whether the condition of the user holds for a match."""
        ...


def snippet_of(block: Block, level: str = COMPOSITE, **declarations: Any) -> Snippet:
    """The operations of ``block``, whose terminator is removed: ``func.return``, or ``fx.output`` of values only."""
    last = block.last_op
    if isinstance(last, OutputOp):
        outputs: list[Any] = list(leaves(last.trees()[0][0]))
    else:
        assert isinstance(last, ReturnOp)
        outputs = list(last.operands)
    block.erase_op(last)
    return Snippet(block, outputs, level=level, **declarations)


def function_of(snippet: Snippet, name: str = "main") -> FuncOp:
    """A function with the operations of ``snippet``, which move into it."""
    snippet.block.add_op(ReturnOp(*snippet.outputs))
    types = snippet.block.arg_types, [value.type for value in snippet.outputs]
    return FuncOp(name, FunctionType.from_lists(*types), Region(snippet.block))


def body_of(function: FuncOp, level: str = COMPOSITE) -> Snippet:
    """The operations of ``function``, which move out of it."""
    block = function.body.block
    function.body.detach_block(block)
    return snippet_of(block, level)


def needed_operations(snippet: Snippet, wanted: Callable[[SSAValue], bool] = lambda value: True) -> set[Operation]:
    """The operations of ``snippet`` that its outputs depend on, through ``wanted`` values."""
    needed, pending = set[Operation](), list(snippet.outputs)
    while pending:
        value = pending.pop()
        if isinstance(value.owner, Operation) and value.owner not in needed and wanted(value):
            needed.add(value.owner)
            pending += value.owner.operands
    return needed
