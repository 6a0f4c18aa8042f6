"""In which order the elements of images lie in memory."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from fxc.dialects import types


def is_image(type: Attribute) -> bool:
    """Whether ``type`` is a batch of images of known sizes."""
    return isinstance(type, TensorType) and len(type.get_shape()) == 4 and all(isinstance(n, int) for n in types.sizes(type))


def is_channels_last(type: Attribute) -> bool:
    """Whether images lie pixel by pixel; those of one channel, or of one pixel, may lie contiguous as well."""
    if not isinstance(type, TensorType) or not is_image(type):
        return False
    _, channels, height, width = sizes = type.get_shape()
    steps = types.strides(type) or types.contiguous_strides(sizes)
    return tuple(steps) == (channels * height * width, 1, width * channels, channels)


def is_only_channels_last(type: Attribute) -> bool:
    """Whether images lie pixel by pixel, and in no other order as well."""
    return isinstance(type, TensorType) and types.strides(type) is not None and is_channels_last(type)
