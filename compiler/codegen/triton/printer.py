"""Print ``tile.kernel`` as Triton: one Python file per kernel, a line per op, with the names of the IR.

Block shapes, strides and static sizes are numbers in the text; dynamic sizes are arguments. ``index`` has 32 bits if no value
needs more, else 64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from fxc.bridge.location import node_name
from fxc.codegen.triton.elementwise import cast, expression
from fxc.codegen.triton.kernel_source import KernelArgument, KernelSource, grid_of
from fxc.codegen.triton.memory import STORES, write_memory
from fxc.codegen.triton.reductions import RULES as COMBINATIONS
from fxc.codegen.triton.reductions import unread
from fxc.codegen.triton.spelling import RESERVED, signature_type
from fxc.codegen.triton.writer import HELPERS, KernelWriter, refusal
from fxc.dialects.attributes.values import isa
from fxc.dialects.base.names import python_name
from fxc.dialects.text.diagnostics import user_line
from fxc.dialects.tile import (
    ExpandOp,
    IterateOp,
    KernelOp,
    LastProgramOp,
    NextOp,
    ProgramIdOp,
    PtrType,
    ReturnOp,
    SplatOp,
    TransposeOp,
)
from fxc.dialects.tile.kernel import DIVISIBLE, SOURCE
from fxc.dialects.tile.types import shape_of
from fxc.errors import KernelError

MAX_LANES = 1 << 20
"""The maximum number of lanes of a block in Triton."""
WARPS = "warps"

_SILENT = frozenset([arith.ConstantOp, ReturnOp, NextOp, scf.YieldOp])
"""Ops for which no line is printed."""
_NEUTRAL: Mapping[type[Operation], float] = MappingProxyType(
    {arith.AddiOp: 0, arith.MuliOp: 1, arith.MaximumfOp: -math.inf, arith.MinimumfOp: math.inf}
)
"""Op -> its neutral operand: with it, the result equals the other operand."""
_BROADCAST = (
    *(arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp, arith.MaximumfOp, arith.MinimumfOp),
    *(arith.AddiOp, arith.SubiOp, arith.MuliOp),
)
"""Ops of two operands, one of which may be a number: Triton broadcasts it."""

HEADER = "import triton\nimport triton.language as tl\n"
LIBDEVICE = "from triton.language.extra import libdevice\n"


def print_kernels(module: ModuleOp) -> list[KernelSource]:
    """The kernels of ``module``, in order."""
    return [print_kernel(op) for op in module.walk() if isinstance(op, KernelOp)]


def print_kernel(kernel: KernelOp) -> KernelSource:
    """The source of one kernel. Raises KernelError with the op if Triton cannot express it."""
    return _KernelPrinter(kernel).source()


class _KernelPrinter:
    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        self.name = python_name(kernel.sym_name.data)
        if self.name in RESERVED or self.name in HELPERS:
            self.name += "_kernel"
        first = dict[int, OpResult]()  # the first result of each type by identity: most types are interned
        for op in kernel.walk():
            for result in op.results:
                first.setdefault(id(result.type), result)
        self.lanes = max(map(_lanes, first.values()), default=1)
        self.writer, self.unread = KernelWriter(kernel), unread(kernel)
        self.place = self.counter = ""

    def source(self) -> KernelSource:
        if 0 not in self.kernel.programs:  # without programs, sizes in the code may be 0, by which Triton would divide
            self.block(self.kernel.body.block)
        body = self.writer.lines or ["    pass"]
        arguments = tuple(self.argument(value) for value in self.kernel.body.block.args)
        parameters = [*(each.name for each in arguments), *([self.counter] if self.counter else [])]
        definition = f"@triton.jit\ndef {self.name}({', '.join(parameters)}):\n"
        helpers = "".join(f"\n{HELPERS[name]}" for name in self.writer.helpers)
        imports = HEADER + (LIBDEVICE if any("libdevice." in line for line in body) else "")
        text = f"{self.heading()}\n{imports}{helpers}\n\n{definition}" + "\n".join(body) + "\n"
        return KernelSource(self.name, text, arguments, grid_of(self.kernel), self.lanes, self.warps(), self.counter)

    def heading(self) -> str:
        """Comments that describe the kernel and list the part of the user's program that it computes."""
        warps = f"{self.warps()} warp{'s' if self.warps() != 1 else ''}"
        grid = grid_of(self.kernel, [self.writer.names[scalar] for scalar in self.kernel.scalars()])
        listed = f"({', '.join(map(str, grid))}{',' * (len(grid) == 1)})"
        lines = [f"{self.name}: grid {listed}, {warps}, {self.writer.ranges.bits}-bit index"]
        sources = self.kernel.attributes.get(SOURCE)
        if isa(sources, ArrayAttr):
            lines += [f"  {each.data}" for each in sources.data if isinstance(each, StringAttr)]
        return "".join(f"# {_one_line(line)}\n" for line in lines)

    def warps(self) -> int:
        """The kernel's attribute, else one to eight warps such that a thread has eight lanes of the largest block."""
        said = self.kernel.attributes.get(WARPS)
        return said.value.data if isinstance(said, IntegerAttr) else min(max(self.lanes // 256, 1), 8)

    def argument(self, value: BlockArgument) -> KernelArgument:
        """The description of an argument for launches. ``ui8`` and ``i8`` have the same representation in memory."""
        name, attributes = self.writer.names[value], self.kernel.argument_attributes(value)
        hint = attributes.get(DIVISIBLE)
        divisible = hint.value.data if isinstance(hint, IntegerAttr) else 1
        if not isinstance(value.type, PtrType):
            return KernelArgument(name, signature_type(value.type, self.writer.ranges.bits), divisible=divisible)
        type = "*" + signature_type(value.type.value_type, 64)
        return KernelArgument(name, type, self.kernel.access(value), self.kernel.elements(value), divisible)

    def block(self, block: Block) -> None:
        for op in block.ops:
            if type(op) in _SILENT:
                continue
            try:
                if not self.is_written(op):
                    self.comment(op)
                    self.op(op)
            except KernelError as error:
                raise error if error.op else refusal(op, error.message, error.hint) from error

    def is_written(self, op: Operation) -> bool:
        """Whether ``op`` needs no line: nothing reads it, it is constant, or equal to an index value, whose name it gets."""
        writer = self.writer
        if op in self.unread or (op.results and all(writer.constant(result) is not None for result in op.results)):
            return True
        same = self.same(op)
        if same is not None:
            writer.names[op.results[0]] = writer.names[same]
        return same is not None

    def same(self, op: Operation) -> SSAValue | None:
        """The operand whose name the result of ``op`` gets: an equal value, or the number of which all lanes are.

        A constant has no name.
        """
        if isinstance(op, SplatOp):
            return op.value if all(self.broadcasts(use.operation, op.result) for use in op.result.uses) else None
        neutral = _NEUTRAL.get(type(op))
        for value, other in (op.operands, reversed(op.operands)) if neutral is not None else ():
            is_known = isinstance(value.type, IndexType) or isinstance(op, (arith.MaximumfOp, arith.MinimumfOp))
            if is_known and self.writer.constant(other) == neutral and self.writer.constant(value) is None:
                return value
        return None

    def broadcasts(self, op: Operation, splat: SSAValue) -> bool:
        """Whether the other operand of ``op`` is a block from which Triton takes the shape of the result."""
        others = [operand for operand in op.operands if operand is not splat]
        return (
            isinstance(op, _BROADCAST)
            and all(self.writer.constant(other) is None and not isinstance(other.owner, SplatOp) for other in others)
            and len(others) == 1
        )

    def is_replaced(self, value: SSAValue, argument: BlockArgument) -> bool:
        """Whether ``value``, which a loop yields for ``argument``, may have its name: nothing reads the old number any more."""
        op, body = value.owner, argument.owner
        if not isinstance(op, Operation) or op.parent is not body or op.regions or self.same(op) is not None:
            return False
        users = [body.find_ancestor_op_in_block(use.operation) for use in argument.uses]
        before = (user is not None and (user is op or user.is_before_in_block(op)) for user in users)
        return all(before) and all(self.same(use.operation) is None for use in argument.uses)

    def comment(self, op: Operation) -> None:
        """Write a comment with the FX node and the user's line, unless it repeats the previous one."""
        name = node_name(op.location)
        place = f"{name}: {user_line(op.location) or ''}".rstrip(": ") if name else ""
        if place and place != self.place:
            self.writer.line(f"# {_one_line(place)}")
            self.place = place

    def op(self, op: Operation) -> None:
        match op:
            case scf.ForOp():
                return self.loop(op)
            case scf.IfOp():
                return self.branch(op)
            case IterateOp():
                return self.iterate(op)
            case LastProgramOp():
                return self.last(op)
            case _:
                if write_memory(self.writer, op):
                    return None
                rule = _RULES.get(type(op))
                text = rule(self.writer, op) if rule is not None else cast(self.writer, op) or expression(self.writer, op)
                if text is None:
                    kind = op.properties.get("kind")
                    what = f'{op.name} "{kind.data}"' if isinstance(kind, StringAttr) else op.name
                    raise refusal(op, f"Triton has nothing for {what}", "leave what needs it to the library")
                return self.writer.assign(op.results[0], text)

    def loop(self, op: scf.ForOp) -> None:
        """Print a loop. Each carried value is one variable for the block argument, the yielded value and the result."""
        writer = self.writer
        counter, *carried = op.body.block.args
        last = op.body.block.last_op
        yielded = list(last.operands) if last is not None else []
        for argument, start, result, value in zip(carried, op.iter_args, op.results, yielded, strict=True):
            if result.name_hint is not None:
                writer.names[argument] = writer.names[result]
            writer.assign(argument, writer.typed(start))
            writer.names[result] = writer.names[argument]
            if yielded.count(value) == 1 and self.is_replaced(value, argument):
                writer.names[value] = writer.names[argument]
        writer.unseen |= {inner.pointer for inner in op.body.walk() if isinstance(inner, STORES)}
        bounds = [writer.text(op.lb), writer.text(op.ub), writer.text(op.step)]
        if writer.ranges.bits == 64:
            bounds[0] = writer.typed(op.lb)
        if bounds[2] == "1":
            bounds = bounds[1:2] if bounds[0] == "0" else bounds[:2]
        writer.line(f"for {writer.names[counter]} in range({', '.join(bounds)}):")
        with writer.indented():
            self.block(op.body.block)
            self.yields(op.body.block, [writer.names[argument] for argument in carried])

    def iterate(self, op: IterateOp) -> None:
        """Print a loop that runs while any lane is active. The mask of active lanes and the carried values are variables."""
        writer, last = self.writer, op.body.block.last_op
        assert last is not None
        carried = [writer.names[argument] for argument in op.body.block.args]
        going = writer.new_name("going")
        writer.line(f"{going} = {writer.typed(op.going)}")
        for argument, start, result in zip(op.body.block.args, op.carried, op.results, strict=True):
            writer.assign(argument, writer.typed(start))
            writer.names[result] = writer.names[argument]
        writer.line(f"while {any_lane(going, len(shape_of(op.going.type)))}:")
        with writer.indented():
            self.block(op.body.block)
            more, *new = [writer.typed(value) for value in last.operands]
            values = [f"tl.where({going}, {value}, {name})" for name, value in zip(carried, new, strict=True)]
            writer.line(f"{', '.join([*carried, going])} = {', '.join([*values, f'{going} & {more}'])}")

    def last(self, op: LastProgramOp) -> None:
        """Print code that only the last program runs.

        Each program increments a counter after its threads have stored; the program that counts last runs the code.
        """
        writer = self.writer
        self.counter, before = writer.new_name("counter"), writer.new_name("before")
        for argument, pointer in zip(op.body.block.args, op.pointers, strict=True):
            writer.names[argument] = writer.names[pointer]
        writer.line("tl.debug_barrier()")
        writer.line(f'{before} = tl.atomic_add({self.counter}, 1, sem="acq_rel")')
        writer.line(f"if {before} == {math.prod(self.kernel.programs) - 1}:")
        writer.unseen.clear()
        with writer.indented():
            writer.line(f"tl.store({self.counter}, 0)")
            self.block(op.body.block)

    def branch(self, op: scf.IfOp) -> None:
        writer, before = self.writer, set(self.writer.unseen)
        results = [writer.names[result] for result in op.results]
        writer.line(f"if {writer.text(op.cond)}:")
        with writer.indented():
            self.block(op.true_region.block)
            self.yields(op.true_region.block, results)
        after, writer.unseen = writer.unseen, set(before)
        if op.false_region.blocks and (results or len(op.false_region.block.ops) > 1):
            writer.line("else:")
            with writer.indented():
                self.block(op.false_region.block)
                self.yields(op.false_region.block, results)
        writer.unseen |= after

    def yields(self, block: Block, targets: list[str]) -> None:
        """Assign the values that the block yields, in one statement if a target is also a value."""
        values = [self.writer.typed(value) for value in block.last_op.operands] if block.last_op is not None else []
        pairs = [(target, value) for target, value in zip(targets, values, strict=True) if target != value]
        if {target for target, _ in pairs} & {value for _, value in pairs}:
            self.writer.line(f"{', '.join(target for target, _ in pairs)} = {', '.join(value for _, value in pairs)}")
        else:
            for target, value in pairs:
                self.writer.line(f"{target} = {value}")


def _program_id(writer: KernelWriter, op: ProgramIdOp) -> str:
    number = f"tl.program_id({op.axis.value.data})"
    return number if writer.ranges.bits == 32 else f"{number}.to(tl.int64)"


def _splat(writer: KernelWriter, op: SplatOp) -> str:
    return f"tl.full({shape_of(op.result.type)}, {writer.typed(op.value)}, {writer.dtype(op.result.type)})"


def _expand(writer: KernelWriter, op: ExpandOp) -> str:
    return f"tl.broadcast_to(tl.expand_dims({writer.typed(op.value)}, {op.dim.value.data}), {shape_of(op.result.type)})"


def _transpose(writer: KernelWriter, op: TransposeOp) -> str:
    return f"tl.permute({writer.typed(op.value)}, {tuple(map(int, op.permutation.get_values()))})"


_RULES: Mapping[type[Operation], Callable[[KernelWriter, Any], str]] = MappingProxyType(
    {ProgramIdOp: _program_id, SplatOp: _splat, ExpandOp: _expand, TransposeOp: _transpose, **COMBINATIONS}
)
"""Op -> the expression of its result."""


def any_lane(mask: str, rank: int) -> str:
    """Whether any lane of ``mask`` is set."""
    if not rank:
        return mask
    lanes = f"{mask}.to(tl.int32)"
    for dim in reversed(range(rank)):
        lanes = f"tl.max({lanes}, axis={dim})"
    return f"{lanes} != 0"


def _lanes(value: OpResult) -> int:
    """The number of lanes of a block. Raises KernelError if Triton does not support its shape."""
    shape, op = shape_of(value.type), value.op
    if any(size & (size - 1) for size in shape):
        hint = "give the kernel blocks with sizes that are powers of two, and mask what is beyond"
        raise refusal(op, f"Triton has only blocks with sizes that are powers of two, not {value.type}", hint)
    if math.prod(shape) > MAX_LANES:
        raise refusal(
            op, f"Triton has no blocks of more than {MAX_LANES} lanes, as {value.type} is", "give the kernel smaller blocks"
        )
    return math.prod(shape)


def _one_line(text: str) -> str:
    """``text`` as a single line for a comment; the text is arbitrary and may contain line breaks."""
    return text if text.isprintable() else "".join(character if character.isprintable() else " " for character in text)
