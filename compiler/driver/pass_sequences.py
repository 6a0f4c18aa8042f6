"""Sequences of passes that more than one part of the compiler runs: a name and options for each. Data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PassList = tuple[tuple[str, Mapping[str, bool | int]], ...]
"""Passes in order: name, and the options that are set."""

_NONE: Mapping[str, bool | int] = MappingProxyType({})

LOWER_KERNELS: PassList = (
    ("choose-products", _NONE),
    ("lower-scans", _NONE),
    ("convert-fusion-to-linalg", _NONE),
    ("tile-matmul", _NONE),
    ("schedule", _NONE),
    ("group-kernels", _NONE),
    ("append-kernels", _NONE),
    ("tile", _NONE),
)
"""From groups to kernels, and products to the library that is faster."""

LOWER_SUBGRAPH: PassList = (
    ("convert-to-plan", _NONE),
    ("write-in-place", _NONE),
    ("plan-memory", MappingProxyType({"largest": 1 << 20})),
    ("merge-kernels", _NONE),
)
"""From kernels to the host program of what autograd runs, forward or backward. Large buffers are released on the way, while
gradients, or what backward needs, take more and more memory: an arena is there until the end, and kept for the next call."""


def derivative(*, reductions: bool) -> PassList:
    """A derivative of which it is known now which gradients there are: zeros go, and the rest is made simple and fused.

    ``reductions``: with groups that kernels are made of, as ``fuse`` has the option.
    """
    chosen = MappingProxyType({"reductions": reductions})
    return (
        ("lower-grad-of", _NONE),
        ("specialize-autograd-zero", _NONE),
        ("canonicalize", _NONE),
        ("cse", _NONE),
        ("constant-propagation", _NONE),
        ("dce", _NONE),
        ("decompose-ops", chosen),
        ("lower-simple-tuples", _NONE),
        ("batch-mm", _NONE),
        ("fuse", chosen),
        ("dce", _NONE),
    )
