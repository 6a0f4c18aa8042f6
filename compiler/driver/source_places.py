"""Parse a module and record the line and column of every op, for errors about ops without a location."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError

from fxc.dialects.text.diagnostics import location_text, place_of
from fxc.dialects.text.syntax import FxcParser

_COMMENT = re.compile(r"//[^\n]*")


@dataclass(frozen=True)
class SourcePlaces:
    """Source positions of the ops of a parsed text. Stored outside of the IR, because locations would be printed with it."""

    filename: str
    text: str
    starts: dict[Operation, int]

    def place_of(self, op: Operation) -> str | None:
        """``file:line:column`` of the op in the text, and its location; for an op that a pass made, its location only."""
        start = self.starts.get(op)
        if start is None:
            return place_of(op)
        line = self.text.count("\n", 0, start) + 1
        column = start - self.text.rfind("\n", 0, start)
        location = location_text(op.location)
        return f"{self.filename}:{line}:{column}" + (f" ({location})" if location else "")


class _PlacingParser(FxcParser):
    def __init__(self, context: Context, text: str, filename: str) -> None:
        super().__init__(context, text, filename)
        self.starts: dict[Operation, int] = {}

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        self.starts[op] = start
        return op

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        try:
            return super().parse_module(allow_implicit_module)
        except ParseError as error:
            if error.msg.startswith("values used but not defined"):  # xDSL reports it at the end of the text
                self._undefined()
            raise

    def _undefined(self) -> NoReturn:
        name, by_index = next(iter(self.forward_ssa_references.items()))
        use = next(iter(by_index.values())).first_use
        start = 0 if use is None else self.starts.get(use.operation, 0)
        found = re.compile(rf"%{re.escape(name)}(?![\w$.-])").search(self.lexer.input.content, start)
        self.raise_error(f"%{name} is not defined", *(found.span() if found else ()))


def parse_with_places(context: Context, text: str, filename: str) -> tuple[ModuleOp, SourcePlaces]:
    """Parse a module and record source positions. A text of comments only is an empty module. Raises ParseError."""
    if not _COMMENT.sub("", text).strip():
        return ModuleOp([]), SourcePlaces(filename, text, {})
    parser = _PlacingParser(context, text, filename)
    try:
        module = parser.parse_module()
    except ParseError:
        raise
    except RecursionError:
        parser.raise_error("the text is nested too deeply")
    except Exception as error:  # the constructor of an attribute or op rejects its arguments: the text is invalid
        parser.raise_error(str(error) or type(error).__name__)
    return module, SourcePlaces(filename, text, parser.starts)
