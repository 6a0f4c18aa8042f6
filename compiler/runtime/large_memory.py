"""Large pages for large tensors on the CPU.

glibc maps allocations of 32 MiB and more anew for each tensor, and Linux maps and clears each page at its first write, which
for pages of 4 KiB costs several times the write itself. Pages of 2 MiB cost a fraction of that, but in the common configuration
Linux provides them only on request (``madvise``).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

from torch import Tensor

LARGE = 32 << 20
"""The minimum size in bytes that glibc maps separately."""

_PAGE = 2 << 20
_MADV_HUGEPAGE = 14


def in_large_pages(tensor: Tensor) -> Tensor:
    """Request large pages for ``tensor``, which must be unwritten. Failure is ignored: small pages work, too."""
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
