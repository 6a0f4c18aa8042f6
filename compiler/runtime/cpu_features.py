"""Which instructions a CPU has, as LLVM names them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class CpuFeatures:
    """What code may use: ``names`` as in LLVM's feature list; ``vector_bits`` is the widest register."""

    names: frozenset[str]
    vector_bits: int

    def __contains__(self, name: str) -> bool:
        return name in self.names

    @property
    def text(self) -> str:
        """``+avx2,+fma``: sorted, so that equal features have equal texts."""
        return ",".join(f"+{name}" for name in sorted(self.names))


@cache
def host_features() -> CpuFeatures:
    """Of the CPU that runs this process, asked of LLVM feature by feature: the CPU's name may be one that LLVM misreads."""
    import llvmlite.binding as llvm

    return features_named(",".join(name for name, there in llvm.get_host_cpu_features().items() if there))


def features_named(text: str) -> CpuFeatures:
    """Of a list of LLVM's feature names, ``+avx2,+fma``; empty for what any CPU has."""
    names = frozenset(name.strip().lstrip("+") for name in text.split(",") if name.strip(" +"))
    return CpuFeatures(names, 512 if "avx512f" in names else 256 if "avx2" in names else 128)
