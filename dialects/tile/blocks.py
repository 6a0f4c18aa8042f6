"""Ops that compute blocks from numbers and blocks: no memory, no effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, IntegerType, StringAttr, i1, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.values import isa
from fxc.dialects.base.op_rules import local
from fxc.dialects.tile.types import (
    PureOp,
    UnaryOp,
    block_type,
    check_block,
    check_dims,
    check_type,
    choices,
    element_of,
    integers,
    is_float,
    shape_of,
    with_element,
)

CASTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "sitofp": ("integer", "float"),
        "uitofp": ("integer", "float"),
        "fptosi": ("float", "integer"),
        "fptoui": ("float", "integer"),
        "extsi": ("integer", "wider integer"),
        "extui": ("integer", "wider integer"),
        "trunci": ("integer", "narrower integer"),
    }
)
"""The kinds of ``tile.cast``, named like the ops of ``arith`` -> operand and result elements."""

FUNCTIONS: Mapping[str, int] = MappingProxyType(
    {"erfc": 1, "erfinv": 1, "lgamma": 1, "digamma": 1, "fmod": 2, "hypot": 2, "nextafter": 2}
)
"""Float functions that ``math`` lacks -> number of arguments. ``fmod`` is that of C: the result has the sign of x."""


@irdl_op_definition
class IotaOp(PureOp):
    """``%i = tile.iota {dim = 0} : vector<16xi64>``: the index of each lane along a dimension."""

    name = "tile.iota"
    dim = prop_def(IntegerAttr)
    FIELDS: ClassVar = ("dim",)

    @classmethod
    def of(cls, shape: Sequence[int], dim: int) -> IotaOp:
        return cls.create(properties={"dim": IntegerAttr(dim, i64)}, result_types=[block_type(i64, shape)])

    @local
    def verify_(self) -> None:
        check_block("tile.iota: the result", self.result.type)
        check_type("tile.iota: the result", self.result.type, with_element(self.result.type, i64))
        check_dims([self.dim.value.data], len(shape_of(self.result.type)))


@irdl_op_definition
class MaskOp(PureOp):
    """``%m = tile.mask %start, %stop {dim = 0} : vector<16xi1>``: for lane l along the dimension, whether start + l < stop."""

    name = "tile.mask"
    start = operand_def(IndexType)
    stop = operand_def(IndexType)
    dim = prop_def(IntegerAttr)
    FIELDS: ClassVar = ("dim",)

    @classmethod
    def of(cls, start: SSAValue, stop: SSAValue, shape: Sequence[int], dim: int = 0) -> MaskOp:
        properties = {"dim": IntegerAttr(dim, i64)}
        return cls.create(operands=[start, stop], properties=properties, result_types=[block_type(i1, shape)])

    @classmethod
    def all_types(cls, count: int, *shown: Attribute) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        return [IndexType()] * count, shown

    @local
    def verify_(self) -> None:
        check_block("tile.mask: the result", self.result.type)
        check_type("tile.mask: the result", self.result.type, with_element(self.result.type, i1))
        check_dims([self.dim.value.data], len(shape_of(self.result.type)))


def check_elements(op: UnaryOp) -> None:
    """VerifyException where the element types of result and operand differ."""
    check_block(f"{op.name}: the operand", op.value.type)
    check_block(f"{op.name}: the result", op.result.type)
    check_type(f"{op.name}: the result", op.result.type, with_element(op.result.type, element_of(op.value.type)))


@irdl_op_definition
class SplatOp(UnaryOp):
    """``%v = tile.splat %s : f32 to vector<8x32xf32>``: a number in every lane."""

    name = "tile.splat"

    @classmethod
    def of(cls, value: SSAValue, shape: Sequence[int]) -> SplatOp:
        return cls.create(operands=[value], result_types=[block_type(value.type, shape)])

    @local
    def verify_(self) -> None:
        check_elements(self)
        if shape_of(self.value.type) or not shape_of(self.result.type):
            raise VerifyException(f"tile.splat: from a number to a block, not from {self.value.type} to {self.result.type}")


@irdl_op_definition
class ExpandOp(UnaryOp):
    """``%e = tile.expand %v {dim = 0} : vector<32xf32> to vector<8x32xf32>``: repeats a block along a new dimension."""

    name = "tile.expand"
    dim = prop_def(IntegerAttr)
    FIELDS: ClassVar = ("dim",)

    @classmethod
    def of(cls, value: SSAValue, dim: int, size: int) -> ExpandOp:
        shape = shape_of(value.type)
        type = block_type(element_of(value.type), [*shape[:dim], size, *shape[dim:]])
        return cls.create(operands=[value], properties={"dim": IntegerAttr(dim, i64)}, result_types=[type])

    @local
    def verify_(self) -> None:
        check_elements(self)
        old, new, dim = shape_of(self.value.type), shape_of(self.result.type), self.dim.value.data
        check_dims([dim], len(new))
        if not old or old != (*new[:dim], *new[dim + 1 :]):
            raise VerifyException(f"tile.expand: {self.value.type} repeated along dimension {dim} is not {self.result.type}")


@irdl_op_definition
class TransposeOp(UnaryOp):
    """``%t = tile.transpose %v {permutation = [1, 0]} : vector<8x32xf32> to vector<32x8xf32>``: reorders dimensions.

    Dimension i of the result is dimension ``permutation[i]`` of the operand.
    """

    name = "tile.transpose"
    permutation = prop_def(DenseArrayBase.constr(i64))
    FIELDS: ClassVar = ("permutation",)

    @classmethod
    def of(cls, value: SSAValue, permutation: Sequence[int]) -> TransposeOp:
        shape = shape_of(value.type)
        type = block_type(element_of(value.type), [shape[dim] for dim in permutation])
        return cls.create(operands=[value], properties={"permutation": integers(permutation)}, result_types=[type])

    @local
    def verify_(self) -> None:
        check_elements(self)
        old, order = shape_of(self.value.type), list(self.permutation.get_values())
        if sorted(order) != list(range(len(old))) or shape_of(self.result.type) != tuple(old[dim] for dim in order):
            raise VerifyException(f"tile.transpose: {self.value.type} permuted by {order} is not {self.result.type}")


@irdl_op_definition
class CastOp(UnaryOp):
    """``%f = tile.cast "sitofp" %i : vector<16xi64> to vector<16xf32>``: the op of ``arith`` of that name, also on blocks."""

    name = "tile.cast"
    kind = prop_def(StringAttr)

    @classmethod
    def of(cls, kind: str, value: SSAValue, element: Attribute) -> CastOp:
        type = with_element(value.type, element)
        return cls.create(operands=[value], properties={"kind": StringAttr(kind)}, result_types=[type])

    @local
    def verify_(self) -> None:
        old, new, kind = self.value.type, self.result.type, self.kind.data
        check_block("tile.cast: the operand", old)
        check_block("tile.cast: the result", new)
        if kind not in CASTS:
            raise VerifyException(f'tile.cast: there is no "{kind}", but {choices(CASTS)}')
        takes, gives = CASTS[kind]
        fits = is_float(old) == (takes == "float") and is_float(new) == (gives == "float")
        a, b = element_of(old), element_of(new)
        if fits and isa(a, IntegerType) and isa(b, IntegerType):
            fits = a.width.data < b.width.data if gives == "wider integer" else a.width.data > b.width.data
        if not fits or shape_of(old) != shape_of(new) or isinstance(a, IndexType) or isinstance(b, IndexType):
            raise VerifyException(f'tile.cast: "{kind}" is from {takes} to {gives}, not from {old} to {new}')


@irdl_op_definition
class SelectOp(PureOp):
    """``%r = tile.select %c, %a, %b : vector<16xf32>``: in each lane, a where c is true, else b."""

    name = "tile.select"
    condition = operand_def()
    true_value = operand_def()
    false_value = operand_def()

    @classmethod
    def of(cls, condition: SSAValue, true_value: SSAValue, false_value: SSAValue) -> SelectOp:
        return cls.create(operands=[condition, true_value, false_value], result_types=[true_value.type])

    @classmethod
    def all_types(cls, count: int, *shown: Attribute) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        return [with_element(shown[0], i1), *shown, *shown], shown

    @local
    def verify_(self) -> None:
        type = self.result.type
        check_block("tile.select: the result", type)
        check_type("tile.select: the condition", self.condition.type, with_element(type, i1))
        check_type("tile.select: the value where it is true", self.true_value.type, type)
        check_type("tile.select: the value where it is false", self.false_value.type, type)


@irdl_op_definition
class CompareOp(PureOp):
    """``%c = tile.compare "slt" %a, %b : vector<16xi64>``: ``vector<16xi1>``, by a predicate of ``arith.cmpi`` or ``cmpf``."""

    name = "tile.compare"
    kind = prop_def(StringAttr)
    lhs = operand_def()
    rhs = operand_def()

    @classmethod
    def of(cls, kind: str, lhs: SSAValue, rhs: SSAValue) -> CompareOp:
        return cls.create(operands=[lhs, rhs], properties={"kind": StringAttr(kind)}, result_types=[with_element(lhs.type, i1)])

    def shown_types(self) -> Sequence[Attribute]:
        return [self.lhs.type]

    @classmethod
    def all_types(cls, count: int, *shown: Attribute) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        return [shown[0]] * count, [with_element(shown[0], i1)]

    @local
    def verify_(self) -> None:
        type, kind = self.lhs.type, self.kind.data
        check_block("tile.compare: the operand", type)
        check_type("tile.compare: the second operand", self.rhs.type, type)
        check_type("tile.compare: the result", self.result.type, with_element(type, i1))
        kinds = CMPF_COMPARISON_OPERATIONS if is_float(type) else CMPI_COMPARISON_OPERATIONS
        if kind not in kinds:
            raise VerifyException(f'tile.compare: there is no "{kind}" for {type}, but {choices(kinds)}')


@irdl_op_definition
class MathOp(PureOp):
    """``%r = tile.math "fmod" %a, %b : vector<16xf32>``: a float function that the ``math`` dialect lacks."""

    name = "tile.math"
    kind = prop_def(StringAttr)
    values = var_operand_def()

    @classmethod
    def of(cls, kind: str, *values: SSAValue) -> MathOp:
        return cls.create(operands=values, properties={"kind": StringAttr(kind)}, result_types=[values[0].type])

    @local
    def verify_(self) -> None:
        type, kind = self.result.type, self.kind.data
        if kind not in FUNCTIONS:
            raise VerifyException(f'tile.math: there is no "{kind}", but {choices(FUNCTIONS)}')
        if len(self.values) != FUNCTIONS[kind]:
            raise VerifyException(f'tile.math: "{kind}" takes {FUNCTIONS[kind]} arguments, but got {len(self.values)}')
        check_block("tile.math: the result", type)
        if not is_float(type):
            raise VerifyException(f"tile.math: a function of floats, not of {type}")
        for value in self.values:
            check_type("tile.math: the argument", value.type, type)


@irdl_op_definition
class RandomOp(PureOp):
    """``%r = tile.random %seed, %offsets : vector<16xi64> -> vector<16xi32>``: 32 random bits a lane, by Philox 4x32-10.

    The key is the seed (i64, low word first); the bits of a lane are word ``offset % 4`` of the counter ``offset / 4`` (64
    bits, low word first, the upper two words zero). Equal seeds and offsets return equal bits. Offsets are not negative.
    """

    name = "tile.random"
    seed = operand_def(i64)
    offsets = operand_def()
    BETWEEN: ClassVar = ("->",)

    @classmethod
    def of(cls, seed: SSAValue, offsets: SSAValue) -> RandomOp:
        return cls.create(operands=[seed, offsets], result_types=[with_element(offsets.type, i32)])

    def shown_types(self) -> Sequence[Attribute]:
        return [self.offsets.type, self.result.type]

    @classmethod
    def all_types(cls, count: int, *shown: Attribute) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
        return [i64, shown[0]], shown[1:]

    @local
    def verify_(self) -> None:
        check_block("tile.random: the offsets", self.offsets.type)
        check_type("tile.random: the offsets", self.offsets.type, with_element(self.offsets.type, i64))
        check_type("tile.random: the result", self.result.type, with_element(self.offsets.type, i32))
