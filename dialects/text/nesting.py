"""``#fx.nesting<((_, _), {"scale" = _})>``: the nesting of inputs or outputs; ``_`` is a leaf.

``#fx.nesting<(_, (_, _)), named = ["", "torch.return_types.max"]>``: ``named`` lists the named tuple class of each tuple, from
the outside in and from left to right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from fxc.dialects.attributes.values import SSA, SSAAttr
from fxc.dialects.text.call_text import CallReader, CallWriter, Template


class _Writer(CallWriter):
    def value(self, attr: Attribute, operands: Iterator[SSAValue]) -> str:
        return "_" if isinstance(attr, SSAAttr) else super().value(attr, operands)


class _Reader(CallReader):
    def value(self) -> Template:
        return SSA if self.parser.parse_optional_keyword("_") is not None else super().value()


@irdl_attr_definition
class NestingAttr(ParametrizedAttribute):
    """A nesting of lists, tuples and dicts, as a template whose leaves are ``#fx.ssa``.

    ``named``: the class names of its tuples, empty for a plain tuple; an empty list if all are plain.
    """

    name = "fx.nesting"
    template: Attribute
    named: ArrayAttr[StringAttr]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(_Writer(printer).value(self.template, iter(())))
            if self.named.data:
                printer.print_string(", named = ")
                printer.print_attribute(self.named)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        assert isinstance(parser, Parser)
        with parser.in_angle_brackets():
            template, named = _Reader(parser).value(), list[StringAttr]()
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_keyword("named")
                parser.parse_punctuation("=")
                read = partial(parser.parse_str_literal, "the name of a class")
                named = [StringAttr(name) for name in parser.parse_comma_separated_list(parser.Delimiter.SQUARE, read)]
            return [template, ArrayAttr(named)]
