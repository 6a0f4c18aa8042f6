"""What families of operators have in common that neither schemas nor flags say: passes ask here, and keep no lists."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xdsl.ir import Operation

CONCATENATIONS = frozenset({"aten.cat.default", "aten.concat.default", "aten.concatenate.default"})
"""Operators that put tensors behind each other."""

SPLITS: Mapping[str, str] = MappingProxyType({
    "aten.chunk.default": "chunks", "aten.unsafe_chunk.default": "chunks", "aten.tensor_split.sections": "sections",
    "aten.split.Tensor": "split_size", "aten.unsafe_split.Tensor": "split_size",
    "aten.split.sizes": "split_size", "aten.split_with_sizes.default": "split_sizes",
    "aten.unsafe_split_with_sizes.default": "split_sizes",
})  # fmt: skip
"""Operators that cut ``self`` along ``dim`` into pieces -> the argument that says how many, or how long each is."""

NORMS = frozenset(
    {
        "aten.layer_norm.default", "aten.native_layer_norm.default", "aten.group_norm.default",
        "aten.native_group_norm.default", "aten.batch_norm.default", "aten.native_batch_norm.default",
        "aten._native_batch_norm_legit.default", "aten._native_batch_norm_legit.no_stats",
        "aten._native_batch_norm_legit_no_training.default", "aten._native_batch_norm_legit_functional.default",
        "aten.cudnn_batch_norm.default", "aten.miopen_batch_norm.default",
    }
)  # fmt: skip
"""Operators that are statistics of a tensor and pointwise work."""

EQUAL_SHAPES = frozenset({"aten.gelu_backward.default"})
"""Pointwise operators of which some kernel takes equal shapes only, though the table has the flag ``p`` for them."""

SIZE_QUERIES = frozenset(
    {
        "aten.size.int", "aten.sym_size.int", "aten.size.default", "aten.sym_size.default", "aten.numel.default",
        "aten.sym_numel.default", "aten.dim.default",
    }
)  # fmt: skip
"""Operators whose results depend on the sizes of their tensor only, and on nothing else of it."""


def is_concatenation(op: Operation) -> bool:
    return _operator(op) in CONCATENATIONS


def is_split(op: Operation) -> bool:
    return _operator(op) in SPLITS


def is_norm(op: Operation) -> bool:
    return _operator(op) in NORMS


def takes_equal_shapes(op: Operation) -> bool:
    return _operator(op) in EQUAL_SHAPES


def is_size_query(op: Operation) -> bool:
    return _operator(op) in SIZE_QUERIES


def _operator(op: Operation) -> str:
    return op.name.removeprefix("torch.")
