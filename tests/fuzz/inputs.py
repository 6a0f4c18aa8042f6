"""Inputs of random programs: sizes, dtypes, and layouts in memory."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from tests.fuzz.builder import Builder
from tests.fuzz.programs import Input

FLOATS = ["float32", "float32", "float32", "float64", "bfloat16", "float16"]
OTHERS = ["int64", "bool", "int32", "complex64", "uint8", "int8", "int16", "complex128"]
SIZES = [3, 2, 4, 5, 1, 7, 0, 8, 16, 17, 20]
LAYOUTS = ["contiguous", "contiguous", "transposed", "steps", "offset", "expanded", "channels_last", "columns"]
LEAST = {"transposed": 2, "columns": 2, "steps": 1, "offset": 1, "expanded": 1}
"""The dimensions that a layout needs."""
DENSE = ("contiguous", "transposed", "channels_last")
"""Layouts that a clone has, too."""


def draw_input(b: Builder, seed: int, gradients: bool) -> None:
    dtype = b.of(FLOATS) if seed == 0 or b.int(0, 2) < 2 else b.of(OTHERS)
    shape: list[int | str] = []
    for _ in range(b.of([2, 1, 3, 2, 3, 4, 0])):
        sizes = [size for size in SIZES if elements([*shape, size]) <= 2000]
        shape.append(b.of(["n", "m", "n", "m", 2, 3, 1]) if b.generic else b.of(sizes))
    if seed and b.int(0, 2) == 2:  # one that broadcasts with another
        shape = list(b.of([item.shape for item in b.inputs]))
        if shape and b.flag():
            shape[b.int(0, len(shape) - 1)] = 1
    rank, layout, dim, order = len(shape), b.of(LAYOUTS), 0, ()
    if rank < LEAST.get(layout, 0) or (layout == "channels_last" and rank != 4):
        layout = "contiguous"
    elif layout == "transposed":
        order = tuple(b.draw(st.permutations(range(rank))))
    elif layout in ("steps", "expanded"):
        dim = b.int(0, rank - 1)
    requires_grad = gradients and dtype in FLOATS and b.int(0, 4) < 4
    is_leaf = not (requires_grad and layout in DENSE and b.int(0, 2) == 2)
    b.add_input(Input(f"x{len(b.inputs)}", tuple(shape), dtype, seed, layout, dim, order, requires_grad, is_leaf))


def elements(shape: list[int | str]) -> int:
    return math.prod(8 if isinstance(size, str) else max(size, 1) for size in shape)


def draw_inputs(b: Builder, gradients: bool) -> None:
    if b.generic:
        pairs = st.tuples(st.sampled_from([3, 5, 4, 2, 7, 8, 16]), st.sampled_from([4, 3, 6, 2, 9, 17]))
        more = st.tuples(st.sampled_from([5, 2, 8, 3, 9, 1, 17]), st.sampled_from([7, 2, 4, 5, 12, 1]))
        b.sizes = (b.draw(pairs), b.draw(more))
        if b.route == "dynamic_shapes":
            few = st.sampled_from([0, 1, 2])
            b.sizes = (*b.sizes, b.draw(st.tuples(few, few)))
    for seed in range(b.of([1, 2, 2, 3])):
        draw_input(b, seed, gradients)
