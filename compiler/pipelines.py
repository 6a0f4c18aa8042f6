"""The named pipelines: the compiler on one page.

Data only: naming a pass here imports nothing. A name is usable wherever a pass is, as in
``fxc-opt --pass-pipeline=simplify`` or ``builtin.module(inline,torchscript{gradients=false})``; ``fxc-opt --list-passes``
prints them all. A pass with options is written ``PassSpec.of("dce", max_rounds=2)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fxc.named_pipeline import Flow, NamedPipeline, Slot
from fxc.pipeline_text import PassSpec

SIMPLIFY = NamedPipeline((
    PassSpec("canonicalize"),
    PassSpec("cse"),
    PassSpec("constant-propagation"),
    PassSpec("constant-pooling"),
    PassSpec("dce"),
))  # fmt: skip
"""Same level in and out: smaller and in one form."""

LOWER_TO_TORCH = NamedPipeline((
    PassSpec("convert-fx-to-torch"),
    PassSpec("inline"),
    PassSpec("symbol-dce"),
    PassSpec("lower-autocast"),
    PassSpec("functionalize"),
    PassSpec("lower-simple-tuples"),
))  # fmt: skip
"""From the graph as captured (fx) to operators on values (torch), without mutation: one op a result, no calls."""

_OPTIMISE = (
    PassSpec("dce"),
    PassSpec("cse"),
    PassSpec("peephole"),
    PassSpec("constant-propagation"),
    PassSpec("constant-pooling"),
    PassSpec("unroll-loops"),
    PassSpec("cse"),
    PassSpec("check-inplace"),
)
"""TorchScript's ``runOptimization``: for any graph, whether it is differentiated or not."""

TORCHSCRIPT = NamedPipeline(
    (
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
        *_OPTIMISE,
        # where a gradient is needed: functions with their derivatives, and these made simple as well
        PassSpec("create-autodiff-subgraphs"),
        PassSpec("differentiate"),
        PassSpec("propagate-shapes"),
        *_OPTIMISE,
        PassSpec("inline-autodiff-subgraphs"),
        PassSpec("symbol-dce"),
        # what autograd does not look into: the functions just made, and all that needs no gradient
        Slot("pre"),
        PassSpec("decompose-ops"),
        PassSpec("lower-simple-tuples"),
        PassSpec("batch-mm"),
        PassSpec("propagate-requires-grad"),
        PassSpec("fuse"),
        Slot("post"),
        PassSpec("dce"),
    ),
    options=MappingProxyType({
        "gradients": (("propagate-requires-grad", "gradients"),),
        "subgraph-threshold": (("create-autodiff-subgraphs", "threshold"),),
        "inline-threshold": (("inline-autodiff-subgraphs", "threshold"),),
        "twice": (("differentiate", "twice"),),
        "reductions": (("decompose-ops", "reductions"), ("fuse", "reductions")),
    }),
)  # fmt: skip
"""A torch-level graph as TorchScript's graph executor optimised it. Passes that come again do so after others made work.

``gradients=false``: no gradient is needed, as under ``torch.no_grad``. ``twice``: derivatives are made to be differentiated
again, where PyTorch has another backward for that. ``reductions``: norms, softmax and losses are taken apart and put into
groups as well, which pays where groups become kernels. ``pre`` and ``post``: your passes around the part that
autograd does not look into.
"""

LOWER_KERNELS = NamedPipeline((
    PassSpec("convert-fusion-to-linalg"),
    PassSpec("schedule"),
    PassSpec("tile"),
))  # fmt: skip
"""Groups become kernels for the machine in ``fxc.target``; those that no kernel can compute stay."""

NAMED: Mapping[str, NamedPipeline] = MappingProxyType({
    "simplify": SIMPLIFY,
    "lower-to-torch": LOWER_TO_TORCH,
    "torchscript": TORCHSCRIPT,
    "lower-kernels": LOWER_KERNELS,
})  # fmt: skip

INFERENCE = Flow(
    "lower-to-torch,canonicalize,torchscript{gradients=false}",
    "lower-to-torch,canonicalize,torchscript{gradients=false reductions=true},lower-kernels",
)
"""What ``fxc.compile`` runs on a captured graph."""

TRAINING = Flow(
    "lower-to-torch,canonicalize,torchscript",
    "lower-to-torch,canonicalize,torchscript{reductions=true},lower-kernels",
)
"""What ``fxc.compile(training=True)`` runs."""

AOT = Flow("lower-to-torch,simplify", INFERENCE.kernels)
"""What ``torch.compile(backend="fxc")`` runs on each graph of AOTAutograd, forward or backward: gradients are taken already."""
