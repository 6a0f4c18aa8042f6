"""Spell types, constants and names of the IR in Triton."""

from __future__ import annotations

import itertools
import keyword
import math
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.attributes.values import isa
from fxc.dialects.base.names import UniqueNames, python_name
from fxc.errors import KernelError

_FLOATS: Mapping[type, tuple[str, str, int]] = MappingProxyType(
    {
        Float16Type: ("float16", "fp16", 16),
        BFloat16Type: ("bfloat16", "bf16", 16),
        Float32Type: ("float32", "fp32", 32),
        Float64Type: ("float64", "fp64", 64),
    }
)
"""Float type -> its name in ``tl``, its name in a signature, its bits."""


def is_float(type: Attribute) -> bool:
    return _float(type) is not None


def is_half(type: Attribute) -> bool:
    return isinstance(type, (Float16Type, BFloat16Type))


def is_bool(type: Attribute) -> bool:
    return isinstance(type, IntegerType) and type.bitwidth == 1


def bits(type: Attribute) -> int:
    """The size of an element in bits, for all types except ``index``."""
    spelling = _float(type)
    if spelling is not None:
        return spelling[2]
    return _integer(type).bitwidth


def dtype(type: Attribute, index_bits: int) -> str:
    """``tl.float32`` for ``f32``; ``index`` has ``index_bits``. Raises KernelError for a type that Triton does not have."""
    if isinstance(type, IndexType):
        return f"tl.int{index_bits}"
    spelling = _float(type)
    if spelling is not None:
        return f"tl.{spelling[0]}"
    prefix = "uint" if _integer(type).signedness.data is Signedness.UNSIGNED else "int"
    return f"tl.{prefix}{bits(type)}"


def signature_type(type: Attribute, index_bits: int) -> str:
    """``fp32`` for ``f32``, ``i64`` for ``index``: the spelling in the signature of a kernel."""
    spelling = _float(type)
    return spelling[1] if spelling is not None else dtype(type, index_bits).replace("tl.int", "i")


def constant_value(value: Attribute) -> int | float:
    """The number of a constant, or of a block constant whose lanes are equal. Integers are signed, except ``i1``."""
    if isa(value, DenseIntOrFPElementsAttr):
        if not value.is_splat():
            raise KernelError("a block with different constants in its lanes cannot be written in Triton")
        number, type = cast(int | float, next(iter(value.get_values()))), value.get_element_type()
    elif isa(value, IntegerAttr) or isa(value, FloatAttr):
        number, type = value.value.data, value.type
    else:
        raise KernelError(f"{value} is not a number")
    return abs(int(number)) if is_bool(type) else number


def literal(number: int | float, type: Attribute) -> str | None:
    """``number`` as a Python literal, or None if Triton reads the literal differently: bools and -0.0."""
    if is_bool(type) or (is_float(type) and number == 0 and math.copysign(1, number) < 0):
        return None
    if not is_float(type):
        return str(int(number))
    if not math.isfinite(number):
        return f'float("{float(number)}")'
    return _shortest(float(number)) if isinstance(type, Float32Type) else repr(float(number))


def full(shape: tuple[int, ...], number: int | float, type: Attribute, index_bits: int) -> str:
    """A constant with an explicit shape and type; ``()`` is the shape of a scalar."""
    text, name = literal(number, type), dtype(type, index_bits)
    if is_bool(type):
        return f"tl.full({shape}, {bool(number)}, tl.int1)"
    if text is None:
        width = bits(type)
        return f"tl.full({shape}, {-(1 << width - 1)}, tl.int{width}).to({name}, bitcast=True)"
    return f"tl.full({shape}, {text}, {name})"


def _shortest(number: float) -> str:
    """The shortest decimal that rounds to the same single-precision number."""
    wanted = struct.pack("f", number)
    candidates = (float(f"{number:.{digits}g}") for digits in range(1, 10))
    return repr(next(each for each in candidates if struct.pack("f", each) == wanted))


def _float(type: Attribute) -> tuple[str, str, int] | None:
    return _FLOATS.get(type.__class__)


def _integer(type: Attribute) -> IntegerType:
    if not isa(type, IntegerType) or type.bitwidth not in (1, 8, 16, 32, 64):
        raise KernelError(f"Triton has no type for {type}")
    return type


RESERVED = frozenset({"tl", "triton", "libdevice", "float", "range", *keyword.kwlist})
"""Names that the printed file itself uses."""


def value_names(kernel: Operation, taken: frozenset[str]) -> dict[SSAValue, str]:
    """A unique name for every value in ``kernel``, in the order of the text; none is in ``taken`` or ``RESERVED``."""
    names, unique, number = dict[SSAValue, str](), UniqueNames(taken | RESERVED), itertools.count()
    for op in kernel.walk():
        inside = (argument for region in op.regions for block in region.blocks for argument in block.args)
        for value in (*op.results, *inside):
            names[value] = unique.fresh(f"v{next(number)}" if value._name is None else python_name(value._name))
    return names
