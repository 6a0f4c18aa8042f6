"""Operators taken apart where kernels are made: dropout as a draw and pointwise work, pieces of a tensor as slices of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from types import MappingProxyType

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from fxc.dialects.attributes.types import device, sizes, strides
from fxc.dialects.attributes.values import float_attr, int_attr
from fxc.dialects.base.effects import aliases, is_random
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.traits import draws_like, is_split
from fxc.passes.analysis.matching import integer, is_floating, number, torch_op
from fxc.passes.fusion.decompose_ops.min_max import EXTREMES, split_extreme
from fxc.passes.operators.table import has_formula
from fxc.passes.rewriting.decomposition import put_in_place
from fxc.passes.rewriting.functions import copy_op


def split_for_kernels(op: TorchOp) -> bool:
    """Put the parts of ``op`` in its place; whether it has any here."""
    if is_split(op):
        return _slices(op)
    if op.operator in EXTREMES:
        return _is_beside_kernels(op) and bool(split_extreme(op))
    rule = _DROPOUTS.get(op.operator)
    return rule is not None and rule(op)


def release_draw(op: TorchOp) -> None:
    """Let a draw, which reads no more of a tensor than its type, read one of that type that no kernel computes, or a view of
    one: it waits for no kernel then."""
    if draws_like(op) and (origin := _origin(op, op.operands[0])) is not None:
        op.operands[0] = origin


def _origin(draw: TorchOp, value: SSAValue) -> SSAValue | None:
    """A tensor of the type of ``value``, of which that is made; views of it are made before ``draw``."""
    op = value.owner
    if not isinstance(op, TorchOp):
        return None
    if is_computed_by_kernels(op):
        same = next((operand for operand in op.operands if operand.type == value.type), None)
        return None if same is None else _origin(draw, same) or same
    if not list(_views(op)) or (origin := _origin(draw, op.operands[0])) is None:
        return None
    view = copy_op(op, {op.operands[0]: origin})
    Rewriter.insert_op(view, InsertPoint.before(draw))
    return view.results[0]


def _is_beside_kernels(op: TorchOp) -> bool:
    """Whether kernels compute what ``op`` takes, or read what it gives."""
    sources = (value.owner for value in op.operands if isinstance(value.owner, Operation))
    return any(map(is_read_by_kernels, op.results)) or any(map(is_computed_by_kernels, sources))


def is_read_by_kernels(value: SSAValue) -> bool:
    """Whether an operator that kernels compute reads ``value``, or a view of it."""
    return any(is_computed_by_kernels(user) or any(map(is_read_by_kernels, _views(user))) for user in _users(value))


def _users(value: SSAValue) -> Iterator[Operation]:
    return iter(dict.fromkeys(use.operation for use in value.uses))


def _views(op: Operation) -> Iterator[SSAValue]:
    if isinstance(op, TorchOp) and any(aliases(op)) and len(op.results) == 1:
        yield op.results[0]


def is_computed_by_kernels(op: Operation) -> bool:
    return isinstance(op, TorchOp) and has_formula(op) and not any(aliases(op))


def _dropout(op: TorchOp) -> bool:
    """dropout(x, p, True) -> x * (bernoulli(x, 1 - p) / (1 - p)), as PyTorch computes it on a CPU"""
    if (found := _draw(op)) is None:
        return False
    x, draw, kept = found
    [result] = op.results
    noise = torch_op("aten.div.Tensor").build_call([draw.results[0], float_attr(kept)], {}, [result.type], location=op.location)
    product = torch_op("aten.mul.Tensor").build_call([x, noise.results[0]], {}, [result.type], location=op.location)
    put_in_place(op, [draw, noise, product], [(result, product.results[0])])
    return True


def _native_dropout(op: TorchOp) -> bool:
    """native_dropout(x, p, True) -> x * draw * (1 / (1 - p)), and where the draw is not 0, as PyTorch computes it on a CPU"""
    if (found := _draw(op)) is None:
        return False
    x, draw, kept = found
    result, mask = op.results
    product = torch_op("aten.mul.Tensor").build_call([x, draw.results[0]], {}, [result.type], location=op.location)
    scaled = torch_op("aten.mul.Tensor").build_call(
        [product.results[0], float_attr(1 / kept)], {}, [result.type], location=op.location
    )
    stays = torch_op("aten.ne.Scalar").build_call([draw.results[0], int_attr(0)], {}, [mask.type], location=op.location)
    put_in_place(op, [draw, product, scaled, stays], [(result, scaled.results[0]), (mask, stays.results[0])])
    return True


def _draw(op: TorchOp) -> tuple[SSAValue, TorchOp, float] | None:
    """What a dropout on a CPU drops from, a draw of zeros and ones like it, and the share of ones.
    None where none is drawn, and where no kernel would be around it."""
    bound, result = op.bound(), op.results[0]
    x, share = bound["input"], number(bound["p"])
    if not isinstance(x, SSAValue) or not is_random(op) or share is None or not 0 < share < 1:
        return None
    if not (isinstance(x.owner, Operation) and is_computed_by_kernels(x.owner)) and not is_read_by_kernels(result):
        return None
    if x.type != result.type or not is_floating(result.type):
        return None
    if device(result.type) != "cpu" or strides(result.type) is not None:  # type: ignore[arg-type]
        return None
    draw = torch_op("aten.bernoulli.p").build_call([x, float_attr(1 - share)], {}, [x.type], location=op.location)
    return x, draw, 1 - share


_DROPOUTS: Mapping[str, Callable[[TorchOp], bool]] = MappingProxyType(
    {"aten.dropout.default": _dropout, "aten.native_dropout.default": _native_dropout}
)


def _slices(op: TorchOp) -> bool:
    """A cut into pieces of known sizes, of which a kernel reads one -> slices."""
    source, dim = op.bound()["self"], op.argument("dim")
    given = 0 if dim is None else integer(dim)
    if op.is_packed or not isinstance(source, SSAValue) or given is None or not any(map(is_read_by_kernels, op.results)):
        return False
    types = [result.type for result in op.results]
    if not all(isinstance(type, TensorType) and isinstance(sizes(type)[given], int) for type in types):
        return False
    lengths = [sizes(type)[given] for type in types if isinstance(type, TensorType)]
    ends = list(accumulate(length for length in lengths if isinstance(length, int)))
    parts = [
        torch_op("aten.slice.Tensor").build_call(
            [source, int_attr(given), int_attr(start), int_attr(end)], {}, [type], location=op.location
        )
        for type, start, end in zip(types, [0, *ends], ends, strict=False)
    ]
    put_in_place(op, parts, [(old, part.results[0]) for old, part in zip(op.results, parts, strict=True)])
    return True
