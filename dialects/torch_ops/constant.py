"""``torch.constant``: a small constant tensor, or a host number, as a value."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, ComplexType, FloatAttr, IntegerAttr, StringAttr, TensorType, i1
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import dtype_name, is_tensor
from fxc.dialects.attributes.values import NoneValueAttr, isa, scalar_attr, scalar_of, string_text
from fxc.dialects.base.effects import EffectsInterface
from fxc.dialects.base.op_rules import local
from fxc.dialects.text.call_text import CallReader, CallWriter
from fxc.dialects.text.syntax import type_text

_FORMATS = {
    "float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b", "uint8": "B",
    "uint16": "H", "uint32": "I", "uint64": "Q", "bool": "?",
}  # fmt: skip
_READABLE = 64
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*+")


@irdl_attr_definition
class TensorLiteralAttr(ParametrizedAttribute):
    """The bytes of a contiguous tensor, little-endian, as hexadecimal digits: exact for every dtype, NaN payloads too."""

    name = "torch.literal"
    hex: StringAttr

    def verify(self) -> None:
        if not _HEX.fullmatch(self.hex.data):
            raise VerifyException("#torch.literal holds pairs of hexadecimal digits")

    @property
    def bytes(self) -> bytes:
        return bytes.fromhex(self.hex.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [StringAttr(parser.parse_str_literal())]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{string_text(self.hex.data)}>")


@irdl_op_definition
class ConstantOp(IRDLOperation, EffectsInterface):
    """``%c = torch.constant([1.0, nan, -0.0]) : tensor<3xf32>`` or ``%n = torch.constant(3) : !torch.int``.

    Elements in row-major order where there are at most 64 of a plain dtype, else the bytes as ``#torch.literal<"...">``. No
    other op may write the value: a pass does not fold a call whose result is returned or mutated.
    """

    name = "torch.constant"
    value = prop_def(Attribute)
    result = result_def(Attribute)
    traits = traits_def(Pure(), ConstantLike())

    @classmethod
    def of(cls, value: Attribute, type: Attribute) -> ConstantOp:
        return cls.create(properties={"value": value}, result_types=[type])

    def may_retain(self) -> bool:
        return False

    @local
    def verify_(self) -> None:
        if is_tensor(self.result.type):
            if not isinstance(self.value, TensorLiteralAttr):
                raise VerifyException("the value of a constant tensor is #torch.literal")
            expected, actual = _byte_count(self.result.type), len(self.value.hex.data) // 2
            if expected is not None and expected != actual:
                raise VerifyException(f"{type_text(self.result.type)} has {expected} bytes, but the literal has {actual}")
        elif not isinstance(self.value, (IntegerAttr, FloatAttr, NoneValueAttr, StringAttr)):
            raise VerifyException("the value of a host constant is a number, a string or none")

    def print(self, printer: Printer) -> None:
        type = self.result.type
        elements = _elements(self.value, type) if is_tensor(type) else None
        text = CallWriter(printer).value(self.value if elements is None else elements, iter(()))
        printer.print_string(f"({text})")
        printer.print_op_attributes(self.attributes)
        printer.print_string(f" : {type_text(type)}")

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        position = parser.pos
        with parser.in_parens():
            value = CallReader(parser).value()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        if isa(value, ArrayAttr):
            value = _literal(value, type, parser, position)
        return cls.create(properties={"value": value}, result_types=[type], attributes=attributes)


def _literal(elements: ArrayAttr, type: Attribute, parser: Parser, position: int) -> TensorLiteralAttr:
    format = _FORMATS.get(dtype_name(type.element_type)) if is_tensor(type) else None
    if format is None:
        parser.raise_error("a list of elements needs a tensor type of a plain dtype", position)
    try:
        numbers = [bool(scalar_of(e)) if format == "?" else scalar_of(e) for e in elements.data]
        return TensorLiteralAttr(StringAttr(struct.pack(f"<{len(numbers)}{format}", *numbers).hex()))
    except (struct.error, OverflowError, KeyError) as error:
        parser.raise_error(f"an element does not fit {type_text(type)}: {error}", position)


def _byte_count(type: TensorType) -> int | None:
    element = type.element_type
    dtype_name(element)  # raises for a dtype that PyTorch does not have
    if any(size < 0 for size in type.get_shape()):
        raise VerifyException("a constant tensor has a static shape")
    size: int | None = getattr(element, "compile_time_size", None)
    if isa(element, ComplexType):
        size = 2 * element.element_type.compile_time_size
    elif element == i1:
        size = 1
    return None if size is None else size * math.prod(type.get_shape())


def _elements(value: Attribute, type: TensorType) -> ArrayAttr | None:
    """The elements, if they parse to the same bytes; None where the bytes must be printed for exactness or length."""
    try:
        format, count = _FORMATS.get(dtype_name(type.element_type)), math.prod(type.get_shape())
    except VerifyException:
        return None  # invalid ops are printed, too
    if not isinstance(value, TensorLiteralAttr) or format is None or count > _READABLE:
        return None
    raw = value.bytes
    if len(raw) != count * struct.calcsize(format):
        return None
    numbers = struct.unpack(f"<{count}{format}", raw)
    if struct.pack(f"<{len(numbers)}{format}", *[math.nan if n != n else n for n in numbers]) != raw:
        return None
    return ArrayAttr([attr for number in numbers if (attr := scalar_attr(number)) is not None])
