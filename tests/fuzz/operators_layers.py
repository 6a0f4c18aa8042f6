"""Matrix products, convolutions, pools, norms, and random operators."""

from __future__ import annotations

from tests.fuzz.builder import Builder, Skip, Value


def partner(b: Builder, x: Value) -> Value:
    """A value of the same floating type."""
    fit = [value for value in b.values if value.dtype == x.dtype]
    value = fit[-1 - b.int(0, len(fit) - 1)]
    b.taken.append(value)
    return value


def constant(b: Builder, x: Value, *sizes: int | str) -> str:
    """A tensor of weights, of ``x``'s dtype."""
    count = " * ".join(map(str, sizes))
    return f"((torch.arange({count}) * 7 % 11 - 5) / 8).reshape({', '.join(map(str, sizes))}).to({x}.dtype)"


def weight(b: Builder, x: Value, *sizes: int) -> str:
    """A value of these sizes, reshaped where it has to be, or a constant."""
    count = 1
    for size in sizes:
        count *= size
    fit = [value for value in b.values if value.dtype == x.dtype and value.tensor.numel() == count]
    if fit and not b.generic and b.flag():
        value = fit[-1 - b.int(0, len(fit) - 1)]
        b.taken.append(value)
        return f"{value}.reshape({', '.join(map(str, sizes))})"
    return constant(b, x, *sizes)


def matmul(b: Builder) -> None:
    x = b.pick(least=1, bools=False)
    kind = b.of(["matmul", "any", "self", "linear", "addmm", "bmm", "einsum", "gram", "baddbmm", "outer", "dot"])
    inner = b.size(x, -1) if b.generic else x.shape[-1]
    if kind == "any":
        y = partner(b, x)
        text = f"torch.matmul({x}, {y})"
    elif kind == "matmul":
        text = f"{x} @ {constant(b, x, inner, b.of([2, 3, 1, 5]))}"
    elif kind == "self":
        text = f"{x} @ {x}.mT"
    elif kind == "gram":
        text = f"{x}.mT @ {x}"
    elif kind == "linear":
        out = b.of([2, 3, 1, 4])
        bias = "" if b.flag() else f", {constant(b, x, out)}"
        text = f"F.linear({x}, {constant(b, x, out, inner)}{bias})"
    elif kind == "addmm":
        out = b.of([2, 3])
        scale = b.of(["", ", beta=2", ", alpha=0.5", ", beta=0"])
        text = f"torch.addmm({constant(b, x, out)}, {x}, {constant(b, x, inner, out)}{scale})"
    elif kind in ("bmm", "baddbmm"):
        y = constant(b, x, b.size(x, 0) if b.generic else x.shape[0], inner, 2)
        text = f"torch.bmm({x}, {y})" if kind == "bmm" else f"torch.baddbmm({constant(b, x, 2)}, {x}, {y}, alpha=0.5)"
    elif kind == "outer":
        text = f"torch.outer({x}, {partner(b, x)})"
    elif kind == "dot":
        text = f"torch.dot({x}, {x}.flip(0))"
    else:
        equation = {
            1: ["i,i->", "i,j->ij", "i,i->i"],
            2: ["ij,kj->ik", "ij,ij->i", "ij,ik->jk", "ij,ij->", "ij,kl->ikjl"],
            3: ["bij,bkj->bik", "bij,bij->bj", "bij,cij->bc"],
            4: ["abij,abkj->abik", "abij,abij->ai"],
        }
        if x.ndim not in equation:
            raise Skip
        text = f'torch.einsum("{b.of(equation[x.ndim])}", {x}, {b.of([str(x), str(partner(b, x))])})'
    b.emit(kind if kind != "any" else "matmul_any", text)


def attention(b: Builder) -> None:
    x = b.pick(floats=True, least=3, some=True)
    y = partner(b, x) if b.flag() else x
    b.emit("attention", f"F.scaled_dot_product_attention({x}, {y}, {x}, is_causal={b.flag()})")


def convolution(b: Builder) -> None:
    """Over the last one or two dimensions; channels first."""
    dims = b.of([2, 1])
    x = b.pick(floats=True, least=dims + 1, some=True)
    if x.ndim > dims + 2 or b.generic:
        raise Skip
    channels = x.shape[-dims - 1]
    groups = b.of([1, channels]) if channels < 9 else 1
    kernel = [b.int(1, min(3, size)) for size in x.shape[-dims:]]
    out = b.of([2, 1, 3]) * groups
    if out > 20:
        raise Skip
    options = f", stride={b.of([1, 2])}, padding={b.of([0, 1])}, dilation={b.of([1, 2])}, groups={groups}"
    if b.int(0, 3) == 3:
        weights = weight(b, x, channels, out // groups, *kernel)
        options = f", stride={b.of([1, 2])}, groups={groups}"
        b.emit(f"conv_transpose{dims}d", f"F.conv_transpose{dims}d({x}, {weights}{options})")
        return
    bias = b.of(["", f", bias={constant(b, x, out)}"])
    b.emit(f"conv{dims}d", f"F.conv{dims}d({x}, {weight(b, x, out, channels // groups, *kernel)}{bias}{options})")


def pool(b: Builder) -> None:
    dims = b.of([2, 1])
    x = b.pick(floats=True, least=dims + 1, some=True)
    kernel = b.int(1, min(3, *x.shape[-dims:], 3))
    kind = b.of(["max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "interpolate", "lp", "unfold", "pixel"])
    stride = f", stride={b.of([1, 2, 3])}"
    padding = f", padding={b.int(0, kernel // 2)}"
    mode = b.of(["nearest", "bilinear" if dims == 2 else "linear"])
    text = {
        "max_pool": f"F.max_pool{dims}d({x}, {kernel}{stride}{padding})",
        "avg_pool": f"F.avg_pool{dims}d({x}, {kernel}{stride}{padding}, count_include_pad={b.flag()})",
        "adaptive_avg_pool": f"F.adaptive_avg_pool{dims}d({x}, {b.of([1, 2, 3])})",
        "adaptive_max_pool": f"F.adaptive_max_pool{dims}d({x}, {b.of([1, 2, 3])})",
        "interpolate": f'F.interpolate({x}, scale_factor={b.of([2, 0.5, 1.5])}, mode="{mode}")',
        "lp": f"F.lp_pool{dims}d({x}.abs() + 0.5, 2, {kernel})",
        "unfold": f"F.unfold({x}, {kernel}, padding={b.of([0, 1])}, stride={b.of([1, 2])})",
        "pixel": f"F.pixel_unshuffle({x}, {b.of([1, 2])})",
    }[kind]
    b.emit(f"{kind}{dims}d", text)


def norm(b: Builder) -> None:
    x = b.pick(floats=True, least=1)
    kind = b.of(["softmax", "log_softmax", "layer_norm", "batch_norm", "group_norm", "normalize", "rms_norm", "softmin"])
    dim = b.dim(x)
    size = b.size(x, -1) if b.generic else x.shape[-1]
    if kind == "batch_norm":
        if x.ndim < 2:
            raise Skip
        channels = b.size(x, 1) if b.generic else x.shape[1]
        mean, scale = f"torch.zeros({channels}, dtype={x}.dtype)", f"torch.ones({channels}, dtype={x}.dtype)"
        b.emit(kind, f"F.batch_norm({x}, {mean}, {scale}, training={b.flag()}, eps=0.1)")
        return
    affine = b.of(["", f", weight={constant(b, x, size)}", f", bias={constant(b, x, size)}"])
    text = {
        "softmax": f"{x}.softmax({dim})",
        "log_softmax": f"F.log_softmax({x}, {dim})",
        "softmin": f"F.softmin({x}, {dim})",
        "layer_norm": f"F.layer_norm({x}, ({size},){affine}, eps=0.1)",
        "rms_norm": f"F.rms_norm({x}, ({size},), eps=0.1)",
        "group_norm": f"F.group_norm({x}, {b.of([1, 2])}, eps=0.1)",
        "normalize": f"F.normalize({x}, dim={dim}, eps=0.5)",
    }[kind]
    b.emit(kind, text)


def loss(b: Builder) -> None:
    x = b.pick(floats=True, ndim=2, some=True)
    if b.generic:
        raise Skip
    rows, classes = x.shape
    target = f"torch.arange({rows}) % {classes}"
    text = b.of([
        f"F.cross_entropy({x}, {target})",
        f"F.cross_entropy({x}, {target}, ignore_index=0, reduction='sum')",
        f"F.nll_loss({x}.log_softmax(1), {target}, reduction='none')",
        f"F.smooth_l1_loss({x}, {x}.flip(0))",
        f"F.one_hot({target}, {classes})",
        f"F.binary_cross_entropy_with_logits({x}, torch.ones_like({x}))",
    ])  # fmt: skip
    b.emit(text.partition("(")[0].removeprefix("F."), text)


def idle_dropout(b: Builder) -> None:
    """One that drops nothing, or all."""
    x = b.pick(floats=True)
    text = b.of(["F.dropout({}, 0.5, False)", "F.dropout({}, 0.0)", "F.dropout({}, 1.0)", "F.dropout({}, 0.0, inplace=True)"])
    b.emit("idle_dropout", text.format(x), moves=True)


def sampled(b: Builder) -> None:
    """fxc draws other numbers than eager in some routes: these programs are compared by dtypes, shapes and strides only."""
    x = b.pick(floats=True)
    if b.int(0, 3) < 3:
        raise Skip
    text = b.of(["F.dropout({}, 0.5)", "torch.rand_like({})", "torch.bernoulli({}.sigmoid())", "torch.randn({}.shape)"])
    b.numbers = False
    b.emit("sampled", text.format(x), exact=False)


LAYERS = [
    matmul,
    matmul,
    matmul,
    attention,
    convolution,
    convolution,
    pool,
    pool,
    norm,
    norm,
    norm,
    loss,
    idle_dropout,
    sampled,
]
