"""Products of blocks."""

from __future__ import annotations

from xdsl.dialects.builtin import f32, f64
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.base.op_rules import local
from fxc.dialects.tile.types import (
    TileOp,
    block_type,
    check_block,
    check_type,
    element_of,
    is_float,
    parse_types,
    print_operands,
    print_types,
    shape_of,
)


@irdl_op_definition
class DotOp(TileOp):
    """``%d = tile.dot %a, %b, %c : vector<16x32xf16>, vector<32x16xf16> -> vector<16x16xf32>``: the matrix product of a and b,
    and c.

    Factors have one type of floats, the result and ``c`` are f32 or f64. Each product is exact, or rounded as the result's type
    says; they are added in any order.
    """

    name = "tile.dot"
    left = operand_def()
    right = operand_def()
    start = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def of(cls, left: SSAValue, right: SSAValue, start: SSAValue) -> DotOp:
        return cls.create(operands=[left, right, start], result_types=[start.type])

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

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_operands(printer, self.operands)
        self.print_fields(printer)
        printer.print_string(" : ")
        print_types(printer, [self.left.type, self.right.type])
        printer.print_string(" -> ")
        print_types(printer, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> DotOp:
        values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        properties, attributes = cls.parse_fields(parser)
        parser.parse_punctuation(":")
        types = parse_types(parser)
        parser.parse_punctuation("->")
        result = parser.parse_type()
        operands = parser.resolve_operands(values, [*types, result], parser.pos)
        return cls.create(operands=operands, properties=properties, attributes=attributes, result_types=[result])
