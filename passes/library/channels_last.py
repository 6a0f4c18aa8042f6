"""Which convolutions of PyTorch, and which of their gradients, to call with images in channels_last."""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import device, tensor_of
from fxc.dialects.attributes.values import KnownTree, isa
from fxc.dialects.target import CpuAttr, GpuAttr, TargetAttr
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, integers, number
from fxc.passes.library.layouts import is_image
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import role_of

CONVOLUTIONS = (Role.CONVOLUTION, Role.CONVOLUTION_BACKWARD)
_ANY = CpuAttr.of()
_SMALL = 64
"""Channels up to which a GPU gains nothing from channels_last."""
_FEW = 300
"""Operations for each convolution from which layouts of images do not matter on a GPU."""


def gain_in_channels_last(function: FuncOp, target: TargetAttr | None) -> Set[TorchOp]:
    """The convolutions in ``function``, and gradients of such, that are faster in channels_last on ``target``.

    On a CPU those of oneDNN, which copies contiguous images in each call. On a GPU of NVIDIA all or none: none with groups of
    several channels, or with large windows that lead to half the channels or fewer, which are slower there, and none where
    all are small, or other operations prevail.
    """
    calls = [op for op in function.walk() if isinstance(op, TorchOp) and role_of(op) in CONVOLUTIONS]
    if target is None or not calls:
        return frozenset()
    if isinstance(target, GpuAttr) and not _gains_on_gpu(function, calls):
        return frozenset()
    able = (op for op in calls if is_able(op, target))
    return {op for op in able if all(device(tensor_of(each)).split(":")[0] == target.DEVICE for each in images_of(op))}


def images_of(op: TorchOp) -> list[SSAValue]:
    """The images that a convolution or its gradient reads: the weight is none."""
    return [value for name in ("grad_output", "input") if isa(value := op.bound().get(name), SSAValue)]


def is_able(op: TorchOp, target: TargetAttr = _ANY) -> bool:
    """Whether ``op`` computes a convolution of images, or its gradients, well in channels_last.

    oneDNN's kernels for it return wrong numbers for some results of one column, and crash for some windows without a pixel.
    Not where the gradient of the weight, which is copied to the layout of the weight, is larger than the images.
    """
    given, images, gains = op.bound(), images_of(op), target.gains_in_channels_last
    weight, padding, steps = given["weight"], pair(given.get("padding"), 0), pair(given.get("dilation"), 1)
    if not isa(weight, SSAValue) or not all(is_image(x.type) and gains(dtype(x.type)) for x in (weight, *images)):
        return False
    if number(given.get("transposed")) or padding is None or steps is None:
        return False
    if any(_shape(image)[3] == 1 for image in (*images, op.results[0]) if is_image(image.type)):
        return False
    area, elements = prod(_shape(weight)[2:]), [prod(_shape(value)) for value in (weight, *images)]
    if role_of(op) is Role.CONVOLUTION_BACKWARD and area > 1 and min(elements) > 0 and 2 * elements[0] > sum(elements):
        return False
    extents = [step * (size - 1) + 1 for step, size in zip(steps, _shape(weight)[2:], strict=True)]
    found = zip(padding, extents, _shape(images[-1])[2:], strict=True)
    return all(2 * pad < extent <= size for pad, extent, size in found)


def pair(tree: KnownTree | None, default: int) -> list[int] | None:
    """``tree`` as two numbers, if it is omitted, one number, or two; None for a string."""
    found = integers(tree if isinstance(tree, (list, tuple)) else [tree]) if tree is not None else [default]
    return found * (2 // len(found)) if found else None


def _shape(value: SSAValue) -> Sequence[int]:
    """The sizes of a tensor, -1 where one is free."""
    return tensor_of(value).get_shape()


def _gains_on_gpu(function: FuncOp, calls: Sequence[TorchOp]) -> bool:
    forwards = [op for op in calls if role_of(op) is Role.CONVOLUTION]
    known = [(number(op.argument("groups")), _shape(op.bound()["weight"])) for op in forwards]
    shapes = [(groups, sizes) for groups, sizes in known if len(sizes) == 4]
    is_narrowing = any(2 * outer <= inner and height > 1 for _, (outer, inner, height, _) in shapes)
    is_grouped = any(groups not in (None, 1) and inner > 1 for groups, (_, inner, *_) in shapes)
    small = all(max(outer, inner) <= _SMALL for _, (outer, inner, *_) in shapes)
    return not (is_grouped or is_narrowing or small) and sum(1 for _ in function.walk()) < _FEW * len(forwards)
