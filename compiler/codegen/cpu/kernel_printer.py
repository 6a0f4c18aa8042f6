"""Print ``tile.kernel`` as LLVM IR text; blocks become LLVM vectors.

A kernel ``@k`` becomes

``void @k(ptr %arguments, i64 %first, i64 %last)``
    runs the programs first to last of the grid, in row-major order; ``%arguments`` is a table with eight bytes per argument:
    pointers, then numbers
``void @k.call(...)``
    runs the whole grid, on the OpenMP thread pool if requested, and then the body of ``tile.last_program``; it takes the
    arguments directly

If @k has assertions, a pointer to a number follows the arguments. The number of a failed assertion is written to it, from 1
on in the order of the text. ``i32 @k.call(...)`` returns that number, or 0.

Sums that loops accumulate have the flag ``contract``, and only reductions have ``reassoc``. No flag excludes NaN or infinity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IntegerAttr, StringAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

from fxc.codegen.cpu import arith_rules, block_rules, memory_rules, reduce_rules
from fxc.codegen.cpu.builder import ZERO, Builder, ModuleText, i32, i64
from fxc.codegen.cpu.choices import FEWEST_PROGRAMS
from fxc.codegen.cpu.memory_rules import STATUS, messages
from fxc.codegen.cpu.types import I32, I64, PTR, Type, Value, llvm_type
from fxc.dialects.attributes.values import isa
from fxc.dialects.plan import IN_PLACE
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile import (
    DotOp,
    IterateOp,
    KernelOp,
    LastProgramOp,
    NextOp,
    ProgramIdOp,
    PtrType,
    ReturnOp,
    TransposeOp,
)
from fxc.dialects.tile.kernel import SOURCE
from fxc.errors import FxcError, KernelError
from fxc.runtime.host_cpu import CpuFeatures

RULES = {**arith_rules.RULES, **block_rules.RULES, **memory_rules.RULES, **reduce_rules.RULES}


def print_kernels(
    kernels: Sequence[KernelOp], features: CpuFeatures, parallel: Callable[[KernelOp], bool], *, sources: bool = False
) -> str:
    """Print ``kernels`` as one LLVM module.

    ``parallel`` returns whether the calls of a kernel use several threads. ``sources`` adds, as comments, the part of the
    user's program that each kernel computes.

    Raises KernelError with the op if the CPU backend does not support it.
    """
    return kernel_module(kernels, features, parallel, sources=sources).text()


def kernel_module(
    kernels: Sequence[KernelOp], features: CpuFeatures, parallel: Callable[[KernelOp], bool], *, sources: bool = False
) -> ModuleText:
    """The module that ``print_kernels`` prints, to which more functions can be added."""
    module = ModuleText(features)
    for kernel in kernels:
        if sources:
            listed = kernel.attributes.get(SOURCE)
            lines = [item.data for item in listed.data if isinstance(item, StringAttr)] if isa(listed, ArrayAttr) else []
            module.functions.append("".join(f"; {part}\n" for line in lines for part in line.splitlines()))
        _print_body(module, kernel)
        if (last := _last(kernel)) is not None:
            _print_last(module, kernel, last)
        _print_range(module, kernel)
        if parallel(kernel):
            _print_team(module, kernel)
        _print_call(module, kernel, parallel(kernel))
    return module


def symbol(kernel: KernelOp, suffix: str = "") -> str:
    """``@k``, quoted if LLVM requires it."""
    name = kernel.sym_name.data + suffix
    return f"@{name}" if re.fullmatch(r"[\w.$]+", name) else f'@"{name}"'


def argument_type(argument: BlockArgument) -> Type:
    return PTR if isinstance(argument.type, PtrType) else llvm_type(argument.type)


def _printer(module: ModuleText, kernel: KernelOp) -> tuple[_Printer, list[str]]:
    """A printer of a new function with the arguments of ``kernel``, and the text of its parameters."""
    arguments = [Value(f"%p{i}", argument_type(argument)) for i, argument in enumerate(kernel.body.block.args)]
    listed = [f"{_parameter(kernel, a)} {value.text}" for a, value in zip(kernel.body.block.args, arguments, strict=True)]
    return _Printer(Builder(module), kernel, arguments), listed + [str(STATUS)] * bool(messages(kernel))


def _print_body(module: ModuleText, kernel: KernelOp) -> None:
    """Print the loop over programs as a separate function, whose pointer parameters can be marked ``noalias``."""
    printer, listed = _printer(module, kernel)
    b, head, body, done = printer.b, "programs", "program", "done"
    b.branch(head)
    b.label(head)
    program, position = b.open_phi(I64, Value("%first", I64), "entry")
    b.branch_if(b.compare("slt", program, Value("%last", I64)), body, done)
    b.label(body)
    printer.start(program)
    printer.block(kernel.body.block)
    b.close_phi(position, b.add(program, i64(1)), b.current)
    b.branch(head)
    b.label(done)
    b.line("ret void")
    parameters = ", ".join([*listed, "i64 %first", "i64 %last"])
    module.functions.append(f"define internal void {symbol(kernel, '.body')}({parameters}) #2 {{\n{b.text()}}}\n")


def _last(kernel: KernelOp) -> LastProgramOp | None:
    return next((op for op in kernel.body.block.ops if isinstance(op, LastProgramOp)), None)


def _print_last(module: ModuleText, kernel: KernelOp, last: LastProgramOp) -> None:
    """Print the code after all programs as a separate function, since it may read through pointers that programs write."""
    printer, listed = _printer(module, kernel)
    printer.values |= {a: printer.values[pointer] for a, pointer in zip(last.body.block.args, last.pointers, strict=True)}
    printer.block(last.body.block)
    printer.b.line("ret void")
    name = symbol(kernel, ".last")
    module.functions.append(f"define internal void {name}({', '.join(listed)}) #2 {{\n{printer.b.text()}}}\n")


def _parameter(kernel: KernelOp, argument: BlockArgument) -> str:
    type = str(argument_type(argument))
    if type != "ptr":
        return type
    attributes = kernel.argument_attributes(argument)
    words = [type] if IN_PLACE in attributes else [type, "noalias"]
    if kernel.access(argument) == "read":
        words.append("readonly")
    divisible = attributes.get("tile.divisible")
    if isinstance(divisible, IntegerAttr) and divisible.value.data & (divisible.value.data - 1) == 0:
        words.append(f"align {divisible.value.data}")
    return " ".join(words)


def _print_range(module: ModuleText, kernel: KernelOp) -> None:
    b, table = Builder(module), Value("%arguments", PTR)
    values = list[Value]()
    for i, argument in enumerate(kernel.body.block.args):
        type = argument_type(argument)
        values.append(b.emit(type, f"load {type}, {b.address(table, I64, i64(i))}, align 8"))
    if messages(kernel):
        values.append(b.emit(PTR, f"load ptr, {b.address(table, I64, i64(len(values)))}, align 8"))
    listed = ", ".join([*map(str, values), "i64 %first", "i64 %last"])
    b.line(f"call void {symbol(kernel, '.body')}({listed})")
    b.line("ret void")
    module.functions.append(f"define void {symbol(kernel)}(ptr %arguments, i64 %first, i64 %last) #0 {{\n{b.text()}}}\n")


def _print_team(module: ModuleText, kernel: KernelOp) -> None:
    """Print the function that each thread of a team runs: an equal, contiguous share of the programs."""
    b = Builder(module)
    me = b.cast("sext", b.call("omp_get_thread_num", I32), "i64")
    all_of_us = b.cast("sext", b.call("omp_get_num_threads", I32), "i64")
    table = Value("%arguments", PTR)
    numbers = [b.emit(I64, f"load i64, {b.address(table, I64, i64(each.index))}, align 8") for each in kernel.indices()]
    programs = _total(b, kernel, numbers)
    first, last = (b.binary("sdiv", b.mul(programs, part), all_of_us) for part in (me, b.add(me, i64(1))))
    b.line(f"call void {symbol(kernel)}(ptr %arguments, {first}, {last})")
    b.line("ret void")
    module.functions.append(f"define internal void {symbol(kernel, '.team')}(ptr %arguments) #0 {{\n{b.text()}}}\n")


def _print_call(module: ModuleText, kernel: KernelOp, parallel: bool) -> None:
    b = Builder(module)
    arguments = [Value(f"%p{i}", argument_type(argument)) for i, argument in enumerate(kernel.body.block.args)]
    parameters = ", ".join(map(str, arguments))
    if can_fail := bool(messages(kernel)):
        b.line(f"{STATUS.text} = alloca i32, align 4")
        b.line(f"store i32 0, {STATUS}, align 4")
        arguments.append(STATUS)
    listed = ", ".join(map(str, arguments))
    if parallel:
        table = b.emit(PTR, f"alloca [{max(len(arguments), 1)} x i64], align 8")
        for i, value in enumerate(arguments):
            b.line(f"store {value}, {b.address(table, I64, i64(i))}, align 8")
        threads = i32(0)
        if kernel.is_dynamic:
            few = b.compare("slt", _total(b, kernel, _numbers(kernel, arguments)), i64(FEWEST_PROGRAMS))
            threads = b.select(few, i32(1), i32(0))
        b.call_void("GOMP_parallel", Value(symbol(kernel, ".team"), PTR), table, threads, i32(0))
    else:
        programs = _total(b, kernel, _numbers(kernel, arguments))
        b.line(f"call void {symbol(kernel, '.body')}({listed}{', ' * bool(listed)}i64 0, {programs})")
    if _last(kernel) is not None:
        b.line(f"call void {symbol(kernel, '.last')}({listed})")
    result = b.emit(I32, f"load i32, {STATUS}, align 4") if can_fail else "void"
    b.line(f"ret {result}")
    kind = "i32" if can_fail else "void"
    module.functions.append(f"define {kind} {symbol(kernel, '.call')}({parameters}) #0 {{\n{b.text()}}}\n")


def _numbers(kernel: KernelOp, arguments: Sequence[Value]) -> list[Value]:
    """The ``arguments`` from which a dynamic grid is computed."""
    return [arguments[argument.index] for argument in kernel.indices()]


def grid_sizes(b: Builder, kernel: KernelOp, numbers: Sequence[Value]) -> list[Value]:
    """The number of programs along each axis. ``numbers``: the scalars of type index."""
    if not isinstance(kernel.grid, AffineMapAttr):
        return [i64(size) for size in kernel.programs]
    return [_affine(b, axis, numbers) for axis in kernel.grid.data.results]


def _affine(b: Builder, expression: AffineExpr, numbers: Sequence[Value]) -> Value:
    match expression:
        case AffineConstantExpr():
            return i64(expression.value)
        case AffineDimExpr():
            return numbers[expression.position]
        case AffineBinaryOpExpr():
            left, right = _affine(b, expression.lhs, numbers), _affine(b, expression.rhs, numbers)
            match expression.kind:
                case AffineBinaryOpKind.Add:
                    return b.add(left, right)
                case AffineBinaryOpKind.Mul:
                    return b.mul(left, right)
                case AffineBinaryOpKind.CeilDiv:  # of non-negative numbers
                    return b.binary("udiv", b.add(left, b.sub(right, i64(1))), right)
                case AffineBinaryOpKind.FloorDiv:
                    return b.binary("udiv", left, right)
                case AffineBinaryOpKind.Mod:
                    return b.binary("urem", left, right)
        case _:
            raise KernelError(f"the CPU backend has no code for a grid of {expression}")


def _total(b: Builder, kernel: KernelOp, numbers: Sequence[Value]) -> Value:
    """The total number of programs."""
    return reduce(b.mul, grid_sizes(b, kernel, numbers)) if kernel.is_dynamic else i64(prod(kernel.programs))


class _Printer:
    """Prints the ops of one kernel into the function that ``b`` builds."""

    def __init__(self, b: Builder, kernel: KernelOp, arguments: Sequence[Value]) -> None:
        self.b, self.kernel = b, kernel
        self.values: dict[SSAValue, Value] = dict(zip(kernel.body.block.args, arguments, strict=True))
        self.axes = list[Value]()

    def start(self, program: Value) -> None:
        """Compute the index of a program along each axis from its number; the last axis varies fastest."""
        rest, places = program, list[Value]()
        for size in reversed(grid_sizes(self.b, self.kernel, [self.values[each] for each in self.kernel.indices()])[1:]):
            if size.text == "0":
                places.insert(0, ZERO)
                continue
            places.insert(0, self.b.binary("urem", rest, size))
            rest = self.b.binary("udiv", rest, size)
        self.axes = [rest, *places]

    def block(self, block: Block) -> list[Value]:
        """Print the ops of ``block``, and return the operands of its terminator."""
        for op in block.ops:
            if isinstance(op, (scf.YieldOp, ReturnOp, NextOp)):
                return [self.values[operand] for operand in op.operands]
            self.op(op)
        return []

    def op(self, op: Operation) -> None:
        operands = [self.values[operand] for operand in op.operands]
        match op:
            case scf.ForOp():
                results = self.loop(op, *operands)
            case scf.IfOp():
                results = self.branches(op, operands[0])
            case IterateOp():
                results = self.iterate(op, *operands)
            case LastProgramOp():
                results = None  # printed as a separate function
            case ProgramIdOp():
                results = self.axes[op.axis.value.data]
            case DotOp() if isinstance(turned := op.left.owner, TransposeOp):
                results = reduce_rules.dot(self.b, op, self.values[turned.value], *operands[1:], turned=True)
            case _ if op.name in RULES:
                results = self.by_rule(op, operands)
            case _:
                raise KernelError(f"the CPU backend has no code for {op.name}", op=op_text(op), hint="lower it first")
        listed = [] if results is None else [results] if isinstance(results, Value) else list(results)
        self.values.update(zip(op.results, listed, strict=True))

    def by_rule(self, op: Operation, operands: Sequence[Value]) -> Value | Sequence[Value] | None:
        try:
            return RULES[op.name](self.b, op, *operands)
        except FxcError as error:
            error.op = error.op or op_text(op)
            raise

    def loop(self, op: scf.ForOp, start: Value, stop: Value, step: Value, *carried: Value) -> list[Value]:
        def iteration(index: Value, *values: Value) -> list[Value]:
            self.values.update(zip(op.body.block.args, [index, *values], strict=True))
            yielded = self.block(op.body.block)
            return [self.b.binary("add nsw", index, step), *yielded]

        names = "loop", "body", "after"
        return self.repeated(names, [start, *carried], lambda index: self.b.compare("slt", index, stop), iteration)

    def iterate(self, op: IterateOp, going: Value, *carried: Value) -> list[Value]:
        """A loop that ends when no lane is active. Lanes that are inactive retain their values."""

        def iteration(mask: Value, *values: Value) -> list[Value]:
            self.values.update(zip(op.body.block.args, values, strict=True))
            more, *new = self.block(op.body.block)
            kept = [self.b.select(mask, value, old) for value, old in zip(new, values, strict=True)]
            return [self.b.binary("and", mask, more), *kept]

        names = "while", "step", "after"
        return self.repeated(names, [going, *carried], lambda mask: reduce_rules.any_lane(self.b, mask), iteration)

    def repeated(
        self,
        names: Sequence[str],
        starts: Sequence[Value],
        goes_on: Callable[[Value], Value],
        iteration: Callable[..., Sequence[Value]],
    ) -> list[Value]:
        """A loop over values that begin as ``starts``, as long as ``goes_on`` is true of the first. Returns the others."""
        b, before = self.b, self.b.current
        head, body, done = map(b.name, names)
        b.branch(head)
        b.label(head)
        opened = [b.open_phi(value.type, value, before) for value in starts]
        first, *others = [phi for phi, _ in opened]
        b.branch_if(goes_on(first), body, done)
        b.label(body)
        for (_, position), value in zip(opened, iteration(first, *others), strict=True):
            b.close_phi(position, value, b.current)
        b.branch(head)
        b.label(done)
        return others

    def branches(self, op: scf.IfOp, condition: Value) -> list[Value]:
        b = self.b
        yes, no, done = b.name("then"), b.name("else"), b.name("endif")
        b.branch_if(condition, yes, no)
        ends = list[tuple[list[Value], str]]()
        for label, region in ((yes, op.true_region), (no, op.false_region)):
            b.label(label)
            ends.append((self.block(region.block) if region.blocks else [], b.current))
            b.branch(done)
        b.label(done)
        (first, first_end), (second, second_end) = ends
        return [
            b.phi(result.type, (result, first_end), (other, second_end)) for result, other in zip(first, second, strict=True)
        ]
