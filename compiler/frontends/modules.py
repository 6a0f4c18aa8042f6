"""Submodules as data: class and ``__dict__``, parameters and buffers by name."""

from __future__ import annotations

from typing import Any

import torch
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute

from fxc.dialects.fx import ModuleDeclOp
from fxc.dialects.values import OpaqueAttr, StateAttr, Tree
from fxc.errors import CaptureError
from fxc.semantics.values import attribute_of, tree_of

_OWN = frozenset(torch.nn.Module().__dict__) - {"training"}


def declare_module(path: str, module: torch.nn.Module) -> ModuleDeclOp:
    """The ``fx.module`` of ``module``, which lies at ``path``. What cannot be written stands there as ``#fx.opaque``."""
    cls = type(module)
    own = {id(t): f"{path}.{name}" for name, t in [*module._parameters.items(), *module._buffers.items()] if t is not None}

    def leaf(value: Any) -> Attribute:
        if isinstance(value, torch.Tensor):
            name = own.get(id(value))
            return OpaqueAttr(StringAttr("Tensor")) if name is None else StateAttr(StringAttr(name))
        try:
            return attribute_of(value)
        except CaptureError:
            return OpaqueAttr(StringAttr(f"{type(value).__module__}.{type(value).__qualname__}"))

    fields: dict[str, Tree] = {name: tree_of(t, leaf) for name, t in [*module._parameters.items(), *module._buffers.items()]}
    fields |= {name: _field(value, leaf) for name, value in module.__dict__.items() if name not in _OWN}
    op = ModuleDeclOp.build_call([], fields, [], target=f"{cls.__module__}.{cls.__qualname__}")
    op.properties["path"] = StringAttr(path)
    return op


def _field(value: Any, leaf: Any) -> Tree:
    try:
        return tree_of(value, leaf)
    except CaptureError:  # a dict whose keys cannot be written
        return OpaqueAttr(StringAttr(type(value).__name__))
