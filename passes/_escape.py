"""Which values hold memory: the only ones of which it matters who writes them and where they end up."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute

from fxc.dialects.types import BoolType, FloatType, IntType, NoneValueType

_IMMUTABLE = (IntType, FloatType, BoolType, NoneValueType, IntegerType, IndexType)


def is_mutable(type: Attribute) -> bool:
    """Whether a value of ``type`` may hold memory that an op can write."""
    return not isinstance(type, _IMMUTABLE)
