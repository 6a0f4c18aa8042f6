"""Split ``max.dim`` and ``min.dim`` into two reductions: the extreme values and their indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import device, is_tensor, sizes, strides, tensor_type
from fxc.dialects.attributes.values import bool_attr, dtype_attr, isa
from fxc.dialects.context import FxcContext
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, torch_op
from fxc.passes.operators.record import Operator, Parts, When, each
from fxc.passes.rewriting.decomposition import put_in_place


def split_extreme(first: str, second: str, ctx: FxcContext, op: TorchOp) -> Sequence[TorchOp]:
    """max(x, dim) -> amax(x, dim), argmax(x, dim)

    Among equal elements the index is the first one; NaN comes before all others. It does not apply to a dimension without
    elements, for which PyTorch has no index. Bools are compared as integers.
    """
    if op.is_packed:
        return []
    bound, [values, indices] = op.bound(), op.results
    source, dim, keep = bound["self"], bound["dim"], bound.get("keepdim", bool_attr(False))
    if not isa(source, SSAValue) or not is_tensor(source.type):
        return []
    if not all(isinstance(size, int) and size for size in sizes(source.type)):
        return []
    if any(is_tensor(result.type) and strides(result.type) is not None for result in op.results):
        return []
    ordered = _as_integers(op, source) if dtype(source.type) == "bool" else []
    compared = ordered[0].results[0] if ordered else source
    found = torch_op(first).build_call([source, [dim], keep], {}, [values.type], location=op.location)
    place = torch_op(second).build_call([compared, dim, keep], {}, [indices.type], location=op.location)
    parts = [found, *ordered, place]
    put_in_place(op, parts, [(values, found.results[0]), (indices, place.results[0])])
    return parts


def _as_integers(op: TorchOp, source: SSAValue) -> list[TorchOp]:
    assert is_tensor(source.type)
    type = tensor_type("uint8", sizes(source.type), strides(source.type), device(source.type))
    return [
        torch_op("aten._to_copy.default").build_call([source], {"dtype": dtype_attr("uint8")}, [type], location=op.location)
    ]


def _extreme(first: str, second: str) -> Parts:
    return Parts(When.BESIDE, partial(split_extreme, f"aten.{first}.default", f"aten.{second}.default"))


RECORDS: Mapping[str, Operator] = MappingProxyType(
    {**each("max.dim", parts=_extreme("amax", "argmax")), **each("min.dim", parts=_extreme("amin", "argmin"))}
)
"""Operator -> its record."""
