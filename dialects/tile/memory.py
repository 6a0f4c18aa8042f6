"""Loads and stores: a block of elements at even steps from a base, or at numbered places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IndexType, IntegerType, i1, i32, i64
from xdsl.dialects.utils import (
    get_dynamic_index_list,
    parse_dynamic_index_list_without_types,
    print_dynamic_index_list,
    split_dynamic_index_list,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.base.op_rules import local
from fxc.dialects.text.syntax import type_text
from fxc.dialects.tile.effects import PointerRead, PointerWrite
from fxc.dialects.tile.types import PtrType, TileOp, check_block, check_type, integers, is_float, shape_of, with_element


class _Strided(TileOp):
    """``%p[%base] strides [%s, 1]``: lane (i, j) is element ``base + i * s + j``."""

    if TYPE_CHECKING:
        pointer: SSAValue
        base: SSAValue
        dynamic_strides: Sequence[SSAValue]
        static_strides: DenseArrayBase[IntegerType]

    def strides(self) -> list[int | SSAValue]:
        """The distance in elements between neighbours along each dimension."""
        return list(get_dynamic_index_list(self.static_strides.get_values(), self.dynamic_strides, DYNAMIC_INDEX))

    def check_address(self, block: Attribute) -> None:
        static = list(self.static_strides.get_values())
        if static.count(DYNAMIC_INDEX) != len(self.dynamic_strides):
            raise VerifyException(f"{self.name}: the number of dynamic strides and of their operands differ")
        if len(static) != len(shape_of(block)):
            raise VerifyException(f"{self.name}: {len(static)} strides for a block of rank {len(shape_of(block))}")

    def print_address(self, printer: Printer) -> None:
        printer.print_ssa_value(self.pointer)
        printer.print_string("[")
        printer.print_ssa_value(self.base)
        printer.print_string("]")
        if len(self.static_strides):
            printer.print_string(" strides ")
            static = self.static_strides.get_values()
            print_dynamic_index_list(printer, DYNAMIC_INDEX, self.dynamic_strides, static)


class _Indexed(TileOp):
    """``%p[%offsets]``: each lane is the element of its number."""

    if TYPE_CHECKING:
        pointer: SSAValue
        offsets: SSAValue

    def check_address(self, block: Attribute) -> None:
        check_type(f"{self.name}: offsets", self.offsets.type, with_element(block, i64))

    def print_address(self, printer: Printer) -> None:
        printer.print_ssa_value(self.pointer)
        printer.print_string("[")
        printer.print_ssa_value(self.offsets)
        printer.print_string("]")


def _check_access(
    op: _Strided | _Indexed, block: Attribute, mask: SSAValue | None, other: SSAValue | None = None, *, reads: bool = False
) -> None:
    """Check the block, the address and the mask of a load or store."""
    assert isinstance(op.pointer.type, PtrType)
    check_block(op.name, block)
    check_type(op.name, block, with_element(block, op.pointer.type.value_type))
    op.check_address(block)
    if mask is not None:
        check_type(f"{op.name}: the mask", mask.type, with_element(block, i1))
    if other is not None:
        check_type(f"{op.name}: the value of masked lanes", other.type, op.pointer.type.value_type)
    if reads and (mask is None) != (other is None):
        raise VerifyException(f"{op.name}: a mask and the value of masked lanes come together")


def _print_more(printer: Printer, *values: SSAValue | None) -> None:
    for value in values:
        if value is not None:
            printer.print_string(", ")
            printer.print_ssa_value(value)


def _parse_place(parser: Parser) -> tuple[UnresolvedOperand, UnresolvedOperand]:
    """``%p[%i]``."""
    pointer = parser.parse_unresolved_operand()
    with parser.in_square_brackets():
        index = parser.parse_unresolved_operand()
    return pointer, index


def _parse_strides(parser: Parser) -> tuple[Sequence[UnresolvedOperand], Sequence[int]]:
    if parser.parse_optional_keyword("strides") is None:
        return [], []
    return parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)


def _parse_more(parser: Parser, limit: int) -> list[UnresolvedOperand]:
    """``, %mask, %other``: at most ``limit`` operands."""
    found = list[UnresolvedOperand]()
    while parser.parse_optional_punctuation(",") is not None:
        if len(found) == limit:
            parser.raise_error(f"expected at most {limit} operands behind the address")
        found.append(parser.parse_unresolved_operand())
    return found


def _resolve_all(parser: Parser, values: Sequence[UnresolvedOperand], types: Sequence[Attribute]) -> list[list[SSAValue]]:
    """An optional operand each, as a list of none or one."""
    found = [[parser.resolve_operand(value, type)] for value, type in zip(values, types, strict=False)]
    return found + [[] for _ in range(len(types) - len(found))]


def _pointer_type(parser: Parser) -> PtrType:
    type = parser.parse_type()
    if not isinstance(type, PtrType):
        parser.raise_error(f"expected a !tile.ptr, not {type}")
    return type


@irdl_op_definition
class LoadOp(_Strided, PointerRead):
    """``%v = tile.load %p[%base] strides [%s, 1], %mask, %other : !tile.ptr<f32> -> vector<8x32xf32>``.

    Lane (i, j) holds element ``base + i * s + j``, or ``other`` where the mask is false; there, nothing is read. Without
    strides it is a scalar.
    """

    name = "tile.load"
    pointer = operand_def(PtrType)
    base = operand_def(IndexType)
    dynamic_strides = var_operand_def(IndexType)
    mask = opt_operand_def()
    other = opt_operand_def()
    static_strides = prop_def(DenseArrayBase.constr(i64))
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())

    @classmethod
    def of(
        cls,
        pointer: SSAValue,
        base: SSAValue,
        strides: Sequence[int | SSAValue],
        type: Attribute,
        mask: SSAValue | None = None,
        other: SSAValue | None = None,
    ) -> LoadOp:
        static, dynamic = split_dynamic_index_list(strides, DYNAMIC_INDEX)
        optional = [[] if value is None else [value] for value in (mask, other)]
        properties = {"static_strides": integers(static)}
        return cls.build(operands=[pointer, base, dynamic, *optional], properties=properties, result_types=[type])

    @local
    def verify_(self) -> None:
        _check_access(self, self.result.type, self.mask, self.other, reads=True)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self.print_address(printer)
        _print_more(printer, self.mask, self.other)
        self.print_fields(printer)
        printer.print_string(f" : {type_text(self.pointer.type)} -> {type_text(self.result.type)}")

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        pointer, base = _parse_place(parser)
        dynamic, static = _parse_strides(parser)
        more = _parse_more(parser, 2)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        pointer_type = _pointer_type(parser)
        parser.parse_punctuation("->")
        type = parser.parse_type()
        index = IndexType()
        optional = _resolve_all(parser, more, [with_element(type, i1), pointer_type.value_type])
        strides = [parser.resolve_operand(value, index) for value in dynamic]
        operands = [parser.resolve_operand(pointer, pointer_type), parser.resolve_operand(base, index), strides, *optional]
        properties = {"static_strides": integers(static)}
        return cls.build(operands=operands, properties=properties, attributes=attributes, result_types=[type])


@irdl_op_definition
class GatherOp(_Indexed, PointerRead):
    """``%v = tile.gather %p[%offsets], %mask, %other : !tile.ptr<f32> -> vector<16xf32>``: offsets are a ``vector<16xi64>``."""

    name = "tile.gather"
    pointer = operand_def(PtrType)
    offsets = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())

    @classmethod
    def of(
        cls,
        pointer: SSAValue,
        offsets: SSAValue,
        type: Attribute,
        mask: SSAValue | None = None,
        other: SSAValue | None = None,
    ) -> GatherOp:
        optional = [[] if value is None else [value] for value in (mask, other)]
        return cls.build(operands=[pointer, offsets, *optional], result_types=[type])

    @local
    def verify_(self) -> None:
        _check_access(self, self.result.type, self.mask, self.other, reads=True)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        self.print_address(printer)
        _print_more(printer, self.mask, self.other)
        self.print_fields(printer)
        printer.print_string(f" : {type_text(self.pointer.type)} -> {type_text(self.result.type)}")

    @classmethod
    def parse(cls, parser: Parser) -> GatherOp:
        pointer, offsets = _parse_place(parser)
        more = _parse_more(parser, 2)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        pointer_type = _pointer_type(parser)
        parser.parse_punctuation("->")
        type = parser.parse_type()
        optional = _resolve_all(parser, more, [with_element(type, i1), pointer_type.value_type])
        place = [parser.resolve_operand(pointer, pointer_type), parser.resolve_operand(offsets, with_element(type, i64))]
        return cls.build(operands=[*place, *optional], attributes=attributes, result_types=[type])


@irdl_op_definition
class StoreOp(_Strided, PointerWrite):
    """``tile.store %v, %p[%base] strides [%s, 1], %mask : vector<8x32xf32>, !tile.ptr<f32>``: what ``tile.load`` reads."""

    name = "tile.store"
    value = operand_def()
    pointer = operand_def(PtrType)
    base = operand_def(IndexType)
    dynamic_strides = var_operand_def(IndexType)
    mask = opt_operand_def()
    static_strides = prop_def(DenseArrayBase.constr(i64))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def of(
        cls,
        value: SSAValue,
        pointer: SSAValue,
        base: SSAValue,
        strides: Sequence[int | SSAValue],
        mask: SSAValue | None = None,
    ) -> StoreOp:
        static, dynamic = split_dynamic_index_list(strides, DYNAMIC_INDEX)
        operands = [value, pointer, base, dynamic, [] if mask is None else [mask]]
        return cls.build(operands=operands, properties={"static_strides": integers(static)})

    @local
    def verify_(self) -> None:
        _check_access(self, self.value.type, self.mask)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        self.print_address(printer)
        _print_more(printer, self.mask)
        self.print_fields(printer)
        printer.print_string(f" : {type_text(self.value.type)}, {type_text(self.pointer.type)}")

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        pointer, base = _parse_place(parser)
        dynamic, static = _parse_strides(parser)
        more = _parse_more(parser, 1)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        parser.parse_punctuation(",")
        pointer_type = _pointer_type(parser)
        index = IndexType()
        strides = [parser.resolve_operand(each, index) for each in dynamic]
        place = [parser.resolve_operand(pointer, pointer_type), parser.resolve_operand(base, index), strides]
        operands = [parser.resolve_operand(value, type), *place, *_resolve_all(parser, more, [with_element(type, i1)])]
        return cls.build(operands=operands, properties={"static_strides": integers(static)}, attributes=attributes)


class _IndexedStore(_Indexed, PointerWrite):
    """``name %v, %p[%offsets], %mask : vector<16xf32>, !tile.ptr<f32>``."""

    value = operand_def()
    pointer = operand_def(PtrType)
    offsets = operand_def()
    mask = opt_operand_def()

    @classmethod
    def of(cls, value: SSAValue, pointer: SSAValue, offsets: SSAValue, mask: SSAValue | None = None):
        return cls.build(operands=[value, pointer, offsets, [] if mask is None else [mask]])

    @local
    def verify_(self) -> None:
        _check_access(self, self.value.type, self.mask)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        self.print_address(printer)
        _print_more(printer, self.mask)
        self.print_fields(printer)
        printer.print_string(f" : {type_text(self.value.type)}, {type_text(self.pointer.type)}")

    @classmethod
    def parse(cls, parser: Parser):
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        pointer, offsets = _parse_place(parser)
        more = _parse_more(parser, 1)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        parser.parse_punctuation(",")
        pointer_type = _pointer_type(parser)
        place = [parser.resolve_operand(pointer, pointer_type), parser.resolve_operand(offsets, with_element(type, i64))]
        operands = [parser.resolve_operand(value, type), *place, *_resolve_all(parser, more, [with_element(type, i1)])]
        return cls.build(operands=operands, attributes=attributes)


@irdl_op_definition
class ScatterOp(_IndexedStore):
    """``tile.scatter %v, %p[%offsets], %mask : vector<16xf32>, !tile.ptr<f32>``: no two lanes may write one element."""

    name = "tile.scatter"
    traits = traits_def(MemoryWriteEffect())


class AtomicOp(_IndexedStore):
    """``name %v, %p[%offsets], %mask : vector<16xf32>, !tile.ptr<f32>``: combines each lane with its element, in any order."""

    KIND: ClassVar[str]
    """How, as ``tile.reduce`` says it."""


@irdl_op_definition
class AtomicAddOp(AtomicOp):
    """``tile.atomic_add %v, %p[%offsets], %mask : vector<16xf32>, !tile.ptr<f32>``: adds to each element, in any order."""

    name = "tile.atomic_add"
    KIND: ClassVar = "add"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        super().verify_()
        if not is_float(self.value.type) and self.value.type == with_element(self.value.type, i1):
            raise VerifyException("tile.atomic_add: booleans are not added")


class _AtomicExtremeOp(AtomicOp):
    def verify_(self) -> None:
        super().verify_()
        if self.value.type not in (with_element(self.value.type, i32), with_element(self.value.type, i64)):
            raise VerifyException(f"{self.name}: i32 or i64 are compared in memory, as signed numbers, not {self.value.type}")


@irdl_op_definition
class AtomicMaxOp(_AtomicExtremeOp):
    """``tile.atomic_max %v, %p[%offsets], %mask : vector<16xi32>, !tile.ptr<i32>``: the larger one, of signed numbers."""

    name = "tile.atomic_max"
    KIND: ClassVar = "max"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class AtomicMinOp(_AtomicExtremeOp):
    """``tile.atomic_min %v, %p[%offsets], %mask : vector<16xi32>, !tile.ptr<i32>``: the smaller one, of signed numbers."""

    name = "tile.atomic_min"
    KIND: ClassVar = "min"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


ATOMICS: Mapping[str, type[AtomicOp]] = MappingProxyType({op.KIND: op for op in (AtomicAddOp, AtomicMaxOp, AtomicMinOp)})
"""What combines in memory, by its kind."""
