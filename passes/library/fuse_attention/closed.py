"""Values that are computed from no input: masks and numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import Tree, isa
from fxc.dialects.base.effects import is_pure
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.dialects.torch_ops.effects import is_uninitialized
from fxc.passes.analysis.evaluation import Evaluation
from fxc.passes.analysis.matching import dtype, number
from fxc.passes.library.fuse_attention.products import sizes_of, static

_DEPTH, _ELEMENTS = 32, 1 << 20
"""The longest chain of operations, and the largest tensor, that are evaluated."""


class ClosedValues:
    """Evaluates values that depend on constants only."""

    def __init__(self, ctx: FxcContext) -> None:
        self._evaluation = Evaluation(ctx, _ELEMENTS)
        self._known = dict[SSAValue, TensorLiteralAttr | None]()

    def literal(self, value: SSAValue, depth: int = _DEPTH) -> TensorLiteralAttr | None:
        """The elements of a tensor; None where they are not known."""
        if value not in self._known:
            self._known[value] = self._evaluated(value, depth)
        return self._known[value]

    def _evaluated(self, value: SSAValue, depth: int) -> TensorLiteralAttr | None:
        op = value.owner
        if isinstance(op, ConstantOp):
            return op.value if isinstance(op.value, TensorLiteralAttr) else None
        sizes = [size for size in sizes_of(value) if isinstance(size, int)]
        if not isinstance(op, TorchOp) or len(op.results) != 1 or not depth or math.prod(sizes) > _ELEMENTS:
            return None
        if op.regions or not is_pure(op) or is_uninitialized(op) or not is_tensor(value.type):
            return None
        operands = [literal for each in op.operands if (literal := self.literal(each, depth - 1)) is not None]
        found = self._evaluation.evaluate(op, operands) if len(operands) == len(op.operands) else None
        return found[0] if found is not None and isinstance(found[0], TensorLiteralAttr) else None

    def number(self, tree: Tree) -> float | None:
        """The number that is passed, as a constant or as a tensor of equal elements."""
        if not isa(tree, SSAValue):
            return number(tree)
        elements = self.elements(tree)
        return (
            elements.flat[0].item() if elements is not None and elements.size and (elements == elements.flat[0]).all() else None
        )

    def elements(self, value: SSAValue) -> NDArray[np.floating[Any]] | None:
        """The elements of a tensor of floating-point numbers; None where they are not known."""
        name, literal, shape = dtype(value.type), self.literal(value), static(sizes_of(value))
        if literal is None or shape is None or name not in ("float64", "float32", "float16", "bfloat16"):
            return None
        if name == "bfloat16":
            flat = (np.frombuffer(literal.bytes, "<u2").astype("<u4") << 16).view("<f4")
        else:
            flat = np.frombuffer(literal.bytes, np.dtype(name).newbyteorder("<"))
        return flat.reshape(shape)
