"""Interpret ``linalg.generic``, ``linalg.fill`` and operations of ``tensor`` on torch tensors, all elements at once.

Reductions are vectorized, too, if one operation of the body combines a new value with the accumulator; others run step by step.
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import MutableMapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from xdsl.dialects import affine, arith, cf, scf, tensor
from xdsl.dialects.builtin import TensorType, UnrealizedConversionCastOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)

from fxc.dialects import tile
from fxc.dialects.attributes import types
from fxc.dialects.attributes.size_polynomials import contiguous_steps, names_of, strides_of, value_at
from fxc.dialects.attributes.types import is_tensor
from fxc.errors import BoundsError, InputError, NoRuleError
from fxc.interpret.tile_ops import BINARY, element_dtype, identity, reduction, scalar_op
from fxc.interpret.tile_programs import combine

OPS = (
    linalg.GenericOp, linalg.FillOp, tensor.EmptyOp, tensor.DimOp, tensor.ConcatOp, UnrealizedConversionCastOp,
    tile.AccumulateOp,
)  # fmt: skip
"""The operations that ``run`` supports, besides scalar operations."""


def run(op: Operation, surroundings: MutableMapping[SSAValue, Any], *, wide: bool = False) -> torch.Tensor:
    """Return the result of ``op``, a new tensor of its type; ``wide``: floats are float64. ``surroundings``: visible values.

    Elements are computed on the CPU, whatever the device of the tensors. NoRuleError for operations not in ``OPS``.
    BoundsError for reads outside of a tensor, and failed assertions.
    """
    values = [surroundings[value] for value in op.operands]
    type = op.results[0].type
    if isinstance(op, tensor.DimOp):
        return torch.tensor(values[0].shape[int(values[1])], device="cpu")
    if isinstance(op, UnrealizedConversionCastOp):
        return torch.tensor(int(values[0]), device="cpu")
    assert is_tensor(type)
    if isinstance(op, tensor.EmptyOp):
        return _empty(type, values, wide)
    if isinstance(op, tensor.ConcatOp) and not type.has_static_shape():
        return torch.cat(list(values), op.dim.value.data)
    result = torch.empty_like(values[-1]) if not type.has_static_shape() else _empty(type, [], wide)
    match op:
        case linalg.FillOp():
            return result.fill_(values[0].item())
        case tensor.ConcatOp():
            return result.copy_(torch.cat(list(values), op.dim.value.data))
        case tile.AccumulateOp():
            return result.copy_(_accumulated(op, *values))
        case linalg.GenericOp():
            with torch.device("cpu"):
                return result.copy_(_generic(op, values, surroundings, wide))
        case _:
            raise NoRuleError(f"the linalg level has no {op.name}")


def _accumulated(op: tile.AccumulateOp, updates: torch.Tensor, places: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Return ``start`` combined with the updates at nonnegative positions."""
    chosen, result = places >= 0, start.clone(memory_format=torch.contiguous_format)
    if (outside := places[places >= start.numel()]).numel():
        raise BoundsError(f"element {int(outside[0])} is updated, but there are {start.numel()}")
    combine(result.view(-1), places[chosen], updates[chosen], op.kind.data)
    return result


def _empty(type: TensorType, sizes: Sequence[torch.Tensor], wide: bool) -> torch.Tensor:
    """Return a tensor of ``type``; ``sizes`` are its dynamic sizes."""
    given = iter(sizes)
    shape = [int(next(given)) if size < 0 else size for size in type.get_shape()]
    numbers = {name: size for name, size in zip(types.sizes(type), shape, strict=True) if isinstance(name, str)}
    dtype, device = element_dtype(type.element_type, wide), types.device(type)
    wanted = strides_of(type)
    if any(name not in numbers for step in wanted for name in names_of(step)):
        wanted = contiguous_steps(shape)  # strides depend on sizes of other tensors: they are unspecified here
    steps = [value_at(step, numbers) for step in wanted]
    return torch.empty_strided(shape, steps, dtype=dtype, device=device)


def _generic(
    op: linalg.GenericOp,
    values: Sequence[torch.Tensor],
    surroundings: MutableMapping[SSAValue, torch.Tensor],
    wide: bool,
) -> torch.Tensor:
    """Return the result of a generic with one output: one step for each point of the reduction loops."""
    *maps, out_map = [attribute.data for attribute in op.indexing_maps]
    *inputs, result = [*values[:-1], values[-1].cpu()]
    known = all(is_tensor(value.type) and value.type.has_static_shape() for value in op.operands)
    sizes = op.get_static_loop_ranges() if known else _loop_sizes([*maps, out_map], values)
    if not result.numel():
        return result

    def run_body(loops: Sequence[torch.Tensor], total: torch.Tensor) -> torch.Tensor:
        elements = [_read(source, map, loops) for source, map in zip(inputs, maps, strict=True)]
        own: dict[SSAValue, torch.Tensor] = dict(zip(op.body.block.args, [*elements, total], strict=True))
        env = ChainMap(own, surroundings)
        [element] = _Body(env, loops, wide).run(op.body.block, torch.tensor(0 not in result.shape))
        return element

    reduced = [dim for dim, kind in enumerate(op.iterator_types) if kind.data != IteratorType.PARALLEL]
    kept = [expression.position for expression in out_map.results if isinstance(expression, AffineDimExpr)]
    if len(kept) != len(out_map.results):
        raise InputError("the output of a generic is indexed by its loops")
    kind = _COMBINERS.get(_combiner(op.body.block))
    if reduced and kind is not None and 0 < prod(sizes) <= _AT_ONCE:
        loops = _loops(sizes, {}, [*kept, *reduced])
        steps = run_body(loops, torch.full((), identity(kind, result.dtype), dtype=result.dtype))
        steps = steps.expand([sizes[dim] for dim in (*kept, *reduced)]).flatten(len(kept))
        return BINARY[_combiner(op.body.block)](result, reduction(kind, steps))
    for point in itertools.product(*(range(sizes[dim]) for dim in reduced)):
        loops = _loops(sizes, dict(zip(reduced, point, strict=True)), kept)
        result = run_body(loops, result).expand(result.shape)
    return result


_AT_ONCE = 1 << 22
"""The maximum number of iterations of a vectorized reduction; larger ones run step by step, with less memory."""

_COMBINERS = {
    "arith.addf": "add", "arith.mulf": "mul", "arith.maximumf": "max", "arith.minimumf": "min",
    "arith.addi": "add", "arith.muli": "mul", "arith.maxsi": "max", "arith.minsi": "min",
    "arith.andi": "and", "arith.ori": "or", "arith.xori": "xor",
}  # fmt: skip
"""Commutative combining operations -> their kind in ``tile.reduce``."""


def _combiner(body: Block) -> str:
    """Return the operation by which ``body`` combines a new value with the accumulator, or ""."""
    last, total = body.last_op, body.args[-1]
    value = None if last is None else last.operands[0]
    if value is None or not isinstance(op := value.owner, Operation) or op.parent is not body:
        return ""
    return op.name if len(list(total.uses)) == 1 and total in op.operands and len(list(value.uses)) == 1 else ""


def _loop_sizes(maps: Sequence[AffineMap], values: Sequence[torch.Tensor]) -> list[int]:
    """Return the size of each loop, which iterates over a dimension of one of ``values``."""
    found = dict[int, int]()
    for map, value in zip(maps, values, strict=True):
        pairs = zip(map.results, value.shape, strict=True)
        found |= {place.position: size for place, size in pairs if isinstance(place, AffineDimExpr)}
    return [found[loop] for loop in range(maps[0].num_dims)]


def _loops(sizes: Sequence[int], fixed: dict[int, int], kept: Sequence[int]) -> list[torch.Tensor]:
    """Return the index of each loop, over a grid of the ``kept`` loops, in the order of the output."""
    loops = [torch.tensor(fixed.get(dim, 0)) for dim in range(len(sizes))]
    for place, dim in enumerate(kept):
        loops[dim] = torch.arange(sizes[dim]).reshape([-1 if at == place else 1 for at in range(len(kept))])
    return loops


def _read(source: torch.Tensor, map: AffineMap, loops: Sequence[torch.Tensor]) -> torch.Tensor:
    places = tuple(_evaluate(expression, loops) for expression in map.results)
    for dim, (place, size) in enumerate(zip(places, source.shape, strict=True)):
        if ((place < 0) | (place >= size)).any():
            raise BoundsError(f"position {int(place.min())} to {int(place.max())} of dimension {dim} is read, of {size}")
    return source[places].cpu()


def _quotient(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return ``left`` / ``right`` rounded down; 0 for division by a size of 0, as in kernels, which read nothing then."""
    return torch.where(right == 0, 0, left // torch.where(right == 0, 1, right))


def _evaluate(expression: AffineExpr, loops: Sequence[torch.Tensor], symbols: Sequence[torch.Tensor] = ()) -> torch.Tensor:
    match expression:
        case AffineSymExpr():
            return symbols[expression.position]
        case AffineDimExpr():
            return loops[expression.position]
        case AffineConstantExpr():
            return torch.tensor(expression.value)
        case AffineBinaryOpExpr():
            left, right = (_evaluate(side, loops, symbols) for side in (expression.lhs, expression.rhs))
            match expression.kind:
                case AffineBinaryOpKind.Add:
                    return left + right
                case AffineBinaryOpKind.Mul:
                    return left * right
                case AffineBinaryOpKind.Mod:
                    return left - _quotient(left, right) * right
                case AffineBinaryOpKind.FloorDiv:
                    return _quotient(left, right)
                case AffineBinaryOpKind.CeilDiv:
                    return -_quotient(-left, right)
        case _:
            raise InputError(f"no index expression: {expression}")


class _Body:
    """A body that runs on all elements at once. ``env``: its values, and visible surrounding values."""

    def __init__(self, env: MutableMapping[SSAValue, torch.Tensor], loops: Sequence[torch.Tensor], wide: bool) -> None:
        self.env, self.loops, self.wide = env, loops, wide

    def run(self, block: Block, taken: torch.Tensor) -> list[torch.Tensor]:
        """Return the values that ``block`` yields for elements where ``taken``; others are arbitrary."""
        for op in block.ops:
            values = [self.env[value] for value in op.operands]
            match op:
                case linalg.YieldOp() | scf.YieldOp() | tile.NextOp():
                    return values
                case linalg.IndexOp():
                    self.env[op.result] = self.loops[op.dim.value.data]
                case affine.ApplyOp():
                    map = op.map.data
                    self.env[op.result] = _evaluate(map.results[0], values[: map.num_dims], values[map.num_dims :])
                case cf.AssertOp():
                    if not (values[0] | ~taken).all():
                        raise BoundsError(op.msg.data)
                case tensor.ExtractOp():
                    self.env[op.result] = _extracted(values[0], values[1:], taken)
                case scf.IfOp():
                    [yes] = self.run(op.true_region.block, taken & values[0])
                    [no] = self.run(op.false_region.block, taken & ~values[0])
                    self.env[op.results[0]] = torch.where(values[0], yes, no)
                case tile.IterateOp():
                    self.env.update(zip(op.results, self.iterate(op, values, taken), strict=True))
                case arith.IndexCastOp():
                    self.env[op.result] = values[0].long()
                case _:
                    self.env[op.results[0]] = scalar_op(op, values, self.wide)
        raise InputError("the body of a linalg.generic must end in linalg.yield")

    def iterate(self, op: tile.IterateOp, values: Sequence[torch.Tensor], taken: torch.Tensor) -> list[torch.Tensor]:
        """Return the final carried values of ``op``."""
        going, carried = values[0] & taken, list(values[1:])
        while going.any():
            self.env.update(zip(op.body.block.args, carried, strict=True))
            more, *new = self.run(op.body.block, going)
            carried = [torch.where(going, a, b) for a, b in zip(new, carried, strict=True)]
            going = going & more
        return carried


def _extracted(source: torch.Tensor, index: Sequence[torch.Tensor], taken: torch.Tensor) -> torch.Tensor:
    """Return the elements of ``source`` at ``index``; arbitrary where not ``taken``."""
    if not source.numel():
        if taken.any():
            raise BoundsError("a tensor without elements is read")
        return torch.zeros((), dtype=source.dtype)
    shape = np.broadcast_shapes(taken.shape, *(place.shape for place in index))
    outside = [(place < 0) | (place >= size) for place, size in zip(index, source.shape, strict=True)]
    if any((taken & wrong).any() for wrong in outside):
        raise BoundsError("a position outside of a tensor is read")
    safe = [torch.where(taken, place, 0).expand(shape) for place in index]
    return (source[tuple(safe)] if safe else source).cpu()
