"""Rules of kernel operations in the reference interpreter (``tile_level.py``), including control flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import torch
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from fxc.bridge.random_numbers import random_bits
from fxc.bridge.values import torch_dtype
from fxc.dialects import tile
from fxc.dialects.text.diagnostics import place_of
from fxc.dialects.text.syntax import op_text
from fxc.dialects.tile.memory import ATOMICS
from fxc.dialects.tile.types import element_of, shape_of
from fxc.errors import BoundsError
from fxc.interpret.tile_ops import CASTS, FLOAT_COMPARISONS, FUNCTIONS, INTEGER_COMPARISONS, reduction, scan
from fxc.interpret.tile_programs import Programs, Rule, kernel_error

Tensor = torch.Tensor


def _align(value: Tensor, rank: int) -> Tensor:
    """Reshape one number per program to the rank of a block."""
    return value.reshape(-1, *[1] * rank)


def _along(count: int, dim: int, rank: int) -> Tensor:
    """Return 0, 1, ... along a dimension of a block."""
    return torch.arange(count).reshape(1, *[count if i == dim else 1 for i in range(rank)])


def _constant(run: Programs, op: arith.ConstantOp) -> list[Tensor]:
    type = op.result.type
    dtype, shape = run.launch.dtype(element_of(type)), shape_of(type)
    value = op.value
    if isinstance(value, DenseIntOrFPElementsAttr):
        numbers = [_number(number, element_of(type)) for number in value.get_values()]
        return [torch.tensor(numbers, dtype=dtype).reshape(1, *shape)]
    assert isinstance(value, (IntegerAttr, FloatAttr))
    return [torch.tensor([_number(value.value.data, type)], dtype=dtype)]


def _number(value: Any, element: Attribute) -> Any:
    """Wrap an integer to its type, in two's complement; a bit is a bool."""
    if not isinstance(element, IntegerType):
        return value
    half = 1 << (element.bitwidth - 1)
    return bool(value) if element.bitwidth == 1 else (int(value) + half) % (2 * half) - half


def _bitcast(run: Programs, op: arith.BitcastOp) -> list[Tensor]:
    old, new = (torch_dtype(element_of(type)) for type in (op.input.type, op.result.type))
    value = run.env[op.input].to(old).contiguous().view(new)
    return [value.to(run.launch.dtype(element_of(op.result.type)))]


def _program_id(run: Programs, op: tile.ProgramIdOp) -> list[Tensor]:
    grid, axis = run.launch.grid, op.axis.value.data
    return [run.programs // prod(grid[:axis]) % grid[axis]]


def _iota(run: Programs, op: tile.IotaOp) -> list[Tensor]:
    shape, dim = shape_of(op.result.type), op.dim.value.data
    return [_along(shape[dim], dim, len(shape)).expand(1, *shape)]


def _mask(run: Programs, op: tile.MaskOp) -> list[Tensor]:
    shape, dim = shape_of(op.result.type), op.dim.value.data
    start, stop = (_align(run.env[value], len(shape)) for value in (op.start, op.stop))
    inside = start + _along(shape[dim], dim, len(shape)) < stop
    return [inside.expand(inside.shape[0], *shape)]


def _splat(run: Programs, op: tile.SplatOp) -> list[Tensor]:
    shape = shape_of(op.result.type)
    value = _align(run.env[op.value], len(shape))
    return [value.expand(value.shape[0], *shape)]


def _expand(run: Programs, op: tile.ExpandOp) -> list[Tensor]:
    value = run.env[op.value].unsqueeze(op.dim.value.data + 1)
    return [value.expand(value.shape[0], *shape_of(op.result.type))]


def _transpose(run: Programs, op: tile.TransposeOp) -> list[Tensor]:
    return [run.env[op.value].permute(0, *[dim + 1 for dim in op.permutation.get_values()])]


def _select(run: Programs, op: tile.SelectOp | arith.SelectOp) -> list[Tensor]:
    condition, a, b = run.values(op)
    if condition.dim() < a.dim():
        condition = _align(condition, a.dim() - 1)
    return [torch.where(condition, a, b)]


def _compare(run: Programs, op: arith.CmpiOp | arith.CmpfOp) -> list[Tensor]:
    table = INTEGER_COMPARISONS if isinstance(op, arith.CmpiOp) else FLOAT_COMPARISONS
    return [table[op.predicate.value.data](*run.values(op))]


def _compare_blocks(run: Programs, op: tile.CompareOp) -> list[Tensor]:
    a, b = run.values(op)
    if a.is_floating_point():
        return [FLOAT_COMPARISONS[arith.CMPF_COMPARISON_OPERATIONS.index(op.kind.data)](a, b)]
    return [INTEGER_COMPARISONS[arith.CMPI_COMPARISON_OPERATIONS.index(op.kind.data)](a, b)]


def _cast(run: Programs, op: tile.CastOp) -> list[Tensor]:
    return [CASTS[op.kind.data](run.env[op.value], run.launch.dtype(element_of(op.result.type)))]


def _math(run: Programs, op: tile.MathOp) -> list[Tensor]:
    return [FUNCTIONS[op.kind.data](*run.values(op))]


def _last(value: Tensor, dims: Sequence[int]) -> Tensor:
    """Flatten these dimensions of a block into one last axis, side by side: PyTorch sums others one after the other."""
    kept = [dim for dim in range(value.dim() - 1) if dim not in dims]
    order = value.permute(0, *[dim + 1 for dim in (*kept, *dims)])
    return order.reshape(*order.shape[: 1 + len(kept)], -1).contiguous()


def _reduce(run: Programs, op: tile.ReduceOp) -> list[Tensor]:
    dims = op.dims.get_values()
    return [reduction(op.kind.data, _last(run.env[op.value], dims)) if dims else run.env[op.value]]


def _scan(run: Programs, op: tile.ScanOp) -> list[Tensor]:
    dim = op.dim.value.data + 1
    return [scan(op.kind.data, run.env[op.value].movedim(dim, -1)).movedim(-1, dim)]


def _dot(run: Programs, op: tile.DotOp) -> list[Tensor]:
    left, right, start = run.values(op)
    return [start + left.to(start.dtype) @ right.to(start.dtype)]


def _random(run: Programs, op: tile.RandomOp) -> list[Tensor]:
    offsets = run.env[op.offsets]
    return [random_bits(_align(run.env[op.seed], offsets.dim() - 1), offsets)]


def _offsets(run: Programs, op: tile.LoadOp | tile.StoreOp | tile.GatherOp, shape: Sequence[int]) -> Tensor:
    """Return the element offset of each lane."""
    if not isinstance(op, (tile.LoadOp, tile.StoreOp)):
        return run.env[op.offsets]
    result = _align(run.env[op.base], len(shape))
    for dim, stride in enumerate(op.strides()):
        step = _align(run.env[stride], len(shape)) if isinstance(stride, SSAValue) else stride
        result = result + _along(shape[dim], dim, len(shape)) * step
    return result


def _lanes(run: Programs, op: Any, type: Attribute) -> tuple[Tensor, Tensor, Tensor]:
    """Return offsets, mask and program of each lane of a memory access."""
    shape = shape_of(type)
    full = (len(run.programs), *shape)
    mask = torch.ones((), dtype=torch.bool) if op.mask is None else run.env[op.mask]
    if run.active is not None:
        mask = mask & _align(run.active, len(shape))
    return _offsets(run, op, shape).expand(full), mask.expand(full), _align(run.programs, len(shape)).expand(full)


def _load(run: Programs, op: tile.LoadOp | tile.GatherOp) -> list[Tensor]:
    offsets, mask, programs = _lanes(run, op, op.result.type)
    value = run.launch.buffers[op.pointer].read(offsets, mask, programs, op)
    if op.other is None:
        return [value]
    return [torch.where(mask, value, _align(run.env[op.other], value.dim() - 1))]


def _store(run: Programs, op: tile.StoreOp | tile.ScatterOp | tile.AtomicOp) -> list[Tensor]:
    offsets, mask, programs = _lanes(run, op, op.value.type)
    buffer = run.launch.buffers[op.pointer]
    if buffer.access == "read":
        raise kernel_error(f"%{buffer.name} is only read, and this writes it", op)
    write = partial(buffer.combine, op.KIND) if isinstance(op, tile.AtomicOp) else buffer.write
    write(offsets, run.expanded(run.env[op.value]), mask, programs, op)
    return []


def _within(run: Programs, condition: Tensor) -> tuple[Tensor | None, bool]:
    """Return the programs that are active where ``condition`` holds, and whether there are any."""
    if condition.shape[0] == 1 and len(run.programs) > 1:
        return run.active, bool(condition)
    active = condition if run.active is None else condition & run.active
    return active, bool(active.any())


def _merged(active: Tensor | None, new: Sequence[Tensor], old: Sequence[Tensor]) -> list[Tensor]:
    """Return ``new`` for active programs, ``old`` for others."""
    if active is None:
        return list(new)
    return [torch.where(_align(active, a.dim() - 1), a, b) for a, b in zip(new, old, strict=True)]


def _for(run: Programs, op: scf.ForOp) -> list[Tensor]:
    index, stop, step, *carried = run.values(op)
    if (step <= 0).any():
        raise kernel_error(f"a loop's step must be positive, not {int(step.min())}", op)
    around = run.active
    body = op.body.block
    while True:
        active, any_left = _within(run, index < stop)
        if not any_left:
            break
        run.active = active
        run.env.update(zip(body.args, [index, *carried], strict=True))
        carried = _merged(active, run.block(body), carried)
        run.active = around
        index = index + step
    return carried


def _if(run: Programs, op: scf.IfOp) -> list[Tensor]:
    condition, around = run.env[op.cond], run.active
    taken = list[tuple[Tensor | None, list[Tensor]]]()
    for region, holds in ((op.true_region, condition), (op.false_region, ~condition)):
        active, any_active = _within(run, holds)
        if any_active and region.blocks:
            run.active = active
            taken.append((active, run.block(region.block)))
            run.active = around
    if not op.results:
        return []
    (active, new), old = taken[0], taken[-1][1]
    return new if len(taken) == 1 else _merged(active, new, old)


def _iterate(run: Programs, op: tile.IterateOp) -> list[Tensor]:
    going, *carried = run.values(op)
    if run.active is not None:
        going = going & _align(run.active, going.dim() - 1)
    while going.any():
        run.env.update(zip(op.body.block.args, carried, strict=True))
        more, *new = run.block(op.body.block)
        carried = [torch.where(going, a, b) for a, b in zip(new, carried, strict=True)]
        going = going & more
    return carried


def _assert(run: Programs, op: tile.AssertOp) -> list[Tensor]:
    condition = run.env[op.condition]
    if run.active is not None:
        condition = condition | ~_align(run.active, condition.dim() - 1)
    if not condition.all():
        raise BoundsError(op.message.data, op=op_text(op), place=place_of(op))
    return []


RULES: Mapping[type[Operation], Rule] = {
    arith.ConstantOp: _constant,
    arith.BitcastOp: _bitcast,
    arith.CmpiOp: _compare,
    arith.CmpfOp: _compare,
    arith.SelectOp: _select,
    scf.ForOp: _for,
    scf.IfOp: _if,
    tile.IterateOp: _iterate,
    tile.ProgramIdOp: _program_id,
    tile.IotaOp: _iota,
    tile.MaskOp: _mask,
    tile.SplatOp: _splat,
    tile.ExpandOp: _expand,
    tile.TransposeOp: _transpose,
    tile.SelectOp: _select,
    tile.CompareOp: _compare_blocks,
    tile.CastOp: _cast,
    tile.MathOp: _math,
    tile.ReduceOp: _reduce,
    tile.ScanOp: _scan,
    tile.DotOp: _dot,
    tile.RandomOp: _random,
    tile.AssertOp: _assert,
    tile.LoadOp: _load,
    tile.GatherOp: _load,
    tile.StoreOp: _store,
    tile.ScatterOp: _store,
    **dict.fromkeys(ATOMICS.values(), _store),
}
