"""Factories, gathers, scatters, and writes to views."""

from __future__ import annotations

import torch

from tests.fuzz.builder import Builder, Skip, Value
from tests.fuzz.operators_views import sliced

DTYPES = ["float32", "int64", "float64", "bfloat16", "bool", "int32", "complex64"]


def index(b: Builder, size: int | str, shape: list[int] | None = None, signed: bool = False) -> str:
    """An int64 tensor of indices below ``size``, of one dimension where no shape is given."""
    if isinstance(size, int) and size == 0:
        raise Skip
    count = 1
    for length in shape if shape is not None else [b.int(1, 4)]:
        count *= length
    if isinstance(size, int) and count <= 4 and b.flag():
        low = -size if signed else 0
        text = f"torch.tensor({[b.int(low, min(size - 1, low + 6)) for _ in range(count)]})"
    else:
        start = ""
        if b.int(0, 2) == 2:
            start = f" + ({b.pick(exact=True)} > {b.of([0, 1])}).sum()"
        text = f"((torch.arange({count}) * {b.of([1, 3, 0, 2])}{start}) % {size})"
    return text if shape is None else f"{text}.reshape({tuple(shape)})"


# factories


def factory(b: Builder) -> None:
    dtype = b.of(DTYPES)
    n = b.of([3, 4, 2, 1, 5, 0, 7])
    if b.generic:
        x = b.pick(least=1)
        n = b.size(x, 0)
    kind = b.of(["arange", "arange3", "zeros", "ones", "full", "eye", "linspace", "tensor", "tri"])
    text = {
        "arange": f"torch.arange({n}, dtype=torch.{dtype})",
        "arange3": f"torch.arange({b.of([1, 0, -2])}, {b.of([7, 4])}, {b.of([1, 2, 3])})",
        "zeros": f"torch.zeros({n}, {b.of([2, 3, 1])}, dtype=torch.{dtype})",
        "ones": f"torch.ones({n}, dtype=torch.{dtype})",
        "full": f"torch.full(({n}, {b.of([2, 1])}), {b.of([1.5, 2, -1, 'True'])})",
        "eye": f"torch.eye({n}, {b.of([3, 2, 5])})",
        "linspace": f"torch.linspace({b.of([0, -1])}, {b.of([1, 3])}, {n})",
        "tensor": f"torch.tensor({b.of([1.5, [1, 2], [0.5, -1.0, 2.0], 3])})",
        "tri": f"torch.{b.of(['tril_indices', 'triu_indices'])}(3, {b.of([3, 2, 4])})",
    }[kind]
    b.emit(kind, text, moves=kind != "linspace", exact=kind != "linspace")


def alike(b: Builder) -> None:
    x = b.pick(complex=True)
    text = b.of(["zeros_like({})", "ones_like({})", "full_like({}, 2)", "empty_like({}).fill_(1)"])
    b.emit(text.partition("(")[0], "torch." + text.format(x), moves=True, exact=True)


def new(b: Builder) -> None:
    x = b.pick(complex=True)
    text = b.of(["new_zeros({})", "new_full({}, 3)", "new_ones({})"]).format(f"({b.of([2, 3, 0])}, {b.of([1, 4])})")
    b.emit(text.partition("(")[0], f"{x}.{text}", moves=True, exact=True)


# gathers


def computed(b: Builder, x: Value, dim: int) -> str:
    """Indices along ``dim`` that are read from ``x``: one a row."""
    found = [f"{x}.argmax({dim}, keepdim=True)", f"{x}.argsort({dim}, stable=True).narrow({dim}, 0, 1)"]
    count = f"(({x} > {b.of([0, 1])}).sum({dim}, keepdim=True).clamp(min=1) - 1)"
    last = f"({x}.cummax({dim})[1].amax({dim}, keepdim=True))"
    return b.of([count, count, last] if x.dtype == torch.bool else [count, count, last, *found])


def gather(b: Builder) -> None:
    x = b.pick(complex=True, least=1, some=True)
    dim = b.dim(x)
    if x.exact and not x.dtype.is_complex and b.flag():
        b.emit("gather", f"{x}.gather({dim}, {computed(b, x, dim)})", moves=True)
        return
    shape = [min(size, b.of([2, 3, 1])) for size in x.shape]
    where = index(b, b.size(x, dim) if b.generic else x.shape[dim], shape)
    b.emit("gather", f"{x}.gather({dim}, {where})", moves=True)


def index_select(b: Builder) -> None:
    x = b.pick(complex=True, least=1, some=True)
    dim = b.dim(x)
    where = index(b, b.size(x, dim) if b.generic else x.shape[dim])
    b.emit("index_select", f"{x}.index_select({dim}, {where})", moves=True)


def take(b: Builder) -> None:
    x = b.pick(complex=True, some=True)
    name = b.of(["take({})", "flatten()[{}]"])
    b.emit("take", f"{x}." + name.format(index(b, f"{x}.numel()" if b.generic else x.tensor.numel())), moves=True)


def advanced(b: Builder, x: Value) -> str:
    """An index with tensors."""
    parts = []
    length = b.of([2, 1, 3])
    for dim in range(b.int(1, x.ndim)):
        kind = b.of(["tensor", "slice", "mask", "number", "tensor2"])
        size = b.size(x, dim) if b.generic else x.shape[dim]
        if kind == "tensor":
            parts.append(index(b, size, [length], signed=True))
        elif kind == "tensor2":
            parts.append(index(b, size, [2, 1]))
        elif kind == "slice":
            parts.append(b.of([":", "1:", "::2"]))
        elif kind == "number":
            parts.append(b.of(["0", "-1"]))
        else:
            parts.append("None")
    return ", ".join(parts)


def advanced_index(b: Builder) -> None:
    x = b.pick(complex=True, least=1, some=True)
    b.emit("index", f"{x}[{advanced(b, x)}]", moves=True)


def take_along_dim(b: Builder) -> None:
    x = b.pick(exact=True, least=1, some=True)
    dim = b.dim(x)
    b.emit("take_along_dim", f"{x}.take_along_dim({x}.argsort({dim}, stable=True), {dim})", moves=True)


def embedding(b: Builder) -> None:
    x = b.pick(floats=True, ndim=2, some=True)
    where = index(b, b.size(x, 0) if b.generic else x.shape[0], b.of([[2], [2, 2], [1, 3]]))
    padding = b.of(["", ", padding_idx=0"])
    b.emit("embedding", f"F.embedding({where}, {x}{padding})", moves=True)


# scatters


def of_dtype(b: Builder, x: Value, source: str) -> str:
    """A tensor of ``x``'s dtype: a picked value, or a constant."""
    return f"{source}.to({x}.dtype)"


def scatter(b: Builder) -> None:
    x = b.pick(complex=True, least=1, some=True)
    dim = b.dim(x)
    shape = [min(size, b.of([2, 1, 3])) for size in x.shape]
    size = b.size(x, dim) if b.generic else x.shape[dim]
    name = b.of(["scatter", "scatter_add", "scatter_value", "scatter_reduce"])
    if name == "scatter":  # each place once: which of several updates stays is not defined
        shape[dim] = 1
    where = index(b, size, shape)
    if name == "scatter_value" and x.exact and not x.dtype.is_complex and b.flag():
        where = computed(b, x, dim)
    source = f"torch.full({tuple(shape)}, 2, dtype={x}.dtype)"
    fit = [v for v in b.values if v.dtype == x.dtype and v.ndim == x.ndim and all(s >= n for s, n in zip(v.shape, shape))]
    if fit and b.flag():
        taken = fit[-1 - b.int(0, len(fit) - 1)]
        b.taken.append(taken)
        source = str(taken)
    text = {
        "scatter": f"{x}.scatter({dim}, {where}, {source})",
        "scatter_add": f"{x}.scatter_add({dim}, {where}, {source})",
        "scatter_value": f"{x}.scatter({dim}, {where}, 2)",
        "scatter_reduce": f'{x}.scatter_reduce({dim}, {where}, {source}, "{b.of(["amax", "sum", "amin"])}"'
        f"{b.of(['', ', include_self=False'])})",
    }[name]
    b.emit(name, text, moves=name in ("scatter", "scatter_value"))


def index_scatter(b: Builder) -> None:
    x = b.pick(complex=True, least=1, some=True)
    dim = b.dim(x)
    size = b.size(x, dim) if b.generic else x.shape[dim]
    name = b.of(["index_add", "index_copy", "index_fill"])
    if name == "index_fill":
        b.emit(name, f"{x}.index_fill({dim}, {index(b, size)}, {b.of([2, 0])})", moves=True)
        return
    where = index(b, size, [1 if name == "index_copy" else 2])
    rows = f"{x}.narrow({dim}, 0, 1)" if name == "index_copy" else f"{x}.index_select({dim}, {where})"
    b.emit(name, f"{x}.{name}({dim}, {where}, {rows} * 2)")


def index_put(b: Builder) -> None:
    x = b.pick(complex=True, least=1, some=True)
    size = b.size(x, 0) if b.generic else x.shape[0]
    accumulate = b.flag()
    where = index(b, size, [2 if accumulate else 1])
    value = f"torch.tensor({b.of([2, 0])}, dtype={x}.dtype)"
    b.emit("index_put", f"{x}.index_put(({where},), {value}, accumulate={accumulate})", moves=not accumulate)


def slice_scatter(b: Builder) -> None:
    x = b.pick(complex=True, least=1)
    dim = b.dim(x)
    if b.flag():
        place = b.of([0, -1])
        other = b.of([f"{x}.select({dim}, {b.of([-1, 0])})", f"torch.zeros_like({x}.select({dim}, 0))"])
        b.emit("select_scatter", f"{x}.select_scatter({other}, {dim}, {place})", moves=True)
        return
    start, step = b.of([0, 1]), b.of([1, 2, 3])
    part = "[" + ":, " * (dim % x.ndim) + f"{start}::{step}]"
    other = b.of([f"torch.ones_like({x}{part})", f"{x}{part}.flip({dim})"])
    b.emit("slice_scatter", f"{x}.slice_scatter({other}, {dim}, {start}, None, {step})", moves=True)


def mask(b: Builder, x: Value) -> str:
    y = b.pick(exact=True)
    return str(y) if y.dtype.is_floating_point is False and str(y.dtype) == "torch.bool" else f"({y} > {b.of([0, 1])})"


def masked(b: Builder) -> None:
    x = b.pick(complex=True)
    m = mask(b, x)
    b.emit("masked_fill", f"{x}.masked_fill({m}, {b.of([0, 2, -1])})", moves=True)


def where(b: Builder) -> None:
    x = b.pick(complex=True)
    m = mask(b, x)
    other = b.of(["0", "1.5", str(b.pick(complex=True))])
    b.emit("where", f"torch.where({m}, {x}, {other})")


# writes


def view_to_write(b: Builder) -> tuple[Value, str]:
    """A value, and it or a view of it."""
    x = b.pick(complex=True)
    kind = b.of(["all", "slices", "transposed", "flat", "diagonal", "select", "unsqueeze"])
    if kind == "slices":
        return x, f"{x}[{sliced(b, x)}]"
    text = {
        "all": "",
        "transposed": f".transpose({b.dim(x)}, {b.dim(x)})" if x.ndim else "",
        "flat": ".view(-1)",
        "diagonal": ".diagonal()",
        "select": f".select({b.dim(x)}, 0)" if x.ndim else "",
        "unsqueeze": ".unsqueeze(0)",
    }[kind]
    return x, f"{x}{text}"


def write(b: Builder) -> None:
    x, view = view_to_write(b)
    name = b.of(["add_", "mul_", "copy_", "fill_", "zero_", "neg_", "masked_fill_", "sub_", "abs_", "clamp_", "relu_"])
    reads = ""
    if name in ("zero_", "neg_", "abs_", "relu_"):
        text = ""
    elif name == "fill_":
        text = b.of(["2", "0", "-1"])
    elif name == "clamp_":
        text = b.of(["0", "-1, 1", "max=1"])
    elif name == "masked_fill_":
        text = f"{mask(b, x)}, {b.of([0, 2])}"
    else:
        other = b.pick(complex=True)
        reads = text = b.of([str(other), "2"]) if name != "copy_" else str(other)
        if name in ("add_", "sub_") and b.int(0, 3) == 3:
            text += ", alpha=2"
    moves = name in ("copy_", "fill_", "zero_", "masked_fill_")
    b.write(name, f"{view}.{name}({text})", x, moves=moves, view=view, reads=reads)


def assign(b: Builder) -> None:
    x = b.pick(complex=True)
    place = b.of(["...", f"{sliced(b, x)}"])
    if x.ndim and x.tensor.numel() and b.int(0, 3) == 3:
        size = b.size(x, 0) if b.generic else x.shape[0]
        place = index(b, size, [1])
    value = b.of([str(b.pick(complex=True)), "2", "0"])
    if b.int(0, 3) == 3:
        b.write("iadd_item", f"{x}[{place}] += {value}", x, view=f"{x}[{place}]", reads=value)
    else:
        b.write("setitem", f"{x}[{place}] = {value}", x, moves=True, view=f"{x}[{place}]", reads=value)


def other_write(b: Builder) -> None:
    x = b.pick(complex=True, least=1, some=True)
    dim = b.dim(x)
    size = b.size(x, dim) if b.generic else x.shape[dim]
    kind = b.of(["fill_diagonal_", "index_put_", "index_fill_", "scatter_", "index_add_", "augmented"])
    if kind == "augmented":
        y = b.pick()
        b.write("iadd", f"{x} {b.of(['+=', '*=', '-='])} {y}", x, reads=str(y))
        return
    text = {
        "fill_diagonal_": f"fill_diagonal_({b.of([2, 0])})",
        "index_put_": f"index_put_(({index(b, b.size(x, 0) if b.generic else x.shape[0], [1])},), {x}[0])",
        "index_fill_": f"index_fill_({dim}, {index(b, size)}, 2)",
        "scatter_": f"scatter_({dim}, {index(b, size, [1] * x.ndim)}, {b.of([2, -1])})",
        "index_add_": f"index_add_({dim}, {index(b, size, [1])}, {x}.narrow({dim}, 0, 1).clone())",
    }[kind]
    b.write(kind, f"{x}.{text}", x, moves=kind not in ("index_add_",), reads=f"{x}[0]" if kind == "index_put_" else "")


FACTORIES = [factory, factory, alike, new]
GATHERS = [gather, index_select, take, advanced_index, advanced_index, take_along_dim, embedding]
SCATTERS = [scatter, scatter, index_scatter, index_put, slice_scatter, slice_scatter, masked, where]
WRITES = [write, write, write, assign, assign, other_write]
