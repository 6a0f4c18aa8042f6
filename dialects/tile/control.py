"""Control flow: a loop with a separate trip count for each lane, code of the last program only, and assertions on data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from xdsl.dialects.builtin import StringAttr, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
    RecursiveMemoryEffect,
    is_side_effect_free,
)
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.base.op_rules import local
from fxc.dialects.text.syntax import parse_isolated_region
from fxc.dialects.tile.kernel import KernelOp, ProgramIdOp
from fxc.dialects.tile.types import (
    PtrType,
    TileEffects,
    TileOp,
    check_block,
    check_type,
    parse_bindings,
    parse_types,
    print_bindings,
    print_types,
    shape_of,
    with_element,
)


def _print_bound(printer: Printer, op: IterateOp | LastProgramOp, values: Sequence[SSAValue]) -> None:
    """Print ``(%x = %value) : types { ... }``, where the body has the arguments ``%x``."""
    print_bindings(printer, op.body.block.args, values)
    op.print_fields(printer)
    printer.print_string(" : ")
    print_types(printer, op.operand_types)
    printer.print_string(" ")
    printer.print_region(op.body, print_entry_block_args=False, print_empty_block=False)


def _parse_bound(
    cls: type[TileOp], parser: Parser, *first: UnresolvedOperand
) -> tuple[Sequence[SSAValue], Sequence[Parser.Argument], dict[str, Attribute]]:
    """The operands, the arguments of the body, and the attributes. ``first``: operands before those that are bound."""
    pairs = parse_bindings(parser)
    _, attributes = cls.parse_fields(parser)
    parser.parse_punctuation(":")
    position = parser.pos
    types = parse_types(parser)
    operands = parser.resolve_operands([*first, *(value for _, value in pairs)], types, position)
    arguments = [argument.resolve(type) for (argument, _), type in zip(pairs, types[len(first) :], strict=True)]
    return operands, arguments, attributes


@irdl_op_definition
class IterateOp(TileOp):
    """``%r = tile.iterate %going (%x = %start) : vector<16xi1>, vector<16xf32> { ... tile.next %more, %new : ... }``

    A lane runs the body while it is ``going``. After each step its carried values become the operands of ``tile.next``, and
    ``more`` becomes ``going``. The carried values of a lane that has stopped do not change. The results are the final carried
    values. The body runs while any lane is going. It has no effects, and may use values from outside.
    """

    name = "tile.iterate"
    going = operand_def()
    carried = var_operand_def()
    outputs = var_result_def()
    body = region_def("single_block")
    traits = traits_def(Pure())

    @classmethod
    def of(cls, going: SSAValue, carried: Sequence[SSAValue], body: Block) -> IterateOp:
        types = [value.type for value in carried]
        return cls.create(operands=[going, *carried], result_types=types, regions=[Region(body)])

    def captured(self) -> list[SSAValue]:
        """The distinct outside values that the body uses."""
        inside = set[SSAValue](self.body.block.args)
        found = dict[SSAValue, None]()
        for op in self.body.walk():
            found |= dict.fromkeys(value for value in op.operands if value not in inside)
            inside |= {*op.results, *_arguments(op)}
        return list(found)

    def verify_(self) -> None:
        type, block = self.going.type, self.body.block
        check_type("tile.iterate: the condition of the lanes", type, with_element(type, i1))
        if not self.carried:
            raise VerifyException("tile.iterate: it carries nothing")
        for value in self.carried:
            check_block("tile.iterate: a carried value", value.type)
            if shape_of(value.type) != shape_of(type):
                raise VerifyException(f"tile.iterate: {value.type} is carried where lanes are {type}")
        types = [value.type for value in self.carried]
        if list(self.result_types) != types or list(block.arg_types) != types:
            raise VerifyException("tile.iterate: results and arguments of the body have the types of the carried values")
        if not isinstance(last := block.last_op, NextOp) or list(last.operand_types) != [type, *types]:
            raise VerifyException("tile.iterate: the body ends in tile.next of the condition and the carried values")
        for op in self.body.walk():
            if not is_side_effect_free(op):
                raise VerifyException(f"tile.iterate: the body has an effect, {op.name}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.going)
        printer.print_string(" ")
        _print_bound(printer, self, self.carried)

    @classmethod
    def parse(cls, parser: Parser) -> IterateOp:
        going = parser.parse_unresolved_operand()
        operands, arguments, attributes = _parse_bound(cls, parser, going)
        types = [argument.type for argument in arguments]
        return cls.create(
            operands=operands, attributes=attributes, result_types=types, regions=[parser.parse_region(arguments)]
        )


@irdl_op_definition
class NextOp(IRDLOperation, TileEffects):
    """``tile.next %more, %new : vector<16xi1>, vector<16xf32>``: ends a step of ``tile.iterate``."""

    name = "tile.next"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), HasParent(IterateOp), Pure())
    assembly_format = "$values attr-dict `:` type($values)"

    @classmethod
    def of(cls, more: SSAValue, new: Sequence[SSAValue]) -> NextOp:
        return cls.create(operands=[more, *new])


def _arguments(op: Operation) -> Iterator[SSAValue]:
    return (argument for region in op.regions for block in region.blocks for argument in block.args)


def structure(op: IterateOp, key: Sequence[object]) -> tuple[object, ...]:
    """A key that is equal for equal loops; ``key`` has an identity for each operand, then for each captured value."""
    numbers: dict[SSAValue, object] = dict(zip((*op.operands, *op.captured()), key, strict=True))
    found = list[object](key[: len(op.operands)])
    _describe(op.body.block, numbers, found)
    return tuple(found)


def _describe(block: Block, numbers: dict[SSAValue, object], found: list[object]) -> None:
    for argument in block.args:
        numbers[argument] = "inside", len(numbers)
    for op in block.ops:
        types: tuple[Attribute, ...] = tuple(op.result_types)
        found.append((op.name, tuple(op.properties.items()), types, tuple(numbers[value] for value in op.operands)))
        for result in op.results:
            numbers[result] = "inside", len(numbers)
        for region in op.regions:
            _describe(region.block, numbers, found)


@irdl_op_definition
class LastProgramOp(TileOp):
    """``tile.last_program (%p = %parts, %y = %total) : !tile.ptr<f32>, !tile.ptr<f32> { ... }``: the end of a kernel.

    The last program that reaches the op runs the body, after all programs have reached it, so it can load their stores.
    Operands are distinct pointers of the kernel; the body uses no other values from outside. The op is directly before
    ``tile.return``, in a kernel with a static, nonempty grid.
    """

    name = "tile.last_program"
    pointers = var_operand_def(PtrType)
    body = region_def("single_block")
    traits = traits_def(HasParent(KernelOp), IsolatedFromAbove(), NoTerminator(), RecursiveMemoryEffect())

    @classmethod
    def of(cls, pointers: Sequence[SSAValue], body: Block) -> LastProgramOp:
        """``body`` has an argument for each of ``pointers``."""
        return cls.create(operands=pointers, regions=[Region(body)])

    def verify_(self) -> None:
        kernel = self.parent_op()
        if list(self.operand_types) != list(self.body.block.arg_types):
            raise VerifyException("tile.last_program: the arguments of the body have the types of the pointers")
        if len(set(self.pointers)) < len(self.pointers) or any(value.owner is not self.parent for value in self.pointers):
            raise VerifyException("tile.last_program: it takes pointers of the kernel, each once")
        if any(isinstance(op, ProgramIdOp) for op in self.body.walk()):
            raise VerifyException("tile.last_program: there is no tile.program_id in it, as any program may be the last")
        if isinstance(kernel, KernelOp) and (kernel.is_dynamic or not prod(kernel.programs)):
            raise VerifyException("tile.last_program: the grid of the kernel must be known, and have a program")
        if self.parent is not None and self.next_op is not self.parent.last_op:
            raise VerifyException("tile.last_program: it must be directly before tile.return")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_bound(printer, self, self.pointers)

    @classmethod
    def parse(cls, parser: Parser) -> LastProgramOp:
        operands, arguments, attributes = _parse_bound(cls, parser)
        return cls.create(operands=operands, attributes=attributes, regions=[parse_isolated_region(parser, arguments)])


@irdl_op_definition
class AssertOp(IRDLOperation, TileEffects):
    """``tile.assert %ok, "index out of range" : vector<16xi1>``: the launch is an error where a lane is false.

    The kernel continues, so it must handle such a lane safely. On a CPU the launch raises fxc.errors.BoundsError after the
    kernel has finished; on a GPU it is a device-side assertion, as in PyTorch's kernels.
    """

    name = "tile.assert"
    condition = operand_def()
    message = prop_def(StringAttr)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$condition `,` $message attr-dict `:` type($condition)"

    @classmethod
    def of(cls, condition: SSAValue, message: str) -> AssertOp:
        return cls.create(operands=[condition], properties={"message": StringAttr(message)})

    @local
    def verify_(self) -> None:
        check_type("tile.assert: the condition", self.condition.type, with_element(self.condition.type, i1))
