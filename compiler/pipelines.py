"""The named pipelines: the compiler on one page.

Data only: naming a pass here imports nothing. A name is usable wherever a pass is, as in
``fxc-opt --pass-pipeline=simplify`` or ``builtin.module(inline,optimize{reductions=true})``; ``fxc-opt --list-passes``
prints them all. A pass with options is written ``PassSpec.of("dce", max_rounds=2)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from fxc.driver.named_pipeline import Flow, NamedPipeline, Slot
from fxc.driver.pipeline import Pipeline, Step, passes_in, resolve
from fxc.driver.pipeline_text import PassSpec, parse
from fxc.driver.registry import PassRegistry

SIMPLIFY = NamedPipeline((
    PassSpec("canonicalize"),
    PassSpec("cse"),
    PassSpec("constant-propagation"),
    PassSpec("constant-pooling"),
    PassSpec("dce"),
))  # fmt: skip
"""Same level in and out: smaller and in one form."""

LOWER_TO_TORCH = NamedPipeline(
    (
        PassSpec("convert-fx-to-torch"),
        PassSpec("inline"),
        PassSpec("symbol-dce"),
        PassSpec("lower-grad-mode"),
        PassSpec("lower-autocast"),
        PassSpec("check-hidden-writes"),
        PassSpec("functionalize"),
        PassSpec("lower-simple-tuples"),
    ),
    options=MappingProxyType({"gradients": (("check-hidden-writes", "gradients"),)}),
)  # fmt: skip
"""From the graph as captured (fx) to operators on values (torch), without mutation: one op a result, no calls.

``gradients=true``: gradients are taken of what comes out, so that no write may go past autograd.
"""

_RUN_OPTIMIZATION = (
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

_DECOMPOSE = (
    Slot("pre"),
    PassSpec("decompose-ops"),
    PassSpec("lower-simple-tuples"),
    PassSpec("hoist-gathers"),
    PassSpec.of("lower-random", random=False),
    PassSpec("batch-mm"),
)
_FUSE = (PassSpec("fuse"), Slot("post"), PassSpec("dce"))
_FUSE_OPTIONS = {
    "reductions": (("decompose-ops", "reductions"), ("fuse", "reductions")),
    "random": (("lower-random", "random"),),
}
"""``reductions``: norms, softmax and losses are taken apart and put into groups as well, which pays where groups become
kernels. ``random``: random numbers are made of a seed, in kernels too; they are others than PyTorch draws. ``pre`` and
``post``: passes of the user's around the part that autograd does not look into."""

OPTIMIZE = NamedPipeline(
    (
        PassSpec("remove-expands"),
        PassSpec("canonicalize-ops"),
        PassSpec("constant-propagation"),
        PassSpec("unroll-loops"),
        PassSpec("propagate-shapes"),
        PassSpec("peephole"),
        PassSpec("constant-pooling"),
        PassSpec("cse"),
        PassSpec("check-inplace"),
        PassSpec("dce"),
        *_DECOMPOSE,
        PassSpec.of("propagate-requires-grad", gradients=False),
        *_FUSE,
    ),
    options=MappingProxyType(_FUSE_OPTIONS),
)  # fmt: skip
"""A torch-level graph of which no gradient is taken, or of which AOTAutograd has taken them: made simple, and fused."""

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
        *_RUN_OPTIMIZATION,
        # where a gradient is needed: functions with their derivatives, and these made simple as well
        PassSpec("create-autodiff-subgraphs"),
        PassSpec("differentiate"),
        PassSpec("canonicalize-ops"),
        PassSpec("propagate-shapes"),
        *_RUN_OPTIMIZATION,
        PassSpec("inline-autodiff-subgraphs"),
        PassSpec("symbol-dce"),
        # what autograd does not look into: the functions just made, and all that needs no gradient
        *_DECOMPOSE,
        PassSpec("propagate-requires-grad"),
        *_FUSE,
    ),
    options=MappingProxyType({
        "subgraph-threshold": (("create-autodiff-subgraphs", "threshold"),),
        "inline-threshold": (("inline-autodiff-subgraphs", "threshold"),),
        "twice": (("differentiate", "twice"),),
        **_FUSE_OPTIONS,
    }),
)  # fmt: skip
"""A torch-level graph as TorchScript's graph executor optimised it. Passes that come again do so after others made work.

``twice``: derivatives are made to be differentiated again, where PyTorch has another backward for that.
"""

DERIVATIVE = NamedPipeline(
    (
        PassSpec("lower-grad-of"),
        PassSpec("specialize-autograd-zero"),
        PassSpec("canonicalize"),
        PassSpec("cse"),
        PassSpec("constant-propagation"),
        PassSpec("dce"),
        PassSpec("decompose-ops"),
        PassSpec("lower-simple-tuples"),
        PassSpec("batch-mm"),
        PassSpec("fuse"),
        PassSpec("dce"),
    ),
    options=MappingProxyType({"reductions": (("decompose-ops", "reductions"), ("fuse", "reductions"))}),
)  # fmt: skip
"""A derivative of which it is known which gradients there are: zeros go, and the rest is made simple and fused.

``reductions``: as in ``optimize``.
"""

LOWER_KERNELS = NamedPipeline(
    (
        PassSpec("choose-products"),
        PassSpec("lower-scans"),
        PassSpec("convert-fusion-to-linalg"),
        PassSpec("tile-matmul"),
        PassSpec("schedule"),
        PassSpec("group-kernels"),
        PassSpec("append-kernels"),
        PassSpec("tile"),
    ),
    options=MappingProxyType({"matmul": (("tile-matmul", "choose"),)}),
)  # fmt: skip
"""Groups become kernels for the machine in ``fxc.target``; those that no kernel can compute stay.

``matmul=all``: products of matrices become kernels too, with what is around them; else those that were found to be faster.
"""

LOWER_TO_PLAN = NamedPipeline(
    (
        PassSpec("convert-to-plan"),
        PassSpec("write-arguments"),
        PassSpec("results-to-arguments"),
        PassSpec.of("assign-streams", streams=1),
        PassSpec("write-in-place"),
        PassSpec("plan-memory"),
        PassSpec("merge-kernels"),
    ),
    options=MappingProxyType({"streams": (("assign-streams", "streams"),)}),
)  # fmt: skip
"""The host program with its memory: what is launched and called, in which buffers, in this order.

``streams``: how many streams of a GPU it may use; 1 is the caller's, and no more.
"""

LOWER_SUBGRAPH = NamedPipeline((
    PassSpec.of("convert-to-plan", static=True),
    PassSpec("write-in-place"),
    PassSpec.of("plan-memory", largest=1 << 20),
    PassSpec("merge-kernels"),
))  # fmt: skip
"""The host program of what autograd runs, forward or backward. Large buffers are released on the way, while gradients, or what
backward needs, take more and more memory: an arena is there until the end, and kept for the next call."""

FREEZE = NamedPipeline((
    PassSpec("fold-batch-norm"),
    PassSpec("join-products"),
    PassSpec("pack-weights"),
    PassSpec("propagate-layouts"),
    PassSpec("freeze-parameters"),
    PassSpec("dce"),
))  # fmt: skip
"""Weights as they are now: folded, packed where that is faster, and all that depends on them alone computed once."""

TYPES_TO_MEMORY = frozenset({"convert-fusion-to-linalg", "lower-scans", "tile-matmul", "convert-to-plan"})
"""The passes that lay out memory, or compute where elements lie, from the types of results. A type that a text declares is
checked before one of them runs on it."""


def parse_pipeline(text: str, registry: PassRegistry | None = None) -> Pipeline:
    """The pipeline that ``text`` names. Imports the files of the passes in it, and no others."""
    return resolve(parse(text), registry or PassRegistry(), NAMED)


def lays_out_memory(pipeline: Sequence[Step]) -> bool:
    """Whether a pass of ``pipeline`` lays out memory as types say."""
    return any(each.name in TYPES_TO_MEMORY for each in passes_in(pipeline))


_KERNELS = "outline-repeated{shortest=8 least=4},optimize{reductions=true},lower-kernels"
_LAYOUTS = "choose-convolutions,propagate-layouts"

INFERENCE = Flow(
    "lower-to-torch,canonicalize",
    "optimize",
    f"{_LAYOUTS},{_KERNELS}",
    frozen="freeze",
    plan="lower-to-plan",
)
"""What ``fxc.compile`` runs on a captured graph."""

_TRAINING_KERNELS = (
    "torchscript{reductions=true subgraph-threshold=1 inline-threshold=1}",
    "specialize-derivatives,builtin.module(derivative{reductions=true})",
    "lower-kernels,builtin.module(lower-kernels)",
    "outline-forwards,builtin.module(lower-subgraph)",
)
"""Kernels know no autograd, so no op that may be in one is left to it. What autograd runs, backward and forward, gets modules
inside the program's."""

TRAINING = Flow(
    "lower-to-torch{gradients=true},canonicalize",
    "torchscript,specialize-derivatives,builtin.module(derivative)",
    ",".join(_TRAINING_KERNELS),
)
"""What ``fxc.compile(training=True)`` runs."""

LATER_DERIVATIVE = Flow("", "derivative", "derivative{reductions=true},lower-kernels,lower-subgraph")
"""What is run on a derivative for other gradients than ``specialize-derivatives`` expects, when they first come."""

AOT = Flow("lower-to-torch", "simplify", f"canonicalize,{_KERNELS}", plan="lower-to-plan")
"""What ``torch.compile(backend="fxc")`` runs on each graph of AOTAutograd, forward or backward: gradients are taken already."""

AOT_INFERENCE = replace(AOT, kernels=f"canonicalize,{_LAYOUTS},{_KERNELS}", frozen="canonicalize,cse,freeze")
"""What it runs on graphs that are compiled where gradients are off."""

FLOWS: Mapping[str, Flow] = MappingProxyType({
    "inference": INFERENCE,
    "training": TRAINING,
    "aot-forward": AOT,
    "aot-backward": AOT,
    "aot-inference": AOT_INFERENCE,
})  # fmt: skip


def _of_flow(flow: Flow, *, kernels: bool = True, freeze: bool = False) -> NamedPipeline:
    has_streams = kernels and flow.plan is not None
    options = {"streams": (("lower-to-plan", "streams"),)} if has_streams else {}
    return NamedPipeline(parse(flow.text(kernels=kernels, freeze=freeze)), MappingProxyType(options))


NAMED: Mapping[str, NamedPipeline] = MappingProxyType({
    "simplify": SIMPLIFY,
    "lower-to-torch": LOWER_TO_TORCH,
    "freeze": FREEZE,
    "optimize": OPTIMIZE,
    "torchscript": TORCHSCRIPT,
    "derivative": DERIVATIVE,
    "lower-kernels": LOWER_KERNELS,
    "lower-to-plan": LOWER_TO_PLAN,
    "lower-subgraph": LOWER_SUBGRAPH,
    **{name: _of_flow(flow) for name, flow in FLOWS.items()},
    **{f"{name}-frozen": _of_flow(flow, freeze=True) for name, flow in FLOWS.items() if flow.frozen is not None},
    **{f"{name}-aten": _of_flow(flow, kernels=False) for name, flow in FLOWS.items()},
})  # fmt: skip
"""What entry points run has the name of its flow: for the machine in ``fxc.target``; ``-frozen`` with weights as they are now,
and ``-aten`` without a target, where PyTorch's kernels run."""
