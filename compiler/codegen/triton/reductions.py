"""Print ops that combine the lanes of a block: reductions, scans, dot products; and random numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from xdsl.dialects.builtin import BFloat16Type
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.codegen.triton.spelling import bits, is_bool, is_float
from fxc.codegen.triton.writer import Writer, refusal
from fxc.dialects.tile import DotOp, RandomOp, ReduceOp, ScanOp
from fxc.dialects.tile.types import element_of, shape_of

_COMBINE: Mapping[str, str] = MappingProxyType(
    {
        "add": "add",
        "mul": "multiply",
        "max": "maximum",
        "min": "minimum",
        "and": "bit_and",
        "or": "bit_or",
        "xor": "bit_xor",
    }
)
"""Kind of reduction -> the helper that combines two lanes."""

_SCAN: Mapping[str, str] = MappingProxyType({**_COMBINE, "max": "later_maximum", "min": "later_minimum"})
"""Kind of scan -> the helper that combines a lane with those before it."""

SMALLEST_FACTOR = 16
"""The minimum size of each dimension of the factors of a dot product."""


def _reduce(writer: Writer, op: ReduceOp) -> str:
    element, kind = element_of(op.value.type), op.kind.data
    value, back = _wide(writer, op, op.value, element)
    dims = [int(dim) for dim in op.dims.get_values()]
    if not dims:
        return f"{value}{back}"
    for dim in reversed(dims):
        if kind == "add":
            value = f"tl.sum({value}, axis={dim})"
        else:
            value = f"tl.reduce({value}, {dim}, {writer.helper(_COMBINE[kind])})"
    return f"{value}{back}"


def _scan(writer: Writer, op: ScanOp) -> str:
    element, kind, dim = element_of(op.value.type), op.kind.data, op.dim.value.data
    value, back = _wide(writer, op, op.value, element)
    if kind == "add":
        return f"tl.cumsum({value}, axis={dim}){back}"
    return f"tl.associative_scan({value}, {dim}, {writer.helper(_SCAN[kind])}){back}"


def _dot(writer: Writer, op: DotOp) -> str:
    """A dot product in IEEE precision; by default, NVIDIA GPUs round float32 operands to 10 bits."""
    [rows, inner], [_, columns] = shape_of(op.left.type), shape_of(op.right.type)
    if min(rows, inner, columns) < SMALLEST_FACTOR:
        raise refusal(op, f"Triton multiplies blocks of {SMALLEST_FACTOR}x{SMALLEST_FACTOR} and more", "give it larger blocks")
    if bits(element_of(op.result.type)) > 32:
        raise refusal(op, "not every GPU multiplies blocks of float64", "leave it to the library")
    factors = f"{writer.typed(op.left)}, {writer.typed(op.right)}, {writer.typed(op.start)}"
    return f'tl.dot({factors}, input_precision="ieee")'


def _wide(writer: Writer, op: ReduceOp | ScanOp, value: SSAValue, element: Attribute) -> tuple[str, str]:
    """The operand in a type that Triton reduces without promotion, and the cast back."""
    text, type = writer.typed(value), writer.dtype(element)
    if is_bool(element):
        if op.kind.data not in ("and", "or", "xor"):
            raise refusal(
                op, f'booleans are combined by "and", "or" and "xor", not by "{op.kind.data}"', "cast them to an integer first"
            )
        return f"{text}.to(tl.int32)", " != 0"
    if isinstance(element, BFloat16Type):
        return f"{text}.to(tl.float32)", f".to({type})"
    if not is_float(element) and bits(element) < 32:
        return f"{text}.to(tl.int32)", f".to({type})"
    return text, ""


def _random(writer: Writer, op: RandomOp) -> str:
    return f"{writer.helper('random_words')}({writer.typed(op.seed)}, {writer.typed(op.offsets)})"


RULES: Mapping[type[Operation], Callable[[Writer, Any], str]] = MappingProxyType(
    {ReduceOp: _reduce, ScanOp: _scan, DotOp: _dot, RandomOp: _random}
)
"""Op -> the expression of its result."""
