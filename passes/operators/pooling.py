"""Decompose pooling with small windows into slices and pointwise operators, one dimension at a time, which kernels can fuse."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from types import MappingProxyType

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from fxc.dialects.attributes.types import device, dims_of, tensor_of
from fxc.dialects.attributes.values import KnownTree, Tree, bool_attr, device_attr, dtype_attr, float_attr, int_attr
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, integer, integers, is_default, is_floating
from fxc.passes.operators.record import Operator, Parts, When, each
from fxc.passes.rewriting.insertion import built_before, insert_call

_MOST = 25
"""The maximum number of elements of a window; each is read for every result. PyTorch's Inductor has the same limit."""
_HALVES = frozenset(["float16", "bfloat16"])


@dataclass(frozen=True)
class _Windows:
    """The positions of ``count`` windows of ``size`` elements in a dimension of ``length`` with ``before`` padding elements."""

    length: int
    count: int
    size: int
    step: int
    before: int = 0
    spread: int = 1

    @property
    def after(self) -> int:
        """The number of padding elements after the end that windows need; if negative, elements that no window covers."""
        return (self.count - 1) * self.step + (self.size - 1) * self.spread + 1 - self.before - self.length

    def starts(self) -> Sequence[tuple[int, int]]:
        """For each element of a window: its position in the first window, and its end position in the last window."""
        return [(first, first + (self.count - 1) * self.step + 1) for first in range(0, self.size * self.spread, self.spread)]


_Parts = Callable[[FxcContext, TorchOp, SSAValue, Sequence[_Windows]], Sequence[SSAValue] | None]
"""Computes the results of a pooling operator that are used; None if it does not apply."""

_WindowsOf = Callable[[TorchOp, int], list[_Windows] | None]
"""Computes the windows of an op for a number of dimensions; None if they are not known."""


def split_pool(windows_of: _WindowsOf, parts: _Parts, ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """max_pool2d(x, 2) -> maximum(maximum(x[::2, ::2], x[1::2, ::2]), ...)

    Likewise for means, for one and three dimensions, and for the positions of maxima. Windows must be small, and all sizes
    static.
    """
    if op.is_packed or len(op.operands) != 1 or not is_floating(op.operands[0].type):
        return []
    source, before = op.operands[0], op.prev_op
    arguments = op.SCHEMA.by_name
    length = arguments.get("kernel_size") or arguments["output_size"]
    windows = windows_of(op, int(length.type.partition("[")[2].rstrip("]")))
    if windows is None or any(window.count < 1 or window.length < 1 for window in windows):
        return []

    def build() -> Sequence[SSAValue] | None:
        values = parts(ctx, op, source, windows)
        if values is None or any(value.type != result.type for value, result in zip(values, op.results, strict=False)):
            return None
        return values

    if (values := built_before(op, build)) is None:
        return []
    for value, result in zip(values, op.results, strict=False):
        value._name = result._name
        result.replace_all_uses_with(value)
    made, last = list[TorchOp](), op.prev_op
    while isinstance(last, TorchOp) and last is not before:
        made.append(last)
        last = last.prev_op
    Rewriter.erase_op(op)
    return made


def _given(op: TorchOp, dims: int) -> list[_Windows] | None:
    """The windows that the arguments specify."""
    bound, lengths, counts = op.bound(), _last_sizes(op.operands[0], dims), _last_sizes(op.results[0], dims)
    size = _each(bound["kernel_size"], dims)
    step = _each(bound.get("stride", []), dims) or size
    before, spread = (_each(bound.get(name, int_attr(default)), dims) for name, default in (("padding", 0), ("dilation", 1)))
    if None in (size, step, before, spread) or lengths is None or counts is None:
        return None
    given = zip(lengths, counts, size or [], step or [], before or [], spread or [], strict=True)
    return [_Windows(*numbers) for numbers in given]


def _even(op: TorchOp, dims: int) -> list[_Windows] | None:
    """Windows that split each dimension into equal pieces."""
    lengths, counts = _last_sizes(op.operands[0], dims), _last_sizes(op.results[0], dims)
    if lengths is None or counts is None or any(not n or length % n for length, n in zip(lengths, counts, strict=True)):
        return None
    return [_Windows(length, n, length // n, length // n) for length, n in zip(lengths, counts, strict=True)]


def _last_sizes(value: SSAValue, dims: int) -> list[int] | None:
    found = [size for size in dims_of(value)[-dims:] if isinstance(size, int)]
    return found if len(found) == dims else None


def _each(tree: KnownTree, dims: int) -> list[int] | None:
    """A number for each dimension; a single number applies to all dimensions. None if there is none."""
    found = integers(tree) if isinstance(tree, (list, tuple)) else [number for number in [integer(tree)] if number is not None]
    return found * (dims // len(found)) if found else None


def _largest(ctx: FxcContext, op: TorchOp, source: SSAValue, windows: Sequence[_Windows]) -> Sequence[SSAValue] | None:
    if math.prod(window.size for window in windows) > _MOST:
        return None
    if any(result.uses for result in op.results[1:]):
        return _largest_and_places(ctx, op, source, windows)
    value = _folded(ctx, op, _padded(ctx, op, source, windows, -math.inf), windows, "aten.maximum.default")
    return [_in_new_memory(ctx, op, value, windows)]


def _in_new_memory(ctx: FxcContext, op: TorchOp, value: SSAValue, windows: Sequence[_Windows]) -> SSAValue:
    """``value``, the maximum of each window, cloned if windows have one element, since it may be a view of the source."""
    is_moved = all(window.size == 1 for window in windows)
    return insert_call(ctx, "aten.clone.default", [value], op) if is_moved else value


def _largest_and_places(
    ctx: FxcContext, op: TorchOp, source: SSAValue, windows: Sequence[_Windows]
) -> Sequence[SSAValue] | None:
    """Maxima and their positions, from the last dimension to the first.

    Like PyTorch's loops: among equal elements the first counts, among NaN the last. If no element is above -inf, the position
    is that of the first element that is not padding.
    """
    if any(window.before and window.spread > 1 for window in windows):
        return None
    value, place, below = _padded(ctx, op, source, windows, -math.inf), None, 1
    for dim, window in reversed([*zip(range(-len(windows), 0), windows, strict=True)]):
        values = _pieces(ctx, op, value, dim, window)
        places = [_places(ctx, op, dim, window, start, below) for start, _ in window.starts()]
        if window.before:
            places[0] = insert_call(ctx, "aten.clamp_min.default", [places[0], int_attr(0)], op)
        if place is not None:
            inner = _pieces(ctx, op, place, dim, window)
            places = [insert_call(ctx, "aten.add.Tensor", pair, op) for pair in zip(inner, places, strict=True)]
        value, place = values[0], places[0]
        for other, its_place in zip(values[1:], places[1:], strict=True):
            is_above = insert_call(ctx, "aten.gt.Tensor", [other, value], op)
            is_nan = insert_call(ctx, "aten.ne.Tensor", [other, other], op)
            takes = insert_call(ctx, "aten.logical_or.default", [is_above, is_nan], op)
            value = insert_call(ctx, "aten.where.self", [takes, other, value], op)
            place = insert_call(ctx, "aten.where.self", [takes, its_place, place], op)
        if window.size == 1:  # one line of positions for all rows so far
            place = insert_call(ctx, "aten.expand.default", [place, _sizes(ctx, op, value)], op)
        below *= window.length
    return None if place is None else [_in_new_memory(ctx, op, value, windows), place]


def _sizes(ctx: FxcContext, op: TorchOp, value: SSAValue) -> list[Tree]:
    """The sizes of ``value``; dynamic sizes as size queries."""
    return [
        int_attr(size) if isinstance(size, int) else insert_call(ctx, "aten.sym_size.int", [value, int_attr(dim)], op)
        for dim, size in enumerate(dims_of(value))
    ]


def _places(ctx: FxcContext, op: TorchOp, dim: int, window: _Windows, start: int, below: int) -> SSAValue:
    """The position along ``dim``, in each window, of the element at ``start`` in the first window, times ``below``."""
    first, step = (start - window.before) * below, window.step * below
    numbers = [int_attr(first), int_attr(first + window.count * step), int_attr(step)]
    type = tensor_of(op.results[0])
    options = {"dtype": dtype_attr("int64"), "device": device_attr(device(type))}
    line = insert_call(ctx, "aten.arange.start_step", numbers, op, options)
    shape = [int_attr(window.count), *[int_attr(1)] * (-dim - 1)]
    return line if dim == -1 else insert_call(ctx, "aten.view.default", [line, shape], op)


def _mean(ctx: FxcContext, op: TorchOp, source: SSAValue, windows: Sequence[_Windows]) -> Sequence[SSAValue] | None:
    """Means of windows that all have the same number of elements; half precision uses sums in float32, like PyTorch."""
    bound, size = op.bound(), math.prod(window.size for window in windows)
    override = bound.get("divisor_override")
    divisor = size if override is None or is_default(override) else integer(override)
    is_padded = any(window.before for window in windows)
    if divisor is None or any(window.after > window.before for window in windows):
        return None
    if is_padded and divisor == size and is_default(bound.get("count_include_pad", bool_attr(True))):
        return None
    if size > _MOST:
        return _mean_of_all(ctx, op, source, windows) if divisor == size and not is_padded else None
    is_half = dtype(source.type) in _HALVES
    value = _converted(ctx, op, source, "float32") if is_half else source
    value = _folded(ctx, op, _padded(ctx, op, value, windows, 0.0), windows, "aten.add.Tensor")
    value = insert_call(ctx, "aten.div.Tensor", [value, float_attr(float(divisor))], op)
    return [_converted(ctx, op, value, dtype(source.type) or "") if is_half else value]


def _mean_of_all(ctx: FxcContext, op: TorchOp, source: SSAValue, windows: Sequence[_Windows]) -> Sequence[SSAValue] | None:
    if any(window.count != 1 or window.size != window.length for window in windows):
        return None
    dims = [int_attr(dim) for dim in range(-len(windows), 0)]
    return [insert_call(ctx, "aten.mean.dim", [source, dims, bool_attr(True)], op)]


def _converted(ctx: FxcContext, op: TorchOp, value: SSAValue, name: str) -> SSAValue:
    return insert_call(ctx, "aten._to_copy.default", [value], op, {"dtype": dtype_attr(name)})


def _padded(ctx: FxcContext, op: TorchOp, value: SSAValue, windows: Sequence[_Windows], fill: float) -> SSAValue:
    pads = [int_attr(n) for window in reversed(windows) for n in (window.before, max(window.after, 0))]
    if not any(pad.value.data for pad in pads):
        return value
    return insert_call(ctx, "aten.constant_pad_nd.default", [value, pads, float_attr(fill)], op)


def _folded(ctx: FxcContext, op: TorchOp, value: SSAValue, windows: Sequence[_Windows], combine: str) -> SSAValue:
    """Combine the elements of each window, from the last dimension to the first, so that the first of equal maxima counts.

    This is the order of PyTorch's loops. Dimensions along which a window has one element come before, as they need no memory.
    """
    pairs = reversed([*zip(range(-len(windows), 0), windows, strict=True)])
    for dim, window in sorted(pairs, key=lambda pair: pair[1].size > 1):
        if window.size == window.step == 1 and not window.before and window.count == window.length:
            continue
        value = reduce(lambda a, b: insert_call(ctx, combine, [b, a], op), _pieces(ctx, op, value, dim, window))
    return value


def _pieces(ctx: FxcContext, op: TorchOp, value: SSAValue, dim: int, window: _Windows) -> list[SSAValue]:
    """For each element of a window, a slice with that element of all windows along ``dim``."""
    cuts = [[int_attr(dim), int_attr(start), int_attr(end), int_attr(window.step)] for start, end in window.starts()]
    return [insert_call(ctx, "aten.slice.Tensor", [value, *cut], op) for cut in cuts]


def _in_image(dims: int, op: TorchOp) -> int | None:
    """The number of elements in the last ``dims`` dimensions of the operand."""
    lengths = _last_sizes(op.operands[0], dims)
    return None if lengths is None else math.prod(lengths)


_LARGEST = Parts(When.KERNELS, partial(split_pool, _given, _largest))
_MEAN = Parts(When.KERNELS, partial(split_pool, _given, _mean))
_EVEN_MEAN = Parts(When.KERNELS, partial(split_pool, _even, _mean))

RECORDS: Mapping[str, Operator] = MappingProxyType(
    {
        **each("max_pool1d.default max_pool2d.default max_pool3d.default", parts=_LARGEST),
        **each("max_pool1d_with_indices.default", parts=_LARGEST, positions=partial(_in_image, 1)),
        **each("max_pool2d_with_indices.default", parts=_LARGEST, positions=partial(_in_image, 2)),
        **each("max_pool3d_with_indices.default", parts=_LARGEST, positions=partial(_in_image, 3)),
        **each("adaptive_max_pool2d.default fractional_max_pool2d.default", positions=partial(_in_image, 2)),
        **each("adaptive_max_pool3d.default fractional_max_pool3d.default", positions=partial(_in_image, 3)),
        **each("avg_pool1d.default avg_pool2d.default avg_pool3d.default", parts=_MEAN),
        **each("adaptive_avg_pool1d.default adaptive_avg_pool2d.default adaptive_avg_pool3d.default", parts=_EVEN_MEAN),
        **each("_adaptive_avg_pool2d.default _adaptive_avg_pool3d.default", parts=_EVEN_MEAN),
    }
)
