"""Parse calls with one regex: the text after the name of an op is cached, without value names, and looked up again.

``(%a, [2, 3], alpha = 2) : (tensor<2xf32>) -> tensor<2xf32>`` up to the end of the line. A graph has few distinct lines
of this kind; the full parser reads each once. This takes a third of the time of reading every token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.ir import Attribute, SSAValue

# Arguments have no strings, comments, parentheses or value elements (%a#1); types have no function types.
_LINE = re.compile(r'(\([^()"#/\n]*\)) : (\([^()\n]*\) -> [^\n]*?)(?=\n| loc\(|\Z)')
_NAME = re.compile(r"%([0-9A-Za-z$._-]+)")

Layout: TypeAlias = tuple[Mapping[str, Attribute], Sequence[int] | None]
"""How an op stores the arguments of a call: its properties, and the order of its operands where it differs from the text."""


@dataclass(frozen=True)
class Line:
    """The rest of a line from the arguments on: the text with values as ``%``, their names, and the text of the types."""

    arguments: str
    names: list[str]
    types: str
    end: int

    @classmethod
    def at(cls, content: str, start: int) -> Line | None:
        match = _LINE.match(content, start)
        if match is None:
            return None
        arguments = match[1]
        return cls(_NAME.sub("%", arguments), _NAME.findall(arguments), match[2], match.end())


@dataclass
class CallLines:
    """The lines that a parser has read: (op class, target, arguments) -> layout, and text -> operand and result types."""

    layouts: dict[tuple[type, str | None, str], Layout] = field(default_factory=lambda: {})
    types: dict[str, tuple[Sequence[Attribute], Sequence[Attribute]]] = field(default_factory=lambda: {})

    def known(
        self, ssa_values: Mapping[str, Sequence[SSAValue]], cls: type, target: str | None, line: Line
    ) -> tuple[Layout, list[SSAValue], Sequence[Attribute]] | None:
        """Layout, operands as written, and result types of ``line``; None if it is not cached or a value is undefined."""
        layout, types = self.layouts.get((cls, target, line.arguments)), self.types.get(line.types)
        if layout is None or types is None or len(types[0]) != len(line.names):
            return None
        operands = list[SSAValue]()
        for name, type in zip(line.names, types[0], strict=True):
            values = ssa_values.get(name)
            if values is None or len(values) != 1 or (values[0].type is not type and values[0].type != type):
                return None
            operands.append(values[0])
        return layout, operands, types[1]

    def learn(
        self, cls: type, target: str | None, line: Line, layout: Layout, types: tuple[Sequence[Attribute], Sequence[Attribute]]
    ) -> None:
        self.layouts[cls, target, line.arguments] = layout
        self.types[line.types] = types
