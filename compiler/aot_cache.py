"""AOTAutograd's cache: what it stores of a compiled graph, and the key of what its results depend on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast
from unittest import mock

import torch
from torch import compiler
from torch._functorch import config
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor import codecache
from torch._inductor.output_code import OutputCode
from torch.fx import GraphModule, Node

from fxc.api import joint_pipeline, pipeline_for
from fxc.artifact import cache
from fxc.artifact.plan_file import signature_from, signature_json
from fxc.bridge.values import SYMBOLIC_NUMBERS
from fxc.compilation.passes import has_patterns, is_cached, text_of
from fxc.dialects.target import HOST
from fxc.execution_plan import ExecutionPlan
from fxc.options import AUTO, Options
from fxc.pipelines import AOT, AOT_INFERENCE
from fxc.program.program import Program, state_names
from fxc.runtime.object_cache import cache_key

Boxed = Callable[[list[Any]], Any]


class CachedGraph(OutputCode):
    """The function of a graph, which AOTAutograd's cache stores as the entry of its plan in the cache of plans.

    ``key``: of that entry, None where there is none; ``boxed``: whether ``run`` is the boxed function of ``plan``.
    """

    def __init__(self, run: Boxed, plan: ExecutionPlan, key: str | None, boxed: bool) -> None:
        self._run: Boxed | None = run
        self._plan: ExecutionPlan | None = plan
        self._boxed_call = True  # functools.wraps passes on the attributes of an instance
        self._key, self._boxed = key, boxed
        self._entry, self._signature, self._state = b"", dict[str, Any](), dict[str, torch.Tensor]()

    def __call__(self, inputs: Sequence[Any]) -> Any:
        assert self._run is not None
        return self._run(cast(list[Any], inputs))

    def prepare_for_serialization(self) -> None:
        """BypassAOTAutogradCache for a graph that its text does not represent, or that is no host program without weights."""
        entry, plan = cache.packed_ready(self._key) if self._key is not None else None, self._plan
        if entry is None or plan is None or plan.host is None or plan.host.weights or plan.signature.returned is not None:
            raise BypassAOTAutogradCache("fxc cannot store a graph of this model")
        self._entry, self._signature = entry, signature_json(plan.signature)
        self._state = {name: plan.ir.state[name] for name in state_names(plan.ir.module)}  # numbers that the graph names
        self._run = self._plan = None

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Make the function again. AOTAutograd compiles the graph if that raises."""
        ready = cache.unpack_ready(self._entry, self._state)
        signature = signature_from(self._signature, None)
        plan = ExecutionPlan.ready(lambda: Program(ready.module(), self._state), ready.host, signature, training=False)
        self._run = function_of(plan, boxed=self._boxed)


def function_of(plan: ExecutionPlan, *, boxed: bool) -> Boxed:
    """The function of ``plan`` on one list of inputs, which it empties if it is ``boxed``."""
    flat = plan.boxed() if boxed else plan.flat()
    return flat if boxed else lambda inputs: flat(*inputs)


@contextmanager
def in_cache(
    graph: GraphModule, inputs: Sequence[Any], options: Options, compilers: dict[str, Any]
) -> Generator[dict[str, Any], None, None]:
    """A context in which AOTAutograd looks for ``graph`` in its cache, and stores the graphs that ``compilers`` make of it.

    The backward is compiled with the forward then. Graphs whose text does not say what they compute are compiled each time.
    """
    process = cache.key_of_process()
    if process is None or not _is_cacheable(options) or not _is_in_text(graph, inputs):
        yield compilers
        return
    chosen = replace(options, target=HOST) if options.target == AUTO else options  # other targets have no host program in text
    flows = [pipeline_for(flow, chosen) for flow in (AOT, AOT_INFERENCE)]
    key = cache_key(joint_pipeline(chosen), *flows, str(options.target), text_of(chosen), *process, *_lines(graph))
    patch, patch_compiler = cast(Any, config).patch, cast(Any, compiler.config).patch
    stored = {
        name: each if name == "partition_fn" else SerializableAOTDispatchCompiler(OutputCode, each)
        for name, each in compilers.items()
    }
    with (
        mock.patch.object(codecache, "init_backend_registration", lambda: None),  # imports the compiler that fxc replaces
        patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True),
        patch_compiler(cache_key_tag=f"{compiler.config.cache_key_tag} fxc {key}"),
    ):
        yield stored


def _is_cacheable(options: Options) -> bool:
    """Whether nothing but results is expected of a compilation with ``options``, and a host program is made."""
    more = options.timing or options.strict or options.freeze or options.cuda_graphs or options.move_inputs
    named = options.target is not None or options.pipeline
    return is_cached(options) and not more and bool(named) and not has_patterns(options.pipeline or "")


def _is_in_text(graph: GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether ``graph`` has no constant tensor and no operator of the user, and takes plain tensors of static sizes.

    Nor may it have symbolic numbers: Dynamo passes a float that changes as a tensor, of which AOTAutograd may compile in the
    value, without a guard in the cache.
    """
    plain = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return False
    if not all(type(each) in plain for each in inputs):
        return False
    nodes = [node for module in graph.modules() if isinstance(module, GraphModule) for node in module.graph.nodes]
    return not any(_is_of_user(node) or isinstance(node.meta.get("example_value"), SYMBOLIC_NUMBERS) for node in nodes)


def _is_of_user(node: Node) -> bool:
    if node.op == "get_attr":
        return not isinstance(getattr(node.graph.owning_module, str(node.target), None), GraphModule)
    if isinstance(node.target, torch._ops.OpOverloadPacket):
        return not node.target._qualified_op_name.startswith(("aten::", "prims::"))
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace not in ("aten", "prims")


def _lines(graph: GraphModule) -> list[str]:
    """The source lines of the nodes and the paths of their modules, which are in reports and errors, not in results."""
    modules = (",".join(path for path, _ in node.meta.get("nn_module_stack", {}).values()) for node in graph.graph.nodes)
    return [str(node.meta.get("stack_trace")) for node in graph.graph.nodes] + [*modules]
