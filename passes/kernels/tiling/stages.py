"""The stages of a group, and their distribution to kernels.

A stage is one ``linalg.generic``. A stage that computes the positions at which a ``tile.accumulate`` updates a tensor does not
store these positions, but does the updates, which the preceding stage of the same loops computes.

The stages of a kernel share *rows*: the loops of its programs, none of which is reduced. The other loops of a stage are its
*inner* loops, reduced or not. A stage may read results of earlier stages of the kernel in the same row.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType, UnrealizedConversionCastOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.size_polynomials import Steps, names_in, names_of
from fxc.dialects.attributes.types import is_tensor, tensor_of
from fxc.dialects.fusion import GroupOp
from fxc.dialects.tile import AccumulateOp
from fxc.passes.analysis.index.forms import Form
from fxc.passes.kernels.tiling.dynamic import address, loop_sizes, size_of_value, typical

KINDS = {
    "arith.addf": "add", "arith.addi": "add", "arith.mulf": "mul", "arith.muli": "mul", "arith.maximumf": "max",
    "arith.maxsi": "max", "arith.minimumf": "min", "arith.minsi": "min", "arith.andi": "and", "arith.ori": "or",
}  # fmt: skip
"""Combining op -> the kind of tile.reduce."""


LARGE = 4096
"""The number of elements per row from which a stage is large."""

MANY = 16
"""The number of rows, and so of programs, that a large stage needs."""


@dataclass(eq=False)
class Stage:
    """A ``linalg.generic`` with one result."""

    op: linalg.GenericOp
    number: int

    @cached_property
    def sizes(self) -> dict[int, Steps]:
        return loop_sizes(self.op) if self.is_dynamic else dict(enumerate(self.op.get_static_loop_ranges()))

    @cached_property
    def is_dynamic(self) -> bool:
        """Whether a loop or an address depends on a symbolic size or stride."""
        types = [value.type for value in (*self.op.operands, *self.gathered)]
        return bool(self.numbers) or any(is_tensor(type) and names_in(type) for type in types)

    @cached_property
    def numbers(self) -> dict[SSAValue, Steps]:
        """Values from outside that the body reads and that are sizes of tensors."""
        made = {result for op in self.op.body.walk() for result in op.results}
        outside = {value for op in self.op.body.walk() for value in op.operands if isinstance(value.type, IndexType)} - made
        said = {value: size_of_value(value) for value in outside if isinstance(value.owner, Operation)}
        return {value: size for value, size in said.items() if size is not None}

    def names(self) -> list[str]:
        """The names of sizes that the body computes with."""
        return [name for size in self.numbers.values() for name in names_of(size)]

    @cached_property
    def maps(self) -> list[AffineMap]:
        return [attribute.data for attribute in self.op.indexing_maps]

    @cached_property
    def kept(self) -> list[int]:
        """The loops that are not reduced, in the order of the result's dimensions."""
        found = [expression.position for expression in self.maps[-1].results if isinstance(expression, AffineDimExpr)]
        if sorted(found) != [loop for loop, kind in enumerate(self.op.iterator_types) if kind.data == IteratorType.PARALLEL]:
            raise VerifyException("linalg.generic: a result has just the loops that are not reduced as its index")
        return found

    @property
    def is_reduction(self) -> bool:
        return self.op.body.block.args[-1].first_use is not None

    @cached_property
    def sink(self) -> AccumulateOp | None:
        """The op that uses the elements of this stage as positions of updates, else None."""
        users = [use.operation for use in self.op.results[0].uses]
        found = [user for user in users if isinstance(user, AccumulateOp) and user.places is self.op.results[0]]
        return found[0] if found else None

    @property
    def result(self) -> SSAValue:
        """The tensor that the stage computes or updates."""
        return self.op.results[0] if self.sink is None else self.sink.result

    def reads(self) -> list[tuple[BlockArgument, SSAValue, AffineMap]]:
        """The tensors that the body reads, each with the argument and the map of positions."""
        found = zip(self.op.body.block.args[:-1], self.op.inputs, self.maps, strict=False)
        return [(argument, source, map) for argument, source, map in found if argument.first_use is not None]

    @cached_property
    def gathered(self) -> list[SSAValue]:
        """The tensors that the body reads at computed positions."""
        return list(dict.fromkeys(op.tensor for op in self.op.body.walk() if isinstance(op, tensor.ExtractOp)))

    def form(self, source: SSAValue, map: AffineMap) -> Form:
        return address(tensor_of(source), map.results, self.sizes)

    @cached_property
    def combiner(self) -> Operation | None:
        """The last op in the body of a reduction, which combines an element with the total so far."""
        total, last = self.op.body.block.args[-1], self.op.body.block.last_op
        assert last is not None
        if not self.is_reduction:
            return None
        combiner = last.operands[0].owner
        users = [use.operation for use in total.uses]
        if not isinstance(combiner, Operation) or combiner.name not in KINDS or users != [combiner]:
            raise VerifyException("linalg.generic: a reduction ends in an op that combines the output with one element")
        return combiner

    @property
    def element(self) -> SSAValue:
        """The value of the body that is stored or combined."""
        last = self.op.body.block.last_op
        assert last is not None
        if self.combiner is None:
            return last.operands[0]
        total = self.op.body.block.args[-1]
        return next(operand for operand in self.combiner.operands if operand is not total)

    def start(self) -> arith.ConstantOp | None:
        """The constant that initializes the output of a reduction or the updated tensor."""
        filled = (self.op.outputs[0] if self.sink is None else self.sink.start).owner
        start = filled.inputs[0].owner if isinstance(filled, linalg.FillOp) else None
        return start if isinstance(start, arith.ConstantOp) else None


def is_kernel(group: GroupOp) -> bool:
    """Whether ``group`` consists of ops that kernels support."""
    known = (
        linalg.GenericOp, linalg.FillOp, tensor.EmptyOp, tensor.ConcatOp, tensor.DimOp, arith.ConstantOp,
        arith.AddiOp, arith.MuliOp, UnrealizedConversionCastOp, AccumulateOp,
    )  # fmt: skip
    return all(isinstance(op, known) for op in list(group.body.block.ops)[:-1])


def stages_of(group: GroupOp) -> list[Stage]:
    """The stages of ``group`` in order; none where it has ops that kernels do not support."""
    if not is_kernel(group):
        return []
    generics = [op for op in group.body.block.ops if isinstance(op, linalg.GenericOp)]
    stages = [Stage(op, number) for number, op in enumerate(generics)]
    for stage in stages:
        if (stage.combiner is not None or stage.sink is not None) and stage.start() is None:
            return []
    return stages if _are_paired(group, stages) else []


def _are_paired(group: GroupOp, stages: Sequence[Stage]) -> bool:
    """Whether each ``tile.accumulate`` reads updates of the stage directly before that of its positions.

    The positions must have no other users, and its result must not be a piece of a concatenation.
    """
    known = {stage.sink: stage for stage in stages}
    for op in group.body.block.ops:
        if isinstance(op, AccumulateOp):
            stage = known.get(op)
            alone = stage is not None and stage.op.results[0].has_one_use()
            before = stages[stage.number - 1].op.results[0] if alone and stage is not None and stage.number else None
            if before is not op.updates or any(isinstance(use.operation, tensor.ConcatOp) for use in op.result.uses):
                return False
    return True


class Rows:
    """The rows of the stages of a kernel: for each stage its loops that are rows, in a common order.

    Loops of one step are omitted.
    """

    def __init__(self) -> None:
        self.sizes: list[Steps] | None = None
        self.loops = dict[Stage, list[int]]()

    def add(self, stage: Stage) -> bool:
        """Add ``stage``. False where its rows differ from those of the stages so far, or it may read results of other rows."""
        if any(other.result in stage.gathered for other in self.loops) or self._waits(stage):
            return False
        if stage.sink is not None and self.loops:
            updates = next((other for other in self.loops if other.result is stage.sink.updates), None)
            if updates is None or any(rows != self.loops[updates] for rows in self._rows_of_reads(stage)):
                return False
            self.loops[stage] = self.loops[updates]
            return True
        if (rows := self._rows(stage)) is None or not self._is_worth_it(stage, rows):
            return False
        self.sizes = [stage.sizes[loop] for loop in rows]
        self.loops[stage] = rows
        return True

    def _waits(self, stage: Stage) -> bool:
        """Whether ``stage`` reads a tensor that all programs must have updated before."""
        updated = {other.result for other in self.loops if other.sink is not None}
        return any(source in updated for _, source, _ in stage.reads())

    def _is_worth_it(self, stage: Stage, rows: Sequence[int]) -> bool:
        """Whether the programs of ``rows`` suit ``stage``: if it is large, there must be many of them."""
        if stage.is_reduction or not self.loops:
            return True
        inner = math.prod(typical(size) for loop, size in stage.sizes.items() if loop not in rows)
        reduced, many = any(other.is_reduction for other in self.loops), math.prod(typical(stage.sizes[row]) for row in rows)
        return inner == 1 or (reduced and (inner <= LARGE or many >= MANY))

    def inner(self, stage: Stage) -> list[int]:
        """The loops of ``stage`` that are not rows."""
        return [loop for loop, size in stage.sizes.items() if size != 1 and loop not in self.loops[stage]]

    def _rows(self, stage: Stage) -> list[int] | None:
        """The loops of ``stage`` that are rows."""
        kept = _real(stage, stage.kept)
        if self.sizes is None:
            return kept
        if stage.is_reduction and all(
            not other.is_reduction and other.sizes == stage.sizes and rows == _real(other, other.kept)
            for other, rows in self.loops.items()
        ):
            self.loops = dict.fromkeys(self.loops, kept)
            self.sizes = [stage.sizes[loop] for loop in kept]
        found = self._rows_of_reads(stage)
        if not found:
            return _subsequence(stage, kept, self.sizes)
        [rows, *others] = found
        if rows is None or any(other != rows for other in others) or not set(rows).issubset(kept):
            return None
        if stage.is_reduction and len(rows) < len(kept):  # a program would combine elements of different results
            return None
        return rows if [stage.sizes[row] for row in rows] == self.sizes else None

    def _rows_of_reads(self, stage: Stage) -> list[list[int] | None]:
        """``_rows_of_read`` of each stage in the kernel that ``stage`` reads."""
        made = {other.result: other for other in self.loops}
        return [self._rows_of_read(stage, made[source], map) for _, source, map in stage.reads() if source in made]

    def _rows_of_read(self, stage: Stage, source: Stage, map: AffineMap) -> list[int] | None:
        """The loops of ``stage`` in the positions of the rows of ``source``; None where it reads elements of another row."""
        places = dict[int, int]()
        for loop, expression in zip(source.kept, map.results, strict=True):
            if source.sizes[loop] == 1:
                continue
            if not isinstance(expression, AffineDimExpr) or stage.sizes[expression.position] != source.sizes[loop]:
                return None
            if expression.position in places.values():  # a diagonal
                return None
            places[loop] = expression.position
        rows = [places[loop] for loop in self.loops[source]]
        inner = [place for loop, place in places.items() if loop not in self.loops[source]]
        own = [loop for loop, size in stage.sizes.items() if size != 1 and loop not in rows]
        return rows if not inner or inner == own else None


def _real(stage: Stage, loops: Sequence[int]) -> list[int]:
    return [loop for loop in loops if stage.sizes[loop] != 1]


def _subsequence(stage: Stage, loops: Sequence[int], sizes: Sequence[Steps]) -> list[int] | None:
    """The first of ``loops`` with these ``sizes``, in order; None if there are none, or other loops remain in a reduction."""
    found, left = list[int](), list(sizes)
    for loop in loops:
        if left and stage.sizes[loop] == left[0]:
            found.append(loop)
            left.pop(0)
    return None if left or (stage.is_reduction and len(found) < len(loops)) else found


def kernels_of(group: GroupOp, stages: Sequence[Stage]) -> list[list[Stage]]:
    """The stages of each kernel, in order: runs of the same rows. All pieces of a concatenation are in one kernel."""
    pieces = dict[SSAValue, tensor.ConcatOp]()
    for op in group.body.block.ops:
        if isinstance(op, tensor.ConcatOp):
            pieces |= dict.fromkeys(op.inputs, op)
    kernels = runs_of(stages)
    home = {stage.result: number for number, kernel in enumerate(kernels) for stage in kernel}
    split = [op for op in dict.fromkeys(pieces.values()) if len({home[piece] for piece in op.inputs}) > 1]
    moved = [[stage for stage in stages if pieces.get(stage.result) is op] for op in split]
    out = {stage for group in moved for stage in group}
    return [left for kernel in kernels if (left := [stage for stage in kernel if stage not in out])] + moved


def runs_of(stages: Sequence[Stage]) -> list[list[Stage]]:
    """Split ``stages`` into runs of the same rows, with updates and their positions in one run."""
    runs, rows = list[list[Stage]](), Rows()
    for together in _with_places(stages):
        if not runs or not all(map(rows.add, together)):
            runs.append([])
            rows = Rows()
            for stage in together:
                rows.add(stage)
        runs[-1] += together
    return runs


def _with_places(stages: Sequence[Stage]) -> Iterator[list[Stage]]:
    """Each of ``stages``, together with the next one if that has the positions of its updates."""
    left = deque(stages)
    while left:
        together = [left.popleft()]
        if left and (sink := left[0].sink) is not None and sink.updates is together[0].result:
            together.append(left.popleft())
        yield together


def are_independent(stages: Sequence[Stage]) -> bool:
    """Whether no stage reads a stage of another run, so that one kernel can compute all runs."""
    runs = runs_of(stages)
    home = {stage.result: number for number, run in enumerate(runs) for stage in run}
    return all(home.get(source, number) == number for number, run in enumerate(runs) for s in run for _, source, _ in s.reads())


def rows_of(stages: Sequence[Stage]) -> Rows:
    """The rows of ``stages``. VerifyException where they are not one run."""
    rows = Rows()
    for stage in stages:
        if not rows.add(stage):
            raise VerifyException(f"#tile.schedule: stage {stage.number} has other rows than those before it")
    return rows
