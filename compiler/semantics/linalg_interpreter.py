"""Runs ``linalg.generic``, ``linalg.fill`` and the ops of ``tensor`` on torch tensors: all elements at once, reductions step by
step."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from fxc.dialects import types
from fxc.errors import InputError
from fxc.semantics.scalar_ops import scalar_op
from fxc.semantics.values import torch_dtype

OPS = (linalg.GenericOp, linalg.FillOp, tensor.EmptyOp, tensor.ConcatOp)
"""What ``run`` runs, besides ops on scalars."""


def run(op: Operation, values: Sequence[torch.Tensor]) -> torch.Tensor:
    """The result of ``op``: a new tensor as its type says. InputError for other ops than ``OPS``."""
    type = op.results[0].type
    assert isinstance(type, TensorType)
    result = _empty(type)
    match op:
        case tensor.EmptyOp():
            return result
        case linalg.FillOp():
            return result.fill_(values[0].item())
        case tensor.ConcatOp():
            return result.copy_(torch.cat(list(values), op.dim.value.data))
        case linalg.GenericOp():
            return result.copy_(_generic(op, values))
        case _:
            raise InputError(f"the linalg level has no {op.name}")


def _empty(type: TensorType) -> torch.Tensor:
    shape, strides = type.get_shape(), types.strides(type)
    dtype, device = torch_dtype(type.element_type), types.device(type)
    steps = types.contiguous_strides(shape) if strides is None else [int(step) for step in strides]
    return torch.empty_strided(shape, steps, dtype=dtype, device=device)


def _generic(op: linalg.GenericOp, values: Sequence[torch.Tensor]) -> torch.Tensor:
    """What a generic with one output gives: one step for each point of the loops that are reduced."""
    *maps, out_map = [attribute.data for attribute in op.indexing_maps]
    *inputs, result = values
    sizes = op.get_static_loop_ranges()
    reduced = [dim for dim, kind in enumerate(op.iterator_types) if kind.data != IteratorType.PARALLEL]
    kept = [expression.position for expression in out_map.results if isinstance(expression, AffineDimExpr)]
    if len(kept) != len(out_map.results):
        raise InputError("the output of a generic is indexed by its loops")
    for point in itertools.product(*(range(sizes[dim]) for dim in reduced)):
        loops = _loops(sizes, dict(zip(reduced, point, strict=True)), kept)
        elements = [_read(source, map, loops) for source, map in zip(inputs, maps, strict=True)]
        result = _body(op.body.block, [*elements, result], loops).expand(result.shape)
    return result


def _loops(sizes: Sequence[int], fixed: dict[int, int], kept: Sequence[int]) -> list[torch.Tensor]:
    """The number of each loop, over a grid of the loops that are kept, in the order of the output."""
    loops = [torch.tensor(fixed.get(dim, 0)) for dim in range(len(sizes))]
    for place, dim in enumerate(kept):
        loops[dim] = torch.arange(sizes[dim]).reshape([-1 if at == place else 1 for at in range(len(kept))])
    return loops


def _read(source: torch.Tensor, map: AffineMap, loops: Sequence[torch.Tensor]) -> torch.Tensor:
    return source[tuple(_evaluate(expression, loops) for expression in map.results)]


def _evaluate(expression: AffineExpr, loops: Sequence[torch.Tensor]) -> torch.Tensor:
    match expression:
        case AffineDimExpr():
            return loops[expression.position]
        case AffineConstantExpr():
            return torch.tensor(expression.value)
        case AffineBinaryOpExpr():
            left, right = _evaluate(expression.lhs, loops), _evaluate(expression.rhs, loops)
            match expression.kind:
                case AffineBinaryOpKind.Add:
                    return left + right
                case AffineBinaryOpKind.Mul:
                    return left * right
                case AffineBinaryOpKind.Mod:
                    return left % right
                case AffineBinaryOpKind.FloorDiv:
                    return left // right
                case AffineBinaryOpKind.CeilDiv:
                    return -(-left // right)
    raise InputError(f"no index expression: {expression}")


def _body(block: Block, arguments: Sequence[torch.Tensor], loops: Sequence[torch.Tensor]) -> torch.Tensor:
    env: dict[SSAValue, torch.Tensor] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        if isinstance(op, linalg.YieldOp):
            return env[op.operands[0]]
        if isinstance(op, linalg.IndexOp):
            env[op.result] = loops[op.dim.value.data]
        else:
            env[op.results[0]] = scalar_op(op, [env[value] for value in op.operands])
    raise InputError("the body of a linalg.generic must end in linalg.yield")
