"""Values that are computed from no input: masks and numbers."""

from __future__ import annotations

import math
import struct

from xdsl.ir import Operation, SSAValue

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.attributes.values import Tree, isa
from fxc.dialects.base.effects import is_pure
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.constant import ConstantOp, TensorLiteralAttr
from fxc.dialects.torch_ops.effects import is_uninitialized
from fxc.passes.analysis.evaluation import Evaluation
from fxc.passes.analysis.matching import dtype, number
from fxc.passes.library.fuse_attention.products import sizes_of

_DEPTH, _ELEMENTS = 32, 1 << 20
"""The longest chain of operations, and the largest tensor, that are evaluated."""

_FORMATS = {"float64": "<d", "float32": "<f", "float16": "<e"}


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
        name, literal = dtype(tree.type) or "", self.literal(tree)
        if literal is None or not literal.bytes:
            return None
        data, width = literal.bytes, _width(name)
        if not width or data != data[:width] * (len(data) // width):
            return None
        raw = b"\0\0" + data[:2] if name == "bfloat16" else data[:width]
        return struct.unpack("<f" if name == "bfloat16" else _FORMATS[name], raw)[0]


def _width(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else struct.calcsize(_FORMATS[dtype]) if dtype in _FORMATS else 0


def is_causal(mask: bytes, rows: int, columns: int, kept: bytes, blocked: bytes) -> bool:
    """Whether ``mask``, a stack of matrices, blocks exactly the elements above the diagonal."""
    matrix = b"".join(kept * (i + 1) + blocked * (columns - i - 1) for i in range(rows)) if rows == columns else b""
    return bool(matrix) and mask == matrix * (len(mask) // len(matrix))


def has_row_of(mask: bytes, columns: int, blocked: bytes) -> bool:
    """Whether ``mask`` has a row that consists of ``blocked`` only."""
    step, row = columns * len(blocked), blocked * columns
    return any(mask[i : i + step] == row for i in range(0, len(mask), step))


def element(value: float, dtype: str) -> bytes:
    """The bytes of an element of a mask."""
    return struct.pack(_FORMATS[dtype], value)


def defining_op(value: SSAValue) -> Operation | None:
    return value.owner if isinstance(value.owner, Operation) else None
