"""The interpreter in float64: the same program with higher precision, to distinguish rounding from a wrong result."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map
from xdsl.ir import Operation, SSAValue

from fxc.dialects.attributes.values import Tree
from fxc.dialects.fx import CallMethodOp
from fxc.dialects.tile import LaunchOp
from fxc.interpret import plan_level as plan_interpreter
from fxc.interpret.tile_level import launch
from fxc.interpret.torch_level import ReferenceInterpreter

_WIDE = {
    **dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64),
    **dict.fromkeys((torch.complex32, torch.complex64), torch.complex128),
}
_METHODS = {"half": "double", "bfloat16": "double", "float": "double", "cfloat": "cdouble", "chalf": "cdouble"}


def widened(value: Any) -> Any:
    """Convert every floating-point tensor and dtype in ``value`` to float64, complex ones to complex128."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.dtype in _WIDE:
            return leaf.to(_WIDE[leaf.dtype])
        return _WIDE.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

    return tree_map(one, value)


class Float64Interpreter(ReferenceInterpreter):
    """Runs a function with float64 inputs: constants, dtype arguments and new tensors become float64, too."""

    def python(self, trees: Sequence[Tree], env: Mapping[SSAValue, Any]) -> list[Any]:
        return widened(super().python(trees, env))

    def launch(self, op: LaunchOp, operands: Sequence[Any]) -> Sequence[Any]:
        return launch(op, operands, wide=True)

    def linalg(self, op: Operation, env: MutableMapping[SSAValue, Any], *, wide: bool = True) -> Any:
        return super().linalg(op, env, wide=wide)

    def plan(self, op: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        return self.planned(op, plan_interpreter.run(op, operands, wide=True))

    def op(self, op: Operation, env: Mapping[SSAValue, Any]) -> Sequence[Any]:
        if isinstance(op, CallMethodOp) and (method := _METHODS.get(op.call_target() or "")) is not None:
            return [getattr(env[op.operands[0]], method)()]
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return list(widened(list(super().op(op, env))))
        finally:
            torch.set_default_dtype(default)
