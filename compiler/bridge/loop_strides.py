"""Result strides of ATen's elementwise loops on the CPU: ``TensorIteratorBase`` of ATen/native/TensorIterator.cpp.

A loop iterates over the dimensions in the memory order of its operands, and its result has that order. The strides of
dimensions of one element matter: they determine the position of such a dimension among the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import SymInt, Tensor
from torch._prims_common import make_channels_last_strides_for, make_contiguous_strides_for

Strides = tuple[int | SymInt, ...]


def loop_strides(operands: Sequence[Tensor], shape: Sequence[Any], scalars: bool) -> Strides:
    """Return the strides of a result of ``shape`` of a loop over ``operands``, and wrapped scalars if ``scalars``.

    The order of symbolic strides is decided by guards on sizes; whether a symbolic size is 1 adds no guard.
    """
    tensors = [operand for operand in operands if operand.dim()]
    if not tensors:
        return ()
    if not scalars and len(tensors) == len(operands) and all(_same(tensor.shape, shape) for tensor in tensors):
        if all(map(is_contiguous, tensors)):
            return make_contiguous_strides_for(tuple(shape))
        if len(shape) == 4 and all(_is_dense_in(tensor, (1, 3, 2, 0)) for tensor in tensors):
            return make_channels_last_strides_for(tuple(shape))
        if all(map(is_dense, tensors)) and all(_same(tensor.stride(), tensors[-1].stride()) for tensor in tensors):
            return tensors[-1].stride()
    return _in_order(_order([_steps(tensor, shape) for tensor in tensors], shape), shape)


def _steps(tensor: Tensor, shape: Sequence[Any]) -> list[Any]:
    """Return the strides of ``tensor`` expanded to ``shape``; 0 where it is broadcast."""
    new = len(shape) - tensor.dim()
    sizes, strides = tensor.shape, tensor.stride()
    broadcast = [is_same(size, 1) and not is_same(shape[new + i], 1) for i, size in enumerate(sizes)]
    return [0] * new + [0 if still else stride for still, stride in zip(broadcast, strides, strict=True)]


def _order(operands: Sequence[Sequence[Any]], shape: Sequence[Any]) -> list[int]:
    """Return the dimensions, innermost first, by insertion sort, as the comparison is not a total order."""
    order = list(reversed(range(len(shape))))
    for i in range(1, len(order)):
        place = i
        for inner in reversed(range(i)):
            comparison = _compare(operands, shape, order[inner], order[place])
            if comparison > 0:
                order[inner], order[place] = order[place], order[inner]
                place = inner
            elif comparison < 0:
                break
    return order


def _compare(operands: Sequence[Sequence[Any]], shape: Sequence[Any], inner: int, outer: int) -> int:
    """Return 1 if the two dimensions must be swapped, -1 if not, 0 if no operand decides."""
    for strides in operands:
        a, b = strides[inner], strides[outer]
        if is_same(a, 0) or is_same(b, 0):
            continue
        if is_same(a, b):
            if not _at_least(shape[outer], shape[inner]):
                return 1
            continue
        if _at_least(b, a):
            return -1
        if _at_least(a, b):
            return 1
    return 0


def is_contiguous(tensor: Tensor) -> bool:
    """Whether the tensor is known to be contiguous; adds no guard."""
    return _is_dense_in(tensor, range(tensor.dim() - 1, -1, -1))


def _is_dense_in(tensor: Tensor, order: Sequence[int]) -> bool:
    """Whether elements are dense in memory with dimensions in this order, innermost first."""
    steps: list[Any] = [1, 1]  # PyTorch counts the size of an empty dimension as 1, or as 0
    for dim in order:
        size, stride = tensor.shape[dim], tensor.stride(dim)
        if is_same(size, 1):
            continue
        if not any(is_same(stride, step) for step in steps):
            return False
        steps = [steps[0] * size, steps[1] * torch.sym_max(size, 1)]
    return True


def is_dense(tensor: Tensor) -> bool:
    """Whether the elements are dense in memory, in any order of dimensions."""
    steps = [(size, stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if not is_same(size, 1)]
    step: int | SymInt = 1
    while steps:
        found = next((i for i, (_, stride) in enumerate(steps) if is_same(stride, step)), None)
        if found is None:
            return False
        step *= steps.pop(found)[0]
    return True


def _in_order(order: Sequence[int], shape: Sequence[Any]) -> Strides:
    if list(order) == list(reversed(range(len(shape)))):
        return make_contiguous_strides_for(tuple(shape))
    strides, step = [1] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(is_same(x, y) for x, y in zip(a, b, strict=True))


def _at_least(a: Any, b: Any) -> bool:
    """Whether the nonnegative ``a`` is at least ``b``."""
    if isinstance(a, int) and isinstance(b, int):
        return a >= b
    if is_same(a, 0) or is_same(b, 0):
        return is_same(b, 0)
    if is_same(a % b, 0):
        return True
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return guard_or_false(a >= b)


def is_same(a: int | SymInt, b: int | SymInt) -> bool:
    """Whether the numbers are known to be equal; adds no guard."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(a == b)
