"""Which convolutions of PyTorch, and which of their gradients, to call with images in channels_last."""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import device, is_tensor
from fxc.dialects.attributes.values import KnownTree, isa
from fxc.dialects.target import GpuAttr, TargetAttr
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, integers, number
from fxc.passes.library.layouts import is_image
from fxc.passes.operators.record import Role
from fxc.passes.operators.table import role_of

CONVOLUTIONS = (Role.CONVOLUTION, Role.CONVOLUTION_BACKWARD)
_DTYPES = ("float32", "bfloat16", "float16")
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
    if isinstance(target, GpuAttr) and not (target.arch.data.startswith("sm_") and _gains_on_gpu(function, calls)):
        return frozenset()
    place = "cuda" if isinstance(target, GpuAttr) else "cpu"
    return {op for op in calls if is_able(op) and all(device(image.type).split(":")[0] == place for image in images_of(op))}  # type: ignore[arg-type]


def images_of(op: TorchOp) -> list[SSAValue]:
    """The images that a convolution or its gradient reads: the weight is none."""
    return [value for name in ("grad_output", "input") if isa(value := op.bound().get(name), SSAValue)]


def is_able(op: TorchOp) -> bool:
    """Whether ``op`` computes a convolution of images, or its gradients, well in channels_last.

    oneDNN's kernels for it return wrong numbers for some results of one column, and crash for some windows without a pixel.
    Not where the gradient of the weight, which is copied to the layout of the weight, is larger than the images.
    """
    given, images = op.bound(), images_of(op)
    weight, padding, steps = given["weight"], pair(given.get("padding"), 0), pair(given.get("dilation"), 1)
    if not isa(weight, SSAValue) or not all(is_image(x.type) and dtype(x.type) in _DTYPES for x in (weight, *images)):
        return False
    if number(given.get("transposed")) or padding is None or steps is None:
        return False
    if any(shape_of(image)[3] == 1 for image in (*images, op.results[0]) if is_image(image.type)):
        return False
    area, elements = prod(shape_of(weight)[2:]), [prod(shape_of(value)) for value in (weight, *images)]
    if role_of(op) is Role.CONVOLUTION_BACKWARD and area > 1 and min(elements) > 0 and 2 * elements[0] > sum(elements):
        return False
    extents = [step * (size - 1) + 1 for step, size in zip(steps, shape_of(weight)[2:], strict=True)]
    found = zip(padding, extents, shape_of(images[-1])[2:], strict=True)
    return all(2 * pad < extent <= size for pad, extent, size in found)


def pair(tree: KnownTree | None, default: int) -> list[int] | None:
    """``tree`` as two numbers, if it is omitted, one number, or two; None for a string."""
    found = integers(tree if isinstance(tree, (list, tuple)) else [tree]) if tree is not None else [default]
    return found * (2 // len(found)) if found else None


def shape_of(value: SSAValue) -> Sequence[int]:
    """The sizes of a tensor, -1 where one is free."""
    assert is_tensor(value.type)
    return value.type.get_shape()


def _gains_on_gpu(function: FuncOp, calls: Sequence[TorchOp]) -> bool:
    forwards = [op for op in calls if role_of(op) is Role.CONVOLUTION]
    known = [(number(op.argument("groups")), shape_of(op.bound()["weight"])) for op in forwards]
    shapes = [(groups, sizes) for groups, sizes in known if len(sizes) == 4]
    is_narrowing = any(2 * outer <= inner and height > 1 for _, (outer, inner, height, _) in shapes)
    is_grouped = any(groups not in (None, 1) and inner > 1 for groups, (_, inner, *_) in shapes)
    small = all(max(outer, inner) <= _SMALL for _, (outer, inner, *_) in shapes)
    return not (is_grouped or is_narrowing or small) and sum(1 for _ in function.walk()) < _FEW * len(forwards)
