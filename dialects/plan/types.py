"""Types of the ``plan`` dialect, and storage sizes of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import IntAttr, StringAttr, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import contiguous_strides, device, element_bytes, is_tensor, layout, sizes, strides
from fxc.dialects.base.effects import EffectsInterface

ALIGNMENT = 64
"""The alignment of offsets in an arena, in bytes: a cache line and the widest vector."""


@irdl_attr_definition
class ArenaType(ParametrizedAttribute, TypeAttribute):
    """``!plan.arena<65536, "cpu">``: a block of this many bytes on a device, which buffers share."""

    name = "plan.arena"
    bytes: IntAttr
    device: StringAttr

    @classmethod
    def of(cls, bytes: int, device: str) -> ArenaType:
        return cls(IntAttr(bytes), StringAttr(device))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            bytes = parser.parse_integer(allow_boolean=False)
            parser.parse_punctuation(",")
            return [IntAttr(bytes), StringAttr(parser.parse_str_literal())]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.bytes.data}, ")
            printer.print_string_literal(self.device.data)

    def verify(self) -> None:
        if self.bytes.data < 0:
            raise VerifyException(f"plan.arena: there is no block of {self.bytes.data} bytes")


@irdl_attr_definition
class EventType(ParametrizedAttribute, TypeAttribute):
    """``!plan.event``: a position in the work of a stream that another stream can wait for."""

    name = "plan.event"


def storage_bytes(type: Attribute) -> int | None:
    """The bytes of a tensor of ``type`` from its first to its last element, or of an arena.

    None where that is unknown: the tensor is not strided, sizes or strides are dynamic, or the element has no known size.
    """
    if isinstance(type, ArenaType):
        return type.bytes.data
    if not is_tensor(type) or layout(type) != "strided" or (width := element_bytes(type.element_type)) is None:
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
    """Whether a strided tensor of ``type`` has only static or named sizes and strides."""
    return layout(type) == "strided" and "" not in sizes(type)


def aligned(bytes: int) -> int:
    """``bytes`` rounded up to a multiple of ``ALIGNMENT``."""
    return -(-bytes // ALIGNMENT) * ALIGNMENT


def fill_the_same(first: Attribute, second: Attribute) -> bool:
    """Whether tensors of both types are dense, on one device, with an equal number of elements of one dtype."""
    if not is_tensor(first) or not is_tensor(second) or device(first) != device(second):
        return False
    alike = first.element_type == second.element_type and _elements(first) == _elements(second)
    return alike and is_dense(first) and is_dense(second)


def _elements(type: TensorType) -> int | None:
    dims = sizes(type)
    return prod(int(size) for size in dims) if all(isinstance(size, int) for size in dims) else None


def is_dense(type: TensorType) -> bool:
    """Whether the bytes of a tensor of ``type`` are exactly those of its elements, each once."""
    width, bytes, elements = element_bytes(type.element_type), storage_bytes(type), _elements(type)
    if width is None or bytes is None or elements is None or bytes != width * elements:
        return False
    dims, steps = [int(size) for size in sizes(type)], strides(type)
    filled = 1
    for step, size in sorted((int(step), size) for step, size in zip(steps or contiguous_strides(dims), dims, strict=True)):
        if size != 1 and step != filled:
            return False
        filled *= size
    return True


# effects that the ops of the ``plan`` dialect share


class PlanEffects(EffectsInterface):
    """An op that states its writes and releases, and retains no memory."""

    def writes(self) -> list[SSAValue]:
        return []

    def may_retain(self) -> bool:
        return False


class MemoryEffects(PlanEffects):
    """An op that allocates or fills memory: equal ones are not merged, and one is dead if its memory is not read."""

    def has_side_effect(self) -> bool:
        return False

    def is_pure(self) -> bool:
        return False
