"""CPU features, by LLVM's names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, cast


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
