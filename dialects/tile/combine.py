"""Ops that combine the lanes of blocks: reductions, scans and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, UnitAttr, f32, f64, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.base.op_rules import local
from fxc.dialects.tile.types import (
    PureOp,
    UnaryOp,
    block_type,
    check_block,
    check_dims,
    check_type,
    choices,
    element_of,
    integers,
    is_float,
    shape_of,
)

REDUCTIONS = ("add", "mul", "max", "min", "and", "or", "xor")
"""The kinds of ``tile.reduce`` and ``tile.scan``. Integers are signed; for max and min, a NaN operand is the result."""


class _Combining(UnaryOp):
    """``name "add" %v {...} : vector<8x32xf32> -> vector<8xf32>``."""

    kind = prop_def(StringAttr)
    BETWEEN: ClassVar = ("->",)

    def check_kind(self) -> None:
        kind, type = self.kind.data, self.value.type
        if kind not in REDUCTIONS:
            raise VerifyException(f'{self.name}: there is no "{kind}", but {choices(REDUCTIONS)}')
        check_block(f"{self.name}: the operand", type)
        if not shape_of(type):
            raise VerifyException(f"{self.name}: the operand is a block, not {type}")
        if kind in ("and", "or", "xor") and is_float(type):
            raise VerifyException(f'{self.name}: "{kind}" combines integers, not {type}')


def _reduced(type: Attribute, dims: Sequence[int]) -> Attribute:
    kept = [size for dim, size in enumerate(shape_of(type)) if dim not in dims]
    return block_type(element_of(type), kept)


@irdl_op_definition
class ReduceOp(_Combining):
    """``%s = tile.reduce "add" %v {dims = [1]} : vector<8x32xf32> -> vector<8xf32>``: combines lanes along dimensions.

    Reducing all dimensions returns a number. Floats are added and multiplied in any order; max and min return NaN if a lane is
    NaN, and order -0.0 below 0.0.
    """

    name = "tile.reduce"
    dims = prop_def(DenseArrayBase.constr(i64))
    FIELDS: ClassVar = ("dims",)

    @classmethod
    def of(cls, kind: str, value: SSAValue, dims: Sequence[int]) -> ReduceOp:
        properties = {"kind": StringAttr(kind), "dims": integers(dims)}
        return cls.create(operands=[value], properties=properties, result_types=[_reduced(value.type, dims)])

    @local
    def verify_(self) -> None:
        self.check_kind()
        dims = list(self.dims.get_values())
        check_dims(dims, len(shape_of(self.value.type)))
        check_type("tile.reduce: the result", self.result.type, _reduced(self.value.type, dims))


@irdl_op_definition
class ScanOp(_Combining):
    """``%c = tile.scan "add" %v {dim = 1} : vector<8x32xf32> -> vector<8x32xf32>``: each lane combined with those before it.

    Of equal floats, such as 0.0 and -0.0, max and min return the last.
    """

    name = "tile.scan"
    dim = prop_def(IntegerAttr)
    FIELDS: ClassVar = ("dim",)

    @classmethod
    def of(cls, kind: str, value: SSAValue, dim: int) -> ScanOp:
        properties = {"kind": StringAttr(kind), "dim": IntegerAttr(dim, i64)}
        return cls.create(operands=[value], properties=properties, result_types=[value.type])

    @local
    def verify_(self) -> None:
        self.check_kind()
        check_dims([self.dim.value.data], len(shape_of(self.value.type)))
        check_type("tile.scan: the result", self.result.type, self.value.type)


@irdl_op_definition
class DotOp(PureOp):
    """``%d = tile.dot %a, %b, %c : vector<16x32xf16>, vector<32x16xf16> -> vector<16x16xf32>``: the matrix product plus c.

    The factors have one float type; the result and ``c`` are f32 or f64. Each product is exact, or rounded to the type of the
    result; products are added in any order. ``{tf32}``: a GPU may round f32 factors to 10 bits.
    """

    name = "tile.dot"
    left = operand_def()
    right = operand_def()
    start = operand_def()
    BETWEEN: ClassVar = (",", "->")

    @classmethod
    def of(cls, left: SSAValue, right: SSAValue, start: SSAValue, *, tf32: bool = False) -> DotOp:
        attributes: dict[str, Attribute] = {"tf32": UnitAttr()} if tf32 else {}
        return cls.create(operands=[left, right, start], attributes=attributes, result_types=[start.type])

    def shown_types(self) -> Sequence[Attribute]:
        return [self.left.type, self.right.type, self.result.type]

    @classmethod
    def all_types(cls, count: int, *shown: Attribute) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        return shown, shown[2:]

    @local
    def verify_(self) -> None:
        left, right, type = self.left.type, self.right.type, self.result.type
        for what, block in (("the left operand", left), ("the right operand", right), ("the result", type)):
            check_block(f"tile.dot: {what}", block)
        rows, columns = shape_of(left), shape_of(right)
        if len(rows) != 2 or len(columns) != 2 or rows[1] != columns[0]:
            raise VerifyException(f"tile.dot: {left} and {right} have no product")
        if not is_float(left) or element_of(left) != element_of(right):
            raise VerifyException(f"tile.dot: factors have one type of floats, not {left} and {right}")
        if element_of(type) not in (f32, f64):
            raise VerifyException(f"tile.dot: the result is of f32 or f64, not {type}")
        check_type("tile.dot: the result", type, block_type(element_of(type), [rows[0], columns[1]]))
        check_type("tile.dot: what is added to", self.start.type, type)
