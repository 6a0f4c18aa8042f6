"""Views and copies that move elements."""

from __future__ import annotations

from tests.fuzz.builder import Builder, Skip, Value
from tests.fuzz.outcome import is_dense

# views


def factorised(b: Builder, count: int) -> list[int]:
    """Sizes of which the product is ``count``."""
    sizes: list[int] = []
    for _ in range(b.int(0, 3)):
        if count == 0:
            sizes.append(b.of([0, 1, 2, 3]))
            continue
        sizes.append(b.of([size for size in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 20) if count % size == 0]))
        count //= sizes[-1]
    sizes.insert(b.int(0, len(sizes)), count)
    return sizes


def reshaped(b: Builder, x: Value) -> str:
    if b.generic:
        kinds = ["-1"]
        if x.ndim:
            order = b.permutation(x)
            kinds += [", ".join(f"{x}.shape[{i}]" for i in order), ", ".join(f"{x}.shape[{i}]" for i in range(x.ndim)) + ", 1"]
        if x.ndim >= 2:
            kinds += [f"{x}.shape[0] * {x}.shape[1]" + "".join(f", {x}.shape[{i}]" for i in range(2, x.ndim))]
            kinds += ["1, -1, " + f"{x}.shape[-1]"]
        return b.of(kinds)
    sizes = factorised(b, x.tensor.numel())
    if x.tensor.numel() and b.int(0, 3) == 3:
        sizes[b.int(0, len(sizes) - 1)] = -1
    return ", ".join(map(str, sizes))


def reshape(b: Builder) -> None:
    x = b.pick(complex=True)
    name = b.of(["reshape", "view"])
    b.emit(name, f"{x}.{name}({reshaped(b, x)})", moves=True)


def as_strided(b: Builder) -> None:
    x = b.pick(complex=True, some=True)
    whole = x.tensor if x.tensor._base is None else x.tensor._base  # some results have more memory than elements
    room = whole.storage_offset() + sum((size - 1) * step for size, step in zip(whole.shape, whole.stride())) + 1
    sizes, strides, last = [], [], 0
    for _ in range(b.int(1, 3)):
        sizes.append(b.of([2, 3, 1, 4]))
        strides.append(b.of([1, 2, 3, 0, 5]))
        last += (sizes[-1] - 1) * strides[-1]
    offset = b.of([0, 1, 2, 4])
    # a written input that is not dense has a dense new value in a program
    is_moved = any(v.tensor._version and not is_dense(v.tensor) for v in b.values if v.name in b.input_names)
    if last + offset >= room or b.generic or is_moved:
        raise Skip
    b.emit("as_strided", f"{x}.as_strided({tuple(sizes)}, {tuple(strides)}, {offset})", moves=True)


def unfold(b: Builder) -> None:
    x = b.pick(complex=True)
    dim = b.dim(x)
    size = b.int(1, min(x.shape[dim], 4))
    b.emit("unfold", f"{x}.unfold({dim}, {size}, {b.int(1, 3)})", moves=True)


def sliced(b: Builder, x: Value) -> str:
    """An index of slices, numbers, None and ellipsis."""
    parts = []
    for dim in range(b.int(1, max(x.ndim, 1))):
        size = x.shape[dim] if dim < x.ndim else 0
        kind = b.of(["from", "step", "range", "all", "number", "none", "back", "ellipsis"])
        if kind == "from":
            parts.append(f"{b.int(1, 2)}:")
        elif kind == "step":
            parts.append(f"{b.of(['', 1])}::{b.int(2, 3)}")
        elif kind == "range":
            parts.append(f"{b.int(0, 2)}:{b.int(0, max(size, 1) + 1)}")
        elif kind == "number":
            parts.append(str(b.of([0, -1, 1])))
        elif kind == "back":
            parts.append(b.of([":-1", "-2:", "-3:-1"]))
        else:
            text = {"all": ":", "none": "None", "ellipsis": "..."}[kind]
            parts.append(":" if text == "..." and text in parts else text)
    return ", ".join(parts)


def slices(b: Builder) -> None:
    x = b.pick(complex=True)
    b.emit("getitem", f"{x}[{sliced(b, x)}]", moves=True)


def select(b: Builder) -> None:
    x = b.pick(complex=True, least=1)
    dim = b.dim(x)
    b.emit("select", f"{x}.select({dim}, {b.of([0, -1, 1])})", moves=True)


def narrow(b: Builder) -> None:
    x = b.pick(complex=True, least=1)
    dim = b.dim(x)
    start = b.int(0, min(x.shape[dim], 3))
    length = f"{b.size(x, dim)} - {start}" if b.generic else b.int(0, x.shape[dim] - start)
    b.emit("narrow", f"{x}.narrow({dim}, {start}, {length})", moves=True)


def expand(b: Builder) -> None:
    x = b.pick(complex=True)
    sizes = [str(b.of([2, 3, 4, 0])) if size == 1 and b.flag() else "-1" for size in x.shape]
    sizes = [str(b.of([2, 1, 3, 0])) for _ in range(b.int(0, 2))] + sizes
    b.emit("expand", f"{x}.expand({', '.join(sizes)})", moves=True)


def permute(b: Builder) -> None:
    x = b.pick(complex=True, least=1)
    b.emit("permute", f"{x}.permute({', '.join(map(str, b.permutation(x)))})", moves=True)


def transpose(b: Builder) -> None:
    x = b.pick(complex=True, least=1)
    b.emit("transpose", f"{x}.transpose({b.dim(x)}, {b.dim(x)})", moves=True)


def plain(b: Builder) -> None:
    x = b.pick(complex=True)
    text = b.of(["squeeze()", "mT", "t()", "contiguous()", "clone()", "unsqueeze(0)", "unsqueeze(-1)", "detach()", "ravel()"])
    b.emit(text.partition("(")[0], f"{x}.{text}", moves=True)


def diagonal(b: Builder) -> None:
    x = b.pick(complex=True, least=2)
    offset = b.of([0, 1, -1, 2])
    b.emit("diagonal", f"{x}.diagonal({offset}, {b.dim(x)}, {b.dim(x)})", moves=True)


def squeeze(b: Builder) -> None:
    x = b.pick(complex=True, least=1)
    b.emit("squeeze", f"{x}.squeeze({b.dim(x)})", moves=True)


def unsqueeze(b: Builder) -> None:
    x = b.pick(complex=True)
    b.emit("unsqueeze", f"{x}.unsqueeze({b.int(-1, x.ndim)})", moves=True)


def movedim(b: Builder) -> None:
    x = b.pick(complex=True, least=1)
    b.emit("movedim", f"{x}.movedim({b.dim(x)}, {b.dim(x)})", moves=True)


def flatten(b: Builder) -> None:
    x = b.pick(complex=True)
    start = b.int(0, max(x.ndim - 1, 0))
    b.emit("flatten", f"{x}.flatten({start}, {b.int(start, max(x.ndim - 1, 0))})", moves=True)


def unflatten(b: Builder) -> None:
    x = b.pick(complex=True, least=1)
    dim = b.dim(x)
    sizes = b.of([[-1, 1], [1, -1]]) if b.generic else factorised(b, x.shape[dim])
    b.emit("unflatten", f"{x}.unflatten({dim}, {tuple(sizes)})", moves=True)


def piece(b: Builder) -> None:
    x = b.pick(complex=True, least=1)
    dim = b.dim(x)
    name = b.of(["chunk", "split", "unbind", "tensor_split"])
    first = "" if name == "unbind" else f"{b.of([2, 1, 3])}, "
    if name == "split" and not b.generic and b.flag():
        part = b.int(0, x.shape[dim])
        first = f"[{part}, {x.shape[dim] - part}], "
    b.emit(name, f"{x}.{name}({first}{dim})[{b.of([0, -1, 1])}]", moves=True)


def view_dtype(b: Builder) -> None:
    x = b.pick(exact=True, some=True, bools=False)
    same = {1: ["int8", "uint8"], 2: ["int16", "float16", "bfloat16"], 4: ["int32", "float32"], 8: ["int64", "float64"]}
    b.emit("view_dtype", f"{x}.view(torch.{b.of(same[x.tensor.element_size()])})", moves=True)


def parts(b: Builder) -> None:
    x = b.of([value for value in b.values if value.dtype.is_complex])
    b.taken.append(x)
    name = b.of(["real", "imag"])
    text = b.of([f"{x}.{name}", f"torch.view_as_real({x})", f"{x}.conj()", f"torch.view_as_real({x}.resolve_conj())"])
    b.emit(text.partition("(")[0].removeprefix(f"{x}."), text, moves=True)


# copies


def flip(b: Builder) -> None:
    x = b.pick(complex=True, least=1)
    b.emit("flip", f"{x}.flip({', '.join(map(str, b.dims(x)))})", moves=True)


def roll(b: Builder) -> None:
    x = b.pick(complex=True)
    shift = b.of([1, -1, 2, -3, 7])
    text = f"{shift}" if not x.ndim or b.int(0, 3) == 3 else f"{shift}, {b.dim(x)}"
    b.emit("roll", f"{x}.roll({text})", moves=True)


def repeat(b: Builder) -> None:
    x = b.pick(complex=True)
    counts = [str(b.of([1, 2, 3, 0])) for _ in range(x.ndim + b.int(0, 1))]
    name = b.of(["repeat", "tile"])
    b.emit(name, f"{x}.{name}({', '.join(counts) or '2'})", moves=True)


def repeat_interleave(b: Builder) -> None:
    x = b.pick(complex=True)
    text = f"{b.of([2, 1, 3])}" if not x.ndim or b.flag() else f"{b.of([2, 1, 3])}, {b.dim(x)}"
    b.emit("repeat_interleave", f"{x}.repeat_interleave({text})", moves=True)


def rot90(b: Builder) -> None:
    x = b.pick(complex=True, least=2)
    b.emit("rot90", f"{x}.rot90({b.of([1, 2, 3])}, (0, 1))", moves=True)


def triangle(b: Builder) -> None:
    x = b.pick(complex=True, least=2)
    name = b.of(["tril", "triu"])
    b.emit(name, f"{x}.{name}({b.of([0, 1, -1, 2])})", moves=True)


def pad(b: Builder) -> None:
    """Constant padding of any sign."""
    x = b.pick(complex=True, least=1)
    amounts = [str(b.of([1, 0, -1, 2])) for _ in range(2 * b.int(1, x.ndim))]
    value = "" if b.flag() else f', "constant", {b.of([1, 0, -2])}'
    b.emit("pad", f"F.pad({x}, ({', '.join(amounts)}){value})", moves=True)


def pad_mode(b: Builder) -> None:
    x = b.pick(floats=True, least=2)
    mode = b.of(["reflect", "replicate", "circular"])
    least = 0 if mode == "circular" else -1  # eager leaves elements unset where a circular pad takes some away and adds others
    amounts = [str(max(b.of([1, 0, 2, -1]), least)) for _ in range(2 * b.int(1, min(x.ndim - 1, 3)))]
    b.emit(f"pad_{mode}", f'F.pad({x}, ({", ".join(amounts)}), mode="{mode}")', moves=True)


def joined(b: Builder) -> None:
    x = b.pick(complex=True)
    fit = [value for value in b.values if value.ndim == x.ndim]
    others = [fit[-1 - b.int(0, len(fit) - 1)] for _ in range(b.int(1, 2))]
    b.taken += others
    names = ", ".join(map(str, [x, *others]))
    name = b.of(["cat", "stack", "hstack", "vstack", "dstack"])
    if name == "cat":
        dim = f", {b.dim(x)}"
    elif name == "stack":
        dim = f", {b.int(-1, x.ndim)}"
    else:
        dim = ""
    b.emit(name, f"torch.{name}([{names}]{dim})", moves=len({value.dtype for value in [x, *others]}) == 1)


def meshed(b: Builder) -> None:
    x, y = b.pick(ndim=1), b.pick(ndim=1)
    b.emit("meshgrid", f'torch.meshgrid({x}, {y}, indexing="ij")[{b.int(0, 1)}]', moves=True)


VIEWS = [
    reshape, reshape, slices, slices, transpose, permute, select, narrow, expand, plain, as_strided, unfold, diagonal, squeeze,
    unsqueeze, movedim, flatten, unflatten, piece, view_dtype, parts,
]  # fmt: skip
COPIES = [pad, pad, pad_mode, joined, joined, joined, flip, roll, repeat, repeat_interleave, rot90, triangle, meshed]
