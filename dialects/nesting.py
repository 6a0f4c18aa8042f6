"""``#fx.nesting<((_, _), {"scale" = _})>``: how inputs or outputs are nested; ``_`` is a leaf."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from fxc.dialects.call_text import CallReader, CallWriter, Template
from fxc.dialects.values import SSA, SSAAttr


class _Writer(CallWriter):
    def value(self, attr: Attribute, operands: Iterator[SSAValue]) -> str:
        return "_" if isinstance(attr, SSAAttr) else super().value(attr, operands)


class _Reader(CallReader):
    def value(self) -> Template:
        return SSA if self.parser.parse_optional_keyword("_") is not None else super().value()


@irdl_attr_definition
class NestingAttr(ParametrizedAttribute):
    """A nesting of lists, tuples and dicts, as a template whose ``#fx.ssa`` are the leaves."""

    name = "fx.nesting"
    template: Attribute

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{_Writer(printer).value(self.template, iter(()))}>")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        assert isinstance(parser, Parser)
        with parser.in_angle_brackets():
            return [_Reader(parser).value()]
