"""Transforms of ``torch.func`` in an exported program, which records calls that change the state of the process."""

from __future__ import annotations

from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule

_RECORDED = "torch._functorch.predispatch"
"""The module of the functions whose calls are recorded for ``vmap`` and ``jvp``."""

_LOST = (torch.ops.higher_order.autograd_function_apply, torch.ops.higher_order.wrap_with_set_grad_enabled)
"""Operators that decomposition replaces by what they compute, without their effect on derivatives."""


def without_transforms(exported: ExportedProgram) -> ExportedProgram:
    """``exported`` with the operators that ``vmap`` and ``jvp`` call. NotImplementedError where they are lost."""
    if any(isinstance(value, torch.Tensor) and is_functorch_wrapped_tensor(value) for value in exported.constants.values()):
        raise NotImplementedError("the operators inside of torch.func.grad are not recorded")
    graphs = [part.graph for part in exported.graph_module.modules() if isinstance(part, GraphModule)]
    targets = [node.target for graph in graphs for node in graph.nodes]
    if all(getattr(target, "__module__", "") != _RECORDED for target in targets):
        return exported
    if any(target in _LOST for target in targets):
        raise NotImplementedError("an autograd.Function, or a switch of grad mode, is lost beside torch.vmap")
    program: Any = exported
    decomposed: ExportedProgram = program.run_decompositions({})
    return decomposed
