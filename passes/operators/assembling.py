"""Tensors assembled from others, such as concatenations and padding: the position of an element selects its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

from xdsl.ir import SSAValue

from fxc.dialects.attributes.size_polynomials import Steps
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.index.forms import Form
from fxc.passes.operators.index_expressions import Places, all_of
from fxc.passes.operators.record import Operator, Role, each
from fxc.passes.operators.rules import (
    Elements,
    Index,
    Making,
    Outside,
    Placed,
    Read,
    python_arguments,
    replaced,
    result_dtype,
    shape_of,
)
from fxc.passes.operators.scalars import Scalar, Uncovered, computation_dtype, constant, where
from fxc.passes.operators.views import from_the_end, slice_start

MOST_PARTS = 8
"""Maximum number of tensors from which an element is selected: each of them is computed for all elements."""


def concatenation(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    rank = len(shape_of(op.results[0]))
    dim = arguments.get("dim", 0) % rank if rank else 0
    parts = [part for part in arguments["tensors"] if shape_of(part) != (0,) and len(shape_of(part)) == rank]
    ends = list[Steps](accumulate(shape_of(part)[dim] for part in parts))
    kept = [(part, end) for part, end in zip(parts, ends, strict=True) if 0 not in shape_of(part)]
    reads = [(part, _moved(index, dim, end - shape_of(part)[dim])) for part, end in kept]
    return (yield from _chosen(op, reads, [end for _, end in kept], index[dim] if rank else None, places))


def stack(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    dim: int = arguments.get("dim", 0) % len(shape_of(op.results[0]))
    reads = [(part, (*index[:dim], *index[dim + 1 :])) for part in arguments["tensors"]]
    return (yield from _chosen(op, reads, range(1, len(reads) + 1), index[dim], places))


def _chosen(op: TorchOp, reads: Sequence[Read], ends: Sequence[Steps], at: Form | None, places: Places) -> Elements:
    """The first of ``reads`` whose end is greater than ``at``."""
    if len(reads) > MOST_PARTS:
        raise Uncovered(f"a choice of more than {MOST_PARTS} tensors")
    dtype = result_dtype(op)
    if not reads:
        return constant(places.block, 0, computation_dtype(dtype))
    elements = [element.to(computation_dtype(dtype)) for element in (yield Outside(reads))]
    chosen = elements[-1]
    for element, end in zip(elements[-2::-1], ends[-2::-1], strict=True):
        assert at is not None
        chosen = where(places.number(at) < places.size(end), element, chosen)
    return chosen


def pad(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    mode = python_arguments(op).get("mode", "constant")
    if mode == "constant":
        return (yield from constant_pad(op, index, result, places))
    if mode not in _MODES:
        raise Uncovered(f"padding of mode {mode}")
    return (yield from _mirrored(op, index, places, _MODES[mode]))


def constant_pad(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    x, value = arguments["self"], arguments.get("value") or 0
    filled = constant(places.block, value, computation_dtype(result_dtype(op))).rounded(result_dtype(op))
    place = list(index)
    for number, low in enumerate(arguments["pad"][::2]):
        place[-1 - number] = place[-1 - number] - low
    if 0 in shape_of(x):
        return filled
    [element] = yield Outside([(x, tuple(place))])
    holds = places.within(place, shape_of(x))
    return element if holds is None else where(holds, element, filled)


def reflection_pad(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    return (yield from _mirrored(op, index, places, _MODES["reflect"]))


def replication_pad(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    return (yield from _mirrored(op, index, places, _MODES["replicate"]))


_MODES: Mapping[str, Callable[[Scalar, int | Scalar], Scalar]] = MappingProxyType(
    {
        "reflect": lambda at, size: size - 1 - (size - 1 - at.abs()).abs(),
        "replicate": lambda at, size: at,
        "circular": lambda at, size: where(at < 0, at + size, where(at >= size, at - size, at)),
    }
)
"""Padding mode -> function of a position and the size that returns the position of the source element, before clamping."""


def _mirrored(op: TorchOp, index: Index, places: Places, inner: Callable[[Scalar, int | Scalar], Scalar]) -> Elements:
    """The element of a padded tensor. ``inner`` maps a position and a size to the position of the source element."""
    arguments, place = python_arguments(op), list(index)
    x = arguments["self"]
    if 0 in shape_of(x):
        raise Uncovered("padding of a tensor without elements")
    for number, low in enumerate((arguments.get("padding") or arguments["pad"])[::2]):
        dim = len(place) - 1 - number
        size = shape_of(x)[dim]
        moved = place[dim] - low
        if places.inside(moved, size) is not None:
            known = places.size(size)
            moved = places.symbol(inner(places.number(moved), known).maximum(0).minimum(known - 1), size)
        place[dim] = moved
    [element] = yield [(x, tuple(place))]
    return element


def slice_scatter(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    [old] = yield [(arguments["self"], index)]
    return (yield from _with_slice(op, index, places, arguments["src"], old))


def _with_slice(op: TorchOp, index: Index, places: Places, source: SSAValue, old: Scalar) -> Elements:
    """The element of ``source`` if the position is in the slice of the arguments, else ``old``."""
    arguments = python_arguments(op)
    dim: int = arguments.get("dim", 0) % len(index)
    step: Steps = arguments.get("step", 1)
    if not isinstance(step, int):
        raise Uncovered("a slice with a symbolic step")
    size, count = shape_of(op.results[0])[dim], shape_of(source)[dim]
    start = slice_start(arguments, size, count)
    if 0 in shape_of(source):
        return old
    [new] = yield Outside([(source, replaced(index, dim, (index[dim] - start) // step))])
    conditions = [places.inside(index[dim] - start, (count - 1) * step + 1)]
    if step > 1:
        conditions.append(places.number((index[dim] - start) % step).eq(0))
    holds = all_of([condition for condition in conditions if condition is not None])
    return new if holds is None else where(holds, new, old)


def select_scatter(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    x, source = arguments["self"], arguments["src"]
    dim: int = arguments["dim"] % len(index)
    old, new = yield [(x, index), (source, (*index[:dim], *index[dim + 1 :]))]
    chosen = places.size(from_the_end(arguments["index"], shape_of(x)[dim]))
    return where(places.number(index[dim]).eq(chosen), new, old)


def select_backward(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    dim: int = arguments["dim"] % len(index)
    [element] = yield [(arguments["grad_output"], (*index[:dim], *index[dim + 1 :]))]
    chosen = places.size(from_the_end(arguments["index"], shape_of(op.results[0])[dim]))
    return where(places.number(index[dim]).eq(chosen), element, 0)


def slice_backward(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    zero = constant(places.block, 0, computation_dtype(result_dtype(op)))
    return (yield from _with_slice(op, index, places, python_arguments(op)["grad_output"], zero))


def triangle(keeps: Callable[[Scalar], Scalar]) -> Making:
    """A rule that retains an element if ``keeps`` holds for its distance to the right of the diagonal; other elements are 0."""

    def steps(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
        arguments = python_arguments(op)
        [element] = yield [(arguments["self"], index)]
        right = places.number(index[-1]) - places.number(index[-2])
        return where(keeps(right - places.size(arguments.get("diagonal", 0))), element, 0)

    return steps


def arange(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    start, step = arguments.get("start", 0), arguments.get("step", 1)
    if not isinstance(start, int) or not isinstance(step, int) or "float" in result_dtype(op):
        raise Uncovered("a range of floats")
    yield []
    return (places.number(index[0]) * step + start).to(result_dtype(op))


def iota(op: TorchOp, index: Index, result: int, places: Places) -> Elements:
    arguments = python_arguments(op)
    yield []
    return (places.number(index[0]) * arguments["step"] + arguments["start"]).to(result_dtype(op))


def _moved(index: Index, dim: int, start: Steps) -> Index:
    return replaced(index, dim, index[dim] - start) if start else index


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("cat.default concat.default concatenate.default", Placed(concatenation), role=Role.CONCATENATION),
        **each("stack.default", Placed(stack), role=Role.STACK),
        **each("constant_pad_nd.default", Placed(constant_pad)),
        **each("pad.default", Placed(pad)),
        **each("reflection_pad1d.default reflection_pad2d.default reflection_pad3d.default", Placed(reflection_pad)),
        **each("replication_pad1d.default replication_pad2d.default replication_pad3d.default", Placed(replication_pad)),
        **each("slice_scatter.default", Placed(slice_scatter)),
        **each("select_scatter.default", Placed(select_scatter)),
        **each("slice_backward.default", Placed(slice_backward)),
        **each("select_backward.default", Placed(select_backward)),
        **each("tril.default", Placed(triangle(lambda right: right <= 0))),
        **each("triu.default", Placed(triangle(lambda right: right >= 0))),
        **each("arange.default arange.start arange.start_step", Placed(arange)),
        **each("prims.iota.default", Placed(iota)),
    }
)
