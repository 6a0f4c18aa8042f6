"""The tensors and modules of a program run: copies, so that nothing of the user's is written."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from fxc.bridge.modules import build_module
from fxc.dialects.attributes.values import isa, leaves
from fxc.dialects.fx import ModuleDeclOp, OutputOp, TensorDeclOp
from fxc.interpret.torch_level import ReferenceInterpreter, Watch
from fxc.runtime.shared_memory import copy_with


class Binding:
    """The names of one run. Each tensor and module is copied once, and copies share memory where the originals do.

    ``missing`` returns a tensor without a value, from its name and its type (None if unknown), or raises. ``convert`` is
    applied to each copy.
    """

    def __init__(
        self,
        module: ModuleOp,
        state: Mapping[str, torch.Tensor],
        live: Mapping[str, Any],
        missing: Callable[[str, Attribute | None], Any],
        convert: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        self.state, self.live, self.missing, self.convert = state, dict(live), missing, convert
        self.functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
        self.modules = {op.path: op for op in module.ops if isinstance(op, ModuleDeclOp)}
        self.tensors = {op.sym.data: op for op in module.ops if isinstance(op, TensorDeclOp)}
        self.named = dict[str, Any]()
        self.copies = dict[int, torch.Tensor]()
        self.storages = dict[int, Any]()
        self.built = dict[str, torch.nn.Module]()

    def interpreter(
        self, cls: Callable[..., ReferenceInterpreter] = ReferenceInterpreter, watch: Watch | None = None
    ) -> ReferenceInterpreter:
        return cls(self.functions, tensor=self.tensor, submodule=self.submodule, live=self.live, watch=watch)

    def tensor(self, name: str, type: Attribute | None = None) -> Any:
        """Return the copy of tensor ``name``; ``type`` is the argument type of the function, if the tensor is not declared."""
        if name not in self.named:
            own = self.state.get(name)
            if own is not None:
                self.named[name] = self.copy(own)
            else:
                declared = self.tensors.get(name)
                self.named[name] = self.convert(self.missing(name, declared.type if type is None and declared else type))
        return self.named[name]

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self.copies:
            with torch.no_grad():
                made = self.convert(self._copied(tensor.detach(), type(tensor)))
                if isinstance(tensor, torch.nn.Parameter):
                    made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
            self.copies[id(tensor)] = made
        return self.copies[id(tensor)]

    def _copied(self, plain: torch.Tensor, cls: type) -> torch.Tensor:
        if plain.layout is not torch.strided or cls not in (torch.Tensor, torch.nn.Parameter) or plain.is_quantized:
            return plain.clone()
        return copy_with(plain, self.storages)

    def submodule(self, path: str) -> torch.nn.Module:
        """Return the copy of the live module at ``path``, or a module built from its declaration."""
        if path not in self.built:
            live = self.live.get(path)
            if isinstance(live, torch.nn.Module):
                for name, tensor in [*live.named_parameters(), *live.named_buffers()]:
                    self.named.setdefault(f"{path}.{name}", self.copy(tensor))
                self.built[path] = copy.deepcopy(live, dict[int, Any](self.copies))
            else:
                self.built[path] = build_module(path, self.modules, self.tensors, self.tensor, self.live)
        return self.built[path]


def without_new_values(function: FuncOp, returned: Any) -> tuple[Any, dict[int, Any]]:
    """Split the results of ``function`` into its results proper and the new values of arguments (``fx.mutates``), by argument.

    The first is ``returned`` itself if there are no new values.
    """
    marks = [attributes.data.get("fx.mutates") for attributes in function.res_attrs or ()]
    last = function.body.block.last_op
    if last is None or all(mark is None for mark in marks):
        return returned, {}
    elements: Any = last.trees()[0][0] if isinstance(last, OutputOp) else last.operands
    kept, new, position = list[Any](), dict[int, Any](), 0
    for element, value in zip(elements, returned, strict=True):
        mark = marks[position] if isa(element, SSAValue) else None
        position += sum(isinstance(leaf, SSAValue) for leaf in leaves(element))
        if isinstance(mark, IntegerAttr):
            new[mark.value.data] = value
        else:
            kept.append(value)
    return tuple(kept), new
