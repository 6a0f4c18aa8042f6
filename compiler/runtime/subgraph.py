"""A host program as a module, in place of a subgraph: autograd runs it forward or backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch

from fxc.runtime.entry import check
from fxc.runtime.host_program import HostProgram
from fxc.runtime.signature import Signature


class HostSubgraph(torch.nn.Module):
    """``host`` as a module, behind a check of its arguments.

    ``module`` makes the graph for tensors that do not fit: other layouts, or fake tensors. ``used``: the positions of the
    arguments that ``signature`` describes; the others are ignored, and may be None. ``name``: of the module in the source
    program; empty for later compilations. ``boxed``: all arguments are in one list, which is emptied, so that each is released
    after its last use.
    """

    def __init__(
        self,
        host: HostProgram,
        signature: Signature,
        used: Sequence[int],
        module: Callable[[], torch.nn.Module],
        *,
        boxed: bool = False,
        name: str = "",
    ) -> None:
        super().__init__()
        self.host, self.signature, self.used, self.boxed, self.name = host, signature, tuple(used), boxed, name
        self._make, self._graph = module, list[torch.nn.Module]()
        self._fits = check(host, signature, self.used)

    @property
    def code(self) -> str:
        """The Python code that runs."""
        return self.host.source

    def __call__(self, *args: Any) -> Any:
        given = args[0] if self.boxed else args
        return self.host.main(*args) if self._fits(given) else self.graph()(*args)

    forward = __call__

    def graph(self) -> torch.nn.Module:
        """Return the equivalent graph, made on first use."""
        if not self._graph:
            self._graph.append(self._make())
        return self._graph[0]

    def __deepcopy__(self, memo: dict[int, Any]) -> HostSubgraph:
        return HostSubgraph(deepcopy(self.host, memo), self.signature, self.used, self._make, boxed=self.boxed, name=self.name)
