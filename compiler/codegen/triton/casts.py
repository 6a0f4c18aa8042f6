"""Conversions between types: ``tile.cast``, and those of ``arith``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.ir import Operation, SSAValue

from fxc.codegen.triton.spelling import bits, element_type, is_bool
from fxc.codegen.triton.writer import Writer
from fxc.dialects.tile import CastOp

_KINDS: Mapping[type[Operation], str] = MappingProxyType(
    {
        arith.ExtFOp: "extf",
        arith.TruncFOp: "truncf",
        arith.SIToFPOp: "sitofp",
        arith.UIToFPOp: "uitofp",
        arith.FPToSIOp: "fptosi",
        arith.FPToUIOp: "fptoui",
        arith.ExtSIOp: "extsi",
        arith.ExtUIOp: "extui",
        arith.TruncIOp: "trunci",
        arith.IndexCastOp: "index_cast",
        arith.BitcastOp: "bitcast",
    }
)


def cast(writer: Writer, op: Operation) -> str | None:
    """The expression of a conversion; None where ``op`` is none."""
    kind = op.kind.data if isinstance(op, CastOp) else _KINDS.get(type(op))
    if kind is None:
        return None
    source, result = op.operands[0], op.results[0].type
    value, target = writer.typed(source), writer.dtype(result)
    from_bool, to_bool = is_bool(element_type(source.type)), is_bool(element_type(result))
    if kind == "bitcast":
        return f"{value}.to({target}, bitcast=True)"
    if kind in ("sitofp", "extsi") and from_bool:
        return f"{value}.to({target}) * -1"  # the one bit of a true i1 is its sign
    if kind in ("uitofp", "extui") and not from_bool:
        return f"{unsigned(writer, source)}.to({target})"
    if kind == "trunci" and to_bool:
        return f"({value} & 1) != 0"
    if kind in ("fptosi", "fptoui") and to_bool:
        return f"{value} != 0.0"
    if kind == "fptoui":
        width = bits(element_type(result))
        return f"{value}.to(tl.uint{width}).to({target}, bitcast=True)"
    if kind == "index_cast" and not isinstance(source.type, VectorType):
        return f"tl.cast({value}, {target})"  # what a loop counts is a Python number in Triton's interpreter
    return f"{value}.to({target})"


def unsigned(writer: Writer, value: SSAValue) -> str:
    """``value``, its bits read as a number without a sign."""
    element = element_type(value.type)
    if is_bool(element):
        return writer.typed(value)
    width = writer.ranges.bits if isinstance(element, IndexType) else bits(element)
    return f"{writer.typed(value)}.to(tl.uint{width}, bitcast=True)"
