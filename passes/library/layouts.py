"""The memory layout of images: contiguous or channels_last."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from fxc.dialects.attributes import types
from fxc.dialects.attributes.types import is_tensor


def is_image(type: Attribute) -> bool:
    """Whether ``type`` is a batch of images of static sizes."""
    return is_tensor(type) and len(type.get_shape()) == 4 and all(isinstance(n, int) for n in types.sizes(type))


def is_channels_last(type: Attribute) -> bool:
    """Whether images are in channels_last. Images of one channel or one pixel may also be contiguous."""
    if not is_tensor(type) or not is_image(type):
        return False
    _, channels, height, width = sizes = type.get_shape()
    steps = types.strides(type) or types.contiguous_strides(sizes)
    return tuple(steps) == (channels * height * width, 1, width * channels, channels)


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
