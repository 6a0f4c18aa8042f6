"""Print and parse the text of calls: templates of arguments as Python-like text.

``torch.aten.add.Tensor(%0, [1, none], alpha = 2)``: CallWriter prints the arguments, CallReader parses them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from typing import Any, TypeAlias

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
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRTokenKind as Kind

from fxc.dialects.attributes.values import (
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
    TupleAttr,
    bool_attr,
    device_attr,
    enum_attr,
    float_attr,
    int_attr,
    isa,
    str_attr,
    string_text,
)
from fxc.dialects.text.syntax import FxcPrinter

Template: TypeAlias = Attribute
Arguments: TypeAlias = list[tuple[str | None, Template]]
"""The arguments of a call in order: a keyword, or None for a positional argument, and the template of its value."""


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
    """Parses the text of CallWriter. ``operands`` collects the operands in order."""

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
                return FloatAttr(type.unpack(value.to_bytes(type.compile_time_size, "little"), 1)[0], type)
            return FloatAttr(value, type)
        if (isa(type, IntegerType) or isinstance(type, IndexType)) and isinstance(value, int):
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


def _keyword(name: str) -> str:
    return name if _NAME.fullmatch(name) else string_text(name)


def _integer(attr: IntegerAttr[Any]) -> str | None:
    """The text of an integer that parses to ``attr``; None where its type must be written."""
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
    """The output of ``write`` as a string."""
    outer, printer.stream = printer.stream, StringIO()
    try:
        write()
        return printer.stream.getvalue()
    finally:
        printer.stream = outer
