"""Memory of large results, kept for the next ones.

The C library gives memory of large tensors back to the system when they die, and the system makes and clears a page at the
first write to each page of the next: that costs several times what the write does. Blocks that lay here are written already.
A block is taken again when nothing but this module knows its storage: no tensor, view, array or graph of autograd.
"""

from __future__ import annotations

import sys
from collections import deque
from weakref import ref

import torch
from torch import Tensor

from fxc.runtime.arena import Arenas
from fxc.runtime.large_memory import LARGE, in_large_pages

KEPT = 1 << 20
"""Bytes from which on a result's memory is kept: below, the C library keeps it mostly."""

_PATIENCE = 256
"""Results that are made until a block that none of them took is forgotten."""

_empty = torch._C._dynamo.guards._empty_strided_cpu  # type: ignore[attr-defined]
_uses = torch._C._storage_Use_Count  # type: ignore[attr-defined]


class _Block:
    """A storage of ``bytes`` bytes. ``last``: when it was taken, in results of its ``KeptMemory``."""

    def __init__(self, bytes: int) -> None:
        with torch.inference_mode(False):
            tensor = torch.empty(bytes, dtype=torch.uint8)
        self.storage = (in_large_pages(tensor) if bytes >= LARGE else tensor).untyped_storage()
        del tensor
        self.key, self.last = self.storage._cdata, 0
        self._idle = self._state()

    def _state(self) -> tuple[int, int, int, int]:
        """Who knows the storage, in C++ and in Python; a caller may have resized it, or moved it to shared memory."""
        return _uses(self.key), sys.getrefcount(self.storage), self.storage.data_ptr(), self.storage.nbytes()

    @property
    def is_idle(self) -> bool:
        return self._state() == self._idle


class KeptMemory:
    """Makes tensors on the CPU of ``KEPT`` bytes and more, any number of threads at once."""

    def __init__(self) -> None:
        self._blocks = dict[int, deque[_Block]]()
        self._made = 0

    def new(self, bytes: int, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor of ``bytes`` bytes from its first to its last element, not initialised."""
        self._made += 1
        blocks = self._blocks.get(bytes)
        if blocks is None:
            blocks = self._blocks.setdefault(bytes, deque())
        block = self._idle(blocks) or self._another(bytes)
        block.last = self._made
        made = _empty((0,), (1,), dtype).set_(block.storage, 0, sizes, strides)
        blocks.append(block)  # not before: who pops it owns it
        return made

    def _idle(self, blocks: deque[_Block]) -> _Block | None:
        for _ in range(len(blocks)):
            try:
                block = blocks.popleft()
            except IndexError:  # other threads took them
                return None
            if block.is_idle:
                return block
            blocks.append(block)
        return None

    def _another(self, bytes: int) -> _Block:
        self._forget(self._made - _PATIENCE)
        return _Block(bytes)

    def _forget(self, since: int) -> None:
        """Give up the blocks that were not taken since then; those in use live on with their tensors."""
        for blocks in list(self._blocks.values()):
            for _ in range(len(blocks)):
                try:
                    block = blocks.popleft()
                except IndexError:
                    break
                if block.last > since:
                    blocks.append(block)

    def release(self) -> None:
        """Give back all that is not in use."""
        self._forget(self._made)

    @property
    def blocks(self) -> int:
        """How many blocks are known, in use or not."""
        return sum(map(len, self._blocks.values()))


_shared: ref[KeptMemory] | None = None


def kept_memory() -> KeptMemory:
    """The memory that the programs of the process share; it goes when the last of them does."""
    global _shared
    memory = _shared and _shared()
    if memory is None:
        memory = KeptMemory()
        _shared = ref(memory)
    return memory


def release_memory() -> None:
    """Give back the memory on the CPU that compiled functions keep between calls, of all of them: the next calls take new.

    What is in use stays: results that are held, and the memory of calls that other threads are in.
    """
    if (memory := _shared and _shared()) is not None:
        memory.release()
    Arenas.release()
