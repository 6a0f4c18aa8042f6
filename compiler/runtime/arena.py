"""Arenas: one block of memory that the buffers of a call share.

On the CPU a block is kept for the next call, with the tensors that stand for its buffers. A call that finds none, as when
several threads call at once or a call happens within another, makes one more. To take a kept block with 20 buffers costs
0.2 us, to make one 40 us, and to fill a new block of 64 MiB, whose pages are new, five times what filling a kept one does.
On other devices the work of a call goes on after it returned, so that a block is made for each call by PyTorch's allocator,
which gives it again to the stream that it was made on. Another stream of the call that uses it is joined to that one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakSet

import torch

from fxc.runtime.large_memory import in_large_pages

Buffer = torch.Tensor | int
"""A tensor in an arena; or the address of its first element, where nothing but kernels of machine code use it."""


Arena = tuple[Any, ...]
"""``(block, *buffers)``: a tensor of bytes, and what lies in it: buffers, and arenas of functions that are called."""


@dataclass(frozen=True)
class Place:
    """Where a buffer lies: ``offset`` bytes into the block. ``is_address``: kernels of machine code alone use it."""

    offset: int
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    is_address: bool = False

    def within(self, block: torch.Tensor) -> Buffer:
        """The buffer in ``block``, a tensor of bytes."""
        if self.is_address:
            return block.data_ptr() + self.offset
        start = block.storage_offset() + self.offset
        return _view(block, self.dtype, start // self.dtype.itemsize, self.sizes, self.strides)


@dataclass(frozen=True)
class Part:
    """``bytes`` bytes from ``offset`` on: the arena of a function that is called, with its ``places``."""

    offset: int
    bytes: int
    places: tuple[Place | Part, ...]

    def within(self, block: torch.Tensor) -> Arena:
        """The arena in ``block``, a tensor of bytes."""
        return _arena(block[self.offset : self.offset + self.bytes], self.places)


def _arena(block: torch.Tensor, places: Sequence[Place | Part]) -> Arena:
    return (block, *(place.within(block) for place in places))


def _view(
    block: torch.Tensor, dtype: torch.dtype, start: int, sizes: tuple[int, ...], strides: tuple[int, ...]
) -> torch.Tensor:
    made = torch.empty(0, dtype=dtype, device=block.device)
    return made.set_(block.untyped_storage(), start, sizes, strides)


class Arenas:
    """Arenas of ``bytes`` bytes on the CPU, each with what lies at each of ``places``."""

    _all: ClassVar[WeakSet[Arenas]] = WeakSet()

    def __init__(self, bytes: int, places: Sequence[Place | Part]) -> None:
        self.bytes, self.places = bytes, tuple(places)
        self._idle = list[Arena]()
        self.give_back = self._idle.append
        self._all.add(self)

    def take(self) -> Arena:
        """A block that no other call has; ``give_back`` keeps it for the next one."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._new()

    def _new(self) -> Arena:
        with torch.inference_mode(False):  # what is made in inference mode may not be written elsewhere
            return _arena(in_large_pages(torch.empty(self.bytes, dtype=torch.uint8)), self.places)

    @property
    def idle(self) -> int:
        """How many blocks wait for a call."""
        return len(self._idle)

    @classmethod
    def release(cls) -> None:
        """Give back the idle blocks of all arenas of the process."""
        for arenas in list(cls._all):
            arenas._idle.clear()

    def __deepcopy__(self, memo: dict[int, Any]) -> Arenas:
        return Arenas(self.bytes, self.places)


class NewArenas:
    """A block for each call, from the allocator of ``device``."""

    def __init__(self, bytes: int, places: Sequence[Place | Part], device: str) -> None:
        self.bytes, self.places, self.device = bytes, tuple(places), torch.device(device)

    def take(self) -> Arena:
        """A new block, with its buffers."""
        return _arena(torch.empty(self.bytes, dtype=torch.uint8, device=self.device), self.places)

    def give_back(self, arena: Arena) -> None:
        """Nothing: the allocator has the block once its last name is gone."""
