"""Passes in random orders: of the level of operators, then of kernels, then of host programs."""

from __future__ import annotations

from hypothesis import strategies as st

OPERATORS = (
    "annotate-costs", "apply-patterns", "batch-mm", "canonicalize", "canonicalize-ops", "check-inplace",
    "choose-convolutions", "choose-products", "choose-reductions", "constant-pooling", "constant-propagation",
    "create-autodiff-subgraphs", "cse", "dce", "decompose-ops", "decompose-ops{cpu=true}",
    "decompose-ops{reductions=true}", "differentiate", "fold-affine", "fold-batch-norm", "fold-uniform-values", "freeze",
    "freeze-parameters", "functionalize", "fuse", "fuse-attention", "fuse{reductions=true}", "grow-softmax",
    "hoist-gathers", "inline", "inline-autodiff-subgraphs", "join-products", "lower-autocast", "lower-grad-mode",
    "lower-grad-of", "lower-simple-tuples", "outline-repeated{shortest=2 least=2}", "pack-weights",
    "pad-matmul{choose=all}", "peephole", "propagate-layouts", "propagate-requires-grad", "propagate-shapes",
    "remove-expands", "reorder-for-memory", "simplify", "specialize-autograd-zero", "specialize-derivatives",
    "symbol-dce", "unroll-loops",
)  # fmt: skip
"""Without ``lower-random``, which draws other numbers."""

KERNELS = (
    "append-kernels", "canonicalize", "constant-pooling", "convert-fusion-to-linalg", "cse", "dce", "group-kernels",
    "lower-scans", "merge-kernels", "outline-forwards", "schedule", "tile", "tile-attention", "tile-matmul{choose=all}",
)  # fmt: skip
HOST = (
    "assign-streams", "merge-kernels", "plan-memory", "release-arguments", "results-to-arguments", "write-arguments",
    "write-in-place",
)  # fmt: skip


@st.composite
def pipelines(draw: st.DrawFn) -> str:
    """A pipeline for a captured program, whose result ``fxc.to_fx`` takes."""
    names = ["lower-to-torch", *draw(st.lists(st.sampled_from(OPERATORS), min_size=1, max_size=6))]
    if draw(st.booleans()):
        some = st.lists(st.sampled_from(KERNELS), max_size=2)
        names += ["set-target{to=cpu:avx512}", *draw(some), "convert-fusion-to-linalg", "schedule", *draw(some), "tile"]
    if draw(st.booleans()):
        names += ["convert-to-plan", *draw(st.lists(st.sampled_from(HOST), max_size=4))]
    return ",".join(names)
