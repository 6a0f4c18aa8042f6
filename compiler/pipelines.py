"""The named pipelines: the compiler on one page.

Data only: naming a pass here imports nothing. A name is usable wherever a pass is, as in
``fxc-opt --pass-pipeline=simplify`` or ``builtin.module(inline,simplify)``; ``fxc-opt --list-passes`` prints them all.
A pass with options is written ``PassSpec.of("dce", max_rounds=2)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fxc.pipeline_text import PassSpec, Spec

SIMPLIFY: tuple[Spec, ...] = (
    PassSpec("canonicalize"),
    PassSpec("cse"),
    PassSpec("constant-propagation"),
    PassSpec("constant-pooling"),
    PassSpec("dce"),
)
"""Same level in and out: smaller and in one form."""

LOWER_TO_TORCH: tuple[Spec, ...] = (
    PassSpec("convert-fx-to-torch"),
    PassSpec("inline"),
    PassSpec("symbol-dce"),
    PassSpec("functionalize"),
    PassSpec("lower-simple-tuples"),
)
"""From the graph as captured (fx) to operators on values (torch), without mutation: one op a result, no calls."""

NAMED: Mapping[str, tuple[Spec, ...]] = MappingProxyType({
    "simplify": SIMPLIFY,
    "lower-to-torch": LOWER_TO_TORCH,
})  # fmt: skip
