"""The OpenMP runtime that PyTorch has loaded: kernels share its threads with ATen, and ``torch.set_num_threads`` counts."""

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
    """Addresses of ``SYMBOLS``; empty where PyTorch uses no OpenMP that has them, and kernels then run on one thread."""
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
            return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in SYMBOLS}
        except (OSError, AttributeError):
            continue
    return {}


def _candidates() -> list[str]:
    """Files of OpenMP runtimes: those in this process, then those that PyTorch brings along."""
    loaded = list[str]()
    if sys.platform == "linux":
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        loaded = [line.split(maxsplit=5)[5] for line in lines if _is_openmp(line.rpartition("/")[2])]
    folder = Path(torch.__file__).parent
    brought = [str(path) for place in (folder / "lib", folder.parent / "torch.libs") for path in sorted(place.glob("lib*omp*"))]
    return list(dict.fromkeys([*loaded, *brought]))


def _is_openmp(name: str) -> bool:
    return name.startswith(("libgomp", "libiomp5", "libomp"))
