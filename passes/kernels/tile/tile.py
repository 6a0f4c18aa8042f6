"""Lower scheduled groups to kernels on blocks.

Assumes  groups with the attribute ``tile.schedule`` (``schedule``).
Ensures  each such group is replaced by a ``tile.launch`` of a ``tile.kernel`` per schedule; schedules for a last
         program are part of the kernel before. Loops are in memory order, full vectors have no mask. A kernel has its
         schedule, those of its last program in ``last``, and the operators that it computes in ``tile.source``.
Leaves   groups without a schedule.
Cost     one walk over the groups, times ``unroll`` and up to three strips for each body; groups that differ in names
         and constants are lowered once and copied.

Before:
    func.func @main(%x: tensor<4x8xf32>) {
      %s = fusion.group ({
        %e = tensor.empty() : tensor<4x8xf32>
        %r = linalg.generic {
          indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
          iterator_types = ["parallel", "parallel"]
        } ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
        ^bb0(%a: f32, %o: f32):
          %n = arith.negf %a : f32
          linalg.yield %n : f32
        } -> tensor<4x8xf32>
        fusion.yield %r : tensor<4x8xf32>
      }) {tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>]} -> tensor<4x8xf32>
      fx.output(%s) : (tensor<4x8xf32>) -> ()
    }
After:
    func.func @main(%x: tensor<4x8xf32>) {
      %s = tile.launch @kernel_0(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      fx.output(%s) : (tensor<4x8xf32>) -> ()
    }
    tile.kernel @kernel_0(
      %x: !tile.ptr<f32> {tile.access = "read", tile.elements = 32 : i64},
      %r: !tile.ptr<f32> {tile.access = "write", tile.elements = 32 : i64}
    ) attributes {
      grid = array<i64: 1>,
      schedule = #tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 32>
    } {
      %zero = arith.constant 0 : index
      %program = tile.program_id {axis = 0} : index
      %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<32xf32>
      %n = arith.negf %a : vector<32xf32>
      tile.store %n, %r[%zero] strides [1] : vector<32xf32>, !tile.ptr<f32>
      tile.return
    }
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.attribute_numbers import AttributeNumbers
from fxc.dialects.attributes.values import isa
from fxc.dialects.fusion import GroupOp, groups_of
from fxc.dialects.target import GpuAttr, target_of
from fxc.dialects.text.diagnostics import OpPassFailedException
from fxc.dialects.tile import KernelOp, LaunchOp, ScheduleAttr
from fxc.dialects.tile.kernel import SIZE, SOURCE
from fxc.passes.analysis.size_values import SizeQueries, facts_of
from fxc.passes.analysis.statistics import count
from fxc.passes.kernels.kernel_keys import Copier, Outline
from fxc.passes.kernels.tile.kernels import KernelStep, Pieces, make_kernel
from fxc.passes.kernels.tiling.arguments import align
from fxc.passes.kernels.tiling.stages import Stage, are_independent, stages_of
from fxc.passes.rewriting.functions import fresh_names
from fxc.passes.rewriting.one_group import one_group

SCHEDULE = "tile.schedule"


@dataclass(frozen=True)
class TilePass(ModulePass):
    """How loops become kernels.

    Loops that traverse memory evenly are one loop. Values that only the kernel reads are not stored. An element at a computed
    position is loaded from another base where the position is the same for all lanes, else gathered, and in both cases only
    under the condition of its ``scf.if``. A ``tile.accumulate`` updates initialized memory, by all lanes in any order.

    Where many floats are added, blocks of them have totals, which are then added; a few rows that lanes run along are read
    without a loop. A float is not extended and truncated again. A dynamic size is a scalar argument of the kernel, on which its
    grid depends; the launch reads it from an argument.
    """

    name = "tile"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        tiling, on_gpu, likely = Tiling(fresh_names(op, "kernel")), isinstance(target_of(op), GpuAttr), facts_of(op, "hint")
        for group in [group for group in groups_of(op) if SCHEDULE in group.attributes]:
            with one_group(group):
                kernels = tiling.tile(group)
            for kernel in kernels:
                if on_gpu:
                    align(kernel, likely)
                op.body.block.add_op(kernel)
                count("kernels")


class Tiling:
    """Replaces groups by launches. Groups that differ only in names and numbers get copies of the same kernels."""

    def __init__(self, names: Iterator[str]) -> None:
        self.names, self.attributes = names, AttributeNumbers()
        self.known = dict[Hashable, Launched]()
        self.numbers = SizeQueries()

    def tile(self, group: GroupOp) -> list[KernelOp]:
        """Replace ``group`` by launches, and return its kernels."""
        outline = Outline(group, self.attributes)
        key = outline.key, tuple(outline.locations), self.attributes.of(group.attributes[SCHEDULE])
        if key in self.known:
            pairs, given = self.known[key].copy(outline, self.names)
        else:
            pairs, given = _written(group, self.names)
            self.known[key] = Launched.of(outline, pairs, given)
        for kernel, launch in pairs:
            kernel.attributes |= {name: group.attributes[name] for name in [SOURCE] if name in group.attributes}
            launch.location = kernel.location = group.location
            sizes = [kernel.argument_attributes(number)[SIZE] for number in kernel.indices()]
            numbers = [self.numbers.value(size.data, group) for size in sizes if isinstance(size, StringAttr)]
            launch.operands = [*launch.operands, *numbers]
        Rewriter.insert_op([launch for _, launch in pairs], InsertPoint.before(group))
        for old, value in zip(group.results, given, strict=True):
            value.name_hint = old.name_hint
            old.replace_all_uses_with(value)
        Rewriter.erase_op(group)
        return [kernel for kernel, _ in pairs]


def _written(group: GroupOp, names: Iterator[str]) -> tuple[list[tuple[KernelOp, LaunchOp]], list[SSAValue]]:
    """The kernels of ``group`` with their launches, and the values for its results."""
    stages, schedules = stages_of(group), _schedules(group)
    _check(group, stages, schedules)
    pieces, made = Pieces(group), dict[SSAValue, SSAValue]()
    kernels = list[list[KernelStep]]()
    for schedule in schedules:
        step = KernelStep([stages[number] for number in schedule.numbers()], schedule)
        if schedule.is_last:
            kernels[-1].append(step)
        else:
            kernels.append([step])
    pairs = [_launched(group, steps, next(names), pieces, made) for steps in kernels]
    return pairs, [made[value] for value in group.yielded()]


def _launched(
    group: GroupOp, steps: list[KernelStep], name: str, pieces: Pieces, made: dict[SSAValue, SSAValue]
) -> tuple[KernelOp, LaunchOp]:
    """The kernel of ``steps`` and its launch, whose results are added to ``made``."""
    wanted = {value for step in steps for value in _read_elsewhere(step.stages)}
    try:
        kernel = make_kernel(name, steps, wanted, pieces)
    except VerifyException as error:
        raise OpPassFailedException(str(error), group) from error
    types = [*(value.type for value in kernel.outputs), *kernel.scratch]
    launch = LaunchOp.of(name, [made.get(value, value) for value in kernel.inputs], types)
    for value, result in zip(kernel.outputs, launch.results, strict=False):
        made[value], result.name_hint = result, value.name_hint
    return kernel.kernel, launch


def _schedules(group: GroupOp) -> list[ScheduleAttr]:
    found = group.attributes[SCHEDULE]
    if not isa(found, ArrayAttr) or not all(isinstance(schedule, ScheduleAttr) for schedule in found.data):
        raise OpPassFailedException(f"{SCHEDULE} of a group is a list of #tile.schedule", group)
    return list(found.data)  # type: ignore[arg-type]


def _check(group: GroupOp, stages: list[Stage], schedules: list[ScheduleAttr]) -> None:
    """Check that the schedules have each stage once, after those that it reads, and with the same rows within a kernel."""
    order = [number for schedule in schedules for number in schedule.numbers()]
    if sorted(order) != list(range(len(stages))):
        raise OpPassFailedException(f"{SCHEDULE} must have each of the {len(stages)} stages once, but has {order}", group)
    if schedules and schedules[0].is_last:
        raise OpPassFailedException(f"{SCHEDULE} begins with what is for the last program of a kernel before", group)
    made = {stage.result: stage.number for stage in stages}
    for place, number in enumerate(order):
        read = [made[source] for _, source, _ in stages[number].reads() if source in made]
        if missing := [other for other in read if other not in order[:place]]:
            raise OpPassFailedException(f"{SCHEDULE} has stage {number} before stage {missing[0]}, which it reads", group)
    for schedule in schedules:
        numbers = schedule.numbers()
        if alone := [n for n in numbers if stages[n].sink is not None and n - 1 not in numbers[: numbers.index(n)]]:
            message = (
                f"{SCHEDULE} has the positions of updates, stage {alone[0]}, without the updates before, stage {alone[0] - 1}"
            )
            raise OpPassFailedException(message, group)
        if not are_independent([stages[number] for number in schedule.numbers()]):
            message = f"{SCHEDULE} has stages in one kernel that read others of other rows: {schedule}"
            raise OpPassFailedException(message, group)


def _read_elsewhere(stages: Sequence[Stage]) -> set[SSAValue]:
    """The results of ``stages`` that other ops read."""
    inside = {op for stage in stages for op in (stage.op, stage.sink)}
    return {stage.result for stage in stages if any(use.operation not in inside for use in stage.result.uses)}


# copies of the kernels of a group for another one with the same outline


@dataclass(frozen=True)
class Launched:
    """The ``kernels`` generated for a group with ``outline``, one for each of the launches, and the values for its results.

    A tensor is ``(launch, result)``, or ``(-1, place)`` for a tensor that the group reads.
    """

    outline: Outline
    kernels: Sequence[KernelOp]
    read: Sequence[Sequence[tuple[int, int]]]
    types: Sequence[Sequence[Attribute]]
    given: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, outline: Outline, pairs: Sequence[tuple[KernelOp, LaunchOp]], given: Sequence[SSAValue]) -> Launched:
        places = {value: (-1, place) for place, value in enumerate(outline.reads)}
        for number, (_, launch) in enumerate(pairs):
            places |= {result: (number, place) for place, result in enumerate(launch.results)}
        read = [[places[value] for value in launch.operands] for _, launch in pairs]
        types = [launch.result_types for _, launch in pairs]
        return cls(outline, [kernel for kernel, _ in pairs], read, types, [places[value] for value in given])

    def copy(self, outline: Outline, names: Iterator[str]) -> tuple[list[tuple[KernelOp, LaunchOp]], list[SSAValue]]:
        """Kernels and launches for a group with ``outline``, whose key is equal, and the values for its results."""
        pairs, made = list[tuple[KernelOp, LaunchOp]](), {(-1, place): value for place, value in enumerate(outline.reads)}
        for number, (kernel, read, types) in enumerate(zip(self.kernels, self.read, self.types, strict=True)):
            copy = Copier(self.outline, outline).op(kernel)
            assert isinstance(copy, KernelOp)
            copy.properties["sym_name"] = StringAttr(next(names))
            launch = LaunchOp.of(copy.sym_name.data, [made[place] for place in read], types)
            made |= {(number, place): result for place, result in enumerate(launch.results)}
            pairs.append((copy, launch))
        return pairs, [made[place] for place in self.given]
