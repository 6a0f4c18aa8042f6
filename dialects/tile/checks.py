"""Run-time assertions on the data of a kernel, such as indices within bounds."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, i1
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect

from fxc.dialects.base.op_rules import local
from fxc.dialects.text.syntax import parse_type, type_text
from fxc.dialects.tile.types import TileOp, check_type, with_element


@irdl_op_definition
class AssertOp(TileOp):
    """``tile.assert %ok, "index out of range" : vector<16xi1>``: the launch is an error where a lane is false.

    The kernel continues, so it must handle such a lane safely. On a CPU the launch raises fxc.errors.BoundsError after the
    kernel has finished; on a GPU it is a device-side assertion, as in PyTorch's kernels.
    """

    name = "tile.assert"
    condition = operand_def()
    message = prop_def(StringAttr)
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def of(cls, condition: SSAValue, message: str) -> AssertOp:
        return cls.create(operands=[condition], properties={"message": StringAttr(message)})

    @local
    def verify_(self) -> None:
        check_type("tile.assert: the condition", self.condition.type, with_element(self.condition.type, i1))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.condition)
        printer.print_string(", ")
        printer.print_string_literal(self.message.data)
        self.print_fields(printer)
        printer.print_string(f" : {type_text(self.condition.type)}")

    @classmethod
    def parse(cls, parser: Parser) -> AssertOp:
        condition = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        message = StringAttr(parser.parse_str_literal())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parse_type(parser)
        operands = [parser.resolve_operand(condition, type)]
        return cls.create(operands=operands, properties={"message": message}, attributes=attributes)
