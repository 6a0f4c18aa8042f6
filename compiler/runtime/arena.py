"""Arenas: one block of memory that the buffers of a call share.

On the CPU, an idle block is cached for the next call, together with the tensors of its buffers. A call that finds no idle
block (concurrent or nested calls) allocates another. Taking a cached block with 20 buffers costs 0.2 us; making one costs
40 us. Filling a new block of 64 MiB, whose pages are not mapped yet, takes five times as long as filling a cached one.
On other devices, work continues after the call returns. There PyTorch's allocator makes a block for each call and reuses it
on the stream that allocated it. Other streams of the call that use the block are joined to that stream first.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar
from weakref import WeakSet

import torch
from torch import Tensor

Buffer = torch.Tensor | int
"""A tensor in an arena; or the address of its first element, if only machine code kernels use it."""


Arena = tuple[Any, ...]
"""``(block, *buffers)``: a tensor of bytes and its contents: buffers, and arenas of called functions."""


@dataclass(frozen=True)
class Place:
    """The position of a buffer: ``offset`` bytes into the block. ``is_address``: only machine code kernels use it."""

    offset: int
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    is_address: bool = False

    def within(self, block: torch.Tensor) -> Buffer:
        """The buffer in ``block``, a tensor of bytes."""
        if self.is_address:
            return block.data_ptr() + self.offset
        start = int(block.storage_offset()) + self.offset
        return _view(block, self.dtype, start // self.dtype.itemsize, self.sizes, self.strides)


@dataclass(frozen=True)
class ArenaPart:
    """The arena of a called function: ``bytes`` bytes from ``offset``, with the contents ``places``."""

    offset: int
    bytes: int
    places: tuple[Place | ArenaPart, ...]

    def within(self, block: torch.Tensor) -> Arena:
        """The arena in ``block``, a tensor of bytes."""
        return _arena(block[self.offset : self.offset + self.bytes], self.places)


def _arena(block: torch.Tensor, places: Sequence[Place | ArenaPart]) -> Arena:
    return (block, *(place.within(block) for place in places))


def _view(
    block: torch.Tensor, dtype: torch.dtype, start: int, sizes: tuple[int, ...], strides: tuple[int, ...]
) -> torch.Tensor:
    made = torch.empty(0, dtype=dtype, device=block.device)
    return made.set_(block.untyped_storage(), start, sizes, strides)


class Arenas:
    """A pool of arenas on the CPU, of ``bytes`` bytes each, with buffers and inner arenas at ``places``."""

    _all: ClassVar[WeakSet[Arenas]] = WeakSet()

    def __init__(self, bytes: int, places: Sequence[Place | ArenaPart]) -> None:
        self.bytes, self.places = bytes, tuple(places)
        self._idle = list[Arena]()
        self.give_back = self._idle.append
        self._all.add(self)

    def take(self) -> Arena:
        """Return a block that no other call uses; ``give_back`` returns it to the pool."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._new()

    def _new(self) -> Arena:
        with torch.inference_mode(False):  # tensors made in inference mode cannot be written outside of it
            return _arena(in_large_pages(torch.empty(self.bytes, dtype=torch.uint8, device="cpu")), self.places)

    @property
    def idle(self) -> int:
        """The number of idle blocks."""
        return len(self._idle)

    @classmethod
    def release(cls) -> None:
        """Free the idle blocks of all arenas of the process."""
        for arenas in list(cls._all):
            arenas._idle.clear()

    def __deepcopy__(self, memo: dict[int, Any]) -> Arenas:
        return Arenas(self.bytes, self.places)


class NewArenas:
    """Allocate a block for each call, from the allocator of ``device``."""

    def __init__(self, bytes: int, places: Sequence[Place | ArenaPart], device: str) -> None:
        self.bytes, self.places, self.device = bytes, tuple(places), torch.device(device)

    def take(self) -> Arena:
        """A new block, with its buffers."""
        return _arena(torch.empty(self.bytes, dtype=torch.uint8, device=self.device), self.places)

    def give_back(self, arena: Arena) -> None:
        """Do nothing: the block is freed with its last reference."""


LARGE = 32 << 20
"""The minimum size in bytes that glibc maps separately."""

_PAGE = 2 << 20
_MADV_HUGEPAGE = 14


def in_large_pages(tensor: Tensor) -> Tensor:
    """Request large pages for ``tensor``, which must be unwritten. Failure is ignored: small pages work, too.

    glibc maps allocations of ``LARGE`` bytes anew for each tensor, and Linux maps and clears each page at its first write,
    which for pages of 4 KiB costs several times the write itself. Pages of 2 MiB cost a fraction of that, but in the common
    configuration Linux provides them only on request (``madvise``).
    """
    storage, advise = tensor.untyped_storage(), _advise()
    first = -(-storage.data_ptr() // _PAGE) * _PAGE
    last = (storage.data_ptr() + storage.nbytes()) // _PAGE * _PAGE
    if advise is not None and first < last:
        advise(first, last - first, _MADV_HUGEPAGE)
    return tensor


@cache
def _advise() -> Callable[[int, int, int], int] | None:
    """Return the C library's ``madvise``; None on systems other than Linux."""
    if sys.platform != "linux":
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    return function
