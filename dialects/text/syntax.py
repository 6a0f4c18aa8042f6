"""The printer and parser of IR text, exact for FX names, non-ASCII strings and locations.

xDSL's printer strips a trailing ``_1`` from a name and can print one name twice; its parser turns non-ASCII strings into bytes,
and reads the bits of a float in ``dense<0xFF800000>`` as its value. These classes fix all of that, for every dialect.
"""

from __future__ import annotations

import io
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import IO, Any
from weakref import WeakKeyDictionary

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, IntegerType, LocationAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue, TypeAttribute
from xdsl.ir.affine import AffineMap
from xdsl.parser import AttrParser, Parser
from xdsl.parser.generic_parser import ParserState
from xdsl.printer import Printer
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRTokenKind, StringLiteral

from fxc.dialects.attributes.size_polynomials import SemiAffineParser
from fxc.dialects.attributes.values import isa, string_text
from fxc.dialects.text.lexer import CallLines, FxcLexer, closing

_written = WeakKeyDictionary[SSAValue, str]()
_type_text = dict[Attribute, str]()
_text_of = dict[int, tuple[Attribute, str]]()  # by id: hashing a type walks it, and few objects stand for one type
MAX_WIDTH = 2**24 - 1
"""MLIR's limit. Without it, verifying a number of type ``i99999999999`` takes gigabytes."""
_TYPE = re.compile(r"(?:tensor|tuple)<(?:[^<>\"]|<(?:[^<>\"]|<[^<>\"]*+>)*+>)*+>|![A-Za-z_][\w.]*+(?!<)", re.ASCII)


def written_name(value: SSAValue) -> str | None:
    """The name of ``value`` in messages: as in the text it was parsed from, ``12`` and ``r#1`` included. None without one."""
    return _written.get(value) or value._name


def type_text(type: Attribute) -> str:
    """The text of a type, cached: types are immutable and few."""
    known = _text_of.get(id(type))
    if known is not None:
        return known[1]
    if len(_text_of) > 50_000:
        _text_of.clear()
        _type_text.clear()
    text = _type_text.get(type)
    if text is None:
        text = _type_text[type] = str(type)
    _text_of[id(type)] = (type, text)  # holds the type, so that its id is not reused
    return text


class FxcPrinter(Printer):
    """Prints each value with its name, made unique in its scope; an isolated region starts a fresh scope.

    The text of repeated attributes, nested ones included, is cached.
    """

    def __init__(self, stream: IO[str], **options: Any) -> None:
        super().__init__(stream, **options)
        self._known = dict[tuple[int, bool], tuple[Attribute, str]]()  # by id: hashing an attribute walks it

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if self.stream is None or "\n" in text:
            super().print_string(text, indent=indent)
            return
        self._current_column += len(text)
        self.stream.write(text)

    def print_string_literal(self, string: str) -> None:
        self.print_string(string_text(string))

    def print_attribute(self, attribute: Attribute) -> None:
        key = id(attribute), self.printing_location  # a nested location has no ``loc(...)`` around it
        known = self._known.get(key)
        if known is not None:
            self.print_string(known[1])
            return
        outer, inner = self.stream, io.StringIO()
        self.stream = inner
        try:
            super().print_attribute(attribute)
        finally:
            self.stream = outer
        text = inner.getvalue()
        print(text, end="", file=outer)
        if "\n" not in text:  # otherwise the text depends on the indentation
            self._known[key] = attribute, text

    def ssa_name(self, value: SSAValue) -> str:
        name = self._ssa_values.get(value)
        if name is None:
            hint, used = value._name, self._ssa_names[-1]
            if hint is None:
                name = self._get_new_valid_name_id()
            else:
                name = hint
                while name in used:
                    used[hint] += 1
                    name = f"{hint}_{used[hint]}"
                used[name] = 0
            self._ssa_values[value] = name
        return name

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self.ssa_name(value)
        self.print_string("%" + name)
        return name

    def enter_scope(self) -> None:
        super().enter_scope()
        if not self.print_generic_format:
            self._ssa_names[-1] = {}
            self._next_valid_name_id[-1] = 0


class _DenseElement(AttrParser._TensorLiteralElement):
    """A number in ``dense<...>``. Hexadecimal digits are the bits of a float, as printed for infinities and NaN."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        if not isinstance(type, AnyFloat) or not isinstance(self.value, int) or self.span.text[:2].lower() != "0x":
            return super().to_type(parser, type)
        if self.value.bit_length() > 8 * type.compile_time_size:
            parser.raise_error(f"{self.span.text} has more bits than {type}", self.span)
        return next(iter(type.iter_unpack(self.value.to_bytes(type.compile_time_size, "little"))))


_PARSING = RLock()
"""Held while a module is parsed: for omitted terminators, xDSL changes how all threads make operations."""


class FxcParser(Parser):
    """Parses IR text.

    Preserves the written name of every value, decodes UTF-8 strings, and looks up repeated tensor types and locations by regex.
    """

    _TensorLiteralElement = _DenseElement

    def __init__(self, ctx: Context, input: str, name: str = "<string>") -> None:
        super().__init__(ctx, "", name)
        self._parser_state = ParserState(FxcLexer(Input(input, name)))
        self._types = dict[str, Attribute]()
        self._locations = dict[str, LocationAttr]()
        self.calls = CallLines()

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        with _PARSING:
            return super().parse_module(allow_implicit_module)

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        if len(values) == 1 and SSAValue.is_valid_name(name):
            values[0]._name = name
        elif len(values) == 1:
            _written[values[0]] = name
        else:
            _written.update((value, f"{name}#{index}") for index, value in enumerate(values))

    def parse_optional_str_literal(self) -> str | None:
        token = self._current_token
        if token.kind is MLIRTokenKind.BYTES_LIT:
            try:
                text = StringLiteral.from_span(token.span).bytes_contents.decode("utf-8")
            except UnicodeDecodeError:
                return None
            self._consume_token()
            return text
        return super().parse_optional_str_literal()

    def _parse_optional_string_attr(self) -> StringAttr | None:
        text = self.parse_optional_str_literal()
        return None if text is None else StringAttr(text)

    def parse_optional_location(self) -> LocationAttr | None:
        token, text = self._current_token, self.lexer.input.content
        if token.text != "loc" or (end := closing(text, token.span.end)) is None:
            return super().parse_optional_location()
        written = text[token.span.start : end]
        if (known := self._locations.get(written)) is not None:
            self._resume_from(end)
            return known
        location = super().parse_optional_location()
        if location is not None and not text[end : self.pos].strip():  # otherwise a comment has parentheses
            self._locations[written] = location
        return location

    def parse_affine_map(self) -> AffineMap:
        return SemiAffineParser(self._parser_state).parse_affine_map()

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        span = self._current_token.span
        type = super()._parse_optional_integer_or_float_type()
        if isa(type, IntegerType) and type.width.data > MAX_WIDTH:
            self.raise_error(f"an integer type has at most {MAX_WIDTH} bits", span)
        return type

    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        position = self.pos
        op = super()._parse_generic_operation(op_type)
        if (declare := getattr(op, "declare", None)) is not None:
            declare(self, position)
        return op

    def parse_type_fast(self) -> Attribute:
        """A type; a repeated one costs one regex match."""
        match = _TYPE.match(self.lexer.input.content, self._current_token.span.start)
        if match is None:
            return self.parse_type()
        type = self._types.get(match.group())
        if type is None:
            type = self._types[match.group()] = self.parse_type()
        else:
            self._resume_from(match.end())
        return type


def parse_type(parser: AttrParser) -> Attribute:
    """A type, by the fast path if the parser has one."""
    return parser.parse_type_fast() if isinstance(parser, FxcParser) else parser.parse_type()


@contextmanager
def isolated(parser: Parser) -> Generator[None, None, None]:
    """Parse without access to values of the enclosing scope, so that names may be reused."""
    outer, parser.ssa_values = parser.ssa_values, {}
    try:
        yield
    finally:
        parser.ssa_values = outer


def parse_isolated_region(parser: Parser, arguments: Sequence[Parser.Argument] | None = None) -> Region:
    """A region without access to values of the enclosing scope; ``arguments`` of its first block if they are outside of it."""
    with isolated(parser):
        return parser.parse_region(arguments)


def parse_module(context: Context, text: str, filename: str = "<string>") -> ModuleOp:
    """The module of ``text``, not yet verified. Raises xDSL's ParseError with the location in ``filename``."""
    return FxcParser(context, text, filename).parse_module()


def print_module(op: Operation, *, debuginfo: bool = False, generic: bool = False) -> str:
    """The text of ``op``, with a final newline; it parses to an equal op."""
    stream = io.StringIO()
    FxcPrinter(stream, print_debuginfo=debuginfo, print_generic_format=generic).print_op(op)
    return stream.getvalue() + "\n"


def op_text(op: Operation, limit: int = 200) -> str:
    """One line that shows ``op`` in a message, without regions, cut to ``limit`` characters."""
    stream = io.StringIO()
    printer = FxcPrinter(stream)
    printer._ssa_values.update((value, _written[value]) for value in (*op.operands, *op.results) if value in _written)
    if op.regions:
        names = ", ".join("%" + printer.ssa_name(r) for r in op.results)
        symbol = op.properties.get("sym_name")
        text = f"{names} = {op.name}" if names else op.name
        text += f" @{symbol.data}" if isinstance(symbol, StringAttr) else ""
    else:
        printer.print_op(op)
        text = " ".join(stream.getvalue().split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def clone_module(module: ModuleOp) -> ModuleOp:
    """A deep copy that preserves the names of values (xDSL's clone strips their numbers)."""
    copy = module.clone()
    for old, new in zip(module.walk(), copy.walk(), strict=True):
        copy_names(old.results, new.results)
        for old_region, new_region in zip(old.regions, new.regions, strict=True):
            for old_block, new_block in zip(old_region.blocks, new_region.blocks, strict=True):
                copy_names(old_block.args, new_block.args)
    return copy


def copy_names(old: Sequence[SSAValue[Any]], new: Sequence[SSAValue[Any]]) -> None:
    """Give ``new`` values the exact names of ``old`` ones."""
    for source, target in zip(old, new, strict=True):
        target._name = source._name
