"""Comparison of types for given values of symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType, TupleType
from xdsl.ir import Attribute

from fxc.bridge.tensors import number_at
from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import BoolType, FloatType, IntType, is_tensor


def same_types(some: Sequence[Attribute], others: Sequence[Attribute], numbers: Mapping[str, int]) -> bool:
    """Whether these types are equivalent for these values of symbols; strides matter only if there are elements."""
    return len(some) == len(others) and all(_same_type(a, b, numbers) for a, b in zip(some, others, strict=True))


def _same_type(a: Attribute, b: Attribute, numbers: Mapping[str, int]) -> bool:
    if a == b:
        return True
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return same_types(a.types.data, b.types.data, numbers)
    if isinstance(a, (IntType, FloatType, BoolType)) and type(a) is type(b) and not a.expression.data:
        return True
    if isinstance(a, IntType) and isinstance(b, IntType):
        return (number := number_at(a.expression.data, numbers)) is not None and number == number_at(b.expression.data, numbers)
    if not is_tensor(a) or not is_tensor(b):
        return False
    if _kind(a) != _kind(b):
        return False
    shape, other = sizes_at(a, numbers), sizes_at(b, numbers)
    if shape is None or shape != other:
        return False
    steps = zip(shape, _strides(a, shape, numbers), _strides(b, shape, numbers), strict=True)
    return 0 in shape or all(size == 1 or (x is not None and x == y) for size, x, y in steps)


def _kind(type: TensorType) -> tuple[object, ...]:
    return type.element_type, types.device(type), types.layout(type)


def sizes_at(type: TensorType, numbers: Mapping[str, int]) -> list[int] | None:
    found = [number_at(size, numbers) for size in types.sizes(type)]
    known = [size for size in found if size is not None]
    return known if len(known) == len(found) else None


def _strides(type: TensorType, shape: list[int], numbers: Mapping[str, int]) -> Sequence[int | None]:
    steps = types.strides(type)
    return types.contiguous_strides(shape) if steps is None else [number_at(step, numbers) for step in steps]
