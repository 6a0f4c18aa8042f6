"""The loops of a run of stages with the same rows: rows, nests of inner loops, and the addresses that stages access in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.attributes.size_polynomials import Steps, names_of
from fxc.dialects.attributes.types import tensor_of
from fxc.passes.analysis.index.forms import Form
from fxc.passes.kernels.tiling.dynamic import address, collapsed, extent, typical
from fxc.passes.kernels.tiling.gathers import forms_of
from fxc.passes.kernels.tiling.stages import Stage, rows_of

INNER = 1000
"""The number of the first inner loop of a nest; rows have lower ones."""

PART = INNER - 1
"""The number of the loop over the parts of a partial reduction."""


@dataclass
class Nest:
    """Stages that run in one nest of inner loops, of which the last is the innermost."""

    stages: list[Stage]
    loops: list[int]
    reductions: list[Stage] = field(default_factory=list[Stage])


@dataclass(frozen=True)
class Cut:
    """``loop`` in ``count`` parts of ``length`` steps, the last of which may be shorter."""

    loop: int
    length: int
    count: int


class LoopPlan:
    """The loops of stages with the same rows.

    ``places``: for a tensor that is part of another one, the type of that, and the offset of the part in it. ``rows`` and the
    loops of ``nests`` are joined where possible and sorted in memory order: of the result where nothing is reduced, else of the
    largest operand, unless ``joins`` is false. ``sizes`` has the number of steps of each.
    """

    def __init__(
        self, stages: Sequence[Stage], places: Mapping[SSAValue, tuple[TensorType, Steps]], *, joins: bool = True
    ) -> None:
        self.stages, self.places = stages, places
        found = rows_of(stages)
        self.sizes = dict[int, Steps](enumerate(found.sizes or ()))
        self.rows = list(self.sizes)
        self.nests = list[Nest]()
        self.cut: Cut | None = None
        self.forms = dict[tuple[Stage, object], Form]()
        for stage in stages:
            self._add(stage, found.loops[stage], found.inner(stage))
        if joins:
            self._join()
        for nest in self.nests[1:]:
            self._rename(nest)

    def _join(self) -> None:
        model = self._model()
        self.rows.sort(key=lambda loop: -abs(typical(model.factor(loop))))
        self._collapse(self.rows, list(self.forms))
        for nest in self.nests:
            nest.loops.sort(key=lambda loop: -abs(typical(self._model(nest.stages).factor(loop))))
            self._collapse(nest.loops, [key for key in self.forms if key[0] in nest.stages])

    def row_loop(self) -> int | None:
        """The single loop of all nests that have loops; None where they differ or have several."""
        loops = {tuple(nest.loops) for nest in self.nests if nest.loops}
        return next(iter(loops))[0] if len(loops) == 1 and len(next(iter(loops))) == 1 else None

    def reductions(self) -> list[Stage]:
        return [stage for nest in self.nests for stage in nest.reductions]

    def second_loop(self) -> int | None:
        """The loop along the second side of tiles: a transposed one, else the last but the innermost; None if there is none."""
        turned = self.turned_loop()
        if turned is not None or len(self.rows) < 2:
            return turned
        return self.rows[-2] if isinstance(self.sizes[self.rows[-2]], int) else None

    def turned_loop(self) -> int | None:
        """The row loop along which most operands with a strided innermost loop are contiguous; None where there is none."""
        if not self.rows:
            return None
        forms = [form for form in self.forms.values() if abs(typical(form.factor(self.rows[-1]))) > 1]
        loops = [loop for loop in self.rows[:-1] if isinstance(self.sizes[loop], int)]
        counts = {loop: sum(form.factor(loop) == 1 for form in forms) for loop in loops}
        best = max(counts, key=lambda loop: counts[loop], default=None)
        return best if best is not None and counts[best] else None

    def cut_in(self, parts: int, step: int) -> None:
        """Split the longest reduced loop into at most ``parts``.

        The length of parts is a multiple of ``step`` where lanes run along the loop. Results of reductions are then tensors of
        totals, one for each part. VerifyException where there are several passes.
        """
        [nest, *others] = self.nests
        if others or not nest.reductions:
            raise VerifyException("#tile.schedule: partial reductions must not read one another's results")
        sizes = {loop: size for loop in (*nest.loops, *self.rows) if isinstance(size := self.sizes[loop], int)}
        if len(sizes) < len(nest.loops) + len(self.rows):
            raise VerifyException("#tile.schedule: partial reductions need a static number of rows")
        if not nest.loops or not all(sizes.values()):
            return
        loop = max(nest.loops, key=lambda loop: sizes[loop])
        step = step if loop == nest.loops[-1] else 1
        length = math.ceil(sizes[loop] / parts / step) * step
        count = math.ceil(sizes[loop] / length)
        if count == 1:
            return
        self.cut, self.sizes[PART] = Cut(loop, length, count), count
        for stage in nest.reductions:
            if stage.result in self.places:
                raise VerifyException("#tile.schedule: no partial reductions where a total is in the memory of another result")
            self.forms[stage, None] += Form(0, ((PART, extent(stage.result.type)),))

    def names(self) -> list[str]:
        """The names of sizes in the loops, forms and bodies."""
        numbers = [name for size in self.sizes.values() for name in names_of(size)]
        return [
            *numbers,
            *(n for form in self.forms.values() for n in form.names()),
            *(n for s in self.stages for n in s.names()),
        ]

    def _rename(self, nest: Nest) -> None:
        """Give the loops of ``nest`` the numbers of the loops of an earlier nest with the same sizes."""
        sizes = [self.sizes[loop] for loop in nest.loops]
        for other in self.nests[: self.nests.index(nest)]:
            if sizes and [self.sizes[loop] for loop in other.loops] == sizes:
                names = dict(zip(nest.loops, other.loops, strict=True)) | {loop: loop for loop in self.rows}
                for key in [key for key in self.forms if key[0] in nest.stages]:
                    self.forms[key] = self.forms[key].renamed(names)
                nest.loops = list(other.loops)
                return

    def count(self, loops: Sequence[int]) -> Steps:
        """The product of the steps of ``loops``."""
        return math.prod(self.sizes[loop] for loop in loops)

    def _add(self, stage: Stage, rows: Sequence[int], inner: Sequence[int]) -> None:
        nest = self._nest(stage, [stage.sizes[loop] for loop in inner])
        names = {loop: place for place, loop in enumerate(rows)} | dict(zip(inner, nest.loops, strict=True))
        for argument, source, map in stage.reads():
            self.forms[stage, argument] = self._form(source, map.results, stage).renamed(names)
        for op, form in forms_of(stage):
            self.forms[stage, op] = form.renamed(names)
        self.forms[stage, None] = self._form(stage.op.results[0], stage.maps[-1].results, stage).renamed(names)

    def _nest(self, stage: Stage, sizes: Sequence[Steps]) -> Nest:
        """The nest of ``stage``: the last one, if it has the same loops and reduces no operand of ``stage``; else a new one."""
        last = self.nests[-1] if self.nests else None
        sources = {source for _, source, _ in stage.reads()}
        fits = last is not None and [self.sizes[loop] for loop in last.loops] == list(sizes)
        if last is None or not fits or any(reduction.result in sources for reduction in last.reductions):
            first = INNER * (len(self.nests) + 1)
            last = Nest([], [first + place for place in range(len(sizes))])
            self.sizes |= dict(zip(last.loops, sizes, strict=True))
            self.nests.append(last)
        last.stages.append(stage)
        if stage.is_reduction:
            last.reductions.append(stage)
        return last

    def _form(self, value: SSAValue, index: Sequence[AffineExpr], stage: Stage) -> Form:
        type, first = self.places.get(value, (tensor_of(value), 0))
        return address(type, index, stage.sizes) + Form(first)

    def _model(self, stages: Sequence[Stage] | None = None) -> Form:
        """The form that determines the order of the loops."""
        stages = self.stages if stages is None else stages
        writes = [self.forms[stage, None] for stage in stages if not stage.is_reduction]
        reads = [form for (stage, argument), form in self.forms.items() if stage in stages and argument is not None]
        candidates = reads if any(stage.is_reduction for stage in stages) else writes
        return max(candidates, key=lambda form: len(form.loops()), default=Form(0))

    def _collapse(self, loops: list[int], keys: Sequence[tuple[Stage, object]]) -> None:
        left, sizes, forms = collapsed(loops, self.sizes, [self.forms[key] for key in keys])
        loops[:] = left
        self.sizes |= sizes
        self.forms |= dict(zip(keys, forms, strict=True))
