"""Attention in the IR: a product, a group with a softmax of its rows, and a product with the probabilities."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import f32
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from fxc.dialects.fusion import GroupOp, YieldOp
from fxc.passes.analysis.matching import number
from fxc.passes.analysis.memory import writes_between
from fxc.passes.kernels.tiling.gathers import PLACED, operands_of
from fxc.passes.kernels.tiling.loop_nests import LoopPlan
from fxc.passes.kernels.tiling.online import copies, exponentials
from fxc.passes.kernels.tiling.products import BATCH, COLUMN, ROW, Product, axes_of, behind_views, fit, is_plain, product_of
from fxc.passes.kernels.tiling.repeats import Expressions
from fxc.passes.kernels.tiling.stages import Stage, stages_of


@dataclass(frozen=True)
class Attention:
    """``output`` is the product of probabilities with values; ``group`` computes these from ``read``, the ``scores`` or a view.

    ``maximum`` and ``total`` are the reductions of the softmax, ``others`` independent ones along the keys, ``after`` stages
    that compute one number a row from them. ``last`` computes the probabilities: its value ``weight`` is a product with the
    exponential, which is scaled after the loop over the keys by what ``last`` computes from ``weight``.
    """

    scores: Product
    output: Product
    group: GroupOp
    read: SSAValue
    plan: LoopPlan
    maximum: Stage
    total: Stage
    others: Sequence[Stage]
    after: Sequence[Stage]
    last: Stage
    weight: SSAValue
    batches: Sequence[int]
    row: int
    key: int
    between: Sequence[Operation]
    """The views of scores and probabilities, last ones first."""

    def same(self, stage: Stage) -> Iterator[SSAValue]:
        """The values in the body of ``stage`` that are the modified score of which ``maximum`` is the maximum."""
        keys = Expressions(self.plan).keys
        wanted = keys[self.maximum, self.maximum.element]
        return (value for (at, value), key in keys.items() if at is stage and key == wanted)

    def centres(self, stage: Stage) -> list[SSAValue]:
        """The arguments of ``stage`` that read the maximum of the row."""
        return centres(self.plan, self.maximum, stage)

    def sources(self) -> list[SSAValue]:
        """The tensors that the group reads, except the scores."""
        made = {self.read, *(stage.result for stage in self.plan.stages)}
        found = [source for stage in self.plan.stages for _, source, _ in stage.reads()]
        found += [source for stage in self.plan.stages for source in stage.gathered]
        return [source for source in dict.fromkeys(found) if source not in made]

    def results(self) -> list[SSAValue]:
        """The tensors with a number a row that the group yields."""
        return [value for value in dict.fromkeys(self.group.yielded()) if value is not self.last.result]


def attention_of(op: Operation) -> Attention | None:
    """The attention whose last product is ``op``; None where it is another one, or some of it is read elsewhere."""
    output = product_of(op)
    if output is None or not is_plain(output):
        return None
    behind = behind_views(output.left.value)
    if behind is None:
        return None
    probabilities, after = behind
    group = probabilities.owner
    if not isinstance(group, GroupOp) or group.parent is not op.parent or not _only_before(group, op, probabilities):
        return None
    stages = stages_of(group)
    if not stages or any(stage.is_dynamic or stage.sink is not None for stage in stages) or not _has_only_loops(group):
        return None
    for read in dict.fromkeys(source for stage in stages for _, source, _ in stage.reads()):
        behind = behind_views(read, group)
        owner = behind[0].owner if behind is not None else None
        scores = product_of(owner) if isinstance(owner, Operation) else None
        if behind is None or scores is None or scores.op.parent is not op.parent or writes_between(scores.op, op):
            continue
        if is_plain(scores) and fit(scores, output):
            try:
                plan = LoopPlan(stages, {}, joins=False)
            except VerifyException:
                return None
            place = list(group.results).index(probabilities)  # type: ignore[arg-type]
            return _matched(scores, output, group, read, plan, place, [*after, *behind[1]])
    return None


def _only_before(group: GroupOp, op: Operation, probabilities: SSAValue) -> bool:
    """Whether ``op`` reads the probabilities alone, and others read further results of ``group`` only after it."""
    users = [use.operation for result in group.results if result is not probabilities for use in result.uses]
    block = op.parent
    tops = [block.find_ancestor_op_in_block(user) if block is not None else None for user in users]
    return probabilities.has_one_use() and all(top is not None and op.is_before_in_block(top) for top in tops)


def _has_only_loops(group: GroupOp) -> bool:
    known = (linalg.GenericOp, linalg.FillOp, arith.ConstantOp, tensor.EmptyOp, YieldOp)
    return all(isinstance(op, known) for op in group.body.block.ops)


def _matched(
    scores: Product,
    output: Product,
    group: GroupOp,
    read: SSAValue,
    plan: LoopPlan,
    place: int,
    views: Sequence[Operation],
) -> Attention | None:
    key = plan.row_loop()
    last = next((stage for stage in plan.stages if stage.result is group.yielded()[place]), None)
    if key is None or last is None or last.is_reduction or list(group.yielded()).count(last.result) != 1:
        return None
    forms = [plan.forms[stage, argument] for stage in plan.stages for argument, source, _ in stage.reads() if source is read]
    sizes = {loop: plan.sizes[loop] for loop in (*plan.rows, key)}
    axes = [axes_of(form, scores.extents[:3], sizes) for form in (*forms, plan.forms[last, None])]  # type: ignore[arg-type]
    first = axes[0]
    if first is None or any(other != first for other in axes) or first[COLUMN] != [key] or len(first[ROW]) != 1:
        return None
    along = {stage for nest in plan.nests if nest.loops for stage in nest.stages}
    made = {stage.result for stage in plan.stages}
    if any(source in (read, *made) for stage in plan.stages for source in stage.gathered):
        return None
    if any(source is read for stage in plan.stages if stage not in along for _, source, _ in stage.reads()):
        return None
    reductions = [stage for stage in plan.stages if stage in along and stage.is_reduction]
    pairs = [(a, b) for a in reductions for b in reductions if a is not b and exponentials(plan, a, b) is not None]
    if not pairs or {stage for stage in along if not stage.is_reduction} != {last}:
        return None
    maximum, total = pairs[0]
    others = [stage for stage in reductions if stage not in (maximum, total)]
    if any(source in made for stage in (maximum, *others) for _, source, _ in stage.reads()):
        return None
    after = [stage for stage in plan.stages if stage not in along]
    weight = _weight(plan, key, maximum, last, made)
    if weight is None or any(stage.is_reduction for stage in after):
        return None
    found = (maximum, total, others, after, last, weight, first[BATCH], first[ROW][0], key, views)
    return Attention(scores, output, group, read, plan, *found)


def _weight(plan: LoopPlan, key: int, maximum: Stage, last: Stage, made: set[SSAValue]) -> SSAValue | None:
    """The value of ``last`` up to which all keys are computed alike; what follows scales a row, or sets it to zero."""
    keys = Expressions(plan).keys
    from_rows, along = set[SSAValue](), set[SSAValue]()
    roots = set(centres(plan, maximum, last))
    for argument, source, _ in last.reads():
        from_rows |= {argument} if source in made else set()
        along |= {argument} if key in plan.forms[last, argument].loops() else set()
    exponent: SSAValue | None = None
    for op in last.op.body.block.ops:
        read = list(operands_of(op)) if isinstance(op, PLACED) else list(op.operands)
        if isinstance(op, math.ExpOp) and exponent is None and _is_centred(op, roots):
            distance = op.operands[0].owner
            assert isinstance(distance, Operation)
            if keys[last, distance.operands[0]] == keys[maximum, maximum.element]:
                exponent = op.result
        form = plan.forms.get((last, op))
        if exponent is None or exponent not in op.results:
            from_rows |= set(op.results) if from_rows.intersection(read) else set()
        along |= set(op.results) if along.intersection(read) or (form is not None and key in form.loops()) else set()
    if exponent is None or exponent.type != f32:
        return None
    depends = set[SSAValue]([exponent])
    for op in last.op.body.block.ops:
        depends |= set(op.results) if depends.intersection(op.operands) else set()
    value, weight = last.element, None
    while value is not exponent:
        step = _scaled(value, depends)
        if step is None:
            return None
        inner, factor = step
        if weight is None and factor in along:
            weight = value
        if factor in depends or (weight is not None and factor in from_rows):
            return None
        value = inner
    weight = exponent if weight is None else weight
    return weight if weight.type == f32 else None


def centres(plan: LoopPlan, maximum: Stage, stage: Stage) -> list[SSAValue]:
    """The arguments of ``stage`` that read the result of ``maximum``, or a copy of that."""
    same = {maximum.result, *(other.result for other in plan.stages if copies(other, maximum))}
    return [argument for argument, source, _ in stage.reads() if source in same]


def _is_centred(op: math.ExpOp, centres: set[SSAValue]) -> bool:
    distance = op.operands[0].owner
    return isinstance(distance, arith.SubfOp) and distance.operands[1] in centres


def _scaled(value: SSAValue, depends: Container[SSAValue]) -> tuple[SSAValue, SSAValue | None] | None:
    """The operand that ``value`` scales or sets to zero, and what this depends on; None for other ops."""
    op = value.owner
    match op:
        case arith.TruncFOp() | arith.ExtFOp():
            return op.operands[0], None
        case arith.DivfOp():
            return op.operands[0], op.operands[1]
        case arith.MulfOp():
            left, right = op.operands
            return (left, right) if left in depends else (right, left)
        case arith.SelectOp():
            condition, yes, no = op.operands
            value, other = (yes, no) if yes in depends else (no, yes)
            zero = number(other.owner.value) if isinstance(other.owner, arith.ConstantOp) else None
            return (value, condition) if zero == 0 else None
        case _:
            return None
