"""Cumulative operators, which kernels compute by ``tile.scan``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fxc.passes.operators.record import Operator, each

RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("cumsum.default", scan="add"),
        **each("cumprod.default", scan="mul"),
        **each("cummax.default", scan="max"),
        **each("cummin.default", scan="min"),
    }
)
"""Operator -> its record."""
