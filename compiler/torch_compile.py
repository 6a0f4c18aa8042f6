"""``torch.compile(model, backend="fxc")``: Dynamo's graph goes through AOTAutograd, and each of its graphs is compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial, wraps
from typing import Any, cast
from unittest import mock

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException
from torch._functorch import config
from torch._functorch._aot_autograd import graph_compile
from torch._functorch._aot_autograd.utils import make_boxed_func, top_saved_tensors_hooks
from torch._functorch.partitioners import default_partition
from torch._guards import TracingContext
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from fxc.aot_cache import CachedGraph, function_of, in_cache
from fxc.api import compile_graph, joint_pipeline, run_options, with_machine
from fxc.bridge.eager_strides import in_all_decompositions, in_all_fakes
from fxc.bridge.loops import loops_separated
from fxc.bridge.tensors import type_of
from fxc.compilation.passes import Passes
from fxc.dialects.attributes.types import is_tensor, overlaps
from fxc.driver.gc_pause import collections_paused
from fxc.driver.pipeline import Flow
from fxc.errors import CaptureError, FallbackWarning, FxcError, NumericsError, PipelineError
from fxc.export.joint_modules import modules_of, program_of
from fxc.frontends.dynamo_attention import fuse_attention
from fxc.frontends.dynamo_graphs import drop_unread_numbers, read_drawn_numbers, remove_idle_dropouts, return_views_of_inputs
from fxc.frontends.eager_calls import EagerCalls
from fxc.frontends.eager_graphs import is_for_eager
from fxc.frontends.frozen_graph import FrozenGraph
from fxc.frontends.joint_graph import import_joint, name_as_written, name_modules
from fxc.frontends.layouts import Layouts, ObjectArguments, without_objects
from fxc.frontends.user_lines import place_of_error, reason_of
from fxc.options import Options
from fxc.pipelines import AOT, AOT_INFERENCE
from fxc.program.program import Program
from fxc.runtime.shared_memory import shared_pair
from fxc.semantics.windows import replace_windows
from fxc.semantics.written_strides import in_all_functionalizations


def fxc_backend(
    graph: GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """The backend. ``options`` are fields of ``fxc.Options``. Each graph of AOTAutograd is compiled with a separate pipeline.

    Graphs that only eager mode runs correctly are returned unchanged. Calls where a written input shares memory with another
    one run in eager mode.
    With ``freeze``, graphs that are compiled where gradients are off have frozen weights; other graphs are not affected.
    PipelineError for a ``mode``, which torch.compile hands to each backend.
    """
    if mode is not None:
        hint = 'modes are those of Inductor; options={"autotune": True} and options={"cuda_graphs": True} are for GPUs'
        raise PipelineError(f"fxc has no mode {mode!r}", hint=hint)
    chosen = run_options(options)
    if is_for_eager(graph):
        return graph
    thawed, layouts = replace(chosen, freeze=False), Layouts.of(graph, inputs)

    def made(aot_graph: GraphModule, program: Program, flow: Flow, *, boxed: bool = False) -> CachedGraph:
        plan = compile_graph(program, thawed, flow, boxed=boxed)
        run = ObjectArguments.of(aot_graph).around(function_of(plan, boxed=boxed))
        return CachedGraph(run, plan, program.key, boxed)

    def backward(aot_graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return made(aot_graph, program_of(aot_graph, layouts.imported), AOT, boxed=True)

    def forward(aot_graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return_views_of_inputs(aot_graph)
        return made(aot_graph, program_of(aot_graph, layouts.imported), AOT)

    def infer(aot_graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return_views_of_inputs(aot_graph)
        return made(aot_graph, layouts.imported(aot_graph), AOT_INFERENCE)

    def freeze(aot_graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return_views_of_inputs(aot_graph)
        plain, objects = without_objects(aot_graph), ObjectArguments.of(aot_graph)
        frozen = FrozenGraph(
            plain,
            layouts.imported,
            objects.indices(_weights()),
            lambda program: compile_graph(program, chosen, AOT_INFERENCE).flat(),
            chosen.cache_size,
        )
        return objects.around(make_boxed_func(frozen))

    compiled = _compiled_by_aot_autograd(
        graph,
        inputs,
        chosen,
        fw_compiler=forward,
        bw_compiler=backward,
        partition_fn=partial(partition, thawed, layouts),
        inference_compiler=freeze if chosen.freeze else infer,
    )
    written = _written(compiled, len(inputs))
    return _unless_shared(compiled, graph, written) if written else compiled


def partition(
    options: Options,
    layouts: Layouts,
    joint: GraphModule,
    inputs: Sequence[Any],
    *,
    num_fwd_outputs: int,
    **more: Any,
) -> tuple[GraphModule, GraphModule]:
    """Split ``joint`` into forward and backward by the pipeline ``joint``, under ``options.memory_budget``.

    A graph that cannot be imported or split gets the default partition of PyTorch. So do graphs of higher-order operators, for
    which AOTAutograd gives no inputs, as their parts become such graphs again; and graphs with hooks of saved tensors, which it
    adds to the parts.
    """
    pipeline = joint_pipeline(options)
    try:
        if not inputs or top_saved_tensors_hooks() is not None:
            raise CaptureError("AOTAutograd changes the parts of the joint graph", hint="PyTorch partitions it")
        program = _joint_program(joint, layouts, num_fwd_outputs, more)
        Passes(pipeline, with_machine(options, AOT, program)).run(program)
        return modules_of(joint, program, num_fwd_outputs)
    except CaptureError:
        pass
    except NumericsError:
        raise
    except FxcError as error:
        _fall_back(options, "the joint graph is partitioned by PyTorch", error)
    return default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **more)


def _joint_program(joint: GraphModule, layouts: Layouts, forward_results: int, more: Mapping[str, Any]) -> Program:
    plain, objects = without_objects(joint), ObjectArguments.of(joint)
    held = objects.indices(more.get("static_lifetime_input_indices") or ())
    return layouts.record(import_joint(plain, objects.computed(forward_results), held), plain)


def _fall_back(options: Options, instead: str, error: FxcError) -> None:
    """Warn that ``error`` is the reason for what is done ``instead``; raise it if ``options`` say so."""
    if not options.fallback:
        raise error
    warnings.warn(f"{instead}: {error}", FallbackWarning, stacklevel=3)


def capture_joint(model: Callable[..., Any], args: Sequence[Any]) -> Program:
    """The joint program of ``model``: its forward and backward in one, as ``torch.compile(backend="fxc")`` partitions it.

    Runs ``model`` once on ``args``, in PyTorch. CaptureError where no result requires a gradient, or where Dynamo cannot
    capture the model in one graph.
    """
    found = list[Program]()

    def record(graph: GraphModule, layouts: Layouts, joint: GraphModule, *args: Any, num_fwd_outputs: int, **more: Any) -> Any:
        name_modules(joint)
        found.append(_joint_program(joint, layouts, num_fwd_outputs, more))
        name_as_written(found[-1], without_objects(joint), graph)
        return default_partition(joint, *args, num_fwd_outputs=num_fwd_outputs, **more)

    def backend(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        split = partial(record, graph, Layouts.of(graph, inputs))
        options = replace(run_options(None), cache_plans=False)
        return _compiled_by_aot_autograd(graph, inputs, options, fw_compiler=_unchanged, partition_fn=split)

    try:
        torch.compile(model, backend=backend, fullgraph=True)(*args)
    except TorchDynamoException as error:
        hint = "a joint graph is captured from one graph without breaks"
        raise CaptureError(reason_of(error), place=place_of_error(error), hint=hint) from error
    if not found:
        raise CaptureError("no result of the model requires a gradient", hint="give it parameters that require one")
    return found[0]


def _unchanged(graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
    return make_boxed_func(graph)


def _compiled_by_aot_autograd(
    graph: GraphModule, inputs: Sequence[Any], options: Options, **compilers: Any
) -> Callable[..., Any]:
    """The function that AOTAutograd makes of ``graph`` with these compilers."""
    # passes that prepare the graph work for no target, and without output
    quiet = replace(options, target=None, check_numerics=False, print_ir=False, timing=False)

    def run(program: Program, pipeline: str) -> None:
        Passes(pipeline, quiet).run(program)

    inputs = read_drawn_numbers(graph, inputs)
    drop_unread_numbers(graph)
    remove_idle_dropouts(graph)
    replace_windows(graph)
    try:
        fuse_attention(graph, run)
    except FxcError as error:
        _fall_back(options, "attention is not fused", error)
    # Whether elements of a result share memory, as those of unfold: AOTAutograd would copy gradients to such memory.
    returned = [
        leaf.meta.get("example_value") for leaf in tree_leaves(graph.graph.output_node().args) if isinstance(leaf, Node)
    ]
    types = [type_of(value) for value in returned if isinstance(value, torch.Tensor) and value.layout is torch.strided]
    guess = not any(is_tensor(type) and overlaps(type) for type in types)
    exact = cast(Any, config).patch(guess_tangent_strides_as_outputs=guess)
    with (
        collections_paused(),
        in_all_fakes(),
        in_all_decompositions(),
        in_all_functionalizations(),
        exact,
        # no saved tensor is written by a backward, which so may run again with retain_graph=True
        mock.patch.object(graph_compile, "collect_bw_donated_buffer_idxs", return_value=[]),
        EagerCalls(),
        loops_separated(),
        in_cache(graph, inputs, options, compilers) as stored,
    ):
        # with mutations in it, a graph writes inputs directly, so that a kernel can compute into them
        return aot_autograd(keep_inference_input_mutations=True, **stored)(graph, inputs)


def _unless_shared(compiled: Callable[..., Any], graph: GraphModule, written: Set[int]) -> Callable[..., Any]:
    """A function that calls ``compiled``, or ``graph`` in eager mode where an input in ``written`` shares memory with another.

    AOTAutograd compiles for inputs that do not share memory, and neither it nor Dynamo checks later calls.
    """

    @wraps(compiled)
    def run(*inputs: Any) -> Any:
        return (compiled if shared_pair(inputs, written) is None else graph)(*inputs)

    return run


def _written(compiled: Callable[..., Any], count: int) -> Set[int]:
    """Indices of the ``count`` inputs of the graph that AOTAutograd ``compiled``, or found in its cache, that are written.

    With DTensors the metadata is that of their parts; then all count if one is written.
    """
    metadata = TracingContext.get().fw_metadata or cast(Any, compiled).serialize().runtime_metadata
    if len(metadata.input_info) > count:
        return set(range(count)) if any(info.mutates_data for info in metadata.input_info) else set()
    return {i for i, info in enumerate(metadata.input_info, count - len(metadata.input_info)) if info.mutates_data}


def _weights() -> list[int]:
    """Indices of the inputs of the graph under AOTAutograd compilation that are weights of the model and are not written."""
    metadata = TracingContext.get().fw_metadata
    assert metadata is not None
    return [i for i in metadata.static_input_indices if not metadata.input_info[i].mutates_data]
