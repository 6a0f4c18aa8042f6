"""A group's kernels, as its schedule says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import IndexType, IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.fusion import GroupOp
from fxc.dialects.tile import KernelOp, ProgramIdOp, PtrType, ReturnOp, ScheduleAttr
from fxc.dialects.tile.kernel import ACCESS, ELEMENTS
from fxc.passes.lowering._tile.dynamic import Quotient, symbolic_sizes
from fxc.passes.lowering._tile.forms import extent, steps_of
from fxc.passes.lowering._tile.plans import Plan
from fxc.passes.lowering._tile.programs import Programs
from fxc.passes.lowering._tile.stages import Stage, runs_of
from fxc.passes.lowering._tile.writer import Scope, Writer


class Pieces:
    """Where results of stages lie that are parts of a concatenation: in the memory of the whole."""

    def __init__(self, group: GroupOp) -> None:
        self.whole = dict[SSAValue, SSAValue]()
        self.places = dict[SSAValue, tuple[TensorType, int]]()
        for op in group.body.block.ops:
            if isinstance(op, tensor.ConcatOp):
                self._add(op)

    def _add(self, op: tensor.ConcatOp) -> None:
        type, dim, first = op.result.type, op.dim.value.data, 0
        assert isinstance(type, TensorType)
        for piece in op.inputs:
            assert isinstance(piece.type, TensorType)
            self.whole[piece] = op.result
            self.places[piece] = (type, first * steps_of(type)[dim])
            first += piece.type.get_shape()[dim]


def make_kernel(
    name: str,
    stages: Sequence[Stage],
    schedule: ScheduleAttr,
    wanted: set[SSAValue],
    pieces: Pieces,
) -> tuple[KernelOp, list[SSAValue], list[SSAValue]]:
    """The kernel of ``stages``, the tensors that it reads, and those of ``wanted`` that it makes.

    Where the schedule has parts, a total is made once for each: as many as ``parts_of`` says, one after another.
    """
    made = [stage.result for stage in stages]
    sources = (source for stage in stages for source in (*(source for _, source, _ in stage.reads()), *stage.gathered))
    inputs = list(dict.fromkeys(source for source in sources if source not in made))
    outputs = list(dict.fromkeys(pieces.whole.get(value, value) for value in made if value in wanted or value in pieces.whole))
    block = Block(arg_types=[PtrType(_tensor(value).element_type) for value in (*inputs, *outputs)])
    for argument, value in zip(block.args, (*inputs, *outputs), strict=True):
        argument.name_hint = value.name_hint
    arguments = dict(zip((*inputs, *outputs), block.args, strict=True))
    symbols = {size: block.insert_arg(IndexType(), len(block.args)) for size in symbolic_sizes([*inputs, *outputs])}
    for size, argument in symbols.items():
        argument.name_hint = size if size.isidentifier() else "n"
    pointers: dict[SSAValue, SSAValue] = dict(arguments)
    pointers |= {piece: arguments[whole] for piece, whole in pieces.whole.items() if whole in arguments}
    plans = plans_of(stages, schedule, pieces)
    grid = _write_programs(block, plans, schedule, pointers, symbols)
    block.add_op(ReturnOp.create())
    copies = {stage.result: plan.cut.count for plan in plans if plan.cut is not None for stage in plan.reductions()}
    attributes = [_access(value, "read") for value in inputs]
    attributes += [_access(value, "write", copies.get(value, 1)) for value in outputs]
    attributes += [{} for _ in symbols]
    return KernelOp.of(name, grid, Region(block), attributes, {"schedule": schedule}), inputs, outputs


def plans_of(stages: Sequence[Stage], schedule: ScheduleAttr, pieces: Pieces) -> list[Plan]:
    """The plan of each run of ``stages`` with the same rows."""
    plans, parts = [Plan(run, pieces.places) for run in runs_of(stages)], schedule.parts.value.data
    step = schedule.lanes.value.data * schedule.unroll.value.data if schedule.kind.data == "inner" else 1
    for plan in plans if parts > 1 else ():
        plan.cut_in(parts, step)
    return plans


def _write_programs(
    block: Block,
    plans: Sequence[Plan],
    schedule: ScheduleAttr,
    pointers: Mapping[SSAValue, SSAValue],
    symbols: Mapping[str, SSAValue],
) -> Sequence[int] | AffineMap:
    """Write the programs of each of ``plans``; returns the grid."""
    writer = Writer(block, symbols)
    runs = [Programs(plan, writer, pointers, schedule) for plan in plans]
    if len(runs) > 1 and symbols:
        raise VerifyException("#tile.schedule: stages of symbolic sizes have other rows than those before them")
    program, first = writer.add(ProgramIdOp.of(0)), 0
    program.name_hint = "program"
    for run in runs:
        if len(runs) == 1:
            run.write(program)
        elif run.count:
            _write_part(writer, run, program, first)
        first += run.count
    return _grid(runs[0], list(symbols)) if symbols else [first]


def _grid(run: Programs, symbols: Sequence[str]) -> Sequence[int] | AffineMap:
    """The programs of ``run``, of numbers of ``symbols``."""
    copies = run.copies
    expression = copies.expression(symbols.index(copies.size.name)) if isinstance(copies, Quotient) else AffineExpr.constant(1)
    return AffineMap(len(symbols), 0, (expression * run.count,))


def _write_part(writer: Writer, run: Programs, program: SSAValue, first: int) -> None:
    """The programs of ``run``, whose numbers begin with ``first``."""
    own = writer.add(arith.SubiOp(program, writer.index(first)))  # of programs before, a very large number without sign
    mine = writer.add(arith.CmpiOp(own, writer.index(run.count), "ult"))
    block = Block()
    writer.scopes.append(Scope(block))
    run.write(own)
    writer.add(scf.YieldOp())
    writer.scopes.pop()
    writer.add(scf.IfOp(mine, [], Region(block)))


def _tensor(value: SSAValue) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _access(value: SSAValue, access: str, copies: int = 1) -> dict[str, Attribute]:
    if not _tensor(value).has_static_shape():
        return {ACCESS: StringAttr(access)}
    return {ACCESS: StringAttr(access), ELEMENTS: IntegerAttr(copies * extent(value.type), i64)}
