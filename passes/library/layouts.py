"""The memory layout of images: contiguous or channels_last."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import Dim, is_tensor
from fxc.dialects.attributes.values import enum_attr, int_attr
from fxc.dialects.context import FxcContext
from fxc.passes.rewriting.insertion import insert_call


def is_image(type: Attribute) -> bool:
    """Whether ``type`` is a batch of images of static sizes. The number of images may be free."""
    return is_tensor(type) and len(type.get_shape()) == 4 and all(isinstance(n, int) for n in types.sizes(type)[1:])


def is_channels_last(type: Attribute) -> bool:
    """Whether images are in channels_last. Images of one channel or one pixel may also be contiguous."""
    return is_tensor(type) and is_image(type) and _steps(type) == _last_steps(type)


def is_only_channels_last(type: Attribute) -> bool:
    """Whether images are in channels_last and not contiguous as well."""
    return is_tensor(type) and types.strides(type) is not None and is_channels_last(type)


def is_turned(type: TensorType) -> bool:
    """Whether elements are contiguous along a dimension other than the last; False if that is not known."""
    pairs = list(zip(types.sizes(type), types.strides(type) or (), strict=False))
    if not pairs or not all(isinstance(number, int) for pair in pairs for number in pair):
        return False
    *others, (size, step) = pairs
    return size != 1 and step != 1 and any(size != 1 and step == 1 for size, step in others)


def laid_out(context: FxcContext, image: SSAValue, before: Operation, *, last: bool) -> Operation:
    """Lay out ``image`` in channels_last if ``last``, else contiguously: a copy, or a view where no element moves."""
    assert is_tensor(image.type)
    sizes = image.type.get_shape()
    steps = _last_steps(image.type) if last else types.contiguous_strides(sizes)
    if -1 in sizes or any(size != 1 and a != b for size, a, b in zip(sizes, _steps(image.type), steps, strict=True)):
        formats = {"memory_format": enum_attr("channels_last" if last else "contiguous_format")}
        insert_call(context, "aten.clone.default", [image], before, formats)
    else:
        numbers = ([*map(int_attr, each)] for each in (sizes, steps))
        insert_call(context, "aten.as_strided.default", [image, *numbers], before)
    assert before.prev_op is not None
    return before.prev_op


def _steps(type: TensorType) -> tuple[Dim, ...]:
    return tuple(types.strides(type) or types.contiguous_strides(type.get_shape()))


def _last_steps(type: TensorType) -> tuple[Dim, ...]:
    _, channels, height, width = type.get_shape()
    return (channels * height * width, 1, width * channels, channels)
