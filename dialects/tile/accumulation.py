"""Update elements of a tensor by index."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, StringAttr, TensorType, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.base.op_rules import local
from fxc.dialects.tile.types import TileEffects


@irdl_op_definition
class AccumulateOp(IRDLOperation, TileEffects):
    """``%r = tile.accumulate "add" %updates at %places into %start : tensor<8x4xf32>, tensor<8x4xi64>, tensor<5x4xf32>``.

    ``start`` with each element combined, in any order, with all updates for it. ``places`` has the row-major index of the
    element for each of ``updates``; an update with a negative index is skipped, an index out of range is an error. The kinds
    are those of ``KINDS``.
    """

    name = "tile.accumulate"
    kind = prop_def(StringAttr)
    updates = operand_def(TensorType)
    places = operand_def(TensorType)
    start = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$kind $updates `at` $places `into` $start attr-dict `:` type($updates) `,` type($places) `,` type($start)"
        " `->` type($result)"
    )
    KINDS: ClassVar = ("add", "max", "min")

    @classmethod
    def of(cls, kind: str, updates: SSAValue, places: SSAValue, start: SSAValue) -> AccumulateOp:
        return cls.create(operands=[updates, places, start], properties={"kind": StringAttr(kind)}, result_types=[start.type])

    @local
    def verify_(self) -> None:
        updates, places, start = (value.type for value in self.operands)
        assert is_tensor(updates) and is_tensor(places) and is_tensor(start)
        if self.kind.data not in self.KINDS:
            raise VerifyException(f'tile.accumulate: the kind must be one of {", ".join(self.KINDS)}, not "{self.kind.data}"')
        if places.element_type != i64 or places.get_shape() != updates.get_shape():
            raise VerifyException("tile.accumulate: each update has a position, an i64")
        element = start.element_type
        if updates.element_type != element or self.result.type != start:
            raise VerifyException(
                "tile.accumulate: updates, the start and the result have one element type, the latter one type"
            )
        if element not in (i32, i64) and (self.kind.data != "add" or isinstance(element, IntegerType)):
            raise VerifyException(f'tile.accumulate: no memory combines {element} by "{self.kind.data}"; combine in i32 or i64')
