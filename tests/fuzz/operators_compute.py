"""Pointwise operators, reductions, scans, sorts, and conversions."""

from __future__ import annotations

from tests.fuzz.builder import Builder, Skip, Value, overlaps_itself

SMOOTH = [
    "torch.sin({})",
    "torch.cos({})",
    "torch.tanh({})",
    "torch.sigmoid({})",
    "torch.exp({}.clamp(-3, 3))",
    "torch.erf({})",
    "torch.log({}.abs() + 0.5)",
    "torch.sqrt({}.abs() + 0.25)",
    "torch.rsqrt({}.abs() + 0.5)",
    "torch.log1p({}.abs())",
    "F.silu({})",
    "F.softplus({})",
    "F.gelu({})",
    "torch.reciprocal({}.abs() + 0.5)",
    "torch.expm1({}.clamp(-2, 2))",
    "torch.atan({})",
    "torch.square({}.clamp(-9, 9))",
    "F.mish({})",
    "F.logsigmoid({})",
    'F.gelu({}, approximate="tanh")',
]
CONTINUOUS = [
    "torch.abs({})",
    "torch.relu({})",
    "torch.neg({})",
    "{}.clamp(-1, 1)",
    "{}.clamp(min=0)",
    "F.leaky_relu({}, 0.1)",
    "F.elu({})",
    "F.hardtanh({})",
    "F.relu6({})",
    "F.hardsigmoid({})",
    "F.hardswish({})",
    "torch.positive({})",
    "F.softshrink({}, 0.25)",
]
JUMPS = [
    "torch.floor({})",
    "torch.ceil({})",
    "torch.round({})",
    "torch.trunc({})",
    "torch.sign({})",
    "torch.isnan({})",
    "{} > 0",
    "{} != 0",
    "torch.logical_not({})",
    "{} // 2",
    "{} % 3",
    "torch.frac({})",
    "torch.signbit({})",
    "F.hardshrink({}, 0.5)",
    "{} == 1",
    "torch.remainder({}, 1.5)",
    "torch.fmod({}, 1.5)",
]
INTEGERS = [
    "~{}",
    "{} & 3",
    "{} | 1",
    "{} ^ 2",
    "({} & 7) << 1",
    "{} >> 1",
    "torch.bitwise_not({})",
    "{} // 3",
    "{} % 5",
    "-{}",
]
BINARY = [
    "{} + {}",
    "{} - {}",
    "{} * {}",
    "torch.maximum({}, {})",
    "torch.minimum({}, {})",
    "{} / ({}.abs() + 0.5)",
    "torch.add({}, {}, alpha=2)",
    "torch.sub({}, {}, alpha=0.5)",
    "torch.rsub({}, {})",
    "torch.atan2({}, {}.abs() + 0.5)",
    "torch.hypot({}, {})",
    "F.mse_loss({}, {}, reduction='none')",
    "torch.copysign({}, {})",
    "torch.lerp({}, {}, 0.25)",
    "torch.fmax({}, {})",
]
JUMPING_BINARY = [
    "{} > {}",
    "{} == {}",
    "{} <= {}",
    "torch.logical_and({}, {})",
    "torch.logical_xor({}, {})",
    "torch.ne({}, {})",
    "torch.floor_divide({}, {}.abs() + 1)",
    "torch.heaviside({}, {})",
    "torch.remainder({}, {}.abs() + 1)",
]
SCALARS = [
    "{} + 2",
    "{} * 0.5",
    "2 - {}",
    "{} - 1.5",
    "3 / ({}.abs() + 1)",
    "{} / 2",
    "{} * 3",
    "{} ** 2",
    "1 + {}",
    "{} * True",
    "{}.add(1, alpha=3)",
    "0.5 * {}",
    "{} + 1.5",
    "torch.pow({}.abs() + 0.5, 1.5)",
    "{} * -0.0",
    "{} + 0",
]
COMPLEX = [
    "{} * 2",
    "{} + 1j",
    "{} * {}.conj()",
    "{}.abs()",
    "torch.exp({} * 0.25)",
    "-{}",
    "{}.angle()",
    "{} + 1.5",
    "{} / (2 + 1j)",
    "{}.sgn()",
]


def name_of(text: str) -> str:
    return text.replace("{}", "_").replace(" ", "").removeprefix("torch.").removeprefix("F.")[:24]


def apply(b: Builder, text: str, *values: Value, moves: bool = False) -> None:
    count = text.count("{}")
    names = [str(value) for value in values]
    b.emit(name_of(text), text.format(*(names * count)[:count]), moves=moves)


def unary(b: Builder) -> None:
    kind = b.int(0, 3)
    if kind == 0:
        apply(b, b.of(CONTINUOUS), b.pick())
    elif kind == 3:
        apply(b, b.of(JUMPS), b.pick(exact=True))
    else:
        apply(b, b.of(SMOOTH), b.pick())


def scalar(b: Builder) -> None:
    apply(b, b.of(SCALARS), b.pick())


def binary(b: Builder) -> None:
    apply(b, b.of(BINARY), b.pick(complex=True), b.pick(complex=True))


def compare(b: Builder) -> None:
    apply(b, b.of(JUMPING_BINARY), b.pick(exact=True), b.pick(exact=True))


def integer(b: Builder) -> None:
    text = b.of(INTEGERS)
    # PyTorch shifts bools in eager, but its own type inference, which every capture asks, refuses to
    apply(b, text, b.pick(integers=True, bools=not (">>" in text or "<<" in text)))


def complexes(b: Builder) -> None:
    x = b.of([value for value in b.values if value.dtype.is_complex])
    b.taken.append(x)
    apply(b, b.of(COMPLEX), x)


def ternary(b: Builder) -> None:
    text = b.of(
        [
            "torch.addcmul({}, {}, {})",
            "torch.where({} > 0, {}, {})",
            "torch.addcdiv({}, {}, {}.abs() + 0.5)",
            "torch.lerp({}, {}, {})",
            "torch.clamp({}, {}, {})",
        ]
    )
    apply(b, text, b.pick(exact="where" in text), b.pick(), b.pick())


def convert(b: Builder) -> None:
    dtype = b.of(["float32", "bfloat16", "int64", "float64", "bool", "int32", "float16", "uint8", "complex64", "int8"])
    floats = "float" in dtype or dtype == "complex64"
    x = b.pick(exact=not floats)
    if dtype == "uint8":  # of negative floats it is not defined
        b.emit("to_uint8", f"{x}.abs().clamp(max=99).to(torch.uint8)")
    elif dtype == "int8":
        b.emit("to_int8", f"{x}.clamp(max=99).to(torch.int8)")
    else:
        b.emit(f"to_{dtype}", f"{x}.{b.of(['to(', 'type('])}torch.{dtype})", exact=x.exact)


def over(b: Builder, x: Value) -> str:
    """The dimensions of a reduction, and whether they are kept."""
    if not x.ndim or b.int(0, 3) == 3:
        return ""
    dims = b.dims(x) if b.flag() else [b.dim(x)]
    return (str(dims[0]) if len(dims) == 1 else str(tuple(dims))) + b.of(["", ", keepdim=True"])


def reduce(b: Builder) -> None:
    name = b.of(["sum", "mean", "amax", "amin", "var", "std", "logsumexp", "nansum", "count_nonzero", "norm", "var_mean"])
    x = b.pick(complex=name in ("sum", "mean"), exact=name == "count_nonzero")
    dims = over(b, x)
    if name == "logsumexp":
        dims = dims or (str(b.dim(x)))
    elif name in ("var", "std"):
        dims += (", " if dims else "") + b.of(["correction=1", "correction=0"])
        if name == "std":  # its gradient has no limit where nothing varies
            b.emit(name, f"({x}.var({dims}) + 0.25).sqrt()")
            return
    elif name == "var_mean":
        b.emit(name, f"torch.var_mean({x}{', ' if dims else ''}{dims})[{b.int(0, 1)}]")
        return
    elif name == "count_nonzero":
        dims = dims.partition(", keep")[0]
    elif name == "norm":
        b.emit(name, f"torch.linalg.vector_norm({x}, {b.of([2, 1])}{', dim=' if dims else ''}{dims})")
        return
    elif name == "sum" and b.int(0, 3) == 3:
        dims += (", " if dims else "") + f"dtype=torch.{b.of(['float64', 'float32', 'int64'] if x.exact else ['float64'])}"
    b.emit(name, f"{x}.{name}({dims})", moves=name in ("amax", "amin"))


def reduce_one(b: Builder) -> None:
    """Over one dimension, or all."""
    name = b.of(["argmax", "prod", "any", "all", "argmin", "max", "min", "median", "max_index", "aminmax"])
    x = b.pick(exact=name != "prod")
    dims = "" if not x.ndim or b.int(0, 3) == 3 else str(b.dim(x)) + b.of(["", ", keepdim=True"])
    if name == "prod":
        b.emit(name, f"{x}.clamp(-1.5, 1.5).prod({dims})" if x.floats else f"({x} % 3).prod({dims})")
    elif name == "aminmax":
        b.emit(name, f"torch.aminmax({x}, dim={b.dim(x)}).{b.of(['max', 'min'])}", moves=True)
    elif name in ("max", "min", "median", "max_index"):
        if not dims:
            b.emit(name, f"{x}.{name.partition('_')[0]}()", moves=True)
            return
        if name == "median" and overlaps_itself(x.tensor):  # eager reads what it has not written
            raise Skip
        element = ".indices" if name == "max_index" else ".values"
        b.emit(name, f"{x}.{name.partition('_')[0]}({dims}){element}", moves=True)
    else:
        b.emit(name, f"{x}.{name}({dims})")


def scan(b: Builder) -> None:
    name = b.of(["cumsum", "cumprod", "cummax", "logcumsumexp", "cummin", "diff"])
    x = b.pick(exact=name in ("cummax", "cummin"), least=1)
    dim = b.dim(x)
    if name in ("cummax", "cummin"):
        b.emit(name, f"{x}.{name}({dim}){b.of(['.values', '.indices'])}", moves=True)
    elif name == "cumprod":
        b.emit(name, f"{x}.clamp(-1.25, 1.25).cumprod({dim})")
    elif name == "diff":
        b.emit(name, f"{x}.diff(dim={dim})")
    else:
        b.emit(name, f"{x}.{name}({dim})")


def sort(b: Builder) -> None:
    """``topk`` of different values only: which of equal ones it takes is not defined."""
    name = b.of(["sort", "topk", "argsort", "kthvalue", "msort", "searchsorted"])
    x = b.pick(exact=True, least=1, some=name != "sort")
    dim = b.dim(x)
    if name == "sort":
        b.emit(name, f"{x}.sort(dim={dim}, stable=True, descending={b.flag()}){b.of(['.values', '.indices'])}", moves=True)
    elif name == "argsort":
        b.emit(name, f"{x}.argsort(dim={dim}, stable=True, descending={b.flag()})")
    elif name == "msort":
        b.emit(name, f"{x}.msort()", moves=True)
    elif name == "searchsorted":
        b.emit(name, f"torch.searchsorted({x}.sort(-1).values, {x}.clone(), right={b.flag()})")
    else:
        if x.tensor.detach().unique().numel() < x.tensor.numel():
            raise Skip
        k = b.int(1, min(3, x.shape[dim]))
        rest = f", largest={b.flag()}" if name == "topk" else ""
        b.emit(name, f"{x}.{name}({k}, {dim}{rest}){b.of(['.values', '.indices'])}", moves=True)


POINTWISE = [unary, unary, binary, binary, scalar, scalar, compare, integer, ternary, convert, convert, complexes]
REDUCTIONS = [reduce, reduce, reduce, reduce_one, reduce_one, scan, scan, sort]
