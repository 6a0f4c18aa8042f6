"""Expressions that several passes over a row compute for the same element, and the memory that can hold them between passes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from xdsl.dialects import affine, arith, math, scf
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from fxc.dialects.attributes.types import tensor_of
from fxc.dialects.tile import IterateOp, MathOp
from fxc.dialects.tile.control import structure
from fxc.passes.analysis.index.forms import Atom, Form, Symbol
from fxc.passes.kernels.tiling.gathers import PLACED, extract_of
from fxc.passes.kernels.tiling.loop_nests import LoopPlan
from fxc.passes.kernels.tiling.stages import Stage

CHEAP = (math.AbsFOp, math.AbsIOp, math.CeilOp, math.FloorOp, math.FmaOp, math.CopySignOp, math.RoundEvenOp)
"""Functions of a few instructions."""

Places = dict[tuple[Stage, SSAValue], Stage]
"""A value in the body of a stage -> the stage in whose memory it is saved."""


def repeated(plan: LoopPlan, pointers: Mapping[SSAValue, SSAValue]) -> tuple[Places, Places]:
    """Values that a pass saves in the memory of a later stage's result, and values that later passes load from there.

    A result holds one value, the largest expression with a function in it, if the last pass that needs it writes the result.
    """
    expressions = Expressions(plan)
    home = {stage: number for number, nest in enumerate(plan.nests) for stage in nest.stages}
    keeps, kept_in = Places(), Places()
    for holder in reversed(plan.stages):
        if (
            holder.is_reduction
            or holder.sink is not None
            or holder.result not in pointers
            or not plan.nests[home[holder]].loops
        ):
            continue
        places = [place for place in expressions.costly if _fits(plan, holder, *place, home) and place not in kept_in]
        for value in reversed([value for stage, value in places if stage is holder]):
            same = [place for place in places if expressions.keys[place] == expressions.keys[holder, value]]
            first = min(same, key=lambda place: home[place[0]])
            if home[first[0]] < home[holder]:
                keeps[first] = holder
                kept_in |= {place: holder for place in same if home[place[0]] > home[first[0]]}
                break
    return keeps, kept_in


def is_costly(op: Operation) -> bool:
    return (op.name.startswith("math.") and not isinstance(op, CHEAP)) or isinstance(op, (MathOp, arith.DivfOp))


def _fits(plan: LoopPlan, holder: Stage, stage: Stage, value: SSAValue, home: Mapping[Stage, int]) -> bool:
    """Whether ``value`` of ``stage`` can be saved in the memory of the later result of ``holder``."""
    same_loops = plan.nests[home[stage]].loops == plan.nests[home[holder]].loops
    return same_loops and home[stage] <= home[holder] and value.type == tensor_of(holder.result).element_type


class Expressions:
    """The expressions in the bodies of the stages of ``plan``: ``keys`` are equal for equal expressions of equal elements.

    ``costly`` lists the expressions with a function or a division that varies along the row, in the order of the bodies.
    """

    def __init__(self, plan: LoopPlan) -> None:
        self.plan, self.keys = plan, dict[tuple[Stage, SSAValue], int]()
        self.costly = list[tuple[Stage, SSAValue]]()
        self._numbers = dict[Hashable, int]()
        for stage in plan.stages:
            self._add(stage)

    def _add(self, stage: Stage) -> None:
        costly, varying, rows = set[SSAValue](), set[SSAValue](), set(self.plan.rows)
        for number, size in stage.numbers.items():
            self._number(stage, number, ("size", size))
        for argument, source, _ in stage.reads():
            form = self.plan.forms[stage, argument]
            self._number(stage, argument, ("load", source, form))
            varying |= {argument} if form.loops() - rows else set()
        for op in stage.op.body.block.ops:
            if op is stage.combiner or not op.results:
                continue
            if isinstance(op, IterateOp):
                key = structure(op, [self.keys[stage, value] for value in (*op.operands, *op.captured())])
                for place, result in enumerate(op.results):
                    self._number(stage, result, ("iterate", key, place))
                    self.costly.append((stage, result))
                costly |= {*op.results}
                varying |= {*op.results}
                continue
            [value] = op.results
            if isinstance(op, (linalg.IndexOp, *PLACED)) or varying.intersection(op.operands):
                varying.add(value)
            if isinstance(op, linalg.IndexOp):
                self._number(stage, value, ("index", self.plan.forms.get((stage, op))))
                continue
            if isinstance(op, PLACED):
                self._number(stage, value, self._placed(stage, op))
                continue
            operands = tuple(self.keys[stage, operand] for operand in op.operands)
            self._number(stage, value, (op.name, tuple(op.properties.items()), value.type, operands))
            if (is_costly(op) and value in varying) or costly.intersection(op.operands):
                costly.add(value)
                self.costly.append((stage, value))

    def _placed(self, stage: Stage, op: Operation) -> Hashable:
        """The key of a position, or of a read there: its form, with keys for computed numbers."""
        read = () if isinstance(op, affine.ApplyOp) else (extract_of(op).tensor,)
        casts = tuple((each.name, each.results[0].type) for each in op.walk() if each is not op and each.results)
        operands = [self.keys[stage, each] for each in op.operands] if isinstance(op, scf.IfOp) else ()
        return ("placed", *read, casts, *operands, self._form(stage, self.plan.forms[stage, op]))

    def _form(self, stage: Stage, form: Form) -> Hashable:
        def atom(atom: Atom) -> Hashable:
            if isinstance(atom, Symbol):
                return ("number", self.keys[stage, atom.value])
            return atom if isinstance(atom, int) else (self._form(stage, atom.form), atom.divisor)

        return form.constant, frozenset((atom(each), factor) for each, factor in form.terms)

    def _number(self, stage: Stage, value: SSAValue, key: Hashable) -> None:
        self.keys[stage, value] = self._numbers.setdefault(key, len(self._numbers))
