"""Choice of schedules for a machine: one or several for the stages of a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.dialects import tensor
from xdsl.dialects.builtin import FixedBitwidthType, TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue

from fxc.dialects.attributes.size_polynomials import Steps
from fxc.dialects.attributes.types import is_tensor
from fxc.dialects.target import CpuAttr, GpuAttr, TargetAttr
from fxc.dialects.tile import IterateOp, ScheduleAttr
from fxc.passes.kernels.tiling.dynamic import fixed, known, typical
from fxc.passes.kernels.tiling.gathers import computed
from fxc.passes.kernels.tiling.loop_nests import LoopPlan
from fxc.passes.kernels.tiling.online import pair_of
from fxc.passes.kernels.tiling.programs import SHORT
from fxc.passes.kernels.tiling.repeats import is_costly, repeated
from fxc.passes.kernels.tiling.stages import Stage, runs_of

SMALLEST = 1024
"""The least number of elements of a program."""

REGISTERS = 4
"""Vectors per step of an elementwise loop, if the loop is long enough: they hide each other's latency.

Where elements in memory are wider than the computed ones, as indices are, this is the total for each step, because longer steps
are not prefetched.
"""

ACCUMULATORS = 4
"""Accumulators of an inner reduction: an addition takes about four cycles, and one may start in each cycle."""

WIDE = 12
"""Vectors of a row that an outer reduction adds at once where memory is slow: access in memory order is fastest."""

FAR = 4
"""Memory is slow for data that exceeds this number of second-level caches.

Where bodies call functions, it is slow for less, because a core does not look past calls to its next loads.
"""

HELD, HELD_COSTLY = 16, 8
"""Vectors of a row that a CPU holds in registers: half of them; fewer where a body calls functions, which use registers."""

SHARED = 1 << 16
"""The least number of elements that a CPU reduces in parts; for fewer, another thread is not worth waiting for."""

IDLE = 1 / 8
"""The fraction of the time of a reduction that threads may wait for the last one."""

PART, PART_ON_GPU = 1 << 13, 1 << 11
"""The number of elements of the smallest part."""

COLUMNS, PASS = 64, 2048
"""On a GPU: columns of a program of an outer reduction, and elements of a step through a row that is not held."""

FOLD, STEPS_OF_PART = 4096, 4
"""On a GPU: elements of a step of an outer reduction, 64 bytes for each of 256 threads, and the fewest steps of a part."""

_NO_LIMIT = 1 << 62
"""More than the steps of any loop."""

LAST, STEPS = 1 << 13, 8
"""The largest work of the last program of a kernel: in elements, and on a GPU in steps of blocks.

A CPU's threads share more elements. The steps take as long as a launch.
"""

WIDEST = 512
"""Lanes that the last program of a GPU kernel may have even if the other programs have fewer."""

SIDE = 32
"""Lanes of the sides of a tile on a GPU, for elements of four bytes or more; twice as many for smaller ones."""


def choose(stages: Sequence[Stage], target: TargetAttr) -> list[ScheduleAttr]:
    """The schedules of a kernel of ``stages``; several where a reduction is split into parts."""
    kind = kind_of(stages, target)
    parts = _parts(kind, stages, target) if kind != "elementwise" else 1
    if parts == 1:
        return [_schedule(kind, stages, target)]
    schedules = list[ScheduleAttr]()
    for nest in LoopPlan(stages, {}).nests:
        if nest.reductions:
            lanes, unroll, block = _numbers(kind, nest.stages, target)
            numbers, tile = [stage.number for stage in nest.stages], _folded(kind, nest.stages, target, lanes)
            schedules.append(ScheduleAttr.of(kind, numbers, lanes, unroll, block, tile=tile, parts=parts))
        else:
            schedules += [_schedule("elementwise", run, target) for run in runs_of(nest.stages)]
    return schedules


def choose_last(stages: Sequence[Stage], before: ScheduleAttr, target: TargetAttr) -> ScheduleAttr | None:
    """The schedule of ``stages`` in the last program of a kernel.

    ``before`` is the schedule of the kernel. None where the stages are too much work for one program.
    """
    if any(stage.is_dynamic for stage in stages):
        return None
    work = max(math.prod(fixed(size) for size in stage.sizes.values()) for stage in stages)
    if work > LAST or len(runs_of(stages)) > 1:
        return None
    kind = kind_of(stages, target)
    chosen = _schedule(kind, stages, target)
    if isinstance(target, CpuAttr):
        fields: dict[str, Any] = {**chosen.fields(), "program": "last"}
        return ScheduleAttr.of(kind, chosen.numbers(), **fields)
    plan = LoopPlan(stages, {})
    along = fixed(_row(stages) if kind == "inner" else plan.count(plan.rows[-1:]))
    lanes = min(power_of_two(along), max(before.lanes.value.data, WIDEST))
    if math.ceil(along / lanes) * math.ceil(work / max(along, 1)) > STEPS:
        return None
    form = "held" if chosen.form.data == "held" and lanes >= along else "looped"
    return ScheduleAttr.of(kind, chosen.numbers(), lanes, 1, 1 if kind == "inner" else lanes, form=form, program="last")


def can_hold(schedule: ScheduleAttr, stages: Sequence[Stage]) -> bool:
    """Whether a kernel of ``stages`` can have ``schedule``: a held row needs one loop in all passes that fits into a vector."""
    if schedule.form.data != "held":
        return True
    plans = [LoopPlan(run, {}) for run in runs_of(stages)]
    rows = [plan.sizes[loop] if (loop := plan.row_loop()) is not None else _NO_LIMIT for plan in plans]
    return all(isinstance(row, int) and row <= schedule.lanes.value.data for row in rows)


def kind_of(stages: Sequence[Stage], target: TargetAttr) -> str:
    """The kind of a kernel of ``stages``."""
    if not any(stage.is_reduction for stage in stages):
        return "elementwise"
    plan = LoopPlan(stages, {})
    forms = [form for (stage, read), form in plan.forms.items() if stage.is_reduction and _is_read(read)]
    if isinstance(target, CpuAttr) and not any(form.loops() - set(plan.rows) for form in forms):
        forms = list(plan.forms.values())  # the reduced elements are not in memory, so others determine the order of the rows
    model = max(forms, key=lambda form: len(form.loops()), default=None)
    steps = {loop: abs(typical(model.factor(loop))) for loop in model.loops()} if model is not None else {}
    return "outer" if steps and min(steps, key=lambda loop: steps[loop] or math.inf) in plan.rows else "inner"


def _is_read(part: object) -> bool:
    return isinstance(part, SSAValue) or (isinstance(part, tensor.ExtractOp) and isinstance(part.parent_op(), linalg.GenericOp))


def _schedule(kind: str, stages: Sequence[Stage], target: TargetAttr) -> ScheduleAttr:
    numbers = [stage.number for stage in stages]
    lanes, unroll, block = _numbers(kind, stages, target)
    if kind == "elementwise" and (side := _tile(stages, target)) > 1:
        block = _tiles_of_program(stages, target, block) if isinstance(target, CpuAttr) else 0
        return ScheduleAttr.of(kind, numbers, side, 1, max(block, side * side), tile=side)
    if kind == "elementwise" and isinstance(target, GpuAttr) and (short := _short_rows(stages)) is not None:
        return ScheduleAttr.of(kind, numbers, short, 1, block, tile=block // short)
    if kind != "inner":
        return ScheduleAttr.of(kind, numbers, lanes, unroll, block, tile=_folded(kind, stages, target, lanes))
    return (_row_on_gpu if isinstance(target, GpuAttr) else _row_on_cpu)(stages, target, lanes, unroll, block)


def _numbers(kind: str, stages: Sequence[Stage], target: TargetAttr) -> tuple[int, int, int]:
    """Lanes, unroll and block."""
    return (_on_gpu if isinstance(target, GpuAttr) else _on_cpu)(kind, stages, target)


def _on_cpu(kind: str, stages: Sequence[Stage], target: TargetAttr) -> tuple[int, int, int]:
    """The numbers for a CPU: vectors of one or four registers; blocks for the first-level cache and for enough programs."""
    assert isinstance(target, CpuAttr)
    bits = _bits(stages)
    lanes = target.lanes(bits)
    elements = target.l1.value.data // (bits // 8) // 2
    if (total := _elements(stages)) is not None:
        elements = min(elements, math.ceil(total / (4 * target.threads.value.data)))
    elements = max(elements, SMALLEST)
    if kind == "inner":
        return lanes, ACCUMULATORS, max(elements // max(typical(_row(stages)), 1), 1)
    if kind == "outer":
        unroll = _side_by_side(stages, target, lanes)
        return lanes, unroll, lanes * unroll * max(ACCUMULATORS // unroll, 1)
    several = lanes * max(REGISTERS * bits // max(_widest_in_lanes(stages), bits), 1)
    return several if _innermost(stages) >= several and not _iterates(stages) else lanes, 1, elements


def _side_by_side(stages: Sequence[Stage], target: CpuAttr, lanes: int) -> int:
    """The number of vectors of a row that an outer reduction processes at once."""
    plan = LoopPlan(stages, {})
    if any(stage.is_dynamic for stage in stages) or not plan.rows:
        return ACCUMULATORS
    if any(abs(typical(form.factor(plan.rows[-1]))) > 1 for form in plan.forms.values()):
        return 1  # across the memory order, each lane needs a cache line
    vectors = math.ceil(fixed(plan.sizes[plan.rows[-1]]) / lanes)
    steps, cache = [fixed(plan.count(nest.loops)) for nest in plan.nests if nest.loops], target.l2.value.data
    if len(steps) > 1:
        wanted = cache // 2 // max(max(steps) * lanes * _bits(stages) // 8, 1)
        return max(min(wanted, vectors, ACCUMULATORS), 1)
    if max(steps, default=0) <= SHORT:
        return max(min(vectors, ACCUMULATORS), 1)
    wide = _bytes(stages) > (cache if any(is_costly(op) for stage in stages for op in stage.op.body.walk()) else FAR * cache)
    counts = range(WIDE, WIDE // 2, -1) if wide else range(ACCUMULATORS, WIDE // 2 + 1)
    if vectors <= max(counts):
        return max(vectors, 1)
    even = (count for count in counts if vectors % count == 0)
    return next(even, math.ceil(vectors / math.ceil(vectors / counts[0])))


def _on_gpu(kind: str, stages: Sequence[Stage], target: TargetAttr) -> tuple[int, int, int]:
    """The numbers for a GPU: one block with a power of two of lanes."""
    if kind == "inner":
        row = _row(stages)
        return min(power_of_two(row), PASS) if isinstance(row, int) else PASS, 1, 1
    if kind != "outer":
        return SMALLEST, 1, SMALLEST
    plans = [LoopPlan(run, {}) for run in runs_of(stages)]
    columns = [plan.sizes[plan.rows[-1]] for plan in plans if plan.rows]
    lanes = max((min(COLUMNS, power_of_two(size)) if isinstance(size, int) else COLUMNS for size in columns), default=COLUMNS)
    return lanes, 1, lanes


def _folded(kind: str, stages: Sequence[Stage], target: TargetAttr, lanes: int) -> int:
    """The lanes along the reduced loop of an outer kernel on a GPU: more loads are in flight. 1 where there are more passes."""
    nests = [[nest for nest in LoopPlan(run, {}).nests if nest.loops] for run in runs_of(stages)]
    if kind != "outer" or not isinstance(target, GpuAttr) or any(len(each) != 1 or not each[0].reductions for each in nests):
        return 1
    plans = [LoopPlan(run, {}) for run in runs_of(stages)]
    sizes = [plan.sizes[nest.loops[-1]] for plan in plans for nest in plan.nests if nest.loops]
    most = FOLD // lanes
    return max(min(most, power_of_two(size)) if isinstance(size, int) else most for size in sizes)


def power_of_two(number: int) -> int:
    """The smallest power of two that is not less than ``number``."""
    return 1 << max(number - 1, 0).bit_length()


# traversal of a row


def _row_on_cpu(stages: Sequence[Stage], target: TargetAttr, lanes: int, unroll: int, block: int) -> ScheduleAttr:
    """Held where registers suffice for the row, online where it exceeds the second-level cache, else stored if that pays."""
    assert isinstance(target, CpuAttr)
    plan, numbers = LoopPlan(stages, {}), [stage.number for stage in stages]
    stored = {stage.result: stage.result for stage in stages}
    saved, _ = repeated(plan, stored)
    row = _row(stages)
    vectors = max(math.ceil(typical(row) / lanes), 1)
    if plan.row_loop() is not None and isinstance(row, int) and vectors <= (HELD_COSTLY if saved else HELD):
        return ScheduleAttr.of("inner", numbers, vectors * lanes, 1, block, form="held")
    if typical(row) * _bits(stages) // 8 > target.l2.value.data and _has_pair(plan):
        return ScheduleAttr.of("inner", numbers, lanes, unroll, block, form="online")
    return ScheduleAttr.of("inner", numbers, lanes, unroll, block, form="stored" if saved else "looped")


def _row_on_gpu(stages: Sequence[Stage], target: TargetAttr, lanes: int, unroll: int, block: int) -> ScheduleAttr:
    """Held where the registers of a multiprocessor suffice for eight rows, else online if that saves a pass."""
    assert isinstance(target, GpuAttr)
    plan, numbers = LoopPlan(stages, {}), [stage.number for stage in stages]
    row = _row(stages)
    if plan.row_loop() is not None and isinstance(row, int) and row <= target.registers.value.data // 8:
        return ScheduleAttr.of("inner", numbers, power_of_two(row), 1, block, form="held")
    if _has_pair(plan):
        return ScheduleAttr.of("inner", numbers, lanes, unroll, block, form="online", piece=1)
    return ScheduleAttr.of("inner", numbers, lanes, unroll, block)


def _has_pair(plan: LoopPlan) -> bool:
    return any(pair_of(plan, number) for number in range(len(plan.nests)))


# parts and tiles


def _parts(kind: str, stages: Sequence[Stage], target: TargetAttr) -> int:
    """The number of parts into which to split a reduction, so that all processors have work."""
    if len(runs_of(stages)) > 1 or any(stage.is_dynamic for stage in stages):
        return 1
    plan = LoopPlan(stages, {})
    reduced = min(fixed(plan.count(nest.loops)) for nest in plan.nests if nest.reductions)
    programs = fixed(plan.count(plan.rows))
    if isinstance(target, GpuAttr):
        smallest = PART_ON_GPU
        if kind == "outer":
            lanes, _, _ = _on_gpu(kind, stages, target)
            programs, smallest = math.ceil(programs / lanes), STEPS_OF_PART * _folded(kind, stages, target, lanes)
        elif len(plan.nests) > 1 and _is_quick(plan, reduced, target):
            return 1
        wanted = math.ceil(2 * target.multiprocessors.value.data / max(programs, 1))
    else:
        if programs * reduced < SHARED:
            return 1
        _, _, block = _on_cpu(kind, stages, target)
        smallest = max(PART // max(min(programs, block), 1), 1) if kind == "outer" else PART
        programs = math.ceil(programs / block) if kind == "outer" else programs
        threads = target.threads.value.data
        wanted = _even(programs, threads) if kind == "outer" and len(plan.nests) == 1 else math.ceil(threads / max(programs, 1))
    return max(min(wanted, reduced // smallest), 1)


def _is_quick(plan: LoopPlan, row: int, target: GpuAttr) -> bool:
    """Whether one multiprocessor passes over a row in all nests in the time in which the kernels of split passes start."""
    passes = [nest for nest in plan.nests if nest.loops]
    share = target.traffic() / target.multiprocessors.value.data
    return len(passes) * row * _bits(plan.stages) / 8 / share <= (len(passes) - 1) * target.launch.value.data


def _even(programs: int, threads: int) -> int:
    """The number of parts for each of ``programs`` with which no thread waits long for another."""
    totals = [(parts, max(programs, 1) * parts) for parts in range(1, threads + 1)]
    return next(parts for parts, total in totals if math.ceil(total / threads) * threads <= total * (1 + IDLE))


def _tile(stages: Sequence[Stage], target: TargetAttr) -> int:
    """The side of the tiles of an elementwise kernel; 1 where no operand is transposed, or a loop is too short."""
    side = target.lanes(_bits(stages)) if isinstance(target, CpuAttr) else SIDE * (2 if _widest(stages) <= 16 else 1)
    if side < 4:
        return 1
    for run in runs_of(stages):
        plan = LoopPlan(run, {})
        turned = plan.turned_loop()
        sides = [plan.sizes[loop] for loop in (turned, plan.rows[-1])] if turned is not None else []
        if sides and 2 * min(size for size in sides if isinstance(size, int)) >= side:
            return side
    return 1


def _tiles_of_program(stages: Sequence[Stage], target: CpuAttr, block: int) -> int:
    """The elements of a program's tiles: ``block``, or a quarter of the second-level cache if that cannot hold all."""
    elements, total = target.l2.value.data // 4 // (_bits(stages) // 8), _elements(stages)
    if total is None or total <= elements:
        return block
    return max(block, min(elements, total // (4 * target.threads.value.data)))


def _short_rows(stages: Sequence[Stage]) -> int | None:
    """The lanes for blocks of several rows, where a row would use at most half a block; None where it fills a block."""
    plans = [LoopPlan(run, {}) for run in runs_of(stages)]
    rows = [plan.sizes[plan.rows[-1]] if plan.second_loop() is not None else _NO_LIMIT for plan in plans]
    longest = max((size for size in rows if isinstance(size, int)), default=_NO_LIMIT)
    return power_of_two(longest) if 2 * power_of_two(longest) <= SMALLEST else None


def _elements(stages: Sequence[Stage]) -> int | None:
    """The number of elements of the longest of ``stages``; None where it is unknown."""
    totals = [math.prod(sizes) for stage in stages if (sizes := known(stage.sizes.values())) is not None]
    return max(totals) if len(totals) == len(stages) else None


def _bytes(stages: Sequence[Stage]) -> int:
    """The bytes of the tensors, of static sizes, that ``stages`` read and write."""
    values = dict.fromkeys(value for stage in stages for value in (*(source for _, source, _ in stage.reads()), stage.result))
    types = [value.type for value in values if is_tensor(value.type)]
    return sum(math.prod(type.get_shape()) * _width(type) for type in types) // 8


def _innermost(stages: Sequence[Stage]) -> int:
    """The least number of elements that are contiguous in memory for each stage of an elementwise kernel."""
    plans = [LoopPlan([stage], {}) for stage in stages]
    found = [plan.sizes[plan.rows[-1]] if plan.rows else 1 for plan in plans]
    return min((typical(size) for size in found), default=_NO_LIMIT)


def _row(stages: Sequence[Stage]) -> Steps:
    """The number of elements of a row."""
    plan = LoopPlan(stages, {})
    return max((plan.count(nest.loops) for nest in plan.nests), key=typical)


def _iterates(stages: Sequence[Stage]) -> bool:
    """Whether a loop has a data-dependent number of steps: all lanes of a block wait for the longest."""
    return any(isinstance(op, IterateOp) for stage in stages for op in stage.op.body.block.ops)


def _bits(stages: Sequence[Stage]) -> int:
    """The width of the widest computed number, at least 32 bits, from which lanes are derived."""
    types = [value.type for stage in stages for value in computed(stage)]
    return max([32, *(type.bitwidth for type in types if isinstance(type, FixedBitwidthType))])


def _widest_in_lanes(stages: Sequence[Stage]) -> int:
    """The width of the widest element of which each lane of an elementwise kernel reads a different one."""
    widths = [0]
    for stage in stages:
        plan = LoopPlan([stage], {})
        for argument, source, _ in stage.reads() if plan.rows else ():
            if is_tensor(source.type) and plan.forms[stage, argument].factor(plan.rows[-1]):
                widths.append(_width(source.type))
    return max(widths)


def _widest(stages: Sequence[Stage]) -> int:
    """The width of the widest element in memory."""
    values = [value for stage in stages for value in (*stage.op.inputs, stage.result)]
    return max(_width(value.type) for value in values if is_tensor(value.type))


def _width(type: TensorType) -> int:
    """The width of an element in bits."""
    return type.element_type.bitwidth if isinstance(type.element_type, FixedBitwidthType) else 0
