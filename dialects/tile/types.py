"""Pointers, blocks, and the shared text syntax of ops of the ``tile`` dialect.

A *block* is a static builtin vector, ``vector<8x32xf32>``; with an empty shape it is a scalar.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    UnitAttr,
    VectorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, operand_def, result_def, traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.values import isa
from fxc.dialects.base.effects import EffectsInterface
from fxc.dialects.text.syntax import type_text

POINTEES = (f16, bf16, f32, f64, i1, i8, i16, i32, i64, IntegerType(8, Signedness.UNSIGNED))
"""Element types of pointers. An ``i1`` takes a byte; blocks of ``ui8`` elements have type ``i8``, as in arith."""

FLOATS = (f16, bf16, f32, f64)


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """``!tile.ptr<f32>``: the address of the first of several elements."""

    name = "tile.ptr"
    pointee: Attribute

    def verify(self) -> None:
        if self.pointee not in POINTEES:
            raise VerifyException(f"!tile.ptr points to one of {', '.join(map(str, POINTEES))}, not to {self.pointee}")

    @property
    def value_type(self) -> Attribute:
        """The element type of loaded and stored blocks."""
        return i8 if isa(self.pointee, IntegerType) and self.pointee.width.data == 8 else self.pointee


def block_type(element: Attribute, shape: Sequence[int]) -> Attribute:
    """The block with this element type and shape: a vector, or the element type for an empty shape."""
    return VectorType(element, shape) if shape else element


def shape_of(type: Attribute) -> tuple[int, ...]:
    """The shape of a block; empty for a scalar."""
    return type.get_shape() if isinstance(type, VectorType) else ()


def element_of(type: Attribute) -> Attribute:
    """The element type of a block; the type itself for a scalar."""
    return type.element_type if isa(type, VectorType) else type


def with_element(type: Attribute, element: Attribute) -> Attribute:
    """The block with the shape of ``type`` and another element type."""
    return block_type(element, shape_of(type))


def check_type(what: str, type: Attribute, expected: Attribute) -> None:
    if type != expected:
        raise VerifyException(f"{what} has type {type}, expected {expected}")


def check_block(what: str, type: Attribute) -> None:
    """VerifyException unless ``type`` is a block of numbers."""
    element = element_of(type)
    if isa(type, VectorType) and (type.get_num_scalable_dims() or not all(size > 0 for size in type.get_shape())):
        raise VerifyException(f"{what} has type {type}, expected a static vector without empty dimensions")
    if not is_number(element) or (isinstance(element, IndexType) and shape_of(type)):
        raise VerifyException(f"{what} has type {type}, expected a number or a vector of numbers")


def is_number(type: Attribute) -> bool:
    """Whether ``type`` is a number type of kernels."""
    signless = isa(type, IntegerType) and type.signedness.data == Signedness.SIGNLESS
    return signless or type in FLOATS or isinstance(type, IndexType)


def check_dims(dims: Sequence[int], rank: int) -> None:
    """VerifyException unless ``dims`` are dimensions of a block of ``rank``, strictly ascending."""
    if any(not 0 <= dim < rank for dim in dims) or list(dims) != sorted(set(dims)):
        raise VerifyException(f"dims {list(dims)} must be ascending dimensions of a block of rank {rank}")


def is_float(type: Attribute) -> bool:
    return element_of(type) in FLOATS


class TileEffects(EffectsInterface):
    """An op of a kernel, with results that are blocks and numbers, or a launch, which allocates.

    None aliases or retains memory.
    """

    def aliases(self) -> Iterator[tuple[int, SSAValue]]:
        return iter(())

    def may_retain(self) -> bool:
        return False


class PointerRead(TileEffects):
    """An op whose only effect is a read through a pointer."""

    def has_side_effect(self) -> bool:
        return False

    def reads_memory(self) -> bool:
        return True


class PointerWrite(TileEffects):
    """An op that writes through the pointer that is its second operand."""

    def writes(self) -> list[SSAValue]:
        return [self.operands[1]]


class TileOp(IRDLOperation, TileEffects):
    """An op with the text ``name "kind" operands {field = 1, fields = [0, 1]} : types``.

    The kind is optional. Only ``shown_types`` are printed; ``all_types`` derives the others from them.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ()
    """Properties that are printed in braces: integers and lists of integers."""
    BETWEEN: ClassVar[tuple[str, ...]] = ()
    """The separators of the types: ``to``, ``->`` or ``,``."""

    def shown_types(self) -> Sequence[Attribute]:
        return self.result_types

    @classmethod
    def all_types(cls, count: int, *shown: Attribute) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        """The types of ``count`` operands, and of the results."""
        return [shown[0]] * count, [shown[0]]

    def print(self, printer: Printer) -> None:
        kind = self.properties.get("kind")
        if isinstance(kind, StringAttr):
            printer.print_string(f' "{kind.data}"')
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        self.print_fields(printer)
        first, *others = map(type_text, self.shown_types())
        printer.print_string(f" : {first}")
        for between, text in zip(self.BETWEEN, others, strict=True):
            printer.print_string(f", {text}" if between == "," else f" {between} {text}")

    @classmethod
    def parse(cls, parser: Parser):
        kind = parser.parse_optional_str_literal()
        values = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        properties, attributes = cls.parse_fields(parser)
        if kind is not None:
            properties["kind"] = StringAttr(kind)
        parser.parse_punctuation(":")
        position, shown = parser.pos, [parser.parse_type()]
        for between in cls.BETWEEN:
            parser.parse_characters(between)
            shown.append(parser.parse_type())
        operand_types, result_types = cls.all_types(len(values or ()), *shown)
        operands = parser.resolve_operands(values or (), operand_types, position)
        return cls.create(operands=operands, properties=properties, attributes=attributes, result_types=result_types)

    def print_fields(self, printer: Printer) -> None:
        texts = {name: _field_text(self.properties[name]) for name in self.FIELDS}
        if not texts and not self.attributes:
            return
        printer.print_string(" {")
        printer.print_list(texts.items(), lambda item: printer.print_string(f"{item[0]} = {item[1]}"))
        if texts and self.attributes:
            printer.print_string(", ")
        printer.print_list(self.attributes.items(), lambda item: _print_attribute(printer, *item))
        printer.print_string("}")

    @classmethod
    def parse_fields(cls, parser: Parser) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
        """The parsed properties and attributes."""
        attributes = parser.parse_optional_attr_dict()
        properties = dict[str, Attribute]()
        for name in cls.FIELDS:
            if name not in attributes:
                parser.raise_error(f"{cls.name} needs {{{name} = ...}}")
            properties[name] = _field_value(attributes.pop(name))
        return properties, attributes


def print_operands(printer: Printer, values: Sequence[SSAValue]) -> None:
    printer.print_list(values, printer.print_ssa_value)


def print_types(printer: Printer, types: Sequence[Attribute]) -> None:
    printer.print_string(", ".join(map(type_text, types)))


def parse_types(parser: Parser) -> list[Attribute]:
    return parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)


def print_bindings(printer: Printer, arguments: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
    """Print ``(%argument = %value, ...)``: the initial values of the arguments of a body."""

    def show(pair: tuple[SSAValue, SSAValue]) -> None:
        printer.print_ssa_value(pair[0])
        printer.print_string(" = ")
        printer.print_ssa_value(pair[1])

    printer.print_string("(")
    printer.print_list(zip(arguments, values, strict=True), show)
    printer.print_string(")")


def parse_bindings(parser: Parser) -> list[tuple[Parser.UnresolvedArgument, UnresolvedOperand]]:
    def binding() -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
        argument = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        return argument, parser.parse_unresolved_operand()

    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, binding)


class PureOp(TileOp):
    """An op without effects that computes one block or number."""

    result = result_def()
    traits = traits_def(Pure())


class UnaryOp(PureOp):
    """``name %v {...} : vector<8x1xf32> to vector<8x32xf32>``: a block or number computed from one operand."""

    value = operand_def()
    BETWEEN: ClassVar = ("to",)

    def shown_types(self) -> Sequence[Attribute]:
        return [self.value.type, self.result.type]

    @classmethod
    def all_types(cls, count: int, *shown: Attribute) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        return shown[:1], shown[1:]


def integers(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(i64, values)


def choices(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _field_text(value: Attribute) -> str:
    if isinstance(value, DenseArrayBase):
        return f"[{', '.join(map(str, value.get_values()))}]"
    return str(value.value.data) if isinstance(value, IntegerAttr) else str(value)


def _field_value(value: Attribute) -> Attribute:
    if isa(value, ArrayAttr) and all(isinstance(item, IntegerAttr) for item in value.data):
        return integers([item.value.data for item in value.data])  # type: ignore[attr-defined]
    return value


def _print_attribute(printer: Printer, name: str, value: Attribute) -> None:
    printer.print_string(name)
    if not isinstance(value, UnitAttr):
        printer.print_string(" = ")
        printer.print_attribute(value)
