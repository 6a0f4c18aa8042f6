"""Source notes of kernels: ``tile.source`` lists operators and lines of the user's program, printed as comments."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ArrayAttr, StringAttr

from fxc.dialects.attributes.values import isa
from fxc.dialects.fusion import GroupOp
from fxc.dialects.text.diagnostics import user_line
from fxc.dialects.tile.kernel import SOURCE
from fxc.dialects.torch_ops.base import TorchOp


def listed(op: object) -> list[StringAttr]:
    """The notes of ``op``, if it is a group that has some."""
    found = op.attributes.get(SOURCE) if isinstance(op, GroupOp) else None
    return [item for item in found if isinstance(item, StringAttr)] if isa(found, ArrayAttr) else []


def notes(ops: Iterable[TorchOp]) -> ArrayAttr[StringAttr]:
    """``mul = aten.mul.Tensor: return x * 0.5  (model.py:12)`` for each op.

    The user's line is omitted where it is that of the op before.
    """
    found, last = list[StringAttr](), None
    for op in ops:
        names = ", ".join(result.name_hint or "_" for result in op.results)
        line = user_line(op.location)
        found.append(StringAttr(f"{names} = {op.operator}" + (f": {line}" if line and line != last else "")))
        last = line
    return ArrayAttr(found)
