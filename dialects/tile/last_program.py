"""Code that only the last program of a kernel runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import irdl_op_definition, region_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsolatedFromAbove, NoTerminator, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.text.syntax import parse_isolated_region
from fxc.dialects.tile.kernel import KernelOp, ProgramIdOp
from fxc.dialects.tile.types import PtrType, TileOp, parse_bindings, parse_types, print_bindings, print_types


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
        print_bindings(printer, self.body.block.args, self.pointers)
        self.print_fields(printer)
        printer.print_string(" : ")
        print_types(printer, self.operand_types)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> LastProgramOp:
        pairs = parse_bindings(parser)
        _, attributes = cls.parse_fields(parser)
        parser.parse_punctuation(":")
        position = parser.pos
        types = parse_types(parser)
        operands = parser.resolve_operands([pointer for _, pointer in pairs], types, position)
        arguments = [argument.resolve(type) for (argument, _), type in zip(pairs, types, strict=True)]
        body = parse_isolated_region(parser, arguments)
        return cls.create(operands=operands, attributes=attributes, regions=[body])
