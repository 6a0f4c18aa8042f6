"""A lexer for xDSL's tokens with one regex. Time is linear in the text, and malformed text raises only ParseError.

xDSL's lexer takes exponential time on a long string literal that is not closed, and twice the time on any other text.
"""

from __future__ import annotations

import re
from math import isinf
from typing import NoReturn, cast

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
