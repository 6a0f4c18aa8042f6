"""Whether a constant fits the type of an argument in a schema, as PyTorch's dispatcher converts Python values.

A number fits a tensor, and a truth value or a dtype an integer; one number fits a list whose schema states its length. Values
that are no constants, and types that are not listed here, are left to PyTorch.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute

from fxc.dialects.attributes.values import (
    ComplexAttr,
    DeviceAttr,
    DictAttr,
    DTypeAttr,
    EllipsisAttr,
    LayoutAttr,
    MemoryFormatAttr,
    NoneValueAttr,
    RangeAttr,
    SliceAttr,
    TupleAttr,
    isa,
)

_REAL = (IntegerAttr, FloatAttr)
_NUMBERS = (*_REAL, ComplexAttr)
_NAMED_INTEGERS = (DTypeAttr, LayoutAttr, MemoryFormatAttr)
_CONSTANTS: frozenset[type[Attribute]] = frozenset([
    *_NUMBERS, *_NAMED_INTEGERS, StringAttr, NoneValueAttr, ArrayAttr, TupleAttr, DictAttr, RangeAttr, SliceAttr, DeviceAttr,
    EllipsisAttr,
])  # fmt: skip
_FITTING: dict[str, tuple[type[Attribute], ...]] = {
    "Tensor": (*_NUMBERS, NoneValueAttr),  # none: an undefined tensor
    "Scalar": _NUMBERS,
    "complex": _NUMBERS,
    "float": _REAL,
    "int": (IntegerAttr, *_NAMED_INTEGERS),
    "SymInt": (IntegerAttr,),
    "bool": (IntegerAttr,),
    "str": (StringAttr,),
    "ScalarType": (DTypeAttr, IntegerAttr),
    "Layout": (LayoutAttr, IntegerAttr),
    "MemoryFormat": (MemoryFormatAttr, IntegerAttr),
    "Device": (DeviceAttr, StringAttr),
}


def fits(value: Attribute, expected: str) -> bool:
    """Whether ``value``, a template of an argument, may be passed for ``expected``, a type of a schema."""
    kind = type(value)
    if kind not in _CONSTANTS:
        return True
    if expected.endswith("?"):
        return kind is NoneValueAttr or fits(value, expected[:-1])
    if expected.endswith("]"):
        element, _, length = expected[:-1].rpartition("[")
        if isa(value, ArrayAttr) or isinstance(value, TupleAttr):
            return all(fits(each, element) for each in (value.elements if isinstance(value, TupleAttr) else value).data)
        return kind is RangeAttr or (length != "" and fits(value, element))
    return expected not in _FITTING or kind in _FITTING[expected]
