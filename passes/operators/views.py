"""Views: the position in the operand of an element of the result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any

from xdsl.ir import SSAValue

from fxc.dialects.attributes.size_polynomials import Steps
from fxc.dialects.attributes.types import is_tensor, sizes
from fxc.dialects.attributes.values import int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.dialects.torch_ops.operators import torch_op
from fxc.passes.analysis.index.forms import Form
from fxc.passes.analysis.matching import integer
from fxc.passes.operators.record import Operator, Parts, Role, When, each
from fxc.passes.operators.rules import ZERO, Index, View, broadcast_index, python_arguments, replaced, shape_of, tensors
from fxc.passes.operators.scalars import Uncovered
from fxc.passes.rewriting.insertion import put_in_place


def _rank(op: TorchOp) -> int:
    return len(shape_of(tensors(op)[0]))


def _dim(dim: int, rank: int) -> int:
    return dim % rank if rank else 0


def same(op: TorchOp, index: Index, result: int) -> Index:
    return index


def expand(op: TorchOp, index: Index, result: int) -> Index:
    return broadcast_index(tensors(op)[0], index)


def broadcast_in_dim(op: TorchOp, index: Index, result: int) -> Index:
    dims: list[int] = python_arguments(op)["broadcast_dimensions"]
    shape = shape_of(tensors(op)[0])
    return tuple(ZERO if size == 1 else index[dim] for dim, size in zip(dims, shape, strict=True))


def permute(op: TorchOp, index: Index, result: int) -> Index:
    dims, place = [_dim(dim, _rank(op)) for dim in python_arguments(op)["dims"]], list(index)
    for at, dim in enumerate(dims):
        place[dim] = index[at]
    return tuple(place)


def transpose(op: TorchOp, index: Index, result: int) -> Index:
    arguments, place = python_arguments(op), list(index)
    if place:
        a, b = (_dim(arguments[name], len(place)) for name in ("dim0", "dim1"))
        place[a], place[b] = place[b], place[a]
    return tuple(place)


def t(op: TorchOp, index: Index, result: int) -> Index:
    return index[::-1]


def unsqueeze(op: TorchOp, index: Index, result: int) -> Index:
    dim = _dim(python_arguments(op)["dim"], len(index))
    return (*index[:dim], *index[dim + 1 :])


def squeeze(op: TorchOp, index: Index, result: int) -> Index:
    shape, dims = shape_of(tensors(op)[0]), python_arguments(op).get("dim")
    chosen = range(len(shape)) if dims is None else [_dim(dim, len(shape)) for dim in _list(dims)]
    gone = [dim for dim, size in enumerate(shape) if size == 1 and dim in chosen]
    if len(gone) + len(index) < len(shape):
        gone = list(chosen)  # of size 1, which its expression does not show
    if len(gone) + len(index) != len(shape):
        raise Uncovered("which sizes are 1 is not known")
    kept = iter(index)
    return tuple(ZERO if dim in gone else next(kept) for dim in range(len(shape)))


def slice_(op: TorchOp, index: Index, result: int) -> Index:
    arguments = python_arguments(op)
    dim = _dim(arguments.get("dim", 0), len(index))
    start = slice_start(arguments, shape_of(tensors(op)[0])[dim], shape_of(op.results[0])[dim])
    return replaced(index, dim, index[dim] * arguments.get("step", 1) + start)


def slice_start(arguments: Mapping[str, Any], size: Steps, count: Steps) -> Steps:
    """The start of a slice of ``count`` elements in a dimension of ``size``.

    Uncovered if the start depends on a size by more than sums and products. It is irrelevant for an empty slice.
    """
    start, step, end = arguments.get("start") or 0, arguments.get("step", 1), arguments.get("end")
    if isinstance(start, int) and isinstance(size, int):
        return min(max(start + size if start < 0 else start, 0), size)
    if isinstance(start, int) and start >= 0:
        return start  # a start beyond the end means an empty slice
    if step == 1 and (end is None or end == size or (isinstance(end, int) and end >= LAST)):
        return size - count
    raise Uncovered("a slice with a symbolic start")


LAST = (1 << 63) - 1
"""The ``end`` argument of a slice that covers the rest of its dimension."""


def select(op: TorchOp, index: Index, result: int) -> Index:
    arguments, shape = python_arguments(op), shape_of(tensors(op)[0])
    dim = _dim(arguments["dim"], len(shape))
    return (*index[:dim], Form(from_the_end(arguments["index"], shape[dim])), *index[dim:])


def from_the_end(place: Steps, size: Steps) -> Steps:
    """``place`` as a non-negative position: a negative one counts from the end of a dimension of ``size``."""
    if not isinstance(place, int):
        raise Uncovered("a symbolic position")
    return place + size if place < 0 else place


def flip(op: TorchOp, index: Index, result: int) -> Index:
    shape = shape_of(tensors(op)[0])
    for dim in python_arguments(op)["dims"] if shape else ():
        dim = _dim(dim, len(shape))
        index = replaced(index, dim, -index[dim] + (shape[dim] - 1))
    return index


def piece(op: TorchOp, index: Index, result: int) -> Index:
    """A piece of ``chunk``, which begins at the end of the previous pieces."""
    dim = _dim(python_arguments(op).get("dim", 0), len(index))
    start = sum((shape_of(value)[dim] for value in op.results[:result]), 0)
    return replaced(index, dim, index[dim] + start)


def narrow(op: TorchOp, index: Index, result: int) -> Index:
    arguments = python_arguments(op)
    dim, start = _dim(arguments["dim"], len(index)), arguments["start"]
    return replaced(index, dim, index[dim] + from_the_end(start, shape_of(tensors(op)[0])[dim]))


def roll(op: TorchOp, index: Index, result: int) -> Index:
    arguments, shape = python_arguments(op), shape_of(tensors(op)[0])
    shifts, dims = _list(arguments["shifts"]), _list(arguments.get("dims", []))
    if 0 in shape:
        return index
    if not dims:
        count = math.prod(shape)
        line = reshaped((count,), shape, index)
        return reshaped(shape, (count,), tuple((place - sum(shifts)) % count for place in line))
    for shift, dim in zip(shifts, dims, strict=True):
        dim = _dim(dim, len(shape))
        index = replaced(index, dim, (index[dim] - shift) % shape[dim]) if shape else index
    return index


def repeat(op: TorchOp, index: Index, result: int) -> Index:
    shape = shape_of(tensors(op)[0])
    own = index[len(index) - len(shape) :]
    return tuple(ZERO if size in (0, 1) else place % size for place, size in zip(own, shape, strict=True))


def repeat_interleave(op: TorchOp, index: Index, result: int) -> Index:
    arguments, shape = python_arguments(op), shape_of(tensors(op)[0])
    dim, repeats = arguments.get("dim"), arguments["repeats"]
    if repeats == 0:
        return (ZERO,) * len(shape)
    if not isinstance(repeats, int):
        raise Uncovered("a number of repeats that the program does not state")
    if dim is None:
        return reshaped(shape, (math.prod(shape),), (index[0] // repeats,))
    dim = _dim(dim, len(index))
    return replaced(index, dim, index[dim] // repeats)


def unfold(op: TorchOp, index: Index, result: int) -> Index:
    arguments = python_arguments(op)
    *own, last = index
    if not own:
        return (last,) * _rank(op)
    dim = _dim(arguments["dimension"], len(own))
    return replaced(tuple(own), dim, own[dim] * arguments["step"] + last)


def move_dimensions(op: TorchOp, index: Index, result: int) -> Index:
    arguments, rank = python_arguments(op), len(index)
    sources, targets = ([_dim(dim, rank) for dim in _list(arguments[name])] for name in ("source", "destination"))
    rest = iter(dim for dim in range(rank) if dim not in targets)
    places = dict(zip(sources, targets, strict=True))
    return tuple(index[places[dim] if dim in places else next(rest)] for dim in range(rank))


def swap(op: TorchOp, index: Index, result: int) -> Index:
    a, b = (value for name, value in python_arguments(op).items() if name != "self")
    place = list(index)
    if place:
        a, b = _dim(a, len(place)), _dim(b, len(place))
        place[a], place[b] = place[b], place[a]
    return tuple(place)


def turn_matrices(op: TorchOp, index: Index, result: int) -> Index:
    return (*index[:-2], index[-1], index[-2]) if len(index) > 1 else index


def diagonal(op: TorchOp, index: Index, result: int) -> Index:
    arguments, rank = python_arguments(op), _rank(op)
    a, b = (_dim(arguments.get(name, default), rank) for name, default in (("dim1", 0), ("dim2", 1)))
    offset, rest = arguments.get("offset", 0), iter(index[:-1])
    if not isinstance(offset, int):
        raise Uncovered("a diagonal with a symbolic offset")
    places = {a: index[-1] + max(-offset, 0), b: index[-1] + max(offset, 0)}
    return tuple(places[dim] if dim in places else next(rest) for dim in range(rank))


def reshape(op: TorchOp, index: Index, result: int) -> Index:
    return reshaped(shape_of(tensors(op)[0]), shape_of(op.results[0]), index)


def reshaped(old: Sequence[Steps], new: Sequence[Steps], index: Index) -> Index:
    """The position in a tensor of sizes ``old`` of the element at ``index`` in its reshape to sizes ``new``.

    Dimensions are matched in runs of equal products, so that only dimensions that are split or merged need divisions.
    Uncovered if the products of all sizes are not known to be equal.
    """
    if 0 in old:
        return (ZERO,) * len(old)
    place = list[Form]()
    for olds, news in _runs(old, new):
        line = ZERO
        for size, expression in zip(new[news], index[news], strict=True):
            line = line * size + (ZERO if size == 1 else expression)
        place += _divided(line, old[olds])
    return tuple(place)


def _runs(old: Sequence[Steps], new: Sequence[Steps]) -> Iterator[tuple[slice, slice]]:
    """The shortest runs of dimensions of equal products, in order."""
    ends = dict[Steps, int]()
    product: Steps = 1
    for end, size in enumerate(new, 1):
        product = product * size
        ends.setdefault(product, end)
    if math.prod(old) != product:
        raise Uncovered("a reshape whose numbers of elements are not proved equal")
    first, begin, product = 0, 0, 1
    for last, size in enumerate(old, 1):
        product = product * size
        end = ends.get(product, 0) if last < len(old) else len(new)
        if end >= begin and (end or last == len(old)):
            yield slice(first, last), slice(begin, end)
            first, begin = last, end
    if begin < len(new):
        yield slice(first, len(old)), slice(begin, len(new))


def _divided(line: Form, sizes: Sequence[Steps]) -> list[Form]:
    """The position in a tensor of ``sizes`` of the element with the row-major number ``line``."""
    place, step = list[Form](), 1
    real = [dim for dim, size in enumerate(sizes) if size != 1]
    for dim in reversed(range(len(sizes))):
        if sizes[dim] == 1:
            place.append(ZERO)
            continue
        expression = line // step
        place.append(expression if dim == real[0] else expression % sizes[dim])
        step = step * sizes[dim]
    return place[::-1]


def _list(value: Steps | list[Any]) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _slices(ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """split(x, sizes) -> x[:a], x[a:b], ..., if the sizes are static"""
    source, dim = op.bound()["self"], op.argument("dim")
    given = 0 if dim is None else integer(dim)
    if op.is_packed or not isinstance(source, SSAValue) or given is None:
        return []
    types = [result.type for result in op.results]
    if not all(is_tensor(type) and isinstance(sizes(type)[given], int) for type in types):
        return []
    lengths = [sizes(type)[given] for type in types if is_tensor(type)]
    ends = list(accumulate(length for length in lengths if isinstance(length, int)))
    parts = [
        torch_op("aten.slice.Tensor").build_call(
            [source, int_attr(given), int_attr(start), int_attr(end)], {}, [type], location=op.location
        )
        for type, start, end in zip(types, [0, *ends], ends, strict=False)
    ]
    put_in_place(op, parts, [(old, part.results[0]) for old, part in zip(op.results, parts, strict=True)])
    return parts


_PIECES = Parts(When.READ, _slices)

RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("expand.default expand_as.default expand_copy.default", View(expand)),
        **each("prims.broadcast_in_dim.default", View(broadcast_in_dim)),
        **each("permute.default permute_copy.default", View(permute)),
        **each("transpose.int transpose_copy.int", View(transpose)),
        **each("t.default numpy_T.default t_copy.default", View(t)),
        **each("mT.default matrix_H.default mH.default adjoint.default", View(turn_matrices)),
        **each("movedim.int movedim.intlist moveaxis.int moveaxis.intlist", View(move_dimensions)),
        **each("swapaxes.default swapdims.default", View(swap)),
        **each("unsqueeze.default unsqueeze_copy.default", View(unsqueeze)),
        **each("squeeze.default squeeze.dim squeeze.dims", View(squeeze)),
        **each("squeeze_copy.default squeeze_copy.dim squeeze_copy.dims", View(squeeze)),
        **each("slice.Tensor slice_copy.Tensor", View(slice_)),
        **each("narrow.default", View(narrow)),
        **each("select.int select_copy.int", View(select)),
        **each("flip.default", View(flip)),
        **each("roll.default", View(roll)),
        **each("repeat.default tile.default", View(repeat)),
        **each("repeat_interleave.self_int", View(repeat_interleave)),
        **each("unfold.default unfold_copy.default", View(unfold)),
        **each("diagonal.default diagonal_copy.default", View(diagonal)),
        **each("chunk.default unsafe_chunk.default tensor_split.sections", View(piece), role=Role.SPLIT, parts=_PIECES),
        **each("split.Tensor split.sizes unsafe_split.Tensor", role=Role.SPLIT, parts=_PIECES),
        **each("split_with_sizes.default unsafe_split_with_sizes.default", role=Role.SPLIT, parts=_PIECES),
        **each("view.default view_as.default view_copy.default _unsafe_view.default", View(reshape)),
        **each("reshape.default reshape_as.default _reshape_copy.default _reshape_alias.default", View(reshape)),
        **each("flatten.using_ints unflatten.int ravel.default", View(reshape)),
        **each("detach.default detach_copy.default alias_copy.default clone.default", View(same)),
        **each("contiguous.default lift_fresh_copy.default", View(same)),
        **each("resolve_neg.default conj_physical.default _conj_physical.default", View(same)),
    }
)
