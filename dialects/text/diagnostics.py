"""Show an op in an error: one line of text, and its location.

A dialect or a pass that finds an invalid op raises ``OpVerifyException``, ``OpPassFailedException`` or ``OpRefusedException``;
the runner reads its ``op``. Unlike ``Operation.emit_error`` neither prints the module, which takes seconds for a large one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TextIO

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import PassFailedException, VerifyException

from fxc.dialects.text.syntax import op_text

LINE_LIMIT = 160


class OpVerifyException(VerifyException):
    """``op`` breaks a rule of its level."""

    def __init__(self, message: str, op: Operation) -> None:
        super().__init__(message)
        self.op = op


class OpPassFailedException(PassFailedException):
    """A pass fails because of ``op``."""

    def __init__(self, message: str, op: Operation) -> None:
        super().__init__(message)
        self.op = op


class OpRefusedException(OpPassFailedException):
    """A program that PyTorch runs, but that fxc cannot represent as a whole, because of ``op``. ``hint``: what to change."""

    def __init__(self, message: str, op: Operation, hint: str) -> None:
        super().__init__(message, op)
        self.hint = hint


def one_line(op: Operation) -> str:
    """One line that shows ``op``, even where the op is too malformed to print."""
    try:
        return op_text(op, LINE_LIMIT)
    except Exception:  # a malformed op may not print; the original error matters more
        return f'"{op.name}"(...)'


def place_of(op: Operation) -> str | None:
    """The location of the op, else that of the nearest enclosing op that has one, else the enclosing symbol."""
    around: Operation | None = op
    symbol: str | None = None
    while around is not None:
        if (place := location_text(around.location)) is not None:
            return place
        name = around.get_attr_or_prop("sym_name")
        if symbol is None and isinstance(name, StringAttr):
            symbol = f"in @{name.data}"
        around = around.parent_op()
    return symbol


def user_line(location: Attribute) -> str | None:
    """The innermost user line of a stack trace, outside of PyTorch, with its location: ``return x * 0.5  (model.py:12)``."""
    frames = list(_frames(location))
    if not frames:
        return None
    own = [frame for frame in frames if _is_of_user(frame[0])]
    file, line, code = (own or frames)[-1]
    place = f"{file.rpartition('/')[2]}:{line}"
    return f"{code}  ({place})" if code else place


def _is_of_user(file: str) -> bool:
    """Whether ``file`` is neither PyTorch's nor code that FX generated, such as the branches of ``torch.cond``."""
    return "/torch/" not in file and not file.startswith("<eval_with_key>")


def _frames(location: Attribute) -> Iterator[tuple[str, int, str]]:
    """File, line and code of each frame, outermost first."""
    match location:
        case NameLoc(location=FileLineColLoc() as place) if location.desc.data.startswith("in "):
            yield place.filename.data, place.line.data, location.desc.data.partition(": ")[2].partition("\n")[0].strip()
        case NameLoc():
            yield from _frames(location.location)
        case CallSiteLoc():
            yield from _frames(location.caller)
            yield from _frames(location.callee)
        case FusedLoc(locations=ArrayAttr() as parts):
            for part in parts:
                yield from _frames(part)
        case _:
            pass


def location_text(location: Attribute) -> str | None:
    """A location in readable form: for a stack trace, the innermost of the user. None for an unknown location."""
    match location:
        case FileLineColLoc():
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        case NameLoc(location=FileLineColLoc() as frame) if location.desc.data.startswith("in "):
            code, _, _ = location.desc.data.partition("\n")  # Python's markers below the line follow
            return f"{frame.filename.data}:{frame.line.data} {code}"
        case NameLoc():
            inner = location_text(location.location)
            return f'"{location.desc.data}"' + (f" at {inner}" if inner else "")
        case CallSiteLoc():
            return location_text(location.callee) or location_text(location.caller)
        case FusedLoc(locations=ArrayAttr() as locations):
            parts = [part for part in locations if location_text(part) is not None]
            frames = [part for part in parts if isinstance(part, NameLoc) and isinstance(part.location, FileLineColLoc)]
            own = [frame for frame in frames if _is_of_user(frame.location.filename.data)]  # type: ignore[union-attr]
            return location_text([*parts[:1], *frames[-1:], *own[-1:]][-1]) if parts else None
        case _:
            return None


def to_stderr(text: str) -> None:
    """Write to what ``sys.stderr`` is now: others may redirect it, and it is None in a process without one."""
    stream: TextIO | None = sys.stderr
    if stream is not None:
        stream.write(text)
