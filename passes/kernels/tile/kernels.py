"""The kernels of a group, built after its schedules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IndexType, StringAttr, TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineBinaryOpKind, AffineExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.size_polynomials import Polynomial, Steps, combined, names_in, sizes_of, strides_of
from fxc.dialects.attributes.types import contiguous_strides, device, dtype_name, is_tensor, tensor_of, tensor_type
from fxc.dialects.fusion import GroupOp
from fxc.dialects.tile import KernelOp, LastProgramOp, ProgramIdOp, PtrType, ReturnOp, ScheduleAttr
from fxc.dialects.tile.kernel import ACCESS, INIT, SIZE
from fxc.passes.kernels.tiling.arguments import Made, access
from fxc.passes.kernels.tiling.choices import power_of_two
from fxc.passes.kernels.tiling.dynamic import extent, fixed, symbolic_sizes
from fxc.passes.kernels.tiling.loop_nests import LoopPlan
from fxc.passes.kernels.tiling.loops import as_value, loop
from fxc.passes.kernels.tiling.programs import Programs
from fxc.passes.kernels.tiling.stages import Stage, runs_of
from fxc.passes.kernels.tiling.writer import BlockWriter, Scope


class Pieces:
    """The results of stages that are pieces of a concatenation, and their positions in the memory of the whole."""

    def __init__(self, group: GroupOp) -> None:
        self.whole = dict[SSAValue, SSAValue]()
        self.places = dict[SSAValue, tuple[TensorType, Steps]]()
        for op in group.body.block.ops:
            if isinstance(op, tensor.ConcatOp):
                self._add(op)

    def _add(self, op: tensor.ConcatOp) -> None:
        type, dim = op.result.type, op.dim.value.data
        assert is_tensor(type)
        first: Steps = 0
        for piece in op.inputs:
            self.whole[piece] = op.result
            self.places[piece] = (type, first * strides_of(type)[dim])
            first = first + sizes_of(tensor_of(piece))[dim]


@dataclass(frozen=True)
class KernelStep:
    """Stages, and the schedule by which a kernel computes them."""

    stages: Sequence[Stage]
    schedule: ScheduleAttr


def make_kernel(name: str, steps: Sequence[KernelStep], wanted: set[SSAValue], pieces: Pieces) -> Made:
    """The kernel whose programs compute the first of ``steps``, and whose last program the others.

    It stores the values ``wanted``. Where the first schedule has parts, the programs compute a total for each part
    (``parts_of``), and the last program combines these before the other steps.
    """
    first, stages = steps[0], [stage for step in steps for stage in step.stages]
    made = [stage.result for stage in stages]
    plans = plans_of(first, pieces.places)
    parts = parts_of(plans)
    sources = (source for stage in stages for source in (*(source for _, source, _ in stage.reads()), *stage.gathered))
    there = {*made, *(pieces.whole[value] for value in made if value in pieces.whole)}
    inputs = list(dict.fromkeys(source for source in sources if source not in there))
    kept = [value for value in made if value in wanted or value in pieces.whole or value in parts]
    outputs = list(dict.fromkeys(pieces.whole.get(value, value) for value in kept))
    types = [*(tensor_of(value) for value in (*inputs, *outputs)), *parts.values()]
    block = Block(arg_types=[PtrType(type.element_type) for type in types])
    for argument, value in zip(block.args, (*inputs, *outputs, *parts), strict=True):
        argument.name_hint = value.name_hint
    places = {value: place for place, value in enumerate((*inputs, *outputs))}
    of_parts = {total: len(places) + number for number, total in enumerate(parts)}
    places |= {piece: places[whole] for piece, whole in pieces.whole.items() if whole in places}
    pointers = block.args
    sizes = symbolic_sizes([*inputs, *outputs], [Polynomial.name(name) for plan in plans for name in plan.names()])
    symbols = {size: block.insert_arg(IndexType(), len(block.args)) for size in sizes}
    for size, argument in symbols.items():
        argument.name_hint = size if size.isidentifier() else "n"
    given: dict[SSAValue, SSAValue] = {value: pointers[place] for value, place in (places | of_parts).items()}
    grid = _write_programs(block, plans, first.schedule, given, symbols)
    last = _combining(first, parts, places, of_parts)
    last += [LastStep(plans_of(step, pieces.places), step.schedule, places) for step in steps[1:]]
    if last:
        if isinstance(grid, AffineMap):
            raise VerifyException("#tile.schedule: a last program needs a kernel with a static number of programs")
        if not math.prod(grid):
            raise VerifyException("#tile.schedule: the kernel has no program, so no last one")
        block.add_op(last_program(last, pointers))
    block.add_op(ReturnOp.create())
    attributes = [access(type, "read" if place < len(inputs) else "write") for place, type in enumerate(types)]
    for stage in stages:
        if stage.sink is not None and stage.result in places and (start := stage.start()) is not None:
            attributes[places[stage.result]] |= {ACCESS: StringAttr("readwrite"), INIT: start.value}
    attributes += [{SIZE: StringAttr(size)} for size in symbols]
    facts: dict[str, Attribute] = {"schedule": first.schedule}
    facts |= {"last": ArrayAttr([step.schedule for step in steps[1:]])} if len(steps) > 1 else {}
    return Made(KernelOp.of(name, grid, Region(block), attributes, facts), inputs, outputs, list(parts.values()))


def plans_of(step: KernelStep, places: Mapping[SSAValue, tuple[TensorType, Steps]]) -> list[LoopPlan]:
    """The plan of each run of stages with the same rows. ``places`` is that of ``LoopPlan``."""
    plans, schedule = [LoopPlan(run, places) for run in runs_of(step.stages)], step.schedule
    parts = schedule.parts.value.data
    along = (
        schedule.lanes.value.data * schedule.unroll.value.data if schedule.kind.data == "inner" else schedule.tile.value.data
    )
    for plan in plans if parts > 1 else ():
        plan.cut_in(parts, along)
    return plans


def _combining(
    first: KernelStep, parts: Mapping[SSAValue, TensorType], places: Mapping[SSAValue, int], of_parts: Mapping[SSAValue, int]
) -> list[LastStep]:
    """The step that combines ``parts``, if there are any. They are the arguments ``of_parts``, the totals ``places``."""
    if not parts:
        return []
    combined = combining_stages(first.stages, parts)
    step = KernelStep([stage for _, stage in combined], combining_schedule(first.schedule, [stage for _, stage in combined]))
    found = dict[SSAValue, int]()
    for total, (read, stage) in zip(parts, combined, strict=True):
        found |= {read: of_parts[total], stage.result: places[total]}
    return [LastStep(plans_of(step, {}), step.schedule, found)]


def _write_programs(
    block: Block,
    plans: Sequence[LoopPlan],
    schedule: ScheduleAttr,
    pointers: Mapping[SSAValue, SSAValue],
    symbols: Mapping[str, SSAValue],
) -> Sequence[int] | AffineMap:
    """Write the programs of each of ``plans``, and return the grid."""
    writer = BlockWriter(block, symbols, {pointer for value, pointer in pointers.items() if names_in(tensor_of(value))})
    runs = [Programs(plan, writer, pointers, schedule) for plan in plans]
    program = writer.add(ProgramIdOp.of(0))
    program.name_hint = "program"
    first: int | SSAValue = 0
    for run in runs:
        if len(runs) == 1:
            run.write(program)
        elif run.count:
            count = run.total()
            begin, number = as_value(writer, first), as_value(writer, count)
            _write_part(writer, run, program, (begin, number))
            first = first + count if isinstance(first, int) and isinstance(count, int) else writer.plus(begin, number)
    return _grid(runs, list(symbols)) if symbols else [sum(run.count for run in runs)]


def _grid(runs: Sequence[Programs], symbols: Sequence[str]) -> AffineMap:
    """The number of programs of ``runs``, as a map over ``symbols``."""
    places = {name: place for place, name in enumerate(symbols)}
    total: AffineExpr = AffineExpr.constant(0)
    for run in runs:
        programs: AffineExpr = AffineExpr.constant(run.count)
        for count in run.unknown:
            programs = combined(AffineBinaryOpKind.Mul, programs, count.expression(places))
        total = total + programs
    return AffineMap(len(symbols), 0, (total,))


def _write_part(writer: BlockWriter, run: Programs, program: SSAValue, span: tuple[SSAValue, SSAValue]) -> None:
    """Write the programs of ``run``; ``span`` has the number of its first program and their count."""
    own = writer.add(arith.SubiOp(program, span[0]))  # for earlier programs a very large unsigned number
    mine = writer.add(arith.CmpiOp(own, span[1], "ult"))
    block = Block()
    writer.scopes.append(Scope(block, may_be_skipped=True))
    run.write(own)
    writer.add(scf.YieldOp())
    writer.scopes.pop()
    writer.add(scf.IfOp(mine, [], Region(block)))


# the last program of a kernel, which runs when all programs have stored their results: steps that read these from memory


@dataclass(frozen=True)
class LastStep:
    """Plans, their schedule, and the argument number of the kernel for each tensor that they read or write."""

    plans: Sequence[LoopPlan]
    schedule: ScheduleAttr
    places: Mapping[SSAValue, int]


def last_program(steps: Sequence[LastStep], pointers: Sequence[SSAValue]) -> LastProgramOp:
    """The last program: ``steps`` in sequence, each a loop over its programs. ``pointers``: the arguments of the kernel."""
    body = Block(arg_types=[pointer.type for pointer in pointers])
    for argument, pointer in zip(body.args, pointers, strict=True):
        argument.name_hint = pointer.name_hint
    for step in steps:
        arguments: dict[SSAValue, SSAValue] = {value: body.args[place] for value, place in step.places.items()}
        for plan in step.plans:
            _write(BlockWriter(body), plan, arguments, step.schedule)
    unused = [argument for argument in body.args if argument.first_use is None]
    taken = [pointer for place, pointer in enumerate(pointers) if body.args[place] not in unused]
    for argument in unused:
        body.erase_arg(argument)
    return LastProgramOp.of(taken, body)


def _write(writer: BlockWriter, plan: LoopPlan, arguments: Mapping[SSAValue, SSAValue], schedule: ScheduleAttr) -> None:
    run = Programs(plan, writer, arguments, schedule)
    first = writer.index(0)
    if run.count == 1:
        run.write(first)
    elif run.count:
        loop(writer, first, writer.index(run.count), 1, [], lambda program, carried: run.write(program))


def parts_of(plans: Sequence[LoopPlan]) -> dict[SSAValue, TensorType]:
    """The tensors that kernels of ``plans`` compute instead of totals: those of each part, along a first dimension."""
    found = dict[SSAValue, TensorType]()
    for plan in plans:
        if plan.cut is not None:
            count = plan.cut.count
            found |= {stage.result: _part_type(stage.result.type, count) for stage in plan.reductions()}
    return found


def _part_type(type: Attribute, count: int) -> TensorType:
    assert is_tensor(type)
    sizes = (count, *type.get_shape())
    steps = (extent(type), *map(fixed, strides_of(type)))
    strides = None if steps == tuple(contiguous_strides(sizes)) else steps
    return tensor_type(dtype_name(type.element_type), sizes, strides, device(type))


def combining_stages(stages: Sequence[Stage], parts: Mapping[SSAValue, TensorType]) -> list[tuple[SSAValue, Stage]]:
    """The stages that combine partial totals, for each of ``stages`` in ``parts``.

    Each comes with a value of the type in ``parts`` that represents its partial totals.
    """
    block, made = Block(), list[tuple[SSAValue, Stage]]()
    for stage in stages:
        if stage.result in parts:
            read = tensor.EmptyOp([], parts[stage.result])
            block.add_op(read)
            made.append((read.tensor, Stage(_combining_stage(block, stage, read.tensor), len(made))))
    return made


def _combining_stage(block: Block, stage: Stage, parts: SSAValue) -> linalg.GenericOp:
    type, start, combiner = stage.result.type, stage.start(), stage.combiner
    assert is_tensor(type) and start is not None and combiner is not None
    number = arith.ConstantOp(start.value)
    empty = tensor.EmptyOp([], type)
    filled = linalg.FillOp([number.result], [empty.tensor], [type])
    body = Block(arg_types=[type.element_type, type.element_type])
    names: dict[SSAValue, SSAValue] = {stage.element: body.args[0], stage.op.body.block.args[-1]: body.args[1]}
    total = combiner.clone(names)
    body.add_ops([total, linalg.YieldOp(total.results[0])])
    loops = [AffineExpr.dimension(dim) for dim in range(len(type.get_shape()) + 1)]
    maps = [AffineMapAttr(AffineMap(len(loops), 0, tuple(each))) for each in (loops, loops[1:])]
    kinds = [IteratorTypeAttr.reduction(), *(IteratorTypeAttr.parallel() for _ in loops[1:])]
    op = linalg.GenericOp([parts], [filled.results[0]], Region(body), maps, kinds, [type])
    op.results[0].name_hint = stage.result.name_hint
    block.add_ops([number, empty, filled, op])
    return op


def combining_schedule(schedule: ScheduleAttr, stages: Sequence[Stage]) -> ScheduleAttr:
    """The schedule of ``stages``, which combine parts: lanes along the totals, and as many are left along the parts."""
    totals = max(math.prod(fixed(stage.sizes[loop]) for loop in stage.kept) for stage in stages)
    parts = max(fixed(stage.sizes[0]) for stage in stages)
    numbers = [stage.number for stage in stages]
    most = schedule.lanes.value.data
    if totals > 1:
        most *= schedule.tile.value.data
        lanes = min(most, power_of_two(totals))
        return ScheduleAttr.of("outer", numbers, lanes, 1, lanes, tile=min(power_of_two(parts), most // lanes))
    return ScheduleAttr.of("inner", numbers, min(most, power_of_two(parts)), 1, 1)
