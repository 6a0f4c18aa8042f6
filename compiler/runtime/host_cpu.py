"""The CPU of this process: its features by LLVM's names, and the OpenMP runtime that PyTorch has loaded.

Kernels share the threads of that runtime with ATen, and follow ``torch.set_num_threads``.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

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
    import torch  # not needed to print kernels

    folder = Path(torch.__file__).parent
    brought = [str(path) for place in (folder / "lib", folder.parent / "torch.libs") for path in sorted(place.glob("lib*omp*"))]
    return list(dict.fromkeys([*loaded, *brought]))


@dataclass(frozen=True)
class CpuFeatures:
    """The features that code may use: ``names`` as in LLVM's feature list; ``vector_bits`` is the widest register."""

    names: frozenset[str]
    vector_bits: int

    def __contains__(self, name: str) -> bool:
        return name in self.names

    @property
    def text(self) -> str:
        """The sorted feature list, ``+avx2,+fma``: equal features have equal texts."""
        return ",".join(f"+{name}" for name in sorted(self.names))


@cache
def host_features() -> CpuFeatures:
    """Return the features of this CPU, read from LLVM one by one, as LLVM may misread the name of the CPU."""
    import llvmlite.binding as llvm

    return features_named(",".join(name for name, there in cast(Any, llvm).get_host_cpu_features().items() if there))


def features_named(text: str) -> CpuFeatures:
    """Parse a list of LLVM's feature names, ``+avx2,+fma``; the empty list is the baseline."""
    names = frozenset(name.strip().lstrip("+") for name in text.split(",") if name.strip(" +"))
    return CpuFeatures(names, 512 if "avx512f" in names else 256 if "avx2" in names else 128)
