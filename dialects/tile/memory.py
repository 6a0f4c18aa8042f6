"""Loads and stores: a block of elements at strides from a base, or at given indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IndexType, IntegerType, StringAttr, TensorType, i1, i32, i64
from xdsl.dialects.utils import (
    get_dynamic_index_list,
    parse_dynamic_index_list_without_types,
    print_dynamic_index_list,
    split_dynamic_index_list,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
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
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.base.op_rules import local
from fxc.dialects.text.syntax import type_text
from fxc.dialects.tile.types import (
    PointerRead,
    PointerWrite,
    PtrType,
    TileEffects,
    TileOp,
    check_block,
    check_type,
    integers,
    is_float,
    shape_of,
    with_element,
)


class _Access(TileOp):
    """A load, ``name %p[...], %mask, %other : !tile.ptr<f32> -> vector<16xf32>``, or a store, ``name %v, %p[...], %mask :
    vector<16xf32>, !tile.ptr<f32>``."""

    if TYPE_CHECKING:
        pointer: SSAValue
        mask: SSAValue | None

    def check_address(self, block: Attribute) -> None:
        """VerifyException for an address that does not fit ``block``."""

    @local
    def verify_(self) -> None:
        assert isinstance(self.pointer.type, PtrType)
        block, element, other = self.block.type, self.pointer.type.value_type, self.other_value
        check_block(self.name, block)
        check_type(self.name, block, with_element(block, element))
        self.check_address(block)
        if self.mask is not None:
            check_type(f"{self.name}: the mask", self.mask.type, with_element(block, i1))
        if other is not None:
            check_type(f"{self.name}: the value of masked lanes", other.type, element)
        if self.results and (self.mask is None) != (other is None):
            raise VerifyException(f"{self.name}: a mask and the value of masked lanes come together")

    @property
    def other_value(self) -> SSAValue | None:
        """The value of masked lanes."""
        return getattr(self, "other", None)

    @property
    def block(self) -> SSAValue:
        """The block that is loaded or stored."""
        return self.results[0] if self.results else self.operands[0]

    @property
    def place(self) -> SSAValue:
        """The operand in the brackets: base or offsets."""
        return self.operands[1 if self.results else 2]

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        if not self.results:
            printer.print_ssa_value(self.block)
            printer.print_string(", ")
        printer.print_ssa_value(self.pointer)
        printer.print_string("[")
        printer.print_ssa_value(self.place)
        printer.print_string("]")
        if isinstance(self, _Strided) and len(self.static_strides):
            printer.print_string(" strides ")
            print_dynamic_index_list(printer, DYNAMIC_INDEX, self.dynamic_strides, self.static_strides.get_values())
        for value in (self.mask, self.other_value):
            if value is not None:
                printer.print_string(", ")
                printer.print_ssa_value(value)
        self.print_fields(printer)
        block, pointer = type_text(self.block.type), type_text(self.pointer.type)
        printer.print_string(f" : {pointer} -> {block}" if self.results else f" : {block}, {pointer}")

    @classmethod
    def parse(cls, parser: Parser):
        stores, value = issubclass(cls, PointerWrite), list[UnresolvedOperand]()
        if stores:
            value.append(parser.parse_unresolved_operand())
            parser.parse_punctuation(",")
        pointer = parser.parse_unresolved_operand()
        with parser.in_square_brackets():
            place = parser.parse_unresolved_operand()
        dynamic, static = list[UnresolvedOperand](), list[int]()
        if issubclass(cls, _Strided) and parser.parse_optional_keyword("strides") is not None:
            dynamic, static = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)
        more = _parse_more(parser, 1 if stores else 2)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        block = parser.parse_type() if stores else None
        parser.parse_punctuation(",") if stores else None
        pointer_type = _pointer_type(parser)
        if block is None:
            parser.parse_punctuation("->")
            block = parser.parse_type()
        index, strided = IndexType(), issubclass(cls, _Strided)
        optional = [[parser.resolve_operand(*pair)] for pair in zip(more, [with_element(block, i1), pointer_type.value_type])]
        operands = [
            *(parser.resolve_operand(each, block) for each in value),
            parser.resolve_operand(pointer, pointer_type),
            parser.resolve_operand(place, index if strided else with_element(block, i64)),
            *([[parser.resolve_operand(each, index) for each in dynamic]] if strided else []),
            *optional,
            *[[]] * ((1 if stores else 2) - len(optional)),
        ]
        properties = {"static_strides": integers(static)} if strided else {}
        return cls.build(
            operands=operands, properties=properties, attributes=attributes, result_types=[] if stores else [block]
        )


class _Strided(_Access):
    """``%p[%base] strides [%s, 1]``: lane (i, j) is element ``base + i * s + j``."""

    if TYPE_CHECKING:
        base: SSAValue
        dynamic_strides: Sequence[SSAValue]
        static_strides: DenseArrayBase[IntegerType]

    def strides(self) -> list[int | SSAValue]:
        """The distance in elements between neighbouring lanes along each dimension."""
        return list(get_dynamic_index_list(self.static_strides.get_values(), self.dynamic_strides, DYNAMIC_INDEX))

    def check_address(self, block: Attribute) -> None:
        static = list(self.static_strides.get_values())
        if static.count(DYNAMIC_INDEX) != len(self.dynamic_strides):
            raise VerifyException(f"{self.name}: the number of dynamic strides and of their operands differ")
        if len(static) != len(shape_of(block)):
            raise VerifyException(f"{self.name}: {len(static)} strides for a block of rank {len(shape_of(block))}")


class _Indexed(_Access):
    """``%p[%offsets]``: each lane accesses the element at its offset."""

    if TYPE_CHECKING:
        offsets: SSAValue

    def check_address(self, block: Attribute) -> None:
        check_type(f"{self.name}: offsets", self.offsets.type, with_element(block, i64))


def _parse_more(parser: Parser, limit: int) -> list[UnresolvedOperand]:
    """``, %mask, %other``: at most ``limit`` operands."""
    found = list[UnresolvedOperand]()
    while parser.parse_optional_punctuation(",") is not None:
        if len(found) == limit:
            parser.raise_error(f"expected at most {limit} operands behind the address")
        found.append(parser.parse_unresolved_operand())
    return found


def _pointer_type(parser: Parser) -> PtrType:
    type = parser.parse_type()
    if not isinstance(type, PtrType):
        parser.raise_error(f"expected a !tile.ptr, not {type}")
    return type


@irdl_op_definition
class LoadOp(_Strided, PointerRead):
    """``%v = tile.load %p[%base] strides [%s, 1], %mask, %other : !tile.ptr<f32> -> vector<8x32xf32>``.

    Lane (i, j) is element ``base + i * s + j``, or ``other`` where the mask is false; masked lanes read no memory. Without
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


@irdl_op_definition
class StoreOp(_Strided, PointerWrite):
    """``tile.store %v, %p[%base] strides [%s, 1], %mask : vector<8x32xf32>, !tile.ptr<f32>``: the inverse of ``tile.load``."""

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


class _IndexedStore(_Indexed, PointerWrite):
    """``name %v, %p[%offsets], %mask : vector<16xf32>, !tile.ptr<f32>``."""

    value = operand_def()
    pointer = operand_def(PtrType)
    offsets = operand_def()
    mask = opt_operand_def()

    @classmethod
    def of(cls, value: SSAValue, pointer: SSAValue, offsets: SSAValue, mask: SSAValue | None = None):
        return cls.build(operands=[value, pointer, offsets, [] if mask is None else [mask]])


@irdl_op_definition
class ScatterOp(_IndexedStore):
    """``tile.scatter %v, %p[%offsets], %mask : vector<16xf32>, !tile.ptr<f32>``: no two lanes may write one element."""

    name = "tile.scatter"
    traits = traits_def(MemoryWriteEffect())


class AtomicOp(_IndexedStore):
    """``name %v, %p[%offsets], %mask : vector<16xf32>, !tile.ptr<f32>``: combines each lane with its element, in any order."""

    KIND: ClassVar[str]
    """The kind, as for ``tile.reduce``."""


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
    """``tile.atomic_max %v, %p[%offsets], %mask : vector<16xi32>, !tile.ptr<i32>``: the maximum of signed numbers."""

    name = "tile.atomic_max"
    KIND: ClassVar = "max"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class AtomicMinOp(_AtomicExtremeOp):
    """``tile.atomic_min %v, %p[%offsets], %mask : vector<16xi32>, !tile.ptr<i32>``: the minimum of signed numbers."""

    name = "tile.atomic_min"
    KIND: ClassVar = "min"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


ATOMICS: Mapping[str, type[AtomicOp]] = MappingProxyType({op.KIND: op for op in (AtomicAddOp, AtomicMaxOp, AtomicMinOp)})
"""Atomic ops by kind."""


@irdl_op_definition
class AccumulateOp(IRDLOperation, TileEffects):
    """``%r = tile.accumulate "add" %updates at %places into %start : tensor<8x4xf32>, tensor<8x4xi64>, tensor<5x4xf32>``.

    ``start`` with each element combined, in any order, with all updates for it. ``places`` has the row-major index of the
    element for each of ``updates``; an update with a negative index is skipped, an index out of range is an error. The kinds
    are those of ``KINDS``.
    """

    name = "tile.accumulate"
    kind = prop_def(StringAttr)
    updates = operand_def(TensorType)
    places = operand_def(TensorType)
    start = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = (
        "$kind $updates `at` $places `into` $start attr-dict `:` type($updates) `,` type($places) `,` type($start)"
        " `->` type($result)"
    )
    KINDS: ClassVar = ("add", "max", "min")

    @classmethod
    def of(cls, kind: str, updates: SSAValue, places: SSAValue, start: SSAValue) -> AccumulateOp:
        return cls.create(operands=[updates, places, start], properties={"kind": StringAttr(kind)}, result_types=[start.type])

    @local
    def verify_(self) -> None:
        updates, places, start = (value.type for value in self.operands)
        assert is_tensor(updates) and is_tensor(places) and is_tensor(start)
        if self.kind.data not in self.KINDS:
            raise VerifyException(f'tile.accumulate: the kind must be one of {", ".join(self.KINDS)}, not "{self.kind.data}"')
        if places.element_type != i64 or places.get_shape() != updates.get_shape():
            raise VerifyException("tile.accumulate: each update has a position, an i64")
        element = start.element_type
        if updates.element_type != element or self.result.type != start:
            raise VerifyException(
                "tile.accumulate: updates, the start and the result have one element type, the latter one type"
            )
        if element not in (i32, i64) and (self.kind.data != "add" or isinstance(element, IntegerType)):
            raise VerifyException(f'tile.accumulate: no memory combines {element} by "{self.kind.data}"; combine in i32 or i64')
