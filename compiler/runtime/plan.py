"""What runs after the pipeline: an FX graph behind a check of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import getitem
from types import MappingProxyType
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from fxc.runtime import autocast
from fxc.runtime.autograd import DifferentiableSubgraph
from fxc.runtime.direct_call import direct_call
from fxc.runtime.signature import Signature


@dataclass(frozen=True)
class PlanStats:
    """What a plan does, what it cost to make, and how it was used; ``str()`` is a table.

    ``ops``: calls in the graph and its subgraphs, ``getitem`` apart. ``library_calls``: those of them that PyTorch's own
    kernels run. ``subgraph_calls``: calls of functions, branches and loop bodies. ``parameter_bytes``: memory of parameters,
    buffers and constants, what is shared counted once. ``times``: milliseconds a stage. ``hits``: calls that fitted,
    ``misses``: calls that were refused or that made the plan; of threads that call at one moment some may not be counted.
    """

    ops: int
    library_calls: int
    subgraph_calls: int
    parameter_bytes: int
    times: Mapping[str, float] = field(default_factory=dict)
    hits: int = 0
    misses: int = 0

    def __str__(self) -> str:
        names = ("ops", "library_calls", "subgraph_calls", "parameter_bytes", "hits", "misses")
        rows = [f"{name.replace('_', ' '):32} {getattr(self, name):>12,}" for name in names]
        return "\n".join([*rows, *(f"{name:32} {time:>9,.1f} ms" for name, time in self.times.items())])


class Plan:
    """``module`` on inputs that fit ``signature``.

    ``ir``: the program that it was made of, where one is kept. ``module``: a GraphModule, where each value is released after
    its last use; ``code``: it as Python. ``training``: whether results carry gradients. Editing ``module.graph`` and
    ``module.recompile()`` change what runs.
    """

    ir: Any = None

    def __init__(
        self, module: GraphModule, signature: Signature, training: bool, times: Mapping[str, float] | None = None
    ) -> None:
        self.module, self.signature, self.training = module, signature, training
        self.times = MappingProxyType(dict(times or {}))
        self.hits, self.misses = 0, 0
        self._direct: tuple[str, Callable[..., Any] | None] = ("", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.signature.fits(args, kwargs):
            self.misses += 1
            self.signature.check(args, kwargs)
        self.hits += 1
        return self.run(args, kwargs)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results for inputs that are known to fit."""
        if autocast.is_on():
            with autocast.off():
                return self.run(args, kwargs)
        # forward, not __call__: a plan has no hooks, and GraphModule's wrappers cost more than the whole check
        forward = self.module.forward if kwargs else self._forward()
        if self.training or not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        with torch.no_grad():
            return forward(*args, **kwargs)

    def _forward(self) -> Callable[..., Any]:
        """What to call with positional arguments; made anew where the module was recompiled."""
        code, direct = self._direct
        if code is not self.module._code:
            direct = direct_call(self.module)
            self._direct = self.module._code, direct
        return direct or self.module.forward

    @property
    def graph(self) -> Graph:
        """The FX graph that runs."""
        return self.module.graph

    @property
    def code(self) -> str:
        """The graph as Python, as it runs."""
        return self.module.code.strip() + "\n"

    @property
    def stats(self) -> PlanStats:
        """Counts as of now."""
        nodes = list(_calls(self.module))
        return PlanStats(
            ops=len(nodes),
            library_calls=sum(_is_library_call(owner, node) for owner, node in nodes),
            subgraph_calls=sum(_is_subgraph_call(owner, node) for owner, node in nodes),
            parameter_bytes=sum(_storages(self.module).values()),
            times=self.times,
            hits=self.hits,
            misses=self.misses,
        )

    def __repr__(self) -> str:
        training = ", training" if self.training else ""
        return f"<{type(self).__name__}: {len(self.signature.inputs)} inputs, {len(self.graph.nodes)} nodes{training}>"


def _calls(module: GraphModule) -> Iterator[tuple[GraphModule, Node]]:
    """The calls in a graph and in its subgraphs, each with the module that owns it."""
    for graph in module.modules():
        if isinstance(graph, GraphModule):
            for node in graph.graph.nodes:
                if node.op.startswith("call_") and node.target is not getitem:
                    yield graph, node


def _is_subgraph_call(owner: GraphModule, node: Node) -> bool:
    if node.op == "call_module":
        return isinstance(owner.get_submodule(str(node.target)), (GraphModule, DifferentiableSubgraph))
    return isinstance(node.target, torch._ops.HigherOrderOperator)


def _is_library_call(owner: GraphModule, node: Node) -> bool:
    """Whether PyTorch computes the node: operators, functions, methods and modules, not arithmetic on host numbers."""
    if _is_subgraph_call(owner, node):
        return False
    return node.op != "call_function" or getattr(node.target, "__module__", "") not in ("_operator", "builtins", "math")


def _storages(module: GraphModule) -> dict[int, int]:
    """Size by storage of the tensors that a plan holds."""
    sizes = dict[int, int]()
    for owner in module.modules():
        for value in (*owner._parameters.values(), *owner._buffers.values(), *owner.__dict__.values()):
            if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                storage = value.untyped_storage()
                sizes[storage._cdata] = storage.nbytes()
    return sizes
