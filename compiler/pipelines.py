"""The named pipelines of the compiler.

Data only: naming a pass here imports nothing. A pipeline name can be used wherever a pass name can, as in
``fxc-opt --pass-pipeline=simplify`` or ``builtin.module(inline,optimize{reductions=true})``; ``fxc-opt --list-passes``
prints them all. A pass with options is written ``PassSpec.of("dce", max_rounds=2)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from fxc.driver.pipeline import Flow, NamedPipeline, OnDemand, Pipeline, Slot, Step, passes_in, resolve
from fxc.driver.pipeline_text import PassSpec, parse
from fxc.driver.registry import PassRegistry

SIMPLIFY = NamedPipeline((
    PassSpec("canonicalize"),
    PassSpec("cse"),
    PassSpec("constant-propagation"),
    PassSpec("constant-pooling"),
    PassSpec("dce"),
))  # fmt: skip
"""Simplify IR of any level: canonicalize it, fold constants, remove redundant and dead operations."""

LOWER_TO_TORCH = NamedPipeline(
    (
        PassSpec("convert-fx-to-torch"),
        PassSpec("inline"),
        PassSpec("lower-grad-mode"),
        PassSpec("lower-autocast"),
        PassSpec("check-hidden-writes"),
        PassSpec("functionalize"),
        PassSpec("lower-simple-tuples"),
    ),
    options=MappingProxyType({"gradients": (("check-hidden-writes", "gradients"),)}),
)  # fmt: skip
"""Lower a captured graph (fx) to operators on values (torch): no mutation, no calls, one op a result.

``gradients=true``: the result is differentiated later, so writes that bypass autograd are errors.
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
"""TorchScript's ``runOptimization``: for any graph, differentiated or not."""

_DECOMPOSE = (
    Slot("pre"),
    PassSpec("decompose-ops"),
    PassSpec("lower-simple-tuples"),
    PassSpec("hoist-gathers"),
    OnDemand("random", PassSpec("lower-random")),
    PassSpec("batch-mm"),
    PassSpec("pad-matmul"),
)
_FUSE = (PassSpec("fuse"), Slot("post"), PassSpec("dce"))
_FUSE_OPTIONS = {"reductions": (("decompose-ops", "reductions"), ("fuse", "reductions"))}

OPTIMIZE = NamedPipeline(
    (
        PassSpec("canonicalize-ops"),
        PassSpec("constant-propagation"),
        PassSpec("unroll-loops"),
        PassSpec("propagate-shapes"),
        PassSpec("peephole"),
        PassSpec("cse"),
        PassSpec("check-inplace"),
        PassSpec("dce"),
        *_DECOMPOSE,
        *_FUSE,
    ),
    options=MappingProxyType(_FUSE_OPTIONS),
)  # fmt: skip
"""Simplify and fuse a torch-level graph that is not differentiated, or that AOTAutograd has differentiated.

``reductions``: decompose and fuse norms, softmax and losses as well; this is profitable where groups become kernels.
``random``: generate random numbers from a seed, also in kernels; the numbers differ from those of PyTorch. ``pre`` and
``post``: custom passes around the optimizations that autograd does not see.
"""

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
        # outline differentiable subgraphs as functions with derivatives, and simplify these
        PassSpec("create-autodiff-subgraphs"),
        PassSpec("differentiate"),
        PassSpec("canonicalize-ops"),
        PassSpec("propagate-shapes"),
        *_RUN_OPTIMIZATION,
        PassSpec("inline-autodiff-subgraphs"),
        PassSpec("symbol-dce"),
        # regions that autograd does not see: the outlined functions, and operators that need no gradient
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
"""Optimize a torch-level graph like TorchScript's graph executor. A pass is repeated where others expose more work for it.

``subgraph-threshold``, ``inline-threshold``: of ``create-autodiff-subgraphs`` and ``inline-autodiff-subgraphs``, in
operations. ``twice``: make derivatives that can be differentiated again; PyTorch has a separate backward for that. The
others as in ``optimize``.
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
"""Simplify and fuse a derivative whose defined and undefined gradients are given; zero gradients are removed.

``reductions``: as in ``optimize``.
"""

JOINT = NamedPipeline(
    (
        PassSpec("lower-to-torch"),
        PassSpec("canonicalize"),
        PassSpec("fold-uniform-values"),
        PassSpec("cse"),
        PassSpec("apply-patterns"),
        PassSpec("dce"),
        PassSpec("lower-simple-tuples"),  # gradients of a convolution, whose unused ones are gone now
        PassSpec.of("propagate-layouts", convolutions=True),
        PassSpec("partition-min-cut"),
        PassSpec("narrow-positions"),
        PassSpec("offload-saved"),
        PassSpec("split-joint"),
        PassSpec("reorder-for-memory"),
    ),
    options=MappingProxyType({
        "budget": (("partition-min-cut", "budget"),),
        "offload": (("offload-saved", "bytes"),),
    }),
)  # fmt: skip
"""Simplify a captured joint graph of forward and backward, and split it into a module for each. ``torch.compile`` runs it
before ``aot-forward`` and ``aot-backward``.

``budget``: of ``partition-min-cut``, bytes of peak memory or a fraction from 0, the lowest peak, to 1. ``offload``: the bytes
that ``offload-saved`` moves to the host.
"""

DISTRIBUTED = NamedPipeline(
    (
        PassSpec("convert-torch-to-dist"),
        PassSpec("remove-redundant-redistributions"),
        PassSpec("sink-waits"),
        PassSpec("bucket-collectives"),
        PassSpec("choose-reductions"),
        PassSpec("hoist-collectives"),
        PassSpec("convert-dist-to-torch"),
    ),
    options=MappingProxyType({"message": (("bucket-collectives", "bytes"),), "waiting": (("hoist-collectives", "bytes"),)}),
    needs="dist.group",
)  # fmt: skip
"""Merge collectives, start them early and wait for them late. It does not run on modules without ``dist.group``.

``message``: the most bytes of a merged collective; ``waiting``: of results that were started and not awaited.
"""

LOWER_KERNELS = NamedPipeline(
    (
        PassSpec("choose-products"),
        PassSpec("lower-scans"),
        PassSpec("grow-softmax"),
        PassSpec("convert-fusion-to-linalg"),
        PassSpec("tile-attention"),
        PassSpec("tile-matmul"),
        PassSpec("schedule"),
        PassSpec("group-kernels"),
        PassSpec("append-kernels"),
        PassSpec("tile"),
    ),
    options=MappingProxyType({"matmul": (("tile-matmul", "choose"),)}),
)  # fmt: skip
"""Lower groups to kernels for the machine in ``fxc.target``. Groups that no kernel can compute remain.

``matmul=all``: lower all matrix products and their epilogues to kernels; by default only those that measured faster.
"""

LOWER_TO_PLAN = NamedPipeline(
    (
        PassSpec("convert-to-plan"),
        PassSpec("write-arguments"),
        PassSpec("results-to-arguments"),
        OnDemand("streams", PassSpec("assign-streams")),
        PassSpec("write-in-place"),
        PassSpec("release-arguments"),
        PassSpec("plan-memory"),
        PassSpec("merge-kernels"),
    ),
    options=MappingProxyType({
        "streams": (("assign-streams", "streams"),),
        "largest": (("results-to-arguments", "largest"), ("plan-memory", "largest")),
    }),
)  # fmt: skip
"""Lower to a host program with planned memory: launches and calls in order, and their buffers.

``streams``: the maximum number of GPU streams; 1: the stream of the caller only. ``largest``: the size in bytes up to which
buffers are in arenas, and callers allocate results of functions.
"""

LOWER_SUBGRAPH = NamedPipeline((
    PassSpec.of("convert-to-plan", static=True),
    PassSpec("write-in-place"),
    PassSpec.of("plan-memory", largest=1 << 20),
    PassSpec("merge-kernels"),
))  # fmt: skip
"""Lower a forward or backward that autograd runs to a host program. Large buffers are released during the call, because
gradients and tensors saved for backward take more and more memory; an arena would live until the end, cached for the next
call."""

FREEZE = NamedPipeline((
    PassSpec("fold-batch-norm"),
    PassSpec("fold-affine"),
    PassSpec("join-products"),
    PassSpec("pack-weights"),
    PassSpec("propagate-layouts"),
    PassSpec("freeze-parameters"),
    PassSpec("dce"),
))  # fmt: skip
"""Freeze the current weights: fold them, pack them where that is faster, and compute values that depend on them only once."""

TYPES_TO_MEMORY = frozenset({"convert-fusion-to-linalg", "lower-scans", "tile-attention", "tile-matmul", "convert-to-plan"})
"""Passes that lay out memory, or compute addresses of elements, from result types. Types that a text declares are checked
before one of them runs."""


def parse_pipeline(text: str, registry: PassRegistry | None = None) -> Pipeline:
    """The pipeline that ``text`` names. Imports the files of the passes in it, and no others."""
    return resolve(parse(text), registry or PassRegistry(), NAMED)


def lays_out_memory(pipeline: Sequence[Step]) -> bool:
    """Whether a pass of ``pipeline`` lays out memory from result types."""
    return any(each.name in TYPES_TO_MEMORY for each in passes_in(pipeline))


_KERNELS = "outline-repeated{shortest=8 least=4},optimize{reductions=true},lower-kernels"
_PATTERNS = "canonicalize,apply-patterns"
_LAYOUTS = "choose-convolutions,propagate-layouts"

INFERENCE = Flow(
    f"lower-to-torch,{_PATTERNS},distributed,fuse-attention{{gradients=false}}",
    "optimize",
    f"{_LAYOUTS},{_KERNELS}",
    frozen="freeze",
    plan=PassSpec("lower-to-plan"),
)
"""The flow of ``fxc.compile`` for inference."""

_TRAINING_KERNELS = (
    "torchscript{reductions=true subgraph-threshold=1 inline-threshold=1}",
    "specialize-derivatives,builtin.module(derivative{reductions=true})",
    "lower-kernels,builtin.module(lower-kernels)",
    "outline-forwards,builtin.module(lower-subgraph)",
)
"""Kernels do not support autograd, so thresholds of 1 put every operator that can be in a kernel into a subgraph that autograd
does not see. The forwards and backwards that autograd runs become nested modules of the program."""

TRAINING = Flow(
    "lower-to-torch{gradients=true},canonicalize,apply-patterns{gradients=true},fuse-attention",
    "torchscript,specialize-derivatives,builtin.module(derivative)",
    ",".join(_TRAINING_KERNELS),
)
"""The flow of ``fxc.compile(training=True)``."""

LATER_DERIVATIVE = Flow("", "derivative", "derivative{reductions=true},lower-kernels,lower-subgraph")
"""The flow that compiles a derivative at a call, for gradients that ``specialize-derivatives`` did not expect."""

AOT = Flow(f"lower-to-torch,{_PATTERNS},distributed", "simplify", _KERNELS, plan=PassSpec.of("lower-to-plan", largest=1 << 15))
"""The flow of ``torch.compile(backend="fxc")`` for each graph of AOTAutograd, forward or backward; these are differentiated.
Arenas are small, as in ``lower-subgraph``: that of the forward would add to the memory of the backward."""

AOT_INFERENCE = replace(
    AOT,
    prepare=INFERENCE.prepare,
    plan=INFERENCE.plan,
    kernels=f"{_LAYOUTS},{_KERNELS}",
    frozen="canonicalize,cse,freeze",
)
"""The flow of ``torch.compile(backend="fxc")`` for graphs that are compiled where gradients are off."""

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
    "joint": JOINT,
    "distributed": DISTRIBUTED,
    "lower-kernels": LOWER_KERNELS,
    "lower-to-plan": LOWER_TO_PLAN,
    "lower-subgraph": LOWER_SUBGRAPH,
    **{name: _of_flow(flow) for name, flow in FLOWS.items()},
    **{f"{name}-frozen": _of_flow(flow, freeze=True) for name, flow in FLOWS.items() if flow.frozen is not None},
    **{f"{name}-aten": _of_flow(flow, kernels=False) for name, flow in FLOWS.items()},
})  # fmt: skip
"""All named pipelines. Each flow is one, for the machine in ``fxc.target``; ``-frozen`` compiles with frozen weights, ``-aten``
without a target, where the kernels of PyTorch run."""
