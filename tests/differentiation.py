"""For tests of gradients: pipelines in which df computes every one that it can, and who will compute them in a backward."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from fxc.driver.pipeline_text import Word
from fxc.pipelines import TORCHSCRIPT

_ALL = (("subgraph-threshold", (Word("1"),)), ("inline-threshold", (Word("0"),)))

ONCE = ",".join(["lower-to-torch", *map(str, TORCHSCRIPT.specs("torchscript", _ALL))])
"""Every differentiable op lies in a subgraph, and none is given back to eager's autograd."""

TWICE = ONCE.replace(",differentiate,", ",differentiate{twice=true},")
"""The same for second derivatives."""

SUBGRAPH = "_SubgraphBackward"
"""The node of a subgraph in a graph of autograd."""


def autograd_nodes(outputs: Sequence[torch.Tensor], inputs: Iterable[torch.Tensor]) -> frozenset[str]:
    """The names of what autograd will run between ``outputs`` and ``inputs``."""
    seen, waiting = {tensor.grad_fn for tensor in inputs}, [output.grad_fn for output in outputs]
    found = set[str]()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            found.add(node.name())
            waiting += [source for source, _ in node.next_functions]
    return frozenset(found - {"torch::autograd::AccumulateGrad"})
