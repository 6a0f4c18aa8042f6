"""Print the locations of ops as comments: lines of the user's code, and names of FX nodes."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Operation

from fxc.bridge.location import stack_trace
from fxc.dialects.attributes.values import isa

SOURCE = "tile.source"
"""The attribute that lists the nodes that a kernel computes; a launch has one if its list differs from the kernel's."""

_WIDTH, _NAMES = 120, 60
"""The maximum length, in characters, of a comment with a source line and of one with names."""


class SourceLines:
    """Comments with the user's source lines; a line that repeats the one before is omitted."""

    def __init__(self) -> None:
        self._last = ""

    def comment(self, location: Attribute) -> Iterator[str]:
        """``# model.py:12: return self.linear(x)``, unless the op before has the same line."""
        text = _place(location)
        if text and text != self._last:
            self._last = text
            yield f"# {text}"[:_WIDTH]


def _place(location: Attribute) -> str:
    lines = (stack_trace(location) or "").strip().splitlines()
    frames = [i for i, line in enumerate(lines) if line.strip().startswith('File "')]
    if not frames:
        return ""
    own = [i for i in frames if "/torch/" not in lines[i]]
    at = (own or frames)[-1]
    file, number, *_ = lines[at].strip().removeprefix('File "').replace('", line ', ",").split(",")
    code = lines[at + 1].strip() if at + 1 < len(lines) and at + 1 not in frames else ""
    return f"{file.rpartition('/')[2]}:{number}" + (f": {code}" if code else "")


def node_names(kernel: Operation) -> str:
    """The FX nodes that a kernel or a launch computes: ``mul, gelu``."""
    listed = kernel.attributes.get(SOURCE)
    items = [item.data for item in listed.data if isinstance(item, StringAttr)] if isa(listed, ArrayAttr) else []
    names = [item.partition(" = ")[0].partition(":")[0] for item in items]
    text = ", ".join(dict.fromkeys(names))
    return text if len(text) <= _NAMES else f"{text[:_NAMES].rpartition(',')[0]}, ..."
