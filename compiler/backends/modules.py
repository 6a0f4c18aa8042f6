"""Rebuilds the submodules that a file declares, from PyTorch's own classes only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from xdsl.ir import Attribute, SSAValue

from fxc.dialects.fx import ModuleDeclOp, TensorDeclOp
from fxc.dialects.values import OpaqueAttr, StateAttr
from fxc.errors import TargetError
from fxc.semantics.targets import resolve_module_class
from fxc.semantics.values import python_of, value_of


def build_module(
    path: str,
    declarations: Mapping[str, ModuleDeclOp],
    tensors: Mapping[str, TensorDeclOp],
    tensor: Callable[[str], torch.Tensor],
    allowed: dict[str, Any],
) -> torch.nn.Module:
    """The module declared at ``path`` with its children. No constructor runs: fields are set as they were.

    TargetError where the class is not one of PyTorch's, or where a field could not be written to the file.
    """
    declaration = declarations.get(path)
    if declaration is None:
        raise TargetError(f"the graph calls the module {path!r}, which the file does not declare")
    name = declaration.call_target() or ""
    cls = resolve_module_class(name, allowed)
    module = cls.__new__(cls)
    torch.nn.Module.__init__(module)
    parameters = dict[str, torch.Tensor]()

    def leaf(attr: SSAValue | Attribute) -> Any:
        if isinstance(attr, StateAttr):
            if attr.target.data not in parameters:
                parameters[attr.target.data] = _registered(tensor(attr.target.data), tensors.get(attr.target.data))
            return parameters[attr.target.data]
        assert isinstance(attr, Attribute)
        return value_of(attr)

    _, fields = declaration.trees()
    for field, tree in fields.items():
        if isinstance(tree, OpaqueAttr) or (isinstance(tree, list) and any(isinstance(e, OpaqueAttr) for e in tree)):
            continue  # caches and weak references, which PyTorch's modules rebuild or do without
        value = python_of(tree, leaf)
        if isinstance(tree, StateAttr):
            kind = tensors.get(tree.target.data)
            if isinstance(value, torch.nn.Parameter):
                module.register_parameter(field, value)
            else:
                module.register_buffer(field, value, persistent=kind is None or kind.non_persistent is None)
        else:
            module.__dict__[field] = value
    if isinstance(module, torch.nn.RNNBase):
        module._init_flat_weights()
    for child in declarations:
        parent, _, last = child.rpartition(".")
        if parent == path:
            module.add_module(last, build_module(child, declarations, tensors, tensor, allowed))
    return module


def _registered(tensor: torch.Tensor, declaration: TensorDeclOp | None) -> torch.Tensor:
    if declaration is None or declaration.kind.data != "parameter" or isinstance(tensor, torch.nn.Parameter):
        return tensor
    return torch.nn.Parameter(tensor, requires_grad=declaration.requires_grad is not None)
