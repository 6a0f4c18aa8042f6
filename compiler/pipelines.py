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

_TORCHSCRIPT_OPTIMISE: tuple[Spec, ...] = (
    PassSpec("inline"),
    PassSpec("lower-grad-of"),
    PassSpec("specialize-autograd-zero"),
    PassSpec("lower-simple-tuples"),
    PassSpec("constant-pooling"),
    PassSpec("remove-expands"),
    PassSpec("canonicalize-ops"),
    PassSpec("dce"),
    PassSpec("constant-propagation"),
    PassSpec("propagate-shapes"),
    PassSpec("propagate-requires-grad"),
    PassSpec("dce"),
    PassSpec("cse"),
    PassSpec("peephole"),
    PassSpec("constant-propagation"),
    PassSpec("constant-pooling"),
    PassSpec("unroll-loops"),
    PassSpec("cse"),
    PassSpec("check-inplace"),
)
"""What TorchScript's executor did to every graph, in its order; passes that come again do so there, after others made work."""

TORCHSCRIPT: tuple[Spec, ...] = (
    *_TORCHSCRIPT_OPTIMISE,
    PassSpec("decompose-ops"),
    PassSpec("lower-simple-tuples"),
    PassSpec("batch-mm"),
    PassSpec("fuse"),
    PassSpec("dce"),
)
"""A torch-level graph that needs no gradients, as TorchScript's graph executor optimised it."""

TORCHSCRIPT_TRAINING: tuple[Spec, ...] = (
    *_TORCHSCRIPT_OPTIMISE,
    PassSpec("create-autodiff-subgraphs"),
    PassSpec("differentiate"),
    PassSpec("inline-autodiff-subgraphs"),
    PassSpec("dce"),
)
"""One that needs them: differentiable subgraphs with their gradients, the rest left to autograd."""

NAMED: Mapping[str, tuple[Spec, ...]] = MappingProxyType({
    "simplify": SIMPLIFY,
    "lower-to-torch": LOWER_TO_TORCH,
    "torchscript": TORCHSCRIPT,
    "torchscript-training": TORCHSCRIPT_TRAINING,
})  # fmt: skip
