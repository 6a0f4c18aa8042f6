"""What a kernel computes of the user's program: lines of its ``tile.source``, which are comments where it is printed."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ArrayAttr, StringAttr

from fxc.dialects.text.diagnostics import user_line
from fxc.dialects.torch_ops.base import TorchOp

SOURCE = "tile.source"
"""The attribute of a group, and of its kernels, that says what it computes."""


def notes(ops: Iterable[TorchOp]) -> ArrayAttr[StringAttr]:
    """``mul = aten.mul.Tensor: return x * 0.5  (model.py:12)`` for each op; the user's line where the op before has another."""
    found, last = list[StringAttr](), None
    for op in ops:
        names = ", ".join(result.name_hint or "_" for result in op.results)
        line = user_line(op.location)
        found.append(StringAttr(f"{names} = {op.operator}" + (f": {line}" if line and line != last else "")))
        last = line
    return ArrayAttr(found)
