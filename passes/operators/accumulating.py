"""Scatters of many updates: each update selects an element and is combined with it, in any order.

The total starts with the neutral element. The elements of the updated tensor, if it is not zero, are combined last. So the
updates are computed in separate loops, together with all ops that compute an update.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from fxc.dialects.attributes.size_polynomials import Steps, contiguous_steps
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.operators.index_expressions import Places
from fxc.passes.operators.indexing import (
    along,
    broadcast_shape,
    check_index,
    check_source,
    first_dimension,
    index_tensors,
    indexed_place,
    with_place,
)
from fxc.passes.operators.record import Operator, each
from fxc.passes.operators.reductions import MAXIMUM, MINIMUM, SUM
from fxc.passes.operators.rules import (
    ZERO,
    Accumulation,
    Elements,
    Index,
    Placed,
    Read,
    Reduction,
    Rule,
    broadcast_index,
    python_arguments,
    result_dtype,
    shape_of,
)
from fxc.passes.operators.scalars import FLOATS, Scalar, Uncovered, computation_dtype, where
from fxc.passes.operators.updating import (
    accumulate,
    dimension,
    has_few,
    index_put,
    index_update,
    replace,
    scatter,
    scattered_dimension,
)

KINDS: Mapping[str, str] = MappingProxyType({"sum": "add", "add": "add", "amax": "max", "amin": "min"})
"""Name of the combining operation in PyTorch -> the kind of tile.accumulate."""

COMBINED: Mapping[str, Reduction] = MappingProxyType({"add": SUM, "max": MAXIMUM, "min": MINIMUM})
"""Kind of tile.accumulate -> the reduction with its combining operation and neutral element."""


def chosen(op: TorchOp, rule: Rule) -> Rule:
    """``rule``, or its variant ``few`` if updates replace elements or are few, which searches the updates of each element."""
    if not isinstance(rule, Accumulation) or rule.few is None:
        return rule
    replaces = "accumulate" in op.SCHEMA.by_name and not python_arguments(op).get("accumulate", False)
    return rule.few if replaces or has_few(op) else rule


def kind_of(op: TorchOp) -> str:
    """The kind of ``tile.accumulate`` for ``op``. Uncovered if there is no such kind."""
    arguments = python_arguments(op)
    name = arguments.get("reduce", "sum")
    if name not in KINDS:
        raise Uncovered(f"updates combined by {name}")
    if not arguments.get("include_self", True):
        raise Uncovered("updates that replace an element and are combined")
    return KINDS[name]


def combined_dtype(op: TorchOp) -> str:
    """The dtype in which updates are combined.

    It is float32 for half precision, at least 32 bits for integers, and an integer dtype for the max and min of floats, which
    are ``encoded``.
    """
    dtype = computation_dtype(result_dtype(op))
    if dtype == "bool":
        raise Uncovered("updates of booleans")
    if kind_of(op) != "add" and dtype in FLOATS:
        return "int64" if dtype == "float64" else "int32"
    return "int32" if dtype in ("int8", "int16", "uint8") else dtype


def encoded(op: TorchOp, update: Scalar) -> Scalar:
    """``update`` in the representation in which updates are combined."""
    dtype, kind = combined_dtype(op), kind_of(op)
    if kind == "add" or not update.is_float:
        return update.to(dtype)
    flipped = _flipped(update.to(computation_dtype(result_dtype(op))).bits())
    return where(update.is_nan(), COMBINED[_OTHER[kind]].start(dtype), flipped)


def decoded(op: TorchOp, total: Scalar) -> Scalar:
    """The combined ``total``, converted back from the representation of ``encoded``."""
    dtype = computation_dtype(result_dtype(op))
    if kind_of(op) == "add" or dtype not in FLOATS:
        return total
    extreme = COMBINED[_OTHER[kind_of(op)]].start(combined_dtype(op))
    return where(total.eq(extreme), math.nan, _flipped(total).as_float())


def start_of(op: TorchOp) -> int | float:
    """The neutral element, in the representation in which updates are combined."""
    dtype, kind = combined_dtype(op), kind_of(op)
    if kind == "add" or computation_dtype(result_dtype(op)) not in FLOATS:
        return COMBINED[kind].start(dtype)
    return _INFINITY[dtype] if kind == "min" else -_INFINITY[dtype] - 1


_OTHER: Mapping[str, str] = MappingProxyType({"max": "min", "min": "max"})

_INFINITY: Mapping[str, int] = MappingProxyType({"int32": 0x7F800000, "int64": 0x7FF0000000000000})
"""The bits of infinity."""


def _flipped(bits: Scalar) -> Scalar:
    """Map the bits of a float to an integer of equal order, and back: for negative numbers, flip all bits except the sign."""
    most = 63 if bits.dtype == "int64" else 31
    return where(bits < 0, bits ^ ((1 << most) - 1), bits)


def _number(op: TorchOp, place: Index, places: Places) -> Scalar:
    """The row-major number of the element of the result at ``place``."""
    total = ZERO
    for at, step in zip(place, contiguous_steps(shape_of(op.results[0])), strict=True):
        total = total + at * step
    return places.number(places.ranges.simplified(total))


# scatter: one update for each element of ``index``, which may be smaller than the source


def _scatter_shape(op: TorchOp) -> tuple[Steps, ...]:
    scattered_dimension(op)
    return shape_of(python_arguments(op)["index"])


def _scatter_update(op: TorchOp, index: Index) -> Read:
    return python_arguments(op)["src"], index


def _scatter_place(op: TorchOp, index: Index, places: Places) -> Elements:
    return _place_along(op, index, scattered_dimension(op), index, places)


def _place_along(op: TorchOp, index: Index, dim: int, at_index: Index, places: Places) -> Elements:
    """The element at ``index``, with the position along ``dim`` replaced by the argument ``index`` at ``at_index``."""
    arguments = python_arguments(op)
    [number] = yield [(arguments["index"], at_index)]
    at = places.checked(number, shape_of(arguments["self"])[dim], op.operator, None, wraps=False)
    return _number(op, with_place(index, dim, at, len(index)), places)


# index_add: one row for each number of the one-dimensional ``index``


def _rows_shape(op: TorchOp) -> tuple[Steps, ...]:
    return shape_of(python_arguments(op)["source"])


def _rows_update(op: TorchOp, index: Index) -> Read:
    return python_arguments(op)["source"], index


def _rows_place(op: TorchOp, index: Index, places: Places) -> Elements:
    arguments = python_arguments(op)
    dim = dimension(arguments["self"], arguments["dim"])
    return _place_along(op, index, dim, along(arguments["index"], len(index), dim, index), places)


# index_put: one update for each element that indexing with the same tensors would read


def _put_shape(op: TorchOp) -> tuple[Steps, ...]:
    arguments = python_arguments(op)
    x, wanted = arguments["self"], index_tensors(op, arguments["self"], arguments["indices"])
    rest, start = [size for dim, size in enumerate(shape_of(x)) if dim not in wanted], first_dimension(list(wanted))
    return (*rest[:start], *broadcast_shape(list(wanted.values())), *rest[start:])


def _put_update(op: TorchOp, index: Index) -> Read:
    values = python_arguments(op)["values"]
    return values, broadcast_index(values, index)


def _put_place(op: TorchOp, index: Index, places: Places) -> Elements:
    place = yield from indexed_place(op, index, None, places)
    return _number(op, place, places)


# embedding_dense_backward: rows of the gradient, except padding


def _embedding_shape(op: TorchOp) -> tuple[Steps, ...]:
    arguments = python_arguments(op)
    if arguments["scale_grad_by_freq"]:
        raise Uncovered("gradients that are divided by how often an index comes")
    check_source(op.results[0])
    return shape_of(arguments["grad_output"])


def _embedding_update(op: TorchOp, index: Index) -> Read:
    return python_arguments(op)["grad_output"], index


def _embedding_place(op: TorchOp, index: Index, places: Places) -> Elements:
    arguments = python_arguments(op)
    numbers, padding = arguments["indices"], arguments["padding_idx"]
    check_index(numbers)
    [number] = yield [(numbers, index[:-1])]
    at = places.checked(number, shape_of(op.results[0])[0], op.operator, None, wraps=False)
    place = _number(op, (at, index[-1]), places)
    return place if padding < 0 else where(number.to("int64").eq(padding), -1, place)


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("scatter.src scatter.value", Placed(scatter(replace))),
        **each("scatter.reduce scatter_reduce.two", Accumulation(_scatter_shape, _scatter_update, _scatter_place)),
        **each(
            "scatter_add.default",
            Accumulation(_scatter_shape, _scatter_update, _scatter_place, few=Placed(scatter(accumulate))),
        ),
        **each("index_copy.default", Placed(index_update(replace, wraps=False))),
        **each("index_fill.int_Scalar index_fill.int_Tensor", Placed(index_update(replace, wraps=True))),
        **each(
            "index_add.default",
            Accumulation(_rows_shape, _rows_update, _rows_place, few=Placed(index_update(accumulate, wraps=False))),
        ),
        **each(
            "index_put.default _unsafe_index_put.default",
            Accumulation(_put_shape, _put_update, _put_place, few=Placed(index_put), sorted=True),
        ),
        **each(
            "embedding_dense_backward.default",
            Accumulation(_embedding_shape, _embedding_update, _embedding_place, sorted=True),
        ),
    }
)
