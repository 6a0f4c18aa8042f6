"""Memory overlap of tensors, and copies that share memory as their originals do."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import torch

from fxc.errors import TORCH_COMPILE
from fxc.runtime.guards import PLAIN
from fxc.runtime.lazy import marked_like, marks


def memory_range(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the address range [start, end) of a strided ``tensor``."""
    start = tensor.data_ptr()
    if tensor.is_contiguous():
        return start, start + tensor.nbytes
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


def elements_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """The address, shape, strides, dtype and marks of ``tensor``, which identify its elements."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, marks(tensor)


def share_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two strided tensors with elements have a byte in common. Interleaved columns of one matrix do not."""
    if a.device != b.device:
        return False
    (a_start, a_end), (b_start, b_end) = memory_range(a), memory_range(b)
    if a_start >= b_end or b_start >= a_end:
        return False
    if a.is_contiguous() and b.is_contiguous():
        return True
    start = min(a_start, b_start)
    taken = torch.zeros(max(a_end, b_end) - start, dtype=torch.bool, device="cpu")
    _bytes(taken, a, start).fill_(True)
    return bool(_bytes(taken, b, start).any())


def shared_pair(values: Sequence[Any], written: Set[int]) -> tuple[int, int] | None:
    """Return indices of two tensors that share memory, at least one of them in ``written``, or None.

    Skips values that are not strided tensors, and tensors without elements.
    """
    ranges = sorted(
        (*memory_range(value), i)
        for i, value in enumerate(values)
        if type(value) in PLAIN and value.layout is torch.strided and value.numel()
    )
    for position, (_, end, i) in enumerate(ranges, 1):
        while position < len(ranges) and ranges[position][0] < end:
            j = ranges[position][2]
            if (i in written or j in written) and share_bytes(values[i], values[j]):
                return min(i, j), max(i, j)
            position += 1
    return None


def _bytes(memory: torch.Tensor, tensor: torch.Tensor, start: int) -> torch.Tensor:
    """View the bytes of ``tensor`` in ``memory``, which represents memory from the address ``start`` on."""
    size = tensor.element_size()
    strides = [stride * size for stride in tensor.stride()]
    return memory.as_strided((*tensor.shape, size), (*strides, 1), tensor.data_ptr() - start)


def copy_with(tensor: torch.Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    """Return a copy of a strided tensor. ``storages`` has a copy of each storage, shared by copies as by their originals."""
    storage = tensor.untyped_storage()
    key = storage.data_ptr() or storage._cdata
    if key not in storages:
        storages[key] = storage.clone()
    made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return marked_like(made.set_(storages[key], tensor.storage_offset(), tensor.shape, tensor.stride()), tensor)


def starts_later(which: str, way: str, offset: int | torch.SymInt | None = None) -> tuple[str, str]:
    """Return message and hint for a tensor that must begin at the start of its storage, but begins at element ``offset``.

    ``way`` is a workaround in the hint. ``offset`` is None if it may be 0.
    """
    begins = "may begin after the start" if offset is None else f"begins at element {offset}"
    message = f"{which} {begins} of its storage, and the model counts from where that starts (as_strided with a storage_offset)"
    return message, f"use {TORCH_COMPILE}, or {way}"


WITHOUT_SHARING = f"use {TORCH_COMPILE}, or pass a copy of what is only read, if it need not see the write"
"""The hint if an input shares memory with another tensor, and one of them is written."""


def copied(name: str, is_written: bool) -> str:
    """Return the hint to call a model with a copy of a tensor, and if the model writes it, to copy the result back."""
    return back(name, "clone") if is_written else f"pass {name}.clone()"


def back(name: str, method: str) -> str:
    """Return the hint to call a model with a copy of a tensor that it writes, and copy the result back."""
    return f"pass copy = {name}.{method}(), and call {name}.copy_(copy) after it: the model writes there"
