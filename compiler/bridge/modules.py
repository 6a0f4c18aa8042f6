"""Submodules as data, and back: class, ``__dict__``, parameters and buffers by name; only classes of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import torch
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue

from fxc.bridge.callables import resolve_module_class
from fxc.bridge.values import attribute_of, python_of, tree_of, value_of
from fxc.dialects.attributes.values import OpaqueAttr, StateAttr, Tree
from fxc.dialects.fx import ModuleDeclOp, TensorDeclOp
from fxc.errors import TORCH_COMPILE, CaptureError, TargetError

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_SCRIPTED = OpaqueAttr(StringAttr("torch.ScriptObject"))
_OWN = frozenset(torch.nn.Module().__dict__) - {"training"}


def declare_module(path: str, module: torch.nn.Module) -> ModuleDeclOp:
    """Return the ``fx.module`` of ``module``, at ``path``. Values that cannot be written become ``#fx.opaque``."""
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
    fields |= {name: OpaqueAttr(StringAttr("hooks")) for name in HOOKS if getattr(module, name)}
    op = ModuleDeclOp.build_call([], fields, [], target=f"{cls.__module__}.{cls.__qualname__}")
    op.properties["path"] = StringAttr(path)
    return op


def modules_of(root: Any) -> Iterator[tuple[str, torch.nn.Module]]:
    """Return the path and module of ``root`` and of each module below it."""
    return root.named_modules()


def _field(value: Any, leaf: Any) -> Tree:
    try:
        return tree_of(value, leaf)
    except CaptureError:  # a dict whose keys cannot be written
        return OpaqueAttr(StringAttr(type(value).__name__))


def build_module(
    path: str,
    declarations: Mapping[str, ModuleDeclOp],
    tensors: Mapping[str, TensorDeclOp],
    tensor: Callable[[str], torch.Tensor],
    allowed: dict[str, Any],
) -> torch.nn.Module:
    """Build the module declared at ``path`` with its children. No constructor runs: fields are set directly.

    TargetError if the class is not one of PyTorch's, or the module has hooks.
    """
    declaration = declarations.get(path)
    if declaration is None:
        message = f"the graph calls the module {path!r}, which the file does not declare"
        raise TargetError(message, hint="declare it: fxc ops fx.module shows how")
    if any(_SCRIPTED in d.trees()[1].values() for at, d in declarations.items() if f"{at}.".startswith(f"{path}.")):
        message = f"the module {path!r} holds a TorchScript object, as quantized modules do, which a file cannot hold"
        raise TargetError(message, hint=f"import it in the process that runs it, or use {TORCH_COMPILE}")
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
    if any(name in fields for name in HOOKS):
        raise TargetError(
            f"the module {path!r} has hooks, which a file cannot hold",
            hint="capture with route='export', which looks inside modules, or run it in the process that has the module",
        )
    for field, tree in fields.items():
        if isinstance(tree, OpaqueAttr) or (
            isinstance(tree, list) and any(isinstance(e, OpaqueAttr) for e in cast("list[Tree]", tree))
        ):
            continue  # caches and weak references, which PyTorch's modules rebuild or do not need
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
