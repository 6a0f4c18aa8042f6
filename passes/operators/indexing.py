"""Gathers: an element of the result is an element of a tensor at a position given by integers in memory.

Which indices are valid depends on the operator: for some, negative indices count from the end. The kernel fails for an index
out of bounds, and does not read there.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from types import MappingProxyType

from xdsl.ir import SSAValue

from fxc.dialects.attributes.size_polynomials import Steps
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.index.forms import Form
from fxc.passes.operators.index_expressions import Places
from fxc.passes.operators.record import Operator, each
from fxc.passes.operators.rules import (
    ZERO,
    Elements,
    Index,
    Placed,
    Read,
    broadcast_index,
    dtype_of,
    python_arguments,
    replaced,
    shape_of,
)
from fxc.passes.operators.scalars import INTEGERS, Scalar, Uncovered, where
from fxc.passes.operators.views import reshaped


def check_source(source: SSAValue) -> None:
    """Uncovered for a tensor without elements: it cannot be read, and PyTorch decides which indices are still valid."""
    if 0 in shape_of(source):
        raise Uncovered("indices of a tensor without elements")


def check_index(index: SSAValue) -> None:
    if dtype_of(index) not in INTEGERS - {"uint8"}:
        raise Uncovered("a mask as an index")


def with_place(index: Index, dim: int, place: Form, rank: int) -> Index:
    """``index`` with ``place`` at ``dim``, for a tensor of ``rank``; a tensor without dimensions has one element."""
    return replaced(index, dim, place) if rank else ()


def along(index: SSAValue, rank: int, dim: int, loops: Index) -> Index:
    """The position in an ``index`` of at most one dimension for the position ``loops`` of the result."""
    return (loops[dim] if rank else ZERO,) if shape_of(index) else ()


def gather(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    real = places.within(index, shape_of(op.results[0]))
    x, numbers = arguments["self"], arguments["index"]
    check_source(x)
    shape = shape_of(x)
    dim: int = arguments["dim"] % max(len(shape), 1)
    [number] = yield [(numbers, index)]
    place = places.checked(number, shape[dim] if shape else 1, op.operator, real, wraps=False)
    own = index if index else (ZERO,) * len(shape)
    [element] = yield [(x, with_place(own, dim, place, len(shape)))]
    return element


def take(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    """Gather by row-major element numbers."""
    arguments = python_arguments(op)
    real = places.within(index, shape_of(op.results[0]))
    x, numbers = arguments["self"], arguments["index"]
    check_source(x)
    count = math.prod(shape_of(x))
    [number] = yield [(numbers, index)]
    place = places.checked(number, count, op.operator, real, wraps=True)
    [element] = yield [(x, reshaped(shape_of(x), (count,), (place,)))]
    return element


def take_along_dim(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    """Gather along a dimension, with indices modulo its size; without a dimension, by row-major element numbers."""
    arguments = python_arguments(op)
    real = places.within(index, shape_of(op.results[0]))
    x, numbers = arguments["self"], arguments["indices"]
    dim: int | None = arguments.get("dim")
    check_source(x)
    check_source(numbers)
    shape = shape_of(x)
    if dim is None:
        count = math.prod(shape)
        [number] = yield [(numbers, reshaped(shape_of(numbers), shape_of(op.results[0]), index))]
        place = reshaped(shape, (count,), (places.checked(number, count, op.operator, real, wraps=False),))
    else:
        dim %= len(shape)
        [number] = yield [(numbers, broadcast_index(numbers, index))]
        size = places.size(shape[dim])
        left = number.to("int64").remainder(size)
        along_dim = places.symbol(where(left < 0, left + size, left), shape[dim])
        place = with_place(broadcast_index(x, index), dim, along_dim, len(shape))
    [element] = yield [(x, place)]
    return element


def index_select(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    real = places.within(index, shape_of(op.results[0]))
    x, numbers = arguments["self"], arguments["index"]
    check_source(x)
    shape = shape_of(x)
    dim: int = arguments["dim"] % max(len(shape), 1)
    [number] = yield [(numbers, along(numbers, len(shape), dim, index))]
    place = places.checked(number, shape[dim] if shape else 1, op.operator, real, wraps=False)
    [element] = yield [(x, with_place(index, dim, place, len(shape)))]
    return element


def embedding(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    real = places.within(index, shape_of(op.results[0]))
    weight, numbers = arguments["weight"], arguments["indices"]
    check_source(weight)
    check_index(numbers)
    [number] = yield [(numbers, index[:-1])]
    [element] = yield [(weight, (places.checked(number, shape_of(weight)[0], op.operator, real, wraps=False), index[-1]))]
    return element


def index_tensors(op: TorchOp, x: SSAValue, listed: Sequence[SSAValue | None]) -> dict[int, SSAValue]:
    """Dimension of ``x`` -> its index in ``listed``, for the dimensions that have one. Uncovered for masks."""
    found = {dim: numbers for dim, numbers in enumerate(listed) if numbers is not None}
    for numbers in found.values():
        check_index(numbers)
    if not found:
        raise Uncovered(f"{op.operator} without an index")
    return found


def broadcast_shape(values: Sequence[SSAValue]) -> tuple[Steps, ...]:
    shape = list[Steps]()
    for value in values:
        own = shape_of(value)
        shape = [1] * (len(own) - len(shape)) + shape
        for place, size in enumerate(own, len(shape) - len(own)):
            shape[place] = shape[place] if size == 1 else size
    return tuple(shape)


def first_dimension(dims: Sequence[int]) -> int:
    """The first dimension of the indices in the result: that of the indexed dimensions, or 0 if these are not adjacent."""
    return dims[0] if list(dims) == list(range(dims[0], dims[-1] + 1)) else 0


def indexed_place(
    op: TorchOp, index: Index, real: Scalar | None, places: Places
) -> Generator[Sequence[Read], Sequence[Scalar], Index]:
    """The position in the argument ``self`` that ``indices`` select for the position ``index`` of the selected elements.

    ``real``: whether ``index`` is within bounds; None for always.
    """
    arguments = python_arguments(op)
    x, wanted = arguments["self"], index_tensors(op, arguments["self"], arguments["indices"])
    check_source(x)
    rank, start = len(broadcast_shape(list(wanted.values()))), first_dimension(list(wanted))
    own, rest = index[start : start + rank], iter((*index[:start], *index[start + rank :]))
    numbers = yield [(value, broadcast_index(value, own)) for value in wanted.values()]
    found = dict(zip(wanted, numbers, strict=True))
    return tuple(
        places.checked(found[dim], size, op.operator, real, wraps=True) if dim in found else next(rest)
        for dim, size in enumerate(shape_of(x))
    )


def index_tensor(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    real = places.within(index, shape_of(op.results[0]))
    place = yield from indexed_place(op, index, real, places)
    [element] = yield [(python_arguments(op)["self"], place)]
    return element


def one_hot(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    real = places.within(index, shape_of(op.results[0]))
    x, classes = arguments["self"], arguments.get("num_classes", -1)
    if not isinstance(classes, int) or classes < 1:
        raise Uncovered("a number of classes that the program does not state")
    [number] = yield [(x, index[:-1])]
    checked = places.number(places.checked(number, classes, op.operator, real, wraps=False))
    return checked.eq(places.number(index[-1])).to("int64")


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("gather.default", Placed(gather), gathered="self", is_lone=True),
        **each("take.default", Placed(take), gathered="self"),
        **each("take_along_dim.default", Placed(take_along_dim), gathered="self"),
        **each("index_select.default", Placed(index_select), gathered="self", is_lone=True),
        **each("index.Tensor", Placed(index_tensor), gathered="self", is_lone=True),
        **each("_unsafe_index.Tensor", Placed(index_tensor), gathered="self"),
        **each("embedding.default", Placed(embedding), gathered="weight"),
        **each("one_hot.default", Placed(one_hot)),
    }
)
