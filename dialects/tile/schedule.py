"""How loops over elements become a kernel: a plan in the IR, to be read, changed and run again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.values import int_attr, str_attr

KINDS = ("elementwise", "inner", "outer")


@irdl_attr_definition
class ScheduleAttr(ParametrizedAttribute):
    """``#tile.schedule<"inner", stages = [0, 1, 2], lanes = 16, unroll = 4, block = 8>``: one kernel.

    ``stages``  the linalg.generic ops of the group that the kernel computes, by their number
    ``kind``    "elementwise": no loop is reduced. "inner": lanes run along a loop that is reduced, a program has whole rows.
                "outer": lanes run along a loop that is kept, a program goes through all that is reduced for each
    ``lanes``   how many elements a vector has
    ``unroll``  how many vectors are under way at once: accumulators of an inner reduction, copies of an elementwise body
    ``block``   how many elements (of a row, in "inner" kernels: rows) a program computes
    """

    name = "tile.schedule"
    kind: StringAttr
    stages: ArrayAttr[IntegerAttr]
    lanes: IntegerAttr
    unroll: IntegerAttr
    block: IntegerAttr
    NUMBERS: ClassVar = ("lanes", "unroll", "block")

    @classmethod
    def of(cls, kind: str, stages: Sequence[int], lanes: int, unroll: int, block: int) -> ScheduleAttr:
        return cls(str_attr(kind), ArrayAttr(map(int_attr, stages)), int_attr(lanes), int_attr(unroll), int_attr(block))

    def numbers(self) -> list[int]:
        """The stages."""
        return [stage.value.data for stage in self.stages]

    def verify(self) -> None:
        if self.kind.data not in KINDS:
            raise VerifyException(f'#tile.schedule: the kind is one of {", ".join(KINDS)}, not "{self.kind.data}"')
        for name, value in zip(self.NUMBERS, (self.lanes, self.unroll, self.block), strict=True):
            if value.value.data < 1:
                raise VerifyException(f"#tile.schedule: {name} must be positive, not {value.value.data}")
        if not self.stages.data or self.numbers() != sorted(set(self.numbers())):
            raise VerifyException("#tile.schedule: stages are ascending numbers, one at least")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            kind = str_attr(parser.parse_str_literal())
            parser.parse_punctuation(",")
            parser.parse_keyword("stages")
            parser.parse_punctuation("=")
            stages = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            numbers = list[Attribute]()
            for name in cls.NUMBERS:
                parser.parse_punctuation(",")
                parser.parse_keyword(name)
                parser.parse_punctuation("=")
                numbers.append(int_attr(parser.parse_integer()))
        return [kind, ArrayAttr(map(int_attr, stages)), *numbers]

    def print_parameters(self, printer: Printer) -> None:
        stages = ", ".join(map(str, self.numbers()))
        values = (self.lanes, self.unroll, self.block)
        numbers = "".join(f", {name} = {value.value.data}" for name, value in zip(self.NUMBERS, values, strict=True))
        printer.print_string(f'<"{self.kind.data}", stages = [{stages}]{numbers}>')
