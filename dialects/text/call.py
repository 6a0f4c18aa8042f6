"""Ops that are Python calls: their arguments, and their text.

``torch.aten.add.Tensor(%0, %1, alpha = 2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>`` has the form of the call:
positional arguments first, keywords in the order of the call, and no omitted arguments.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir.core import OpTraits
from xdsl.irdl import AnyAttr, IRDLOperation, OpDef, OptPropertyDef, RangeOf, VarOperandDef, VarRegionDef, VarResultDef
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind as Kind

from fxc.dialects.attributes.values import Tree, count_ssa, decode, encode, holds_region, region_names
from fxc.dialects.text.call_text import Arguments, CallReader, CallWriter
from fxc.dialects.text.lexer import CallLines, Layout, Line
from fxc.dialects.text.syntax import FxcParser, parse_isolated_region, parse_type, type_text


class CallOp(IRDLOperation):
    """An op that is one call. Subclasses define how arguments are stored in properties."""

    PROPERTY_NAMES: ClassVar[tuple[str, ...]] = ()
    HAS_TARGET: ClassVar[bool] = False
    traits: ClassVar[OpTraits] = OpTraits(lambda: ())

    def __post_init__(self) -> None:
        pass  # IRDL accessors would build the definition of 4,000 classes

    @classmethod
    def get_irdl_definition(cls) -> OpDef:
        definition = cls.__dict__.get("_definition")
        if definition is None:
            definition = OpDef(cls.name)
            definition.properties = {name: OptPropertyDef(AnyAttr()) for name in cls.PROPERTY_NAMES}
            definition.operands = [("arguments", VarOperandDef(RangeOf(AnyAttr())))]
            definition.results = [("values", VarResultDef(RangeOf(AnyAttr())))]
            definition.regions = [("bodies", VarRegionDef())]
            cls._definition = definition
        return definition

    @abstractmethod
    def call_arguments(self) -> Arguments:
        """The templates of the arguments in the order of the call."""

    def call_operands(self) -> Sequence[SSAValue]:
        """The operands in the order of ``call_arguments``."""
        return self.operands

    @classmethod
    @abstractmethod
    def layout(cls, arguments: Arguments, target: str | None) -> Layout:
        """How the op stores arguments; the inverse of ``call_arguments``. VerifyException where the op cannot store them."""

    @classmethod
    def from_arguments(
        cls,
        arguments: Arguments,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        *,
        target: str | None = None,
        attributes: Mapping[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        location: Any = None,
    ) -> Self:
        """The op of a call; ``operands`` in the order of ``arguments``."""
        properties, order = cls.layout(arguments, target)
        return cls.create(
            operands=operands if order is None else [operands[index] for index in order],
            result_types=result_types,
            properties=properties,
            attributes=attributes or {},
            regions=regions,
            location=location,
        )

    @classmethod
    def build_call(
        cls,
        args: Sequence[Tree],
        kwargs: Mapping[str, Tree],
        result_types: Sequence[Attribute],
        **more: Any,
    ) -> Self:
        """The op that calls with these trees of SSA values, attributes and constants. ``more`` as for ``from_arguments``."""
        operands = list[SSAValue]()
        arguments: Arguments = [(None, encode(tree, operands)) for tree in args]
        arguments += [(name, encode(tree, operands)) for name, tree in kwargs.items()]
        return cls.from_arguments(arguments, operands, result_types, **more)

    def trees(self) -> tuple[list[Tree], dict[str, Tree]]:
        """Positional and keyword arguments, as trees of SSA values and attributes."""
        operands = iter(self.call_operands())
        args, kwargs = list[Tree](), dict[str, Tree]()
        for keyword, template in self.call_arguments():
            value = decode(template, operands)
            if keyword is None:
                args.append(value)
            else:
                kwargs[keyword] = value
        return args, kwargs

    def with_trees(self, args: Sequence[Tree], kwargs: Mapping[str, Tree]) -> Self:
        """A detached copy of this op with other arguments. Regions are moved into the copy."""
        copy = self.build_call(
            args,
            kwargs,
            self.result_types,
            target=self.call_target(),
            attributes=self.attributes,
            regions=[self.detach_region(region) for region in list(self.regions)],
            location=self.location,
        )
        for old, new in zip(self.results, copy.results, strict=True):
            new._name = old._name
        return copy

    def call_target(self) -> str | None:
        """The callee, if the name of the op does not determine it."""
        return None

    def region_names(self) -> list[str]:
        """The submodule names of the op's regions, in region order."""
        args, kwargs = self.trees()
        return region_names([*args, *kwargs.values()])

    def verify_(self) -> None:
        self.verify_call(self.call_arguments())

    def verify_call(self, arguments: Arguments) -> None:
        """Verify the rules of all calls, for the ``arguments`` of this op."""
        expected = sum([count_ssa(template) for _, template in arguments])
        if expected != len(self._operands):
            raise VerifyException(f"the arguments of {self.name} take {expected} operands, but it has {len(self._operands)}")
        for name in self.attributes:
            if name in self.PROPERTY_NAMES:
                raise VerifyException(f"{self.name}: {name!r} is an argument and cannot be a discardable attribute too")
        if self.regions or any([holds_region(template) for _, template in arguments]):
            names = self.region_names()
            if len(names) != len(self.regions):
                raise VerifyException(f"{self.name} names {len(names)} regions, but has {len(self.regions)}")

    # text

    def print(self, printer: Printer) -> None:
        if (target := self.call_target()) is not None:
            printer.print_string(" ")
            printer.print_symbol_name(target)
        operands = self.call_operands()
        texts = CallWriter(printer).arguments(self.call_arguments(), iter(operands))
        printer.print_string(f"({texts})")
        if self.regions:
            printer.print_string(" ")
            with printer.in_parens():
                printer.print_list(self.regions, lambda region: _print_isolated(printer, region))
        if self.attributes:
            printer.print_op_attributes(self.attributes)
        operand_types = ", ".join([type_text(operand.type) for operand in operands])
        result_types = [type_text(result.type) for result in self.results]
        alone = len(result_types) == 1 and not result_types[0].startswith("(")  # as a function type does
        results = result_types[0] if alone else f"({', '.join(result_types)})"
        printer.print_string(f" : ({operand_types}) -> {results}")

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        target = parser.parse_symbol_name().data if cls.HAS_TARGET else None
        lines = parser.calls if isinstance(parser, FxcParser) else CallLines()
        line = Line.at(parser.lexer.input.content, parser.pos)
        if line is None or (known := lines.known(parser.ssa_values, cls, target, line)) is None:
            return cls._parse_tokens(parser, target, line, lines)
        (properties, order), operands, result_types = known
        parser._resume_from(line.end)
        operands = operands if order is None else [operands[index] for index in order]
        return cls.create(operands=operands, result_types=result_types, properties=properties)

    @classmethod
    def _parse_tokens(cls, parser: Parser, target: str | None, line: Line | None, lines: CallLines) -> Self:
        """Parse the call token by token, and cache it as ``line`` if the line holds nothing else."""
        reader = CallReader(parser)
        arguments = reader.arguments()
        regions, attributes = [], {}
        if parser._current_token.kind is Kind.L_PAREN:
            regions = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_isolated_region(parser))
        if parser._current_token.kind is Kind.L_BRACE:
            attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        operand_types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_type(parser))
        parser.parse_punctuation("->")
        if parser._current_token.kind is Kind.L_PAREN:
            result_types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_type(parser))
        else:
            result_types = [parse_type(parser)]
        operands = parser.resolve_operands(reader.operands, operand_types, position)
        try:
            op = cls.from_arguments(arguments, operands, result_types, target=target, attributes=attributes, regions=regions)
        except VerifyException as error:
            parser.raise_error(str(error), position)
        if line is not None and parser.pos >= line.end:
            lines.learn(cls, target, line, cls.layout(arguments, target), (operand_types, result_types))
        return op


def _print_isolated(printer: Printer, region: Region) -> None:
    printer.enter_scope()
    printer.print_region(region)
    printer.exit_scope()
