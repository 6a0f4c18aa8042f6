"""LLVM types of kernels: scalars and vectors, with their text and their suffix in names of intrinsics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IndexType, IntegerType, VectorType
from xdsl.ir import Attribute

from fxc.dialects.tile.types import element_of
from fxc.errors import KernelError

_SUFFIXES: Mapping[str, str] = MappingProxyType({"half": "f16", "float": "f32", "double": "f64", "ptr": "p0", "bfloat": "i16"})
_BITS: Mapping[str, int] = MappingProxyType({"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64})


@dataclass(frozen=True)
class Type:
    """A scalar (``lanes`` is None) or a vector of scalars. ``bfloat`` is represented by its bits, as i16 in LLVM text."""

    element: str
    lanes: int | None = None

    def __str__(self) -> str:
        element = "i16" if self.element == "bfloat" else self.element
        return element if self.lanes is None else f"<{self.lanes} x {element}>"

    @property
    def suffix(self) -> str:
        """The suffix of intrinsics, as in ``llvm.fabs.v16f32``."""
        element = _SUFFIXES.get(self.element, self.element)
        return element if self.lanes is None else f"v{self.lanes}{element}"

    @property
    def is_float(self) -> bool:
        return self.element in ("half", "bfloat", "float", "double")

    @property
    def bits(self) -> int:
        return _BITS.get(self.element) or int(self.element[1:])

    def of(self, element: str) -> Type:
        """The type with the same lanes and another element."""
        return Type(element, self.lanes)

    def with_lanes(self, lanes: int | None) -> Type:
        return Type(self.element, lanes)


@dataclass(frozen=True)
class Value:
    """An operand: a name or a constant, and its type."""

    text: str
    type: Type

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


I1, I8, I16, I32, I64, PTR = (Type(name) for name in ("i1", "i8", "i16", "i32", "i64", "ptr"))


def element_text(type: Attribute) -> str:
    """The LLVM type of a scalar type in registers."""
    match type:
        case Float32Type():
            return "float"
        case Float64Type():
            return "double"
        case Float16Type():
            return "half"
        case BFloat16Type():
            return "bfloat"
        case IndexType():
            return "i64"
        case IntegerType():
            return f"i{type.width.data}"
        case _:
            raise KernelError(f"a kernel on the CPU has no values of type {type}")


def llvm_type(type: Attribute) -> Type:
    """The LLVM type of ``type``. Blocks become flat vectors in row-major order."""
    element = element_text(element_of(type))
    return Type(element, prod(type.get_shape()) if isinstance(type, VectorType) else None)


def storage(type: Type) -> Type:
    """The type of a value in memory: i1 becomes a byte, other types stay."""
    return type.of("i8") if type.element == "i1" else type
