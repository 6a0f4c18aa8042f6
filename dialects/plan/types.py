"""Types of the ``plan`` dialect, and how many bytes a tensor takes."""

from __future__ import annotations

from xdsl.dialects.builtin import ComplexType, FixedBitwidthType, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition

from fxc.dialects.types import contiguous_strides, layout, sizes, strides

ALIGNMENT = 64
"""Bytes: what each offset in an arena is a multiple of. A line of the cache, and the widest vector."""


@irdl_attr_definition
class ArenaType(ParametrizedAttribute, TypeAttribute):
    """``!plan.arena``: one block of memory that buffers share."""

    name = "plan.arena"


@irdl_attr_definition
class EventType(ParametrizedAttribute, TypeAttribute):
    """``!plan.event``: a point in the work of a stream that another stream may wait for."""

    name = "plan.event"


def storage_bytes(type: Attribute) -> int | None:
    """How many bytes a tensor of ``type`` takes, from its first element to its last.

    None where that is not known: no strided tensor, sizes or strides that are not static, an element without a known size.
    """
    if not isinstance(type, TensorType) or layout(type) != "strided" or (width := _element_bytes(type.element_type)) is None:
        return None
    dims, steps = sizes(type), strides(type)
    if not all(isinstance(size, int) for size in dims):
        return None
    if steps is None:
        steps = contiguous_strides([int(size) for size in dims])
    if not all(isinstance(step, int) for step in steps):
        return None
    if 0 in dims:
        return 0
    return width * (1 + sum((int(size) - 1) * int(step) for size, step in zip(dims, steps, strict=True)))


def has_known_steps(type: TensorType) -> bool:
    """Whether the sizes and strides of a strided tensor of ``type`` are known, or have names."""
    return layout(type) == "strided" and "" not in sizes(type)


def _element_bytes(element: Attribute) -> int | None:
    if isinstance(element, ComplexType):
        part = _element_bytes(element.element_type)
        return None if part is None else 2 * part
    return (element.bitwidth + 7) // 8 if isinstance(element, FixedBitwidthType) else None


def aligned(bytes: int) -> int:
    """``bytes``, made a multiple of ``ALIGNMENT``."""
    return -(-bytes // ALIGNMENT) * ALIGNMENT
