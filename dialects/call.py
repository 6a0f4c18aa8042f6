"""Ops that are Python calls: what they passed, and the text of it.

``torch.aten.add.Tensor(%0, %1, alpha = 2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>`` reads like the call that it
is: positional arguments first, keywords as they were given, nothing that the call left out.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, ClassVar, Self, TypeAlias

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    ComplexType,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    NoneType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i1,
)
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir.core import OpTraits
from xdsl.irdl import AnyAttr, IRDLOperation, OpDef, OptPropertyDef, RangeOf, VarOperandDef, VarRegionDef, VarResultDef
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind as Kind

from fxc.dialects.call_lines import CallLines, Layout, Line
from fxc.dialects.syntax import FxcParser, FxcPrinter, parse_isolated_region, parse_type, type_text
from fxc.dialects.values import (
    ELLIPSIS,
    NONE,
    SSA,
    ComplexAttr,
    DeviceAttr,
    DictAttr,
    DTypeAttr,
    EllipsisAttr,
    LayoutAttr,
    MemoryFormatAttr,
    NoneValueAttr,
    RangeAttr,
    RegionAttr,
    SliceAttr,
    SSAAttr,
    Tree,
    TupleAttr,
    bool_attr,
    count_ssa,
    decode,
    device_attr,
    encode,
    enum_attr,
    float_attr,
    holds_region,
    int_attr,
    region_names,
    str_attr,
    string_text,
)

Template: TypeAlias = Attribute
Arguments: TypeAlias = list[tuple[str | None, Template]]
"""What a call passed, in order: a keyword or None for a positional argument, and the template of its value."""


class CallOp(IRDLOperation):
    """An op that is one call. Subclasses say how arguments lie in properties."""

    PROPERTY_NAMES: ClassVar[tuple[str, ...]] = ()
    HAS_TARGET: ClassVar[bool] = False
    traits: ClassVar[OpTraits] = OpTraits(lambda: ())

    def __post_init__(self) -> None:
        pass  # the IRDL accessors would build the definition of 4,000 classes

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
        """The templates of the call in the order in which it was written."""

    def call_operands(self) -> Sequence[SSAValue]:
        """The operands in the order in which ``call_arguments`` takes them."""
        return self.operands

    @classmethod
    @abstractmethod
    def layout(cls, arguments: Arguments, target: str | None) -> Layout:
        """How arguments lie in the op; the inverse of ``call_arguments``. VerifyException where the op cannot take them."""

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
        """The op of a call; ``operands`` in the order in which ``arguments`` take them."""
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
        """The op that calls with these trees of SSA values and attributes. ``more`` as in ``from_arguments``."""
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
        """A detached copy of this op that passes other arguments. Regions are moved into the copy."""
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
        """What is called, where the op's name does not say it."""
        return None

    def region_names(self) -> list[str]:
        """The submodule names of the op's regions, in region order."""
        args, kwargs = self.trees()
        return region_names([*args, *kwargs.values()])

    def verify_(self) -> None:
        self.verify_call(self.call_arguments())

    def verify_call(self, arguments: Arguments) -> None:
        """What all calls must obey, for the op's own ``arguments``."""
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
        """Read the call token by token, and learn ``line`` where that is all there is."""
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


class CallWriter:
    """Writes templates as Python-like call text."""

    def __init__(self, printer: Printer) -> None:
        self.printer = printer

    def arguments(self, arguments: Arguments, operands: Iterator[SSAValue]) -> str:
        return ", ".join(
            [
                self.value(template, operands) if keyword is None else f"{_keyword(keyword)} = {self.value(template, operands)}"
                for keyword, template in arguments
            ]
        )

    def value(self, attr: Attribute, operands: Iterator[SSAValue]) -> str:
        kind = type(attr)
        if kind is SSAAttr:
            value = next(operands)
            if isinstance(self.printer, FxcPrinter):
                return "%" + self.printer.ssa_name(value)
            return _printed(self.printer, lambda: self.printer.print_ssa_value(value))
        if kind is IntegerAttr and (text := _integer(attr)) is not None:  # type: ignore[arg-type]
            return text
        if kind is FloatAttr and (text := _float(attr)) is not None:  # type: ignore[arg-type]
            return text
        match attr:
            case StringAttr():
                return string_text(attr.data)
            case NoneValueAttr():
                return "none"
            case EllipsisAttr():
                return "ellipsis"
            case ArrayAttr():
                return f"[{', '.join([self.value(e, operands) for e in attr.data])}]"
            case TupleAttr():
                texts = [self.value(e, operands) for e in attr.elements.data]
                return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
            case DictAttr():
                none = iter(())
                items = [
                    f"{self.value(k, none)} = {self.value(v, operands)}"
                    for k, v in zip(attr.keys.data, attr.values.data, strict=True)
                ]
                return "{" + ", ".join(items) + "}"
            case SliceAttr():
                return f"slice({', '.join([self.value(p, operands) for p in (attr.start, attr.stop, attr.step)])})"
            case RangeAttr():
                return f"range({', '.join([self.value(p, operands) for p in (attr.start, attr.stop, attr.step)])})"
            case ComplexAttr():
                return f"complex({self.value(attr.real, operands)}, {self.value(attr.imag, operands)})"
            case DTypeAttr() | LayoutAttr() | MemoryFormatAttr() if enum_attr(attr.value.data) == attr and _NAME.fullmatch(
                attr.value.data
            ):
                return f"torch.{attr.value.data}"
            case DeviceAttr():
                return f"device({string_text(attr.value.data)})"
            case RegionAttr():
                return _printed(self.printer, lambda: self.printer.print_symbol_name(attr.target.data))
            case DictionaryAttr() | SymbolRefAttr() | FunctionType() | ComplexType() | NoneType() | BytesAttr():
                return f"attribute({_printed(self.printer, lambda: self.printer.print_attribute(attr))})"  # reads as a value
            case _:
                return _printed(self.printer, lambda: self.printer.print_attribute(attr))


class CallReader:
    """Reads the text that CallWriter writes. ``operands`` collects what was named, in order."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.operands = list[UnresolvedOperand]()

    def arguments(self) -> Arguments:
        return self.parser.parse_comma_separated_list(self.parser.Delimiter.PAREN, self._argument)

    def _argument(self) -> tuple[str | None, Template]:
        parser, token = self.parser, self.parser._current_token
        content = parser.lexer.input.content
        if token.kind in (Kind.BARE_IDENT, Kind.STRING_LIT, Kind.BYTES_LIT) and _EQUALS.match(content, token.span.end):
            keyword = parser.parse_identifier_or_str_literal()
            parser.parse_punctuation("=")
            return keyword, self.value()
        return None, self.value()

    def value(self) -> Template:
        parser, token = self.parser, self.parser._current_token
        match token.kind:
            case Kind.PERCENT_IDENT:
                self.operands.append(parser.parse_unresolved_operand())
                return SSA
            case Kind.INTEGER_LIT | Kind.FLOAT_LIT | Kind.MINUS:
                return self._number()
            case Kind.L_SQUARE:
                return ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, self.value))
            case Kind.L_PAREN:
                return self._tuple()
            case Kind.L_BRACE:
                return self._dict()
            case Kind.STRING_LIT | Kind.BYTES_LIT:
                return str_attr(parser.parse_str_literal())
            case Kind.AT_IDENT:
                return RegionAttr(StringAttr(parser.parse_symbol_name().data))
            case Kind.BARE_IDENT if (word := self._word(token.text)) is not None:
                return word
            case _:
                return parser.parse_attribute()

    def _number(self) -> Template:
        parser = self.parser
        negative = parser.parse_optional_punctuation("-") is not None
        token = parser._current_token
        if token.kind is Kind.BARE_IDENT and token.text == "inf":
            parser._consume_token()
            return float_attr(-math.inf)
        number = parser._current_token
        if number.kind not in (Kind.INTEGER_LIT, Kind.FLOAT_LIT):
            parser.raise_error("a number expected")
        value: int | float
        value = int(number.text, 0) if number.kind is Kind.INTEGER_LIT else float(number.text)
        parser._consume_token()
        value = -value if negative else value
        if parser.parse_optional_punctuation(":") is None:
            return int_attr(value) if isinstance(value, int) else float_attr(value)
        type = parser.parse_type()
        if isinstance(type, AnyFloat):
            if isinstance(value, int) and number.text.startswith("0x"):
                return FloatAttr(_float_of_bits(value, type), type)
            return FloatAttr(value, type)
        if isinstance(type, (IntegerType, IndexType)) and isinstance(value, int):
            return IntegerAttr(value, type)
        parser.raise_error(f"a number cannot have the type {type}", number.span)

    def _tuple(self) -> Template:
        parser = self.parser
        parser.parse_punctuation("(")
        elements = list[Attribute]()
        while parser.parse_optional_punctuation(")") is None:
            elements.append(self.value())
            if parser.parse_optional_punctuation(",") is None:
                parser.parse_punctuation(")")
                break
        return TupleAttr(ArrayAttr(elements))

    def _dict(self) -> Template:
        keys, values = list[Attribute](), list[Attribute]()

        def item() -> None:
            keys.append(self.value())
            self.parser.parse_punctuation("=")
            values.append(self.value())

        self.parser.parse_comma_separated_list(self.parser.Delimiter.BRACES, item)
        return DictAttr(ArrayAttr(keys), ArrayAttr(values))

    def _word(self, word: str) -> Template | None:
        parser = self.parser
        if (constant := _WORDS.get(word)) is not None:
            parser._consume_token()
            return constant
        if word.startswith("torch."):
            parser._consume_token()
            return enum_attr(word.removeprefix("torch."))
        if word == "device":
            parser._consume_token()
            with parser.in_parens():
                return device_attr(parser.parse_str_literal())
        if word == "attribute":
            parser._consume_token()
            with parser.in_parens():
                return parser.parse_attribute()
        if word in _CALLS:
            parser._consume_token()
            parts = parser.parse_comma_separated_list(parser.Delimiter.PAREN, self.value)
            if len(parts) != _CALLS[word][1]:
                parser.raise_error(f"{word}(...) takes {_CALLS[word][1]} values")
            return _CALLS[word][0](*parts)
        return None


_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_EQUALS = re.compile(r"\s*=")
_WORDS: Mapping[str, Attribute] = {
    "none": NONE,
    "ellipsis": ELLIPSIS,
    "true": bool_attr(True),
    "false": bool_attr(False),
    "nan": float_attr(math.nan),
    "inf": float_attr(math.inf),
    "unit": UnitAttr(),
}
_CALLS: Mapping[str, tuple[Callable[..., Attribute], int]] = {
    "slice": (SliceAttr, 3),
    "range": (RangeAttr, 3),
    "complex": (ComplexAttr, 2),
}


def _print_isolated(printer: Printer, region: Region) -> None:
    printer.enter_scope()
    printer.print_region(region)
    printer.exit_scope()


def _float_of_bits(bits: int, type: AnyFloat) -> float:
    return type.unpack(bits.to_bytes(type.compile_time_size, "little"), 1)[0]


def _keyword(name: str) -> str:
    return name if _NAME.fullmatch(name) else string_text(name)


def _integer(attr: IntegerAttr[Any]) -> str | None:
    """The text of an integer that reads back as ``attr``; None where its type must be written."""
    value = attr.value.data
    if attr.type == i1:
        return ("true" if value else "false") if attr == bool_attr(bool(value)) else None
    return str(value) if attr == int_attr(value) else None


def _float(attr: FloatAttr[Any]) -> str | None:
    value = attr.value.data
    if attr != float_attr(value):
        return None
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def _printed(printer: Printer, write: Callable[[], Any]) -> str:
    """What ``write`` prints, as a string."""
    outer, printer.stream = printer.stream, StringIO()
    try:
        write()
        return printer.stream.getvalue()  # type: ignore[attr-defined]
    finally:
        printer.stream = outer
