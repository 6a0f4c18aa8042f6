"""The OpenMP runtime that PyTorch has loaded: kernels share its threads with ATen, and follow ``torch.set_num_threads``."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch

SYMBOLS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")


@cache
def openmp_symbols() -> Mapping[str, int]:
    """Return the addresses of ``SYMBOLS``; empty if PyTorch's OpenMP lacks them: kernels run on one thread then."""
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
            return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in SYMBOLS}
        except (OSError, AttributeError):
            continue
    return {}


def _candidates() -> list[str]:
    """Return the paths of OpenMP runtimes: those loaded in this process, then those installed with PyTorch."""
    loaded = list[str]()
    if sys.platform == "linux":
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        loaded = [
            line.split(maxsplit=5)[5] for line in lines if line.rpartition("/")[2].startswith(("libgomp", "libiomp5", "libomp"))
        ]
    folder = Path(torch.__file__).parent
    brought = [str(path) for place in (folder / "lib", folder.parent / "torch.libs") for path in sorted(place.glob("lib*omp*"))]
    return list(dict.fromkeys([*loaded, *brought]))
