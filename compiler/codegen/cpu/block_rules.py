"""Lower ops of ``tile`` that create and permute blocks, and the functions of ``math``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from xdsl.ir import Operation

from fxc.codegen.cpu.arith_rules import Rule
from fxc.codegen.cpu.builder import Builder, constant, i64, vector_constant
from fxc.codegen.cpu.conversions import extend, in_float, truncate
from fxc.codegen.cpu.lanes import numbers, permute, stretch
from fxc.codegen.cpu.types import I32, Type, Value, llvm_type
from fxc.codegen.cpu.vector_math import call_math
from fxc.dialects.tile import ExpandOp, IotaOp, MaskOp, MathOp, SplatOp, TransposeOp
from fxc.dialects.tile.types import shape_of


def places(shape: tuple[int, ...], dim: int, element: Type) -> Value:
    """A constant with the index of each lane along ``dim``."""
    if not shape:
        return constant(element, 0)
    along = numbers(shape) // int(numbers(shape[dim + 1 :]).size) % shape[dim]
    return vector_constant(element, [str(place) for place in along.ravel()])


def _iota(b: Builder, op: IotaOp) -> Value:
    type = llvm_type(op.result.type)
    return places(shape_of(op.result.type), op.dim.value.data, type.with_lanes(None))


def _mask(b: Builder, op: MaskOp, start: Value, stop: Value) -> Value:
    """Compare 32-bit lane numbers with the number of remaining lanes: 64-bit indices need twice as many registers."""
    shape, dim = shape_of(op.result.type), op.dim.value.data
    left = b.intrinsic("llvm.smin", b.sub(stop, start), i64(shape[dim] if shape else 1))
    left = b.cast("trunc", b.intrinsic("llvm.smax", left, i64(0)), "i32")
    lanes = llvm_type(op.result.type).lanes
    return b.compare("slt", places(shape, dim, I32), b.splat(left, lanes))


def _splat(b: Builder, op: SplatOp, value: Value) -> Value:
    return b.splat(value, llvm_type(op.result.type).lanes)


def _expand(b: Builder, op: ExpandOp, value: Value) -> Value:
    shape, dim = shape_of(op.result.type), op.dim.value.data
    return stretch(b, value, [*shape[:dim], 1, *shape[dim + 1 :]], shape)


def _transpose(b: Builder, op: TransposeOp, value: Value) -> Value:
    return permute(b, value, shape_of(op.value.type), [int(dim) for dim in op.permutation.get_values()])


# functions

_LIBRARY_NAMES = {"powf": "pow"}
_INTRINSICS = ("ceil", "floor", "trunc", "round", "roundeven", "sqrt", "copysign")


def _function(name: str, b: Builder, op: Operation, *values: Value) -> Value:
    """The function ``name`` of the C library."""
    return _in_library_types(b, name, *values)


def _in_library_types(b: Builder, name: str, *values: Value) -> Value:
    element = values[0].type.element
    if element not in ("half", "bfloat"):
        return call_math(b, name, *values)
    return truncate(b, call_math(b, name, *(extend(b, value, "float") for value in values)), element)


def _intrinsic(name: str, b: Builder, op: Operation, *values: Value) -> Value:
    return in_float(b, partial(b.intrinsic, f"llvm.{name}"), *values)


def _fma(b: Builder, op: Operation, *values: Value) -> Value:
    return in_float(b, partial(b.intrinsic, "llvm.fma"), *values)


def _absolute_integer(b: Builder, op: Operation, value: Value) -> Value:
    return b.intrinsic_with_flag("llvm.abs", value)


def _power_to_integer(b: Builder, op: Operation, base: Value, power: Value) -> Value:
    def raised(x: Value) -> Value:
        return call_math(b, "pow", x, b.cast("sitofp", power, x.type.element))

    return in_float(b, raised, base)


def _tile_math(b: Builder, op: MathOp, *values: Value) -> Value:
    return _in_library_types(b, op.kind.data, *values)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "tile.iota": _iota,
        "tile.mask": _mask,
        "tile.splat": _splat,
        "tile.expand": _expand,
        "tile.transpose": _transpose,
        "tile.math": _tile_math,
        "math.fma": _fma,
        "math.absf": partial(_intrinsic, "fabs"),
        "math.absi": _absolute_integer,
        "math.fpowi": _power_to_integer,
        **{f"math.{name}": partial(_intrinsic, name) for name in _INTRINSICS},
        **{
            f"math.{name}": partial(_function, _LIBRARY_NAMES.get(name, name))
            for name in """acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf exp exp2 expm1 log log10 log1p log2 powf
                rsqrt sin sinh tan tanh""".split()
        },
    }
)
"""Op name -> rule."""
