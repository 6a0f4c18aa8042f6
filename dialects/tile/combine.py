"""Ops that combine the lanes of a block: reductions and scans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.base.op_rules import local
from fxc.dialects.tile.types import (
    TileOp,
    block_type,
    check_block,
    check_dims,
    check_type,
    choices,
    element_of,
    integers,
    is_float,
    print_types,
    shape_of,
)

REDUCTIONS = ("add", "mul", "max", "min", "and", "or", "xor")
"""What ``tile.reduce`` and ``tile.scan`` combine lanes with. Integers are signed; NaN is the largest and the smallest."""


class _Combining(TileOp):
    """``name "add" %v {...} : vector<8x32xf32> -> vector<8xf32>``."""

    kind = prop_def(StringAttr)
    value = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def check_kind(self) -> None:
        kind, type = self.kind.data, self.value.type
        if kind not in REDUCTIONS:
            raise VerifyException(f'{self.name}: there is no "{kind}", but {choices(REDUCTIONS)}')
        check_block(f"{self.name}: the operand", type)
        if not shape_of(type):
            raise VerifyException(f"{self.name}: the operand is a block, not {type}")
        if kind in ("and", "or", "xor") and is_float(type):
            raise VerifyException(f'{self.name}: "{kind}" combines integers, not {type}')

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{self.kind.data}" ')
        printer.print_ssa_value(self.value)
        self.print_fields(printer)
        printer.print_string(" : ")
        print_types(printer, [self.value.type])
        printer.print_string(" -> ")
        print_types(printer, [self.result.type])

    @classmethod
    def parse(cls, parser: Parser):
        kind = StringAttr(parser.parse_str_literal())
        value = parser.parse_unresolved_operand()
        properties, attributes = cls.parse_fields(parser)
        parser.parse_punctuation(":")
        operands = [parser.resolve_operand(value, parser.parse_type())]
        parser.parse_punctuation("->")
        properties["kind"] = kind
        return cls.create(operands=operands, properties=properties, attributes=attributes, result_types=[parser.parse_type()])


def _reduced(type: Attribute, dims: Sequence[int]) -> Attribute:
    kept = [size for dim, size in enumerate(shape_of(type)) if dim not in dims]
    return block_type(element_of(type), kept)


@irdl_op_definition
class ReduceOp(_Combining):
    """``%s = tile.reduce "add" %v {dims = [1]} : vector<8x32xf32> -> vector<8xf32>``: the numbers along dimensions, combined.

    Of all dimensions the result is a number. Floats are added and multiplied in any order; a NaN is the max and the min, and
    -0.0 is below 0.0.
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

    Of equal floats, as 0.0 and -0.0 are, the last is the max and the min.
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
