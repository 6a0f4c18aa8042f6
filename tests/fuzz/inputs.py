"""Inputs of random programs: sizes, dtypes, and layouts in memory."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.fuzz.builder import Builder

FLOATS = ["float32", "float32", "float32", "float64", "bfloat16", "float16"]
OTHERS = ["int64", "bool", "int32", "complex64", "uint8", "int8", "int16", "complex128"]
SIZES = [3, 2, 4, 5, 1, 7, 0, 8, 16, 17, 20]
LAYOUTS = ["contiguous", "contiguous", "transposed", "steps", "offset", "expanded", "channels_last", "columns"]


def numbers(count: str, dtype: str, seed: int) -> str:
    """``count`` different numbers in [-3.2, 3.2], which any floating type holds exactly; integers from -50 to 50."""
    mixed = f"(torch.arange({count}) * {(37, 23, 61, 7)[seed % 4]} + {11 * seed}) % 101"
    if dtype == "bool":
        return f"({mixed}) % 3 == 0"
    if dtype == "uint8":
        return f"({mixed}).to(torch.uint8)"
    if dtype.startswith("int"):
        return f"({mixed} - 50)" if dtype == "int64" else f"({mixed} - 50).to(torch.{dtype})"
    if dtype.startswith("complex"):
        part = "float32" if dtype == "complex64" else "float64"
        made = f"(({mixed} - 50) / 16).to(torch.{part})"
        return f"torch.complex({made}, {made}.flip(0))"
    return f"(({mixed} - 50) / 16)" + ("" if dtype == "float32" else f".to(torch.{dtype})")


def draw_input(b: Builder, seed: int, gradients: bool) -> None:
    dtype = b.of(FLOATS) if seed == 0 or b.int(0, 2) < 2 else b.of(OTHERS)
    shape: list[int | str] = []
    for _ in range(b.of([2, 1, 3, 2, 3, 4, 0])):
        sizes = [size for size in SIZES if _elements(b, [*shape, size]) <= 2000]
        shape.append(b.of(["n", "m", "n", "m", 2, 3, 1]) if b.generic else b.of(sizes))
    if seed and b.int(0, 2) == 2:  # one that goes together with another
        shape = list(b.of(b.shapes))
        if shape and b.flag():
            shape[b.int(0, len(shape) - 1)] = 1
    b.shapes.append(shape)
    layout = b.of(LAYOUTS)
    code = _laid_out(b, shape, dtype, seed, layout)
    if gradients and dtype in FLOATS and b.int(0, 4) < 4:
        code += ".requires_grad_()"
    b.add_input(code)


def _elements(b: Builder, shape: list[int | str]) -> int:
    product = 1
    for size in shape:
        product *= 8 if isinstance(size, str) else max(size, 1)
    return product


def _laid_out(b: Builder, shape: list[int | str], dtype: str, seed: int, layout: str) -> str:
    rank = len(shape)
    base: list[int | str] = list(shape)
    after = ""
    if layout == "transposed" and rank > 1:
        order = b.draw(st.permutations(range(rank)))
        base = [shape[order.index(i)] for i in range(rank)]
        after = f".permute({', '.join(map(str, order))})"
    elif layout == "columns" and rank > 1:
        base[-1] = f"({shape[-1]} + 2)"
        after = "[..., 1:-1]"
    elif layout == "steps" and rank:
        dim = b.int(0, rank - 1)
        base[dim] = f"({shape[dim]} * 2)"
        after = "[" + ":, " * dim + "::2]"
    elif layout == "offset" and rank:
        base[0] = f"({shape[0]} + 1)"
        after = "[1:]"
    elif layout == "expanded" and rank:
        dim = b.int(0, rank - 1)
        base[dim] = 1
        after = f".expand({', '.join(map(str, shape))})"
    elif layout == "channels_last" and rank == 4:
        after = ".to(memory_format=torch.channels_last)"
    if not b.generic:
        base = [eval(size) if isinstance(size, str) else size for size in base]
        count = 1
        for size in base:
            count *= int(size)
        text = str(count)
    else:
        text = " * ".join(map(str, base)) or "1"
    return f"({numbers(text, dtype, seed)}).reshape({', '.join(map(str, base)) or '()'}){after}"


def draw_inputs(b: Builder, gradients: bool) -> None:
    if b.generic:
        pairs = st.tuples(st.sampled_from([3, 5, 4, 2, 7, 8, 16]), st.sampled_from([4, 3, 6, 2, 9, 17]))
        more = st.tuples(st.sampled_from([5, 2, 8, 3, 9, 1, 17]), st.sampled_from([7, 2, 4, 5, 12, 1]))
        b.sizes = (b.draw(pairs), b.draw(more))
    for seed in range(b.of([1, 2, 2, 3])):
        draw_input(b, seed, gradients)
