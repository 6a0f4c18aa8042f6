"""Build the module tree of a GraphModule: set tensors and submodules at dotted paths."""

from __future__ import annotations

from typing import Any, cast

import torch


def _owner(root: torch.nn.Module, path: str) -> tuple[torch.nn.Module, str]:
    """The parent module of ``path``, created if it is missing, and the last component of ``path``."""
    *parents, last = path.split(".")
    for name in parents:
        child = getattr(root, name, None)
        if not isinstance(child, torch.nn.Module):
            child = torch.nn.Module()
            root.add_module(name, child)
        root = child
    return root, last


def set_tensor(root: torch.nn.Module, path: str, tensor: torch.Tensor, kind: str, persistent: bool) -> None:
    owner, name = _owner(root, path)
    if getattr(owner, name, None) is tensor:
        return
    if kind == "parameter" and isinstance(tensor, torch.nn.Parameter):
        owner.register_parameter(name, tensor)
    elif kind == "parameter":
        owner.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=tensor.is_floating_point()))
    elif kind == "buffer":
        owner.register_buffer(name, tensor, persistent=persistent)
    else:
        setattr(owner, name, tensor)


def set_module(root: torch.nn.Module, path: str, module: torch.nn.Module) -> None:
    owner, name = _owner(root, path)
    owner.add_module(name, module)


def copy_persistence(root: torch.nn.Module, module: torch.nn.Module) -> None:
    """Mark non-persistent buffers of ``root`` in ``module`` again, since GraphModule copies every buffer as persistent."""
    copies, owners = (
        dict[str, torch.nn.Module](cast(Any, each).named_modules(remove_duplicate=False)) for each in (module, root)
    )
    for path, owner in owners.items():
        if path in copies:
            copies[path]._non_persistent_buffers_set |= owner._non_persistent_buffers_set & copies[path]._buffers.keys()


def training(root: torch.nn.Module) -> bool:
    """Whether a module that the graph calls is in train mode."""
    return any(module.training for module in root.modules() if type(module) is not torch.nn.Module)
