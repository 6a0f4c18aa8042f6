"""Collectives: operations that all ranks of a process group start, and the wait for their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import I64, FlatSymbolRefAttrConstr, IntegerAttr, StringAttr, SymbolRefAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.types import Dim, dims_of, tensor_of
from fxc.dialects.attributes.values import Tree, int_attr
from fxc.dialects.base.effects import CallEffects, EffectsInterface, OperatorCall
from fxc.dialects.dist.mesh import REDUCTIONS, GroupOp, Integers, lookup
from fxc.dialects.text.syntax import type_text


class _CollectiveSymbols(SymbolUserOpInterface):
    """Verifies the sizes of results, which depend on the number of ranks."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, CollectiveOp)
        if (group := lookup(op, op.group)) is None or len(op.inputs) != len(op.values):
            return
        if not isinstance(group, GroupOp):
            raise VerifyException(f"{op.name}: @{op.group.root_reference.data} is no process group")
        op.verify_sizes(group.size)


class CollectiveOp(IRDLOperation, EffectsInterface, OperatorCall):
    """The start of a collective over the ranks of a group, for each operand."""

    inputs = var_operand_def(TensorType)
    values = var_result_def(TensorType)
    group = prop_def(FlatSymbolRefAttrConstr)
    traits = traits_def(CallEffects(), _CollectiveSymbols())
    COALESCED: ClassVar[bool] = True
    """Whether it takes several operands."""

    @classmethod
    def of(cls, group: str, inputs: Sequence[SSAValue], types: Sequence[Attribute], **more: Attribute) -> CollectiveOp:
        """The collective of ``inputs`` with results of ``types``, and other properties ``more``."""
        return cls.create(operands=inputs, result_types=types, properties={"group": SymbolRefAttr(group), **more})

    def process_group(self) -> GroupOp:
        found = lookup(self, self.group)
        assert isinstance(found, GroupOp), "verified"
        return found

    def _input(self) -> Tree:
        return list(self.inputs) if len(self.inputs) > 1 else self.inputs[0]

    def _suffix(self) -> str:
        return "_coalesced.default" if len(self.inputs) > 1 else ".default"

    def leading(self, size: Dim, ranks: int) -> Dim | None:
        """The first size of a result, for that of the operand; None: there is none."""
        return size

    def verify_sizes(self, ranks: int) -> None:
        """Verify what depends on the number of ranks."""
        for operand, result in zip(self.inputs, self.values, strict=True):
            given, found = dims_of(operand), dims_of(result)
            if not given or not isinstance(given[0], int):
                continue
            leading = self.leading(given[0], ranks)
            if leading is None:
                raise VerifyException(f"{self.name}: {given[0]} elements do not split into {ranks} equal parts")
            if found[0] != leading:
                raise VerifyException(f"{self.name}: with {ranks} ranks the result has size {leading}, not {found[0]}")

    def verify_(self) -> None:
        if not self.inputs or len(self.inputs) != len(self.values) or (len(self.inputs) > 1 and not self.COALESCED):
            raise VerifyException(f"{self.name} has {'operands' if self.COALESCED else 'one operand'}, and a result for each")
        for operand, result in zip(self.inputs, self.values, strict=True):
            alike = dims_of(operand)[1:] == dims_of(result)[1:] and len(dims_of(operand)) == len(dims_of(result))
            if not alike or tensor_of(operand).element_type != tensor_of(result).element_type:
                raise VerifyException(f"{self.name}: {type_text(operand.type)} and {type_text(result.type)} differ")
        for use in (use for result in self.values for use in result.uses):
            if not isinstance(use.operation, WaitOp):
                raise VerifyException(f"{self.name}: {use.operation.name} reads the result before a dist.wait")

    def writes(self) -> list[SSAValue]:
        return []

    def aliases(self) -> Iterator[tuple[int, SSAValue]]:
        return iter(())

    def has_side_effect(self) -> bool:
        return True


class _Reduction(CollectiveOp):
    reduction = prop_def(StringAttr)

    def verify_(self) -> None:
        super().verify_()
        if self.reduction.data not in REDUCTIONS:
            raise VerifyException(f"{self.name}: {self.reduction.data!r} is no reduction; there are {', '.join(REDUCTIONS)}")


_REDUCTION_FORMAT = "$reduction `over` $group ` ` `(` $inputs `)` attr-dict `:` functional-type($inputs, $values)"
_FORMAT = "`over` $group ` ` `(` $inputs `)` attr-dict `:` functional-type($inputs, $values)"


@irdl_op_definition
class AllReduceOp(_Reduction):
    """``%r = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>``: the reduction over all ranks."""

    name = "dist.all_reduce"
    assembly_format = _REDUCTION_FORMAT

    def operator_call(self) -> tuple[str, list[Tree]]:
        operator = f"_c10d_functional.all_reduce{self._suffix()}"
        return operator, [self._input(), self.reduction, self.process_group().process_group]


@irdl_op_definition
class ReduceScatterOp(_Reduction):
    """``%r = dist.reduce_scatter "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<2xf32>``: a part of the reduction.

    Dimension 0 is split into equal parts, one a rank.
    """

    name = "dist.reduce_scatter"
    assembly_format = _REDUCTION_FORMAT

    def leading(self, size: Dim, ranks: int) -> Dim | None:
        return size // ranks if isinstance(size, int) and size % ranks == 0 else None

    def operator_call(self) -> tuple[str, list[Tree]]:
        operator = f"_c10d_functional.reduce_scatter_tensor{self._suffix()}"
        return operator, [
            self._input(),
            self.reduction,
            int_attr(self.process_group().size),
            self.process_group().process_group,
        ]


@irdl_op_definition
class AllGatherOp(CollectiveOp):
    """``%r = dist.all_gather over @dp (%x) : (tensor<2xf32>) -> tensor<4xf32>``: the tensors of all ranks, joined.

    They are joined in dimension 0, in the order of the ranks.
    """

    name = "dist.all_gather"
    assembly_format = _FORMAT

    def leading(self, size: Dim, ranks: int) -> Dim | None:
        return size * ranks if isinstance(size, int) else None

    def operator_call(self) -> tuple[str, list[Tree]]:
        operator = f"_c10d_functional.all_gather_into_tensor{self._suffix()}"
        return operator, [self._input(), int_attr(self.process_group().size), self.process_group().process_group]


@irdl_op_definition
class AllToAllOp(CollectiveOp):
    """``%r = dist.all_to_all [2, 0] to [0, 2] over @sp (%x) : (tensor<2xf32>) -> tensor<2xf32>``.

    The operand is split in dimension 0 into parts of the first sizes, one for each rank; the result joins those of the second
    sizes, one from each.
    """

    name = "dist.all_to_all"
    COALESCED: ClassVar[bool] = False
    input_sizes = prop_def(Integers)
    output_sizes = prop_def(Integers)
    assembly_format = f"$input_sizes `to` $output_sizes {_FORMAT}"

    def verify_sizes(self, ranks: int) -> None:
        for value, parts in ((self.inputs[0], self.input_sizes), (self.values[0], self.output_sizes)):
            if len(parts) != ranks:
                raise VerifyException(f"dist.all_to_all: there are {len(parts)} sizes for {ranks} ranks")
            found = dims_of(value)
            if not found or (isinstance(found[0], int) and found[0] != sum(parts.get_values())):
                raise VerifyException(f"dist.all_to_all: {type_text(value.type)} is not of sizes {list(parts.get_values())}")

    def operator_call(self) -> tuple[str, list[Tree]]:
        outputs, inputs = ([int_attr(part) for part in found.get_values()] for found in (self.output_sizes, self.input_sizes))
        return "_c10d_functional.all_to_all_single.default", [
            self.inputs[0],
            outputs,
            inputs,
            self.process_group().process_group,
        ]


@irdl_op_definition
class BroadcastOp(CollectiveOp):
    """``%r = dist.broadcast 0 over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>``: the operand of rank 0 of the group."""

    name = "dist.broadcast"
    COALESCED: ClassVar[bool] = False
    source = prop_def(IntegerAttr[I64])
    assembly_format = f"$source {_FORMAT}"

    def verify_sizes(self, ranks: int) -> None:
        super().verify_sizes(ranks)
        if not 0 <= self.source.value.data < ranks:
            raise VerifyException(f"dist.broadcast: there is no rank {self.source.value.data} in a group of {ranks}")

    def operator_call(self) -> tuple[str, list[Tree]]:
        source = int_attr(self.source.value.data)
        return "_c10d_functional.broadcast.default", [self.inputs[0], source, self.process_group().process_group]


@irdl_op_definition
class WaitOp(IRDLOperation, EffectsInterface, OperatorCall):
    """``%y = dist.wait %r : tensor<4xf32>``: the result of a collective, when it has ended. A second wait returns at once."""

    name = "dist.wait"
    TYPE: ClassVar = VarConstraint("T", BaseAttr(TensorType))
    input = operand_def(TYPE)
    value = result_def(TYPE)
    traits = traits_def(CallEffects())
    assembly_format = "$input attr-dict `:` type($value)"

    @classmethod
    def of(cls, value: SSAValue) -> WaitOp:
        return cls.create(operands=[value], result_types=[value.type])

    def operator_call(self) -> tuple[str, list[Tree]]:
        return "_c10d_functional.wait_tensor.default", [self.input]

    def writes(self) -> list[SSAValue]:
        return []

    def aliases(self) -> Iterator[tuple[int, SSAValue]]:
        yield 0, self.input

    def has_side_effect(self) -> bool:
        return True
