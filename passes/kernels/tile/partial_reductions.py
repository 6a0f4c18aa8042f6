"""Partial reductions: tensors of the totals of parts, and stages that combine them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AffineMapAttr, TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from fxc.dialects.attributes.size_polynomials import strides_of
from fxc.dialects.attributes.types import contiguous_strides, device, dtype_name, is_tensor, tensor_type
from fxc.dialects.tile import ScheduleAttr
from fxc.passes.kernels.tiling.choices import power_of_two
from fxc.passes.kernels.tiling.dynamic import fixed
from fxc.passes.kernels.tiling.linear_forms import extent
from fxc.passes.kernels.tiling.loop_nests import Plan
from fxc.passes.kernels.tiling.stages import Stage


def parts_of(plans: Sequence[Plan]) -> dict[SSAValue, TensorType]:
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
            made.append((read.tensor, Stage(_combining(block, stage, read.tensor), len(made))))
    return made


def _combining(block: Block, stage: Stage, parts: SSAValue) -> linalg.GenericOp:
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
    """The schedule of ``stages``, which combine parts: lanes along the totals, or along the parts of a single total."""
    totals = max(math.prod(fixed(stage.sizes[loop]) for loop in stage.kept) for stage in stages)
    parts = max(fixed(stage.sizes[0]) for stage in stages)
    numbers = [stage.number for stage in stages]
    most = schedule.lanes.value.data
    if totals > 1:
        lanes = min(most, power_of_two(totals))
        return ScheduleAttr.of("outer", numbers, lanes, 1, lanes)
    return ScheduleAttr.of("inner", numbers, min(most, power_of_two(parts)), 1, 1)
