"""Scatters of few updates: each element of the result searches the updates that apply to it, in their order.

This needs no order among programs, adds in the same order as PyTorch on a CPU, and lets the result be fused like that of any
operator. The cost grows with the number of updates: ``accumulating`` has rules for sums of many updates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from xdsl.ir import SSAValue

from fxc.dialects.attributes.size_polynomials import Polynomial, Steps
from fxc.dialects.attributes.values import isa
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.index.forms import Form
from fxc.passes.operators.index_expressions import Places, all_of
from fxc.passes.operators.indexing import (
    along,
    broadcast_shape,
    check_source,
    first_dimension,
    index_tensors,
    with_place,
)
from fxc.passes.operators.rules import (
    ZERO,
    Elements,
    Index,
    Making,
    Outside,
    Read,
    broadcast_index,
    python_arguments,
    result_dtype,
    shape_of,
)
from fxc.passes.operators.scalars import Scalar, Uncovered, computation_dtype, where

MOST_UPDATES = 4
"""The maximum number of updates that an element searches."""

Update = Callable[[Scalar, Scalar], Scalar]
"""Function of the old element and the update -> the new element."""


def replace(old: Scalar, new: Scalar) -> Scalar:
    return new


def accumulate(old: Scalar, new: Scalar) -> Scalar:
    return old + new


def scatter(update: Update) -> Making:
    """One update for each element of ``index``, which may be smaller than the tensor."""

    def steps(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
        arguments = python_arguments(op)
        x, numbers, source = arguments["self"], arguments["index"], arguments.get("src")
        dim = scattered_dimension(op)
        limits = shape_of(numbers)
        _check_few(op)
        count = _count(limits[dim : dim + 1])
        at = [with_place(index, dim, Form(number), len(index)) for number in range(count)]
        if 0 in limits:
            [element] = yield [(x, index)]
            return element
        [element] = yield [(x, index)]
        found = yield Outside([(numbers, place) for place in at])
        if source is None:
            news: Sequence[Scalar] = [_number(op, places, arguments)] * count
        else:
            news = yield Outside([(source, place) for place in at])
        real = places.within(with_place(index, dim, ZERO, len(index)), limits)
        for number, new in zip(found, news, strict=True):
            target = places.checked(number, shape_of(x)[dim], op.operator, real, wraps=False)
            meets = places.number(target).eq(places.number(index[dim]))
            meets = meets if real is None else meets & real
            element = where(meets, update(element, new), element)
        return element

    return steps


def index_update(update: Update, *, wraps: bool) -> Making:
    """One update along ``dim`` for each number of the one-dimensional ``index``."""

    def steps(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
        arguments = python_arguments(op)
        real = places.within(index, shape_of(op.results[0]))
        x, numbers, source = arguments["self"], arguments["index"], arguments.get("source", arguments.get("value"))
        dim = dimension(x, arguments["dim"])
        _check_few(op)
        count = _count(shape_of(numbers))
        at = [with_place(index, dim, Form(number), len(index)) for number in range(count)]
        [element, *found] = yield [(x, index), *((numbers, along(numbers, len(index), dim, place)) for place in at)]
        if not isa(source, SSAValue):
            news: Sequence[Scalar] = [_number(op, places, arguments)] * count
        else:
            news = yield [(source, place if shape_of(source) else ()) for place in at]
        scale = arguments.get("alpha", 1)
        for number, new in zip(found, news, strict=True):
            target = places.checked(number, shape_of(x)[dim], op.operator, real, wraps=wraps)
            meets = places.number(target).eq(places.number(index[dim]))
            element = where(meets, update(element, new.to(element.dtype) * scale), element)
        return element

    return steps


def index_put(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    real = places.within(index, shape_of(op.results[0]))
    x, values = arguments["self"], arguments["values"]
    wanted = index_tensors(op, x, arguments["indices"])
    check_source(x)
    shape, start = broadcast_shape(list(wanted.values())), first_dimension(list(wanted))
    _check_few(op)
    rest = tuple(place for dim, place in enumerate(index) if dim not in wanted)
    [element] = yield [(x, index)]
    for point in itertools.product(*(range(_count([size])) for size in shape)):
        at = tuple(map(Form, point))
        reads: list[Read] = [(numbers, broadcast_index(numbers, at)) for numbers in wanted.values()]
        [new, *found] = yield [(values, broadcast_index(values, (*rest[:start], *at, *rest[start:]))), *reads]
        conditions = list[Scalar]()
        for (dim, _), number in zip(wanted.items(), found, strict=True):
            target = places.checked(number, shape_of(x)[dim], op.operator, real, wraps=True)
            conditions.append(places.number(target).eq(places.number(index[dim])))
        meets = all_of(conditions)
        assert meets is not None
        element = where(meets, element + new if arguments.get("accumulate") else new, element)
    return element


def dimension(x: SSAValue, dim: int) -> int:
    """``dim`` as a non-negative dimension of ``x``. Uncovered if ``x`` has no dimensions or no elements."""
    check_source(x)
    if not shape_of(x):
        raise Uncovered("updates of a tensor without dimensions")
    return dim % len(shape_of(x))


def scattered_dimension(op: TorchOp) -> int:
    """The dimension of a scatter. Uncovered like ``dimension``, and if a 0-d tensor replaces a vector of one element."""
    arguments = python_arguments(op)
    x, others = arguments["self"], [arguments["index"], arguments.get("src")]
    if any(isa(other, SSAValue) and len(shape_of(other)) != len(shape_of(x)) for other in others):
        raise Uncovered("an index or a source without dimensions")
    return dimension(x, arguments["dim"])


def has_few(op: TorchOp) -> bool:
    """Whether an element is known to have at most ``MOST_UPDATES`` updates."""
    arguments = python_arguments(op)
    if "indices" in arguments:
        sizes = broadcast_shape([numbers for numbers in arguments["indices"] if numbers is not None])
    elif op.operator.startswith("aten.scatter"):
        sizes = [shape_of(arguments["index"])[scattered_dimension(op)]]
    else:
        sizes = shape_of(arguments["index"])
    count = math.prod(sizes)
    return isinstance(count, int) and count <= MOST_UPDATES


def _count(sizes: Sequence[Steps]) -> int:
    """The number of elements, for sizes that ``has_few`` has checked."""
    count = math.prod(sizes)
    assert isinstance(count, int)
    return count


def _check_few(op: TorchOp) -> None:
    if not has_few(op):
        raise Uncovered(f"more than {MOST_UPDATES} updates of an element")


def _number(op: TorchOp, places: Places, arguments: Mapping[str, object]) -> Scalar:
    """The argument ``value`` as an element."""
    number, dtype = arguments["value"], result_dtype(op)
    if not isinstance(number, (bool, int, float, Polynomial)):
        raise Uncovered("a value that the program does not state")
    return places.constant(number, computation_dtype(dtype)).rounded(dtype)
