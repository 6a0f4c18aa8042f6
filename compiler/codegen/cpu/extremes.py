"""The larger and the smaller of two floats: NaN where one is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fxc.codegen.cpu.builder import Builder
from fxc.codegen.cpu.lanes import join, pieces
from fxc.codegen.cpu.types import I8, I16, I32, Type, Value

_RANGE: Mapping[str, int] = MappingProxyType({"max": 5, "min": 4})
"""What AVX-512's ``vrange`` is to do: compare with signs."""


def extreme(b: Builder, kind: str, left: Value, right: Value) -> Value:
    """``kind`` is max or min; -0.0 is below 0.0. LLVM's own code for it has twice as many instructions, one after the other."""
    lanes = {"float": 16, "double": 8}.get(left.type.element, 0)
    if "avx512dq" not in b.module.features or not lanes or (left.type.lanes or 1) % lanes:
        return b.intrinsic(f"llvm.{kind}imum", left, right)
    count = (left.type.lanes or 1) // lanes
    pairs = zip(pieces(b, left, count), pieces(b, right, count), strict=True)
    return join(b, [_in_register(b, kind, *pair) for pair in pairs])


def later_extreme(b: Builder, kind: str, left: Value, right: Value) -> Value:
    """``kind`` is max or min; of equal ones ``right``."""
    right = b.select(b.compare("uno", left, left), left, right)
    return b.select(b.compare("ogt" if kind == "max" else "olt", left, right), left, right)


def _in_register(b: Builder, kind: str, left: Value, right: Value) -> Value:
    type: Type = left.type
    letter, mask = ("s", Value("-1", I16)) if type.element == "float" else ("d", Value("-1", I8))
    name, none = f"llvm.x86.avx512.mask.range.p{letter}.512", Value("zeroinitializer", type)
    of_numbers = b.call(name, type, left, right, Value(str(_RANGE[kind]), I32), none, mask, Value("4", I32))
    return b.select(b.compare("uno", left, right), b.add(left, right), of_numbers)
