"""The largest and smallest elements along a dimension, and where they are: ``max.dim`` and ``min.dim`` as two reductions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from fxc.dialects.attributes.types import device, sizes, strides, tensor_type
from fxc.dialects.attributes.values import bool_attr, dtype_attr
from fxc.dialects.torch_ops.base import TorchOp
from fxc.passes.analysis.matching import dtype, torch_op
from fxc.passes.rewriting.decomposition import put_in_place

EXTREMES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "aten.max.dim": ("aten.amax.default", "aten.argmax.default"),
        "aten.min.dim": ("aten.amin.default", "aten.argmin.default"),
    }
)
"""Operator -> those that give its values and its indices. Of equal elements the first is found, and a NaN before all others."""


def split_extreme(op: TorchOp) -> list[TorchOp]:
    """Put two reductions in the place of ``op``; returns its parts. Nothing where it is another operator, or where a dimension
    has no elements, of which PyTorch gives no index. Bools have an order as integers only."""
    if op.operator not in EXTREMES or op.is_packed:
        return []
    bound, [values, indices] = op.bound(), op.results
    source, dim, keep = bound["self"], bound["dim"], bound.get("keepdim", bool_attr(False))
    if not isinstance(source, SSAValue) or not isinstance(source.type, TensorType):
        return []
    if not all(isinstance(size, int) and size for size in sizes(source.type)):
        return []
    if any(isinstance(result.type, TensorType) and strides(result.type) is not None for result in op.results):
        return []
    first, second = EXTREMES[op.operator]
    ordered = _as_integers(op, source) if dtype(source.type) == "bool" else []
    compared = ordered[0].results[0] if ordered else source
    found = torch_op(first).build_call([source, [dim], keep], {}, [values.type], location=op.location)
    place = torch_op(second).build_call([compared, dim, keep], {}, [indices.type], location=op.location)
    parts = [found, *ordered, place]
    put_in_place(op, parts, [(values, found.results[0]), (indices, place.results[0])])
    return parts


def _as_integers(op: TorchOp, source: SSAValue) -> list[TorchOp]:
    assert isinstance(source.type, TensorType)
    type = tensor_type("uint8", sizes(source.type), strides(source.type), device(source.type))
    return [
        torch_op("aten._to_copy.default").build_call([source], {"dtype": dtype_attr("uint8")}, [type], location=op.location)
    ]
