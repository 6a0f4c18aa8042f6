"""Large tensors on the CPU in large pages.

The C library maps memory of 32 MiB and more anew for each tensor, and the kernel of the system makes and clears a page at the
first write to it, which in pages of 4 KiB costs several times what the write does. Pages of 2 MiB cost a fraction of that, but
Linux gives them, as it is mostly set up, to those only who ask.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

from torch import Tensor

LARGE = 32 << 20
"""Bytes from which on glibc maps each allocation by itself."""

_PAGE = 2 << 20
_MADV_HUGEPAGE = 14


def in_large_pages(tensor: Tensor) -> Tensor:
    """``tensor``, of which nothing was written yet. What the system says of it does not matter: small pages do as well."""
    storage, advise = tensor.untyped_storage(), _advise()
    first = -(-storage.data_ptr() // _PAGE) * _PAGE
    last = (storage.data_ptr() + storage.nbytes()) // _PAGE * _PAGE
    if advise is not None and first < last:
        advise(first, last - first, _MADV_HUGEPAGE)
    return tensor


@cache
def _advise() -> Callable[[int, int, int], int] | None:
    """The C library's ``madvise``; None where it is not Linux's."""
    if sys.platform != "linux":
        return None
    function = ctypes.CDLL(None).madvise
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    return function
