"""A lexer for xDSL's tokens with one regex, and lines of calls that are read as a whole.

xDSL's lexer takes exponential time on a long string literal that is not closed, and twice the time on any other text. Here time
is linear in the text, and malformed text raises only ParseError. A graph has few distinct lines such as
``(%a, [2, 3], alpha = 2) : (tensor<2xf32>) -> tensor<2xf32>``: the text after the name of an op is cached without value names,
and looked up again, which takes a third of the time of reading every token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import NoReturn, TypeAlias, cast

from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

SPACE = r"(?:\s++|//[^\n]*+)*+"
IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_$.]*+"
SUFFIX = r"(?:[0-9]++|[A-Za-z$._-][A-Za-z0-9$._-]*+)"
STRING = r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"'
DIGITS = 1000
"""The maximum digits of an integer literal: Python refuses to convert much longer ones."""
_KINDS = {
    "PERCENT_IDENT": f"%{SUFFIX}",
    "BARE_IDENT": IDENTIFIER,
    "PUNCTUATION": r"->|\.\.\.|\{-#|#-\}|[:,(){}\[\]<>=+/*?|-]",
    "FLOAT_LIT": r"[0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)?+",
    "INTEGER_LIT": r"0x[0-9a-fA-F]++|[0-9]++",
    "STRING_LIT": STRING,
    "EXCLAMATION_IDENT": f"!{SUFFIX}",
    "HASH_IDENT": f"#{SUFFIX}",
    "AT_IDENT": f"@(?:{IDENTIFIER}|{STRING})",
    "CARET_IDENT": rf"\^{SUFFIX}",
    "EOF": r"\Z",
}
_TOKEN = re.compile(SPACE + "(?:" + "|".join(f"({pattern})" for pattern in _KINDS.values()) + ")", re.ASCII)
_SPACE = re.compile(SPACE, re.ASCII)
_BY_GROUP = [None, *(None if name == "PUNCTUATION" else MLIRTokenKind[name] for name in _KINDS)]
_PUNCTUATION = KIND_BY_PUNCTUATION_SPELLING
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+")
_HEX_ESCAPE = re.compile(r"\\[0-9A-Fa-f]")


_PARENTHESES = re.compile(f"{STRING}|[()]")


def closing(text: str, start: int) -> int | None:
    """The position after the first parenthesized text from ``start`` on, ignoring strings; None where it is not closed."""
    depth = 0
    for match in _PARENTHESES.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        if depth <= 0 and match.group() in "()":
            return match.end()
    return None


class TextToken(Token[MLIRTokenKind, str]):
    """A token that stores its text, and makes its span on first access."""

    __slots__ = ("_input", "_start", "kind", "text")

    def __init__(self, kind: MLIRTokenKind, text: str, start: int, input: Input[str]) -> None:
        self.kind, self.text, self._start, self._input = kind, text, start, input  # type: ignore[misc]

    @property
    def span(self) -> Span[str]:  # type: ignore[override]
        return Span(self._start, self._start + len(self.text), self._input)


class FxcLexer(MLIRLexer):
    """Lexes the tokens of ``MLIRLexer``; only strings and comments may hold non-ASCII characters."""

    def lex(self) -> MLIRToken:
        match = _TOKEN.match(self.input.content, self.pos)
        if match is None:
            self._fail()
        group = cast(int, match.lastindex)
        text, self.pos = match[group], match.end()
        token = TextToken(_BY_GROUP[group] or _PUNCTUATION[text], text, self.pos - len(text), self.input)
        if token.kind is MLIRTokenKind.STRING_LIT and _HEX_ESCAPE.search(text):
            if not StringLiteral.from_span(token.span).bytes_contents.isascii():
                token.kind = MLIRTokenKind.BYTES_LIT
        elif token.kind is MLIRTokenKind.INTEGER_LIT:
            if len(text) > DIGITS:
                raise ParseError(token.span, f"an integer literal of more than {DIGITS} digits")
            if (exponent := _EXPONENT.match(self.input.content, self.pos)) is not None:
                raise ParseError(token.span, f"a float has a point: write {text}.0{exponent.group()}")
        elif token.kind is MLIRTokenKind.FLOAT_LIT and isinf(float(text)):
            raise ParseError(token.span, f"{text} is too large for a float")
        return token

    def _fail(self) -> NoReturn:
        space = _SPACE.match(self.input.content, self.pos)
        start = self.pos if space is None else space.end()
        char = self.input.content[start]
        if char == '"' or self.input.content.startswith('@"', start):
            message = "a string literal that does not end on its line, or with an unknown escape sequence"
        elif char in "%@#!^":
            message = f"an identifier expected after {char}"
        else:
            message = f"unexpected character {char!r}"
        raise ParseError(Span(start, start + 1, self.input), message)


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
