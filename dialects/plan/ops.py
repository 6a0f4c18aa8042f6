"""The ops of the ``plan`` dialect that allocate, fill and release memory, and synchronize streams of an accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xdsl.dialects.builtin import DenseArrayBase, FlatSymbolRefAttrConstr, IntegerAttr, SymbolRefAttr, TensorType, i32, i64
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    MemoryAllocEffect,
    MemoryFreeEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.discardable import BORROWS
from fxc.dialects.attributes.size_polynomials import names_in
from fxc.dialects.attributes.types import IntType, device, is_tensor
from fxc.dialects.attributes.values import str_attr
from fxc.dialects.base.effects import aliases, may_retain
from fxc.dialects.plan.lifetimes import ArenaCheck, check_releases, reads
from fxc.dialects.plan.types import (
    ALIGNMENT,
    ArenaType,
    EventType,
    MemoryEffects,
    PlanEffects,
    fill_the_same,
    has_known_steps,
    storage_bytes,
)
from fxc.dialects.text.diagnostics import OpVerifyException
from fxc.dialects.text.syntax import parse_type, type_text
from fxc.dialects.tile.kernel import KernelOp, check_arguments, kernel_around
from fxc.dialects.tile.types import print_operands


@irdl_op_definition
class RecordOp(IRDLOperation, PlanEffects):
    """``%e = plan.record {stream = 1 : i64} : !plan.event``: records the current position of stream 1."""

    name = "plan.record"
    stream = prop_def(IntegerAttr.constr(i64))
    event = result_def(EventType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($event)"

    @classmethod
    def of(cls, stream: int) -> RecordOp:
        return cls.create(properties={"stream": IntegerAttr(stream, i64)}, result_types=[EventType()])

    def verify_(self) -> None:
        _check_stream(self.name, self.stream)


@irdl_op_definition
class WaitOp(IRDLOperation, PlanEffects):
    """``plan.wait %e {stream = 0 : i64}``: later work of stream 0 starts after the work that ``%e`` recorded."""

    name = "plan.wait"
    event = operand_def(EventType)
    stream = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$event attr-dict"

    @classmethod
    def of(cls, event: SSAValue, stream: int) -> WaitOp:
        return cls.create(operands=[event], properties={"stream": IntegerAttr(stream, i64)})

    def verify_(self) -> None:
        _check_stream(self.name, self.stream)


def _check_stream(name: str, stream: IntegerAttr) -> None:
    if stream.value.data < 0:
        raise VerifyException(f"{name}: there is no stream {stream.value.data}")


_SEGMENTS = AttrSizedOperandSegments(as_property=True).attribute_name


@irdl_op_definition
class ArenaOp(IRDLOperation, MemoryEffects):
    """``%a = plan.arena : !plan.arena<65536, "cpu">``: one block of memory that buffers share.

    It is aligned to 64 bytes. It lives for one call, so buffers in it cannot be returned.
    """

    name = "plan.arena"
    arena = result_def(ArenaType)
    traits = traits_def(MemoryAllocEffect())
    assembly_format = "attr-dict `:` type($arena)"

    @classmethod
    def of(cls, bytes: int, device: str) -> ArenaOp:
        return cls.create(result_types=[ArenaType.of(bytes, device)])

    def verify_(self) -> None:
        if self.parent is not None:
            _check_buffers(self.arena, self.parent)


def _check_buffers(arena: SSAValue, block: Block) -> None:
    """Raise OpVerifyException where two live buffers of ``block`` overlap in ``arena``, or one is returned."""
    check = ArenaCheck(released)
    for op in block.ops:
        if isinstance(op, AllocOp) and op.arena is arena:
            check.place(op, op.buffer, op.start(), op.start() + op.needed())
        else:
            check.step(op)


@irdl_op_definition
class AllocOp(IRDLOperation, MemoryEffects):
    """``%b = plan.alloc : tensor<64x128xf32>`` or ``plan.alloc %a[4096] : tensor<64x128xf32>``: memory for a tensor.

    The memory is not initialized and has the sizes and strides of the type. The first form allocates a separate tensor; its
    operands are a number for each symbol in the type: ``plan.alloc(%n) : tensor<?x128xf32, ...>`` with ``%n :
    !torch.int<"s0">``. The second form is the bytes of the arena from 4096 on, a multiple of 64. It may also be an arena, for a
    function that is called: ``plan.alloc %a[4096] : !plan.arena<65536, "cpu">``.
    """

    name = "plan.alloc"
    arena = opt_operand_def(ArenaType)
    numbers = var_operand_def(IntType)
    offset = opt_prop_def(IntegerAttr.constr(i64))
    buffer = result_def(BaseAttr(TensorType) | BaseAttr(ArenaType))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryAllocEffect())

    @classmethod
    def of(cls, type: Attribute, numbers: Sequence[SSAValue] = ()) -> AllocOp:
        """A separate tensor; ``numbers`` includes the values of the symbols in ``type``."""
        known = {number.type.expression.data: number for number in numbers if isinstance(number.type, IntType)}
        given = [known[size] for size in _symbols(type) if size in known]
        return cls.create(operands=given, result_types=[type], properties={_SEGMENTS: _segments(0, len(given))})

    @classmethod
    def at(cls, arena: SSAValue, offset: int, type: Attribute) -> AllocOp:
        """The bytes of ``arena`` from ``offset`` on."""
        properties = {"offset": IntegerAttr(offset, i64), _SEGMENTS: _segments(1, 0)}
        return cls.create(operands=[arena], result_types=[type], properties=properties)

    def start(self) -> int:
        """The first byte in the arena; 0 for a separate tensor."""
        return self.offset.value.data if self.offset is not None else 0

    def needed(self) -> int:
        """The required number of bytes. VerifyException where the type does not determine it."""
        found = storage_bytes(self.buffer.type)
        if found is None:
            raise VerifyException(f"plan.alloc: memory has static sizes and strides, unlike {self.buffer.type}")
        return found

    def verify_(self) -> None:
        arena = self.arena
        if (arena is None) != (self.offset is None):
            raise VerifyException("plan.alloc: an arena and the offset in it come together")
        if numbers := self.numbers:
            self._verify_numbers(numbers)
            return
        needed = self.needed()
        if arena is None:
            if isinstance(self.buffer.type, ArenaType):
                raise VerifyException("plan.alloc: an arena is allocated by plan.arena")
            return
        offset, around = self.start(), arena.type
        assert isinstance(around, ArenaType)
        if arena.owner is not self.parent and not (isinstance(arena.owner, ArenaOp) and arena.owner.parent is self.parent):
            raise VerifyException("plan.alloc: the arena is an argument, or made by a plan.arena, of the same block")
        if offset < 0 or offset % ALIGNMENT:
            raise VerifyException(f"plan.alloc: the offset {offset} is no multiple of {ALIGNMENT}")
        if offset + needed > around.bytes.data:
            end = offset + needed
            raise VerifyException(f"plan.alloc: bytes {offset} to {end} are outside of an arena of {around.bytes.data}")
        if self.device != around.device.data:
            raise VerifyException(f"plan.alloc: the arena is on {around.device.data}, {self.buffer.type} is not")
        if isinstance(arena.owner, Block) and self is next(
            (op for op in arena.owner.ops if isinstance(op, AllocOp) and op.arena is arena), None
        ):
            _check_buffers(arena, arena.owner)

    @property
    def device(self) -> str:
        """The device of the memory."""
        type = self.buffer.type
        return type.device.data if isinstance(type, ArenaType) else device(type)

    def _verify_numbers(self, numbers: Sequence[SSAValue]) -> None:
        """Raise VerifyException unless ``numbers`` are the values of the symbols in the type, one for each."""
        given = [number.type.expression.data for number in numbers if isinstance(number.type, IntType)]
        if (
            given != _symbols(self.buffer.type)
            or "" in given
            or self.arena is not None
            or not is_tensor(self.buffer.type)
            or not has_known_steps(self.buffer.type)
        ):
            raise VerifyException(f"plan.alloc: {given} are not the symbols of {self.buffer.type}, a tensor outside of arenas")

    def print(self, printer: Printer) -> None:
        if self.numbers:
            printer.print_string("(")
            print_operands(printer, self.numbers)
            printer.print_string(")")
        if self.arena is not None:
            printer.print_string(" ")
            printer.print_ssa_value(self.arena)
            printer.print_string(f"[{self.start()}]")
        printer.print_op_attributes(self.attributes)
        printer.print_string(f" : {type_text(self.buffer.type)}")

    @classmethod
    def parse(cls, parser: Parser) -> AllocOp:
        given = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand) or []
        name, offset = parser.parse_optional_unresolved_operand(), 0
        if name is not None:
            with parser.in_square_brackets():
                offset = parser.parse_integer(allow_boolean=False)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parse_type(parser)
        wanted = _symbols(type)
        if given and len(given) != len(wanted):
            parser.raise_error(f"expected a number for each of {wanted}")
        numbers = [parser.resolve_operand(each, IntType(str_attr(size))) for each, size in zip(given, wanted, strict=False)]
        op = cls.of(type, numbers) if name is None else cls.at(_defined(parser, name), offset, type)
        op.attributes |= attributes
        return op


def _defined(parser: Parser, name: UnresolvedOperand) -> SSAValue:
    """The value of this name, of any type, which must be defined above."""
    values = parser.ssa_values.get(name.operand_name, ())
    if name.index >= len(values):
        text = f"expected an arena that is made above, found %{name.operand_name}"
        parser.raise_error(text, name.span.start, name.span.end)
    return parser.resolve_operand(name, values[name.index].type)


@cache
def _segments(arenas: int, numbers: int) -> Attribute:
    """The operand segment sizes of a ``plan.alloc``."""
    return DenseArrayBase.from_list(i32, [arenas, numbers])


def _symbols(type: Attribute) -> list[str]:
    """The distinct symbols in a type."""
    return names_in(type) if is_tensor(type) else []


@irdl_op_definition
class ViewOp(IRDLOperation, PlanEffects):
    """``%v = plan.view %b : tensor<64x128xf32> to tensor<8x8x128xf32>``: the bytes of ``%b`` as a tensor of another type.

    Both types are dense, with an equal number of elements of one dtype; their orders of dimensions may differ. A view of a
    buffer in an arena costs nothing at run time.
    """

    name = "plan.view"
    source = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    @classmethod
    def of(cls, source: SSAValue, type: Attribute) -> ViewOp:
        return cls.build(operands=[source], result_types=[type])

    def is_view(self) -> bool:
        return True

    def verify_(self) -> None:
        if not fill_the_same(self.source.type, self.result.type):
            raise VerifyException(f"plan.view: {self.source.type} and {self.result.type} do not fill the same bytes")


@irdl_op_definition
class LaunchOp(IRDLOperation, MemoryEffects):
    """``plan.launch @k(%x, %n) outs(%b) : (tensor<4xf32>, !torch.int) outs(tensor<4xf32>)``: run a kernel on buffers.

    Operands: a tensor for each pointer that is read, then a number for each scalar; ``outs``: a tensor for each pointer that is
    written, initialized before the launch where the kernel has ``tile.init``. Each has exactly the sizes and strides of its
    type. A tensor that is read may also be in ``outs``, if both pointers have ``tile.in_place`` in the kernel.
    """

    name = "plan.launch"
    callee = prop_def(FlatSymbolRefAttrConstr)
    inputs = var_operand_def()
    outs = var_operand_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$callee `(` $inputs `)` `outs` `(` $outs `)` attr-dict `:` `(` type($inputs) `)` `outs` `(` type($outs) `)`"
    )

    @classmethod
    def of(cls, name: str, inputs: Sequence[SSAValue], outs: Sequence[SSAValue]) -> LaunchOp:
        return cls.build(operands=[inputs, outs], properties={"callee": SymbolRefAttr(name)})

    def kernel(self) -> KernelOp | None:
        """The kernel in the enclosing symbol table; None where there is none."""
        return kernel_around(self, self.callee)

    def writes(self) -> list[SSAValue]:
        return list(self.outs)

    def verify_(self) -> None:
        kernel = self.kernel()
        if kernel is None:
            if self.parent_op() is None:
                return
            raise VerifyException(f"plan.launch: @{self.callee.root_reference.data} is not a tile.kernel")
        check_arguments(self.name, kernel, self.inputs, self.outs)
        if len(set(self.outs)) != len(self.outs):
            raise VerifyException("plan.launch: a buffer is in outs twice")
        for argument, value in zip(kernel.outputs(), self.outs, strict=True):
            for other, read in zip(kernel.inputs(), self.inputs, strict=False):
                if read is value and not all(IN_PLACE in kernel.argument_attributes(each) for each in (argument, other)):
                    text = f"argument {argument.index} writes over argument {other.index}"
                    raise VerifyException(f"plan.launch: {text}, and not both have {IN_PLACE}")


IN_PLACE = "tile.in_place"
"""The attribute of two pointers of a kernel, one read and one written, that may be equal."""


BOXED = "plan.boxed"
"""The attribute of a function that takes its arguments in one list and empties it, so that it may release them."""


def is_boxed(block: Block) -> bool:
    """Whether ``block`` is the body of a function that may release its arguments."""
    around = block.parent_op()
    return around is not None and BOXED in around.attributes


@irdl_op_definition
class FreeOp(IRDLOperation, PlanEffects):
    """``plan.free %b, %c : tensor<4xf32>, tensor<4xf32>``: the last use of these names.

    The bytes of a buffer in an arena may be reused after all its names are released, including those of views. Memory of
    other tensors is released by PyTorch's reference counts: a view holds a reference.
    """

    name = "plan.free"
    values = var_operand_def()
    traits = traits_def(MemoryFreeEffect())
    assembly_format = "$values attr-dict `:` type($values)"

    @classmethod
    def of(cls, values: Sequence[SSAValue]) -> FreeOp:
        return cls.create(operands=values)

    def writes(self) -> list[SSAValue]:
        """Released memory may be overwritten, so a release counts as a write."""
        return list(self.values)

    def verify_(self) -> None:
        values = self.operands
        if len(set(values)) != len(values):
            raise VerifyException("plan.free: a name is released twice")
        if any(isinstance(value.owner, Block) and not is_boxed(value.owner) for value in values):
            raise VerifyException("plan.free: an argument is the caller's")
        following = self.next_op
        while following is not None and not isinstance(following, FreeOp):
            following = following.next_op
        if following is None and self.parent is not None:  # only the last plan.free checks the block
            check_releases(self.parent, released)
            check_calls(self.parent)


def released(op: Operation) -> Sequence[SSAValue]:
    """The names that ``op`` releases."""
    return op.operands if isinstance(op, FreeOp) else ()


@irdl_op_definition
class BringOp(IRDLOperation, PlanEffects):
    """``%x1 = plan.bring %x : tensor<4xf32> to tensor<4xf32, #torch.meta<device = "cuda:0">>``: ``%x`` on another device.

    A copy, or ``%x`` itself if it is on that device already.
    """

    name = "plan.bring"
    source = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"

    @classmethod
    def of(cls, source: SSAValue, type: Attribute) -> BringOp:
        return cls.build(operands=[source], result_types=[type])


# verification of functions that are called with the mark ``plan.borrows``


def borrows(block: Block) -> bool:
    """Whether ``block`` neither returns memory of its arguments or views of it, nor passes it to an op that may retain it."""
    names = set[SSAValue](block.args)
    for op in block.ops:
        if (op.has_trait(IsTerminator) or may_retain(op)) and not names.isdisjoint(reads(op)):
            return False
        names.update(op.results[index] for index, operand in aliases(op) if operand in names)
    return True


def check_calls(block: Block) -> None:
    """Raise OpVerifyException for a call marked ``plan.borrows`` whose callee retains or returns memory of arguments."""
    known = dict[str, bool]()
    for op in block.ops:
        if isinstance(op, CallOp) and BORROWS in op.attributes:
            name = op.callee.string_value()
            if name not in known:
                function = SymbolTable.lookup_symbol(op, op.callee)
                known[name] = isinstance(function, FuncOp) and (function.is_declaration or borrows(function.body.block))
            if not known[name]:
                raise OpVerifyException(f"{op.name}: @{name} retains or returns an argument, contrary to {BORROWS}", op)
