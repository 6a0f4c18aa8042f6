"""Execution plans: a host program or an FX graph, behind a check of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy, deepcopy
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from operator import getitem
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import _PyTreeCodeGen
from torch.utils._pytree import TreeSpec

from fxc.errors import InputError, PipelineError
from fxc.runtime import autocast
from fxc.runtime.autograd import DifferentiableSubgraph, HostSubgraph
from fxc.runtime.cuda_graphs import CudaGraphs, GraphDriver
from fxc.runtime.entry import check, entry
from fxc.runtime.first_call import Look
from fxc.runtime.gradient_batches import for_each, is_batched
from fxc.runtime.host_program import HostFacts, HostProgram, use_tensors
from fxc.runtime.lazy import around_transforms, has_tangent, is_wrapped, takes_gradient, transforms_are_active
from fxc.runtime.live_model import LiveModel
from fxc.runtime.native_kernel import WITHOUT_KERNELS, refuse_trace
from fxc.runtime.object_inputs import ObjectCall, StoredState
from fxc.runtime.signature import Signature
from fxc.runtime.units import bytes_text, duration

FROM_DISK = "cached plan"
"""The stage in ``times`` that replaces the passes when an equal graph was compiled before."""
PLAN_CACHE = "plan cache"
"""The stage that looks for a cached plan, and stores a new one."""

_DERIVED = """compile with training=True and options={"target": None}, or use torch.compile(model, backend='fxc')"""


@dataclass(frozen=True, kw_only=True)
class PlanStats(HostFacts):
    """The work of a plan, its compile times, and its use; ``str()`` is a table.

    ``ops``: calls in the program and its subgraphs. ``launches``: calls of generated kernels; ``library_calls``: calls of
    PyTorch's kernels; ``subgraph_calls``: calls of functions, branches and loop bodies. ``parameter_bytes``: memory of
    parameters, buffers and constants, with shared memory counted once.

    For host programs: ``allocations``: tensors made, including results. ``arena_bytes``: memory that buffers within a call
    share. ``peak_bytes``: the maximum memory of a call, including the allocations of operators as far as they are known.
    ``sum_bytes``: the memory without any sharing. ``lower_bound_bytes``: the maximum of live bytes, a bound for any placement.

    ``times``: milliseconds per stage. ``is_cached``: no pass ran, as an equal graph was compiled before. ``hits``: calls that
    fit; ``misses``: calls that were rejected or that compiled the plan. Concurrent calls of several threads may be missed.
    """

    ops: int
    parameter_bytes: int
    times: Mapping[str, float] = field(default_factory=dict[str, float])
    hits: int = 0
    misses: int = 0

    @property
    def is_cached(self) -> bool:
        """Whether the program was loaded from disk."""
        return FROM_DISK in self.times

    def __str__(self) -> str:
        counts = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "times"}
        rows = [(name, bytes_text(value) if name.endswith("_bytes") else f"{value:,}") for name, value in counts.items()]
        named = [(name.replace("_bytes", "_memory").replace("_", " "), text) for name, text in rows]
        named += [(name, duration(time)) for name, time in self.times.items()]
        return "\n".join(f"{name:32} {text:>12}" for name, text in named)


class Plan:
    """Runs inputs that fit ``signature``: with ``host``, a program with kernels, or else with the graph of ``module``.

    ``ir``: the source program, if retained. ``module``: a GraphModule in which each value is released after its last use.
    ``code``: the Python code that runs. ``training``: whether results carry gradients. If the graph runs, edits of
    ``module.graph`` followed by ``module.recompile()`` take effect. If a host program runs, the graph is an equivalent form of
    it for tensors that are not plain: fake tensors and subclasses.
    """

    ir: Any = None
    _live: LiveModel | None = None
    _look: Look | None = None
    _around: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    _stored: StoredState | None = None

    def __init__(
        self,
        module: GraphModule | Callable[[], GraphModule],
        signature: Signature,
        training: bool,
        host: HostProgram | None = None,
    ) -> None:
        self._module, self.host = module, host
        self.signature, self.training = signature, training
        self.times: Mapping[str, float] = MappingProxyType({})
        self.hits, self.misses = 0, 0
        self._bind()

    def _bind(self) -> None:
        """Reset the state that belongs to this plan, not to its copies, and end the comparison of a first call."""
        self._look = None
        for name in ("run", "_takes"):
            self.__dict__.pop(name, None)
        self._direct: tuple[str, Callable[..., Any] | None] = ("", None)
        is_same = None if self._live is None else self._live.is_same
        self.call = self._checked if self.host is None else entry(self.host, self.signature, self._other, self, is_same)
        self.call = self._for_users(self.call)

    def _for_users(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """``call`` with the inputs and results of the model."""
        if self.signature.returned is not None:
            call = ObjectCall(call, self.signature.returned, self._stored)
        return call if self._around is None else self._around(call)

    def call_through(self, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Call the plan through ``around(call)``, which has the inputs and results of the user."""
        self._around = around
        self._bind_again()

    def follow(self, model: LiveModel) -> None:
        """Run later calls on the tensors that ``model`` has then, as long as they fit."""
        self._live = model
        self._bind_again()

    def store_in(self, stored: StoredState) -> None:
        """Let ``stored`` assign what each call stores in the model; a copy of the plan, or one from a file, stores nothing."""
        self._stored = stored
        self._bind_again()

    def _take_over(self, model: LiveModel) -> None:
        """Use the current tensors of the model. InputError if they do not fit."""
        with model.lock():
            changes = model.changes()
            if changes is None:
                return
            if self.host is not None:
                self.host.use_tensors(changes)
                if isinstance(self.host.main, CudaGraphs):
                    self.host.main.update_weights()
            if isinstance(self._module, GraphModule):
                use_tensors(self._module, changes)
            if self._stored is not None:
                self._stored.move(model.moved)
            model.follow(changes)
            self._bind_again()

    def _bind_again(self) -> None:
        """Rebind, and retain the comparison of a first call."""
        look = self._look
        self._bind()
        if look is not None:
            self.watch_first_call(look)

    def watch_first_call(self, look: Look) -> None:
        """Run the next calls through ``look``, until one is compared."""

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            leaves = self.signature.leaves(args, kwargs)
            returned, compared = look(leaves or [], partial(Plan.run, self, args, kwargs))
            if compared:
                self._bind()
            return returned

        self._look, self.run, self.call = look, run, self._for_users(self._checked)

    def use_cuda_graphs(self, driver: GraphDriver | None = None) -> None:
        """Run the host program as CUDA graphs from the next call on; ``driver`` replaces the accelerator.

        PipelineError if there is no accelerator, or if the plan has no host program.
        """
        if self.host is None:
            hint = "name a target; training plans and those of free sizes stay graphs"
            raise PipelineError("cuda_graphs is on, but this plan is no host program", hint=hint)
        self.host.main = CudaGraphs(self.host, driver)
        self._bind()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)

    def _checked(self, *args: Any, **kwargs: Any) -> Any:
        return self._other(args, kwargs)

    def _other(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.signature.fits(args, kwargs):
            self.misses += 1
            self.signature.check(args, kwargs)
        self.hits += 1
        return self.run(args, kwargs)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the results for inputs that are known to fit."""
        if autocast.is_on():
            with autocast.off():
                return self.run(args, kwargs)
        if self._live is not None and not self._live.is_same():
            self._take_over(self._live)
        forward = self._forward(args, kwargs)
        if self.training or not torch.is_grad_enabled():
            return forward()
        leaves = self.signature.leaves(args, kwargs) or () if transforms_are_active() else ()
        if any(map(takes_gradient, leaves)):
            raise InputError("torch.func takes a derivative of what was compiled for inference", hint=_DERIVED)
        try:
            torch._C._set_grad_enabled(False)  # torch.no_grad() costs more than a small kernel
            with around_transforms(leaves):
                return forward()
        finally:
            torch._C._set_grad_enabled(True)

    def _forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
        """Return the function to run for these inputs."""
        leaves = None if self.host is None else self.signature.leaves(args, kwargs)
        if self.host is not None and leaves is not None and self._takes(leaves):
            return partial(self.host.main, [*leaves]) if self.host.boxed else partial(self.host.main, *leaves)
        if self.host is not None:
            _refuse_unseen(leaves or ())
        fake = next((leaf for leaf in leaves or () if isinstance(leaf, FakeTensor)), None)
        if fake is not None:  # buffers must be fake, too
            return partial(_within, fake.fake_mode, partial(self.module.forward, *args, **kwargs))
        # forward, not __call__: a plan has no hooks, and GraphModule's wrappers cost more than the whole check
        return partial(self.module.forward if kwargs else self._direct_forward(), *args, **kwargs)

    @cached_property
    def _takes(self) -> Callable[[Sequence[Any]], bool]:
        """A check whether the host program accepts inputs that fit the signature."""
        assert self.host is not None
        return check(self.host, self.signature, range(len(self.signature.inputs)))

    def run_module(self, args: tuple[Any, ...]) -> Any:
        """Return the results of ``module``, whose kernels check their arguments and copy those with other layouts."""
        if any(map(is_batched, args)):
            return for_each(lambda *each: self.run_module(each), args)
        _refuse_unseen(args)
        with torch.no_grad(), around_transforms(args):
            return self.module.forward(*args)

    def _direct_forward(self) -> Callable[..., Any]:
        """Return the function for positional arguments; regenerated after the module is recompiled."""
        code, direct = self._direct
        if code is not self.module._code:
            direct = direct_call(self.module)
            self._direct = self.module._code, direct
        return direct or self.module.forward

    @property
    def module(self) -> GraphModule:
        """The FX graph; made on first use if a host program runs."""
        if not isinstance(self._module, GraphModule):
            self._module = self._module()
        return self._module

    def __copy__(self) -> Plan:
        made = object.__new__(type(self))
        made.__dict__.update(vars(self))
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Plan:
        """Copy the plan with its tensors and counters."""
        made = copy(self)
        made._live = made._stored = None
        made._module, made.host = deepcopy(self.module, memo), deepcopy(self.host, memo)
        made._bind()
        return made

    @property
    def graph(self) -> Graph:
        """The graph of ``module``."""
        return self.module.graph

    @property
    def code(self) -> str:
        """The Python code that runs."""
        return (self.module.code if self.host is None else self.host.source).strip() + "\n"

    @property
    def stats(self) -> PlanStats:
        """The current counts."""
        if self.host is not None:
            facts, tensors = self.host.facts, self.host.tensors()
            ops = facts.launches + facts.library_calls + facts.subgraph_calls
        else:
            nodes, tensors, inside = list(_calls(self.module)), _tensors(self.module), _facts_within(self.module)
            facts = replace(
                inside,
                launches=inside.launches + sum(_is_launch(owner, node) for owner, node in nodes),
                library_calls=inside.library_calls + sum(_is_library_call(owner, node) for owner, node in nodes),
                subgraph_calls=inside.subgraph_calls + sum(_is_subgraph_call(owner, node) for owner, node in nodes),
            )
            ops = len(nodes) + inside.launches + inside.library_calls + inside.subgraph_calls
        memory = sum(_storages(tensors).values())
        return PlanStats(**asdict(facts), ops=ops, parameter_bytes=memory, times=self.times, hits=self.hits, misses=self.misses)

    def report(self, path: str | Path) -> None:
        """Write a page about the compilation. PipelineError for a plan without the captured program."""
        hint = "compile the model in this process, or run `fxc report model.py --html report.html`"
        raise PipelineError("this plan has no captured program to report on", hint=hint)

    def __repr__(self) -> str:
        if self.host is None:
            size = f"{len(self.graph.nodes)} nodes"
        else:
            size = f"{self.host.facts.launches} kernel launch{'es' if self.host.facts.launches != 1 else ''}"
        inputs = f"{len(self.signature.inputs)} input{'s' if len(self.signature.inputs) != 1 else ''}"
        return f"<{type(self).__name__}: {inputs}, {size}{', training' if self.training else ''}>"


def _within(region: AbstractContextManager[Any], function: Callable[[], Any]) -> Any:
    with region:
        return function()


def _facts_within(module: GraphModule) -> HostFacts:
    """Sum the facts of the host programs that a graph runs as subgraphs, forward and backward."""
    found = [HostFacts(), *(part.host.facts for part in module.modules() if isinstance(part, HostSubgraph))]
    return HostFacts(**{item.name: sum(getattr(facts, item.name) for facts in found) for item in fields(HostFacts)})


def _calls(module: GraphModule) -> Iterator[tuple[GraphModule, Node]]:
    """Yield the calls in a graph and in its subgraphs, each with its module."""
    for graph in module.modules():
        if isinstance(graph, GraphModule):
            for node in graph.graph.nodes:
                if node.op.startswith("call_") and node.target is not getitem:
                    yield graph, node


def _is_subgraph_call(owner: GraphModule, node: Node) -> bool:
    if node.op == "call_module":
        return isinstance(owner.get_submodule(str(node.target)), (GraphModule, DifferentiableSubgraph))
    return isinstance(node.target, torch._ops.HigherOrderOperator)


def _is_launch(owner: GraphModule, node: Node) -> bool:
    """Whether a generated kernel computes the node."""
    return node.op == "call_module" and getattr(owner.get_submodule(str(node.target)), "is_kernel", False)


def _is_library_call(owner: GraphModule, node: Node) -> bool:
    """Whether PyTorch computes the node: operators, functions, methods and modules, not arithmetic on host numbers."""
    if _is_subgraph_call(owner, node) or _is_launch(owner, node):
        return False
    return node.op != "call_function" or getattr(node.target, "__module__", "") not in ("_operator", "builtins", "math")


def _tensors(module: GraphModule) -> Iterator[Any]:
    """Yield the tensors of a plan, and other attributes."""
    for owner in module.modules():
        yield from (*owner._parameters.values(), *owner._buffers.values(), *owner.__dict__.values())
        if isinstance(owner, HostSubgraph):
            yield from owner.host.tensors()


def _storages(values: Iterable[Any]) -> dict[int, int]:
    """Return the storages of the tensors among ``values``, with their sizes in bytes."""
    tensors = (value for value in values if isinstance(value, torch.Tensor) and value.layout is torch.strided)
    storages = (tensor.untyped_storage() for tensor in tensors)
    return {storage._cdata: storage.nbytes() for storage in storages}


_LARGEST = 4096
"""The maximum number of nodes. Longer graphs run so long that pytrees do not matter, so they are not compiled twice."""


def _refuse_unseen(values: Iterable[Any]) -> None:
    """InputError in a trace, and for tensors of a transform: both see operators only, none of which write into given memory."""
    refuse_trace("a compiled function")
    if any(is_wrapped(value) or (isinstance(value, torch.Tensor) and has_tangent(value)) for value in values):
        raise InputError("an input is a tensor of a transform (vmap, jvp), which has no memory", hint=WITHOUT_KERNELS)


def direct_call(module: GraphModule) -> Callable[..., Any] | None:
    """Return ``module.forward`` for positional arguments; None if arguments or results are nested, or the graph is too long.

    It omits the flattening and unflattening of pytrees, which cost 4 us a call.
    """
    codegen = module.graph._codegen
    if not isinstance(codegen, _PyTreeCodeGen) or len(module.graph.nodes) > _LARGEST:
        return None
    inputs, out = codegen.pytree_info.in_spec.children(), codegen.pytree_info.out_spec
    if inputs[1].num_leaves or not _is_flat(inputs[0]) or out is None or not (out.is_leaf() or _is_flat(out)):
        return None
    forward = _compiled(module.graph)
    if out.is_leaf():
        return lambda *args: forward(module, *args)[0]
    build = out.type
    return lambda *args: build(forward(module, *args))


def _is_flat(spec: TreeSpec) -> bool:
    return spec.type in (tuple, list) and all(child.is_leaf() for child in spec.children())


def _compiled(graph: Graph) -> Callable[..., Any]:
    plain = Graph()
    plain.output(plain.graph_copy(graph, {}))
    code = plain.python_code("self")
    namespace: dict[str, Any] = dict(code.globals)
    exec(compile(code.src, "<plan>", "exec"), namespace)
    return namespace["forward"]
