"""Tensors of a model that lie in one memory: which of these a program cannot tell from others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations

import torch

from fxc.backends.frozen import state_name
from fxc.errors import CaptureError
from fxc.passes._written_arguments import written_arguments
from fxc.program import Program


def refuse_partial_sharing(program: Program) -> None:
    """CaptureError where a tensor of the model is written that shares a part of its memory with another: in a program they are
    two. Two names of the same elements are one."""
    pairs = list(_overlapping(program.state))
    if not pairs:
        return
    written = written_state(program)
    for first, second in pairs:
        if first in written or second in written:
            raise CaptureError(
                f"{first!r} and {second!r} share a part of their memory, and the model writes there",
                hint=f"keep one of them, and make the other of it in forward; or register a copy: {second} = {second}.clone()",
            )


def written_state(program: Program) -> set[str]:
    """The names of the model's tensors that ``program`` may write."""
    return {name for argument in written_arguments(program.main) if (name := state_name(program, argument)) is not None}


def _overlapping(state: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, str]]:
    """Names of tensors of one memory that are not the same elements, of which each may have some of the other's."""
    stored = defaultdict[int, list[str]](list)
    for name, tensor in state.items():
        if tensor.layout == torch.strided and tensor.numel():
            stored[tensor.untyped_storage().data_ptr()].append(name)
    for names in stored.values():
        for first, second in combinations(names, 2):
            a, b = state[first], state[second]
            (a_start, a_end), (b_start, b_end) = _range(a), _range(b)
            same = (a.data_ptr(), a.shape, a.stride(), a.dtype) == (b.data_ptr(), b.shape, b.stride(), b.dtype)
            if not same and a_start < b_end and b_start < a_end:
                yield first, second


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte, and the one behind the last."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()
