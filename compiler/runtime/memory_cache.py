"""A cache of the memory of large results.

The C library returns the memory of large tensors to the system when they die. The system then maps and clears each page of the
next tensor at its first write, which costs several times the write itself. Pages of cached blocks are mapped already. A block
is reused when only this module references its storage: no tensor, view, array or autograd graph does.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from fxc.runtime.arena import LARGE, Arenas, in_large_pages

CACHED_FROM = 1 << 20
"""The minimum size in bytes of a cached result: the C library caches most smaller allocations."""

_PATIENCE = 256
"""The number of later results after which an unused block is dropped."""

_empty: Callable[..., Any] = torch._C._dynamo.guards._empty_strided_cpu  # type: ignore[attr-defined]
_uses = torch._C._storage_Use_Count


class _Block:
    """A storage of ``bytes`` bytes. ``last``: the number of the result of its ``MemoryCache`` that used it last."""

    def __init__(self, bytes: int) -> None:
        with torch.inference_mode(False):
            tensor = torch.empty(bytes, dtype=torch.uint8, device="cpu")
        self.storage = (in_large_pages(tensor) if bytes >= LARGE else tensor).untyped_storage()
        del tensor
        self.key, self.last = self.storage._cdata, 0
        self._idle = self._state()

    def _state(self) -> tuple[int, int, int, int]:
        """Return reference counts in C++ and Python, address and size: callers may resize or share the storage."""
        return _uses(self.key), sys.getrefcount(self.storage), self.storage.data_ptr(), self.storage.nbytes()

    @property
    def is_idle(self) -> bool:
        return self._state() == self._idle


class MemoryCache:
    """Allocate tensors of ``CACHED_FROM`` bytes and more on the CPU, for any number of threads."""

    def __init__(self) -> None:
        self._blocks = dict[int, deque[_Block]]()
        self._made = 0

    def new(self, bytes: int, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return an uninitialized tensor of ``bytes`` bytes from its first to its last element."""
        self._made += 1
        blocks = self._blocks.get(bytes)
        if blocks is None:
            blocks = self._blocks.setdefault(bytes, deque())
        block = self._idle(blocks) or self._another(bytes)
        block.last = self._made
        made = _empty((0,), (1,), dtype).set_(block.storage, 0, sizes, strides)
        blocks.append(block)  # only now: a thread that pops a block has it exclusively
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
        """Drop the blocks that were not used since then; blocks in use live as long as their tensors."""
        for blocks in list(self._blocks.values()):
            for _ in range(len(blocks)):
                try:
                    block = blocks.popleft()
                except IndexError:
                    break
                if block.last > since:
                    blocks.append(block)

    def release(self) -> None:
        """Drop all idle blocks."""
        self._forget(self._made)

    @property
    def blocks(self) -> int:
        """The number of blocks, in use or not."""
        return sum(map(len, self._blocks.values()))


_shared: ref[MemoryCache] | None = None


def memory_cache() -> MemoryCache:
    """Return the cache that all programs of the process share; it dies with the last of them."""
    global _shared
    memory = _shared and _shared()
    if memory is None:
        memory = MemoryCache()
        _shared = ref(memory)
    return memory


def release_memory() -> None:
    """Free the CPU memory that compiled functions cache between calls; the next calls allocate again.

    Memory in use stays: results with references, and the memory of calls that run in other threads. Raises nothing.
    """
    if (memory := _shared and _shared()) is not None:
        memory.release()
    Arenas.release()
