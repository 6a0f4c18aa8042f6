"""Reject calls that write their arguments and that the compiler cannot analyze.

Assumes  verified IR; best after ``functionalize``, which removes mutation by operators of PyTorch.
Ensures  the module is unchanged. An in-place call of anything but an operator of PyTorch is an error: of an operator
         that the module declares with a written argument, or of Python code whose name or keywords imply a write.
         Regions at any depth and uncalled functions are checked.
Leaves   ``aten.add_`` and similar operators, whose writes are known; Python calls whose name and keywords imply none.
Cost     one walk.

Before:
    func.func @main(%x: tensor<4xf32>) {
      %c = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %y = torch.aten.relu_.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%y) : (tensor<4xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4xf32>) {
      %c = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %y = torch.aten.relu_.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output(%y) : (tensor<4xf32>) -> ()
    }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from fxc.dialects.base.effects import writes
from fxc.dialects.fx import IN_PLACE_OPERATORS, CallFunctionOp, CallMethodOp, CallModuleOp, ModuleDeclOp
from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.dialects.torch_ops import TorchOp, table
from fxc.passes.analysis.matching import is_default

Modules = Mapping[str, ModuleDeclOp]


@dataclass(frozen=True)
class CheckInplacePass(ModulePass):
    name = "check-inplace"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        modules = {inner.path: inner for inner in op.walk() if isinstance(inner, ModuleDeclOp)}
        for inner in op.walk():
            if (name := _written_by(inner, modules)) is not None:
                raise OpPassFailedException(
                    f"{name} writes its arguments in place, and the compiler cannot look into it: "
                    "run functionalize first, or use a form of it that returns a new tensor",
                    inner,
                )


def _written_by(op: Operation, modules: Modules) -> str | None:
    """The callee of ``op``, where ``op`` is an opaque in-place call."""
    match op:
        case TorchOp():
            return op.operator if op.operator not in table() and writes(op) else None
        case CallFunctionOp():
            target = op.call_target() or ""
            module, _, name = target.rpartition(".")
            is_python = module in ("operator", "_operator")  # ``operator.and_`` is not in-place
            in_place = name in IN_PLACE_OPERATORS if is_python else _is_named_so(name)
            return target if in_place or _is_requested(op) else None
        case CallMethodOp():
            target = op.call_target() or ""
            return target if _is_named_so(target) or _is_requested(op) else None
        case CallModuleOp():
            path = op.call_target() or ""
            inside = [module for name, module in modules.items() if name == path or name.startswith(f"{path}.")]
            return path if any(map(_is_requested, inside)) else None
        case _:
            return None


def _is_named_so(name: str) -> bool:
    """Whether PyTorch's naming convention marks ``name`` as in-place: ``add_``, but not ``__add__``."""
    return name.endswith("_") and not name.endswith("__")


def _is_requested(op: CallFunctionOp | CallMethodOp | CallModuleOp | ModuleDeclOp) -> bool:
    """Whether a keyword of the call, or of the module that it calls, implies a write: ``inplace = true``, ``out = %x``."""
    _, kwargs = op.trees()
    return not is_default(kwargs.get("inplace")) or not is_default(kwargs.get("out"))
