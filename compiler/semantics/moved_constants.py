"""A module with other constants: to see how much it matters that a constant is rounded to its type."""

from __future__ import annotations

import math
import struct

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, ModuleOp
from xdsl.ir import Attribute

from fxc.dialects.text.syntax import clone_module

ULP = 2.0**-23
"""The last digit of a float32."""


def with_moved_constants(module: ModuleOp) -> ModuleOp:
    """A copy of ``module`` in which float constants are about one digit of float32 larger, but those that any type holds: 0.5,
    or 30."""
    moved = clone_module(module)
    for op in moved.walk():
        for values in (op.properties, op.attributes):
            for name, value in values.items():
                values[name] = _moved(value)
    return moved


def _moved(value: Attribute) -> Attribute:
    if isinstance(value, ArrayAttr):
        return ArrayAttr([_moved(each) for each in value])
    if not isinstance(value, FloatAttr) or _is_short(value.value.data):
        return value
    return FloatAttr(value.value.data * (1 + ULP), value.type)


def _is_short(number: float) -> bool:
    """Whether twelve bits hold the digits of ``number``."""
    if not math.isfinite(number):
        return True
    (bits,) = struct.unpack("<q", struct.pack("<d", number))
    return bits & ((1 << 41) - 1) == 0
