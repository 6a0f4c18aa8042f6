"""Printed Triton source on the simulator, against PyTorch: kernels, every op, and what is refused."""

from __future__ import annotations

import pytest
import torch

from fxc.bridge.random_numbers import random_bits
from fxc.codegen.triton.kernel_source import KernelSource
from fxc.codegen.triton.printer import print_kernel, print_kernels
from fxc.dialects.tile import KernelOp
from fxc.interpret.tile_level import run_kernel
from fxc.testing import parse
from tests.simulator.simulator import simulate
from tests.triton_kernels import CASES, kernel, pointer, random


def printed(text: str) -> KernelSource:
    [source] = print_kernels(parse(text))
    return source


@pytest.mark.parametrize("name", CASES)
def test_kernels(name: str) -> None:
    case = CASES[name]
    inputs, outputs = case.inputs(), case.outputs()
    simulate(printed(case.text), [*inputs, *outputs])
    for output, expected in zip(outputs, case.expected(*inputs), strict=True):
        torch.testing.assert_close(output, expected, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_of_tile_agrees(name: str) -> None:
    case = CASES[name]
    kernel_op = next(op for op in parse(case.text).walk() if isinstance(op, KernelOp))
    simulated, interpreted = case.outputs(), case.outputs()
    simulate(print_kernel(kernel_op), [*case.inputs(), *simulated])
    run_kernel(kernel_op, [*case.inputs(), *interpreted])
    for one, other in zip(simulated, interpreted, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)


def test_batches_of_programs_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["control_flow"]
    monkeypatch.setattr("tests.simulator.simulator.LANES_AT_ONCE", 5)
    inputs, [output] = case.inputs(), case.outputs()
    simulate(printed(case.text), [*inputs, output])
    assert torch.equal(output, case.expected(*inputs)[0])


def test_a_source_survives_json() -> None:
    source = printed(CASES["scan"].text)
    assert KernelSource.from_json(source.as_json()) == source


TYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
}


def one_op(op: str, operands: list[str], result: str) -> str:
    """A kernel that applies ``op``, a text with ``$0``, ``$1`` and ``$v`` for the block type, to 64 lanes."""
    loads = "\n".join(
        f"  %v{i} = tile.load %p{i}[%base] strides [1] : !tile.ptr<{type}> -> vector<64x{type}>"
        for i, type in enumerate(operands)
    )
    text = op.replace("$v", f"vector<64x{operands[0]}>").replace("$r", f"vector<64x{result}>").replace("$", "%v")
    body = f"""
  %base = arith.constant 0 : index
{loads}
  %r = {text}
  tile.store %r, %out[%base] strides [1] : vector<64x{result}>, !tile.ptr<{result}>"""
    pointers = [pointer(f"p{i}", type, "read", 64) for i, type in enumerate(operands)]
    return kernel("one_op", [1], [*pointers, pointer("out", result, "write", 64)], body)


def apply(op: str, operands: list[torch.Tensor], result: torch.dtype) -> torch.Tensor:
    names = {dtype: name for name, dtype in TYPES.items()}
    out = torch.empty(64, dtype=result)
    simulate(printed(one_op(op, [names[value.dtype] for value in operands], names[result])), [*operands, out])
    return out


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, torch.nan, torch.inf, -torch.inf]


def floats(dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    values = torch.randn(64, generator=torch.Generator().manual_seed(seed)) * 3
    values[seed : seed + len(SPECIAL)] = torch.tensor(SPECIAL)
    return values.to(dtype)


FLOAT_OPS = {
    "math.absf $0 : $v": torch.abs,
    "math.acos $0 : $v": torch.acos,
    "math.acosh $0 : $v": torch.acosh,
    "math.asin $0 : $v": torch.asin,
    "math.asinh $0 : $v": torch.asinh,
    "math.atan $0 : $v": torch.atan,
    "math.atanh $0 : $v": torch.atanh,
    "math.ceil $0 : $v": torch.ceil,
    "math.cos $0 : $v": torch.cos,
    "math.cosh $0 : $v": torch.cosh,
    "math.erf $0 : $v": torch.erf,
    "math.exp $0 : $v": torch.exp,
    "math.exp2 $0 : $v": torch.exp2,
    "math.expm1 $0 : $v": torch.expm1,
    "math.floor $0 : $v": torch.floor,
    "math.log $0 : $v": torch.log,
    "math.log10 $0 : $v": torch.log10,
    "math.log1p $0 : $v": torch.log1p,
    "math.log2 $0 : $v": torch.log2,
    "math.roundeven $0 : $v": torch.round,
    "math.rsqrt $0 : $v": torch.rsqrt,
    "math.sin $0 : $v": torch.sin,
    "math.sinh $0 : $v": torch.sinh,
    "math.sqrt $0 : $v": torch.sqrt,
    "math.tan $0 : $v": torch.tan,
    "math.tanh $0 : $v": torch.tanh,
    "math.trunc $0 : $v": torch.trunc,
    "arith.negf $0 : $v": torch.neg,
    'tile.math "erfc" $0 : $v': torch.erfc,
    'tile.math "erfinv" $0 : $v': torch.erfinv,
    'tile.math "lgamma" $0 : $v': torch.lgamma,
    "arith.addf $0, $1 : $v": torch.add,
    "arith.subf $0, $1 : $v": torch.sub,
    "arith.mulf $0, $1 : $v": torch.mul,
    "arith.divf $0, $1 : $v": torch.div,
    "arith.maximumf $0, $1 : $v": lambda a, b: torch.where((a == 0) & (b == 0), a + b, torch.maximum(a, b)),
    "arith.minimumf $0, $1 : $v": lambda a, b: torch.where((a == 0) & (b == 0), -(-a - b), torch.minimum(a, b)),
    "arith.maxnumf $0, $1 : $v": torch.fmax,
    "arith.minnumf $0, $1 : $v": torch.fmin,
    "math.atan2 $0, $1 : $v": torch.atan2,
    "math.copysign $0, $1 : $v": torch.copysign,
    "math.powf $0, $1 : $v": torch.pow,
    'tile.math "fmod" $0, $1 : $v': torch.fmod,
    'tile.math "hypot" $0, $1 : $v': torch.hypot,
}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_next_number(dtype: str) -> None:
    values = [floats(TYPES[dtype], seed) for seed in (0, 1)]
    found = apply('tile.math "nextafter" $0, $1 : $v', values, TYPES[dtype])
    torch.testing.assert_close(found, torch.nextafter(*values), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("op", FLOAT_OPS)
def test_floats(op: str, dtype: str) -> None:
    values = [floats(TYPES[dtype], seed) for seed in range(2 if "$1" in op else 1)]
    expected = FLOAT_OPS[op](*values)
    found = apply(op, values, TYPES[dtype])
    torch.testing.assert_close(found, expected, equal_nan=True)
    if "num" not in op:  # of 0.0 and -0.0, maxnumf may give either
        assert torch.equal(found.signbit()[expected == 0], expected.signbit()[expected == 0]), "the sign of a zero"


def test_rounding_and_roots_of_negative_numbers() -> None:
    x = torch.linspace(-4, 3.875, 64)
    assert torch.equal(apply("math.round $0 : $v", [x], x.dtype), (x.abs() + 0.5).floor().copysign(x))
    torch.testing.assert_close(apply("math.cbrt $0 : $v", [x], x.dtype) ** 3, x)
    y = apply("math.fma $0, $1, $2 : $v", [x, x + 1, x - 1], x.dtype)
    torch.testing.assert_close(y, x * (x + 1) + x - 1)


def integers(dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """All bits random; those of 64-bit numbers too."""
    words = torch.randint(-(1 << 62), 1 << 62, (64,), generator=torch.Generator().manual_seed(seed)) * 2 + 1
    return words.to(dtype)


def unsigned(values: torch.Tensor) -> list[int]:
    width = 8 * values.element_size()
    return [number % (1 << width) for number in values.tolist()]


def wrapped(numbers: list[int], dtype: torch.dtype) -> torch.Tensor:
    width = 8 * dtype.itemsize
    return torch.tensor([(number + (1 << width - 1)) % (1 << width) - (1 << width - 1) for number in numbers], dtype=dtype)


INTEGER_OPS = {
    "arith.addi $0, $1 : $v": torch.add,
    "arith.subi $0, $1 : $v": torch.sub,
    "arith.muli $0, $1 : $v": torch.mul,
    "arith.divsi $0, $1 : $v": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "arith.floordivsi $0, $1 : $v": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "arith.ceildivsi $0, $1 : $v": lambda a, b: wrapped([-(-x // y) for x, y in zip(a.tolist(), b.tolist())], a.dtype),
    "arith.remsi $0, $1 : $v": torch.fmod,
    "arith.andi $0, $1 : $v": torch.bitwise_and,
    "arith.ori $0, $1 : $v": torch.bitwise_or,
    "arith.xori $0, $1 : $v": torch.bitwise_xor,
    "arith.maxsi $0, $1 : $v": torch.maximum,
    "arith.minsi $0, $1 : $v": torch.minimum,
    "math.absi $0 : $v": torch.abs,
}

UNSIGNED_OPS = {
    "arith.divui $0, $1 : $v": lambda a, b: a // b,
    "arith.remui $0, $1 : $v": lambda a, b: a % b,
    "arith.maxui $0, $1 : $v": max,
    "arith.minui $0, $1 : $v": min,
}


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("op", [*INTEGER_OPS, *UNSIGNED_OPS])
def test_integers(op: str, dtype: str) -> None:
    values = [integers(TYPES[dtype], seed) for seed in range(2 if "$1" in op else 1)]
    if op in INTEGER_OPS:
        expected = INTEGER_OPS[op](*values)
    else:
        expected = wrapped([UNSIGNED_OPS[op](a, b) for a, b in zip(*map(unsigned, values))], TYPES[dtype])
    assert torch.equal(apply(op, values, TYPES[dtype]), expected)


@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64"])
def test_shifts(dtype: str) -> None:
    values, by = integers(TYPES[dtype]), torch.arange(64).remainder(7).to(TYPES[dtype])
    assert torch.equal(apply("arith.shli $0, $1 : $v", [values, by], values.dtype), values << by)
    assert torch.equal(apply("arith.shrsi $0, $1 : $v", [values, by], values.dtype), values >> by)
    expected = wrapped([number >> n for number, n in zip(unsigned(values), by.tolist())], values.dtype)
    assert torch.equal(apply("arith.shrui $0, $1 : $v", [values, by], values.dtype), expected)


def compare(predicate: str, operands: list[torch.Tensor]) -> torch.Tensor:
    """By block, and number by number: the same."""
    blocks = apply(f'tile.compare "{predicate}" $0, $1 : $v', operands, torch.bool)
    type = next(name for name, dtype in TYPES.items() if dtype is operands[0].dtype)
    body = f"""
  %i = tile.program_id {{axis = 0}} : index
  %a = tile.load %p[%i] : !tile.ptr<{type}> -> {type}
  %b = tile.load %q[%i] : !tile.ptr<{type}> -> {type}
  %r = arith.cmp{"f" if type[0] == "f" else "i"} {predicate}, %a, %b : {type}
  tile.store %r, %out[%i] : i1, !tile.ptr<i1>"""
    arguments = [pointer("p", type, "read", 64), pointer("q", type, "read", 64), pointer("out", "i1", "write", 64)]
    out = torch.empty(64, dtype=torch.bool)
    simulate(printed(kernel("compare", [64], arguments, body)), [*operands, out])
    assert torch.equal(out, blocks)
    return out


COMPARISONS = {"eq": "__eq__", "ne": "__ne__", "lt": "__lt__", "le": "__le__", "gt": "__gt__", "ge": "__ge__"}


@pytest.mark.parametrize("predicate", ["eq", "ne", *(sign + name for sign in "su" for name in ("lt", "le", "gt", "ge"))])
def test_integer_comparisons(predicate: str) -> None:
    a, b = integers(torch.int32), integers(torch.int32, 1)
    b[:8] = a[:8]
    method = COMPARISONS[predicate.removeprefix("s").removeprefix("u")]
    numbers = zip(unsigned(a), unsigned(b)) if predicate[0] == "u" else zip(a.tolist(), b.tolist())
    expected = torch.tensor([getattr(x, method)(y) for x, y in numbers])
    assert torch.equal(compare(predicate, [a, b]), expected)


@pytest.mark.parametrize("predicate", [sign + name for sign in "ou" for name in ("eq", "ne", "lt", "le", "gt", "ge")])
def test_float_comparisons(predicate: str) -> None:
    a, b = floats(torch.float32), floats(torch.float32, 5)
    b[:8] = a[:8]
    nan = a.isnan() | b.isnan()
    expected = getattr(a, COMPARISONS[predicate[1:]])(b)
    expected = expected & ~nan if predicate[0] == "o" else expected | nan
    assert torch.equal(compare(predicate, [a, b]), expected)


def test_whether_floats_have_an_order() -> None:
    a, b = floats(torch.float32), floats(torch.float32, 5)
    nan = a.isnan() | b.isnan()
    assert torch.equal(compare("uno", [a, b]), nan)
    assert torch.equal(compare("ord", [a, b]), ~nan)
    assert compare("true", [a, b]).all()
    assert not compare("false", [a, b]).any()


@pytest.mark.parametrize(
    ("kind", "source", "result"),
    [
        *(("sitofp", a, b) for a in ("i8", "i32", "i64") for b in ("f16", "f32", "f64")),
        *(("extsi", a, b) for a, b in (("i8", "i32"), ("i16", "i64"), ("i32", "i64"))),
        *(("trunci", a, b) for a, b in (("i64", "i32"), ("i32", "i8"), ("i64", "i8"))),
        ("uitofp", "i1", "f32"),
        ("extui", "i1", "i64"),
    ],
)
def test_casts_of_integers(kind: str, source: str, result: str) -> None:
    values = integers(TYPES[source]) if source != "i1" else integers(torch.int64) % 3 == 0
    found = apply(f'tile.cast "{kind}" $0 : $v to $r', [values], TYPES[result])
    assert torch.equal(found, values.to(TYPES[result]))


def test_casts_that_torch_has_not() -> None:
    values = integers(torch.int8)
    assert apply('tile.cast "extui" $0 : $v to $r', [values], torch.int32).tolist() == unsigned(values)
    assert apply('tile.cast "uitofp" $0 : $v to $r', [values], torch.float32).tolist() == unsigned(values)
    assert torch.equal(apply('tile.cast "trunci" $0 : $v to $r', [values], torch.bool), values % 2 == 1)
    bools = integers(torch.int64) % 3 == 0
    assert torch.equal(apply('tile.cast "extsi" $0 : $v to $r', [bools], torch.int32), -bools.int())
    numbers = torch.linspace(0, 4e9, 64, dtype=torch.float64)
    words = apply('tile.cast "fptoui" $0 : $v to $r', [numbers], torch.int32)
    assert unsigned(words) == [int(number) for number in numbers.tolist()]
    whole = torch.linspace(-100, 100, 64)
    assert torch.equal(apply('tile.cast "fptosi" $0 : $v to $r', [whole], torch.int8), whole.to(torch.int8))
    assert torch.equal(apply("arith.bitcast $0 : $v to $r", [whole], torch.int32), whole.view(torch.int32))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_half_precision_goes_through_single(dtype: str) -> None:
    values = floats(TYPES[dtype])
    wide = apply("arith.extf $0 : $v to $r", [values], torch.float32)
    torch.testing.assert_close(wide, values.float(), equal_nan=True)
    torch.testing.assert_close(apply("arith.truncf $0 : $v to $r", [wide], TYPES[dtype]), values, equal_nan=True)


REDUCTIONS = {
    "add": lambda x: x.sum(1, dtype=x.dtype),
    "mul": lambda x: x.prod(1, dtype=x.dtype),
    "max": lambda x: x.amax(1),
    "min": lambda x: x.amin(1),
}


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i8", "i64"])
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions(kind: str, dtype: str) -> None:
    x = (random(8, 16) * 2).to(TYPES[dtype])
    if x.is_floating_point():
        x[3, 7] = torch.nan
    assert_reduced(kind, dtype, x, REDUCTIONS[kind](x))


@pytest.mark.parametrize(("kind", "combine"), [("and", "all"), ("or", "any"), ("xor", "sum")])
def test_reductions_of_booleans(kind: str, combine: str) -> None:
    x = random(8, 16) > (-1.5 if kind == "and" else 1.5)
    assert_reduced(kind, "i1", x, getattr(x, combine)(1) % 2 != 0 if combine == "sum" else getattr(x, combine)(1))


def assert_reduced(kind: str, type: str, x: torch.Tensor, expected: torch.Tensor) -> None:
    body = f"""
  %base = arith.constant 0 : index
  %x = tile.load %p[%base] strides [16, 1] : !tile.ptr<{type}> -> vector<8x16x{type}>
  %r = tile.reduce "{kind}" %x {{dims = [1]}} : vector<8x16x{type}> -> vector<8x{type}>
  tile.store %r, %out[%base] strides [1] : vector<8x{type}>, !tile.ptr<{type}>
  %all = tile.reduce "{kind}" %x {{dims = [0, 1]}} : vector<8x16x{type}> -> {type}
  tile.store %all, %whole[%base] : {type}, !tile.ptr<{type}>"""
    arguments = [pointer("p", type, "read", 128), pointer("out", type, "write", 8), pointer("whole", type, "write", 1)]
    out, whole = torch.empty(8, dtype=x.dtype), torch.empty(1, dtype=x.dtype)
    simulate(printed(kernel("reduce", [1], arguments, body)), [x, out, whole])
    torch.testing.assert_close(out, expected, equal_nan=True)
    if x.is_floating_point():
        assert whole.isnan().all()


def shapes(body: str, out: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
    arguments = [pointer(f"p{i}", "f32", "read", value.numel()) for i, value in enumerate(inputs)]
    text = kernel("shapes", [1], [*arguments, pointer("out", "f32", "write", out.numel())], body)
    simulate(printed(text), [*inputs, out])
    return out


def test_shapes() -> None:
    """Steps of zero, a block transposed, a number in every lane."""
    body = """
  %base = arith.constant 0 : index
  %x = tile.load %p0[%base] strides [1] : !tile.ptr<f32> -> vector<8xf32>
  %again = tile.load %p0[%base] strides [0, 1] : !tile.ptr<f32> -> vector<4x8xf32>
  %first = tile.load %p0[%base] strides [0] : !tile.ptr<f32> -> vector<8xf32>
  %sum = arith.addf %x, %first : vector<8xf32>
  %total = tile.reduce "add" %sum {dims = [0]} : vector<8xf32> -> f32
  %rows = tile.splat %total : f32 to vector<4x8xf32>
  %columns = tile.load %p0[%base] strides [1, 0] : !tile.ptr<f32> -> vector<8x4xf32>
  %lying = tile.transpose %columns {permutation = [1, 0]} : vector<8x4xf32> to vector<4x8xf32>
  %a = arith.addf %rows, %lying : vector<4x8xf32>
  %b = arith.addf %a, %again : vector<4x8xf32>
  tile.store %b, %out[%base] strides [8, 1] : vector<4x8xf32>, !tile.ptr<f32>"""
    x = random(8)
    torch.testing.assert_close(shapes(body, torch.empty(4, 8), x), (2 * x + x.sum() + 8 * x[0]).expand(4, 8))


def test_constants_keep_their_type_and_sign() -> None:
    body = """
  %base = arith.constant 0 : index
  %minus = arith.constant -0.0 : f32
  %tenth = arith.constant dense<0.1> : vector<4xf32>
  %fifth = arith.constant dense<0.2> : vector<4xf32>
  %sum = arith.addf %tenth, %fifth : vector<4xf32>
  %zeros = tile.splat %minus : f32 to vector<4xf32>
  %r = math.copysign %sum, %zeros : vector<4xf32>
  tile.store %r, %out[%base] strides [1] : vector<4xf32>, !tile.ptr<f32>"""
    expected = -(torch.tensor(0.1) + torch.tensor(0.2)).expand(4)
    assert torch.equal(shapes(body, torch.empty(4)), expected)


def test_bytes_without_sign() -> None:
    body = """
  %base = arith.constant 0 : index
  %x = tile.load %p[%base] strides [1] : !tile.ptr<ui8> -> vector<64xi8>
  %w = tile.cast "extui" %x : vector<64xi8> to vector<64xi32>
  tile.store %w, %out[%base] strides [1] : vector<64xi32>, !tile.ptr<i32>"""
    text = kernel("bytes", [1], [pointer("p", "ui8", "read", 64), pointer("out", "i32", "write", 64)], body)
    x, out = torch.arange(128, 256, 2, dtype=torch.uint8), torch.empty(64, dtype=torch.int32)
    simulate(printed(text), [x, out])
    assert torch.equal(out, x.int())


def test_large_tensors_have_offsets_of_64_bits() -> None:
    assert "64-bit index" in printed(CASES["pointwise"].text.replace("5000 : index", "5000000000 : index")).source
    assert "32-bit index" in printed(CASES["pointwise"].text).source


def test_text_from_the_ir_stays_in_comments() -> None:
    evil = "harmless\\0Aimport os\\0Dos.system(\\22true\\22)"
    text = CASES["pointwise"].text.replace("attributes {", f'attributes {{tile.source = ["{evil}"], ', 1)
    assert "harmless" in printed(text).source
    assert all("os" not in line for line in printed(text).source.splitlines() if not line.startswith("#"))


def test_sizes_as_arguments() -> None:
    body = """
  %size = arith.constant 128 : index
  %none = arith.constant 0.0 : f32
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %size : index
  %mask = tile.mask %start, %n {dim = 0} : vector<128xi1>
  %x = tile.load %p[%start] strides [1], %mask, %none : !tile.ptr<f32> -> vector<128xf32>
  %scales = tile.splat %scale : f32 to vector<128xf32>
  %y = arith.mulf %x, %scales : vector<128xf32>
  tile.store %y, %out[%start] strides [1], %mask : vector<128xf32>, !tile.ptr<f32>"""
    arguments = ['%p: !tile.ptr<f32> {tile.access = "read"}', '%out: !tile.ptr<f32> {tile.access = "write"}']
    source = printed(kernel("sized", [4], [*arguments, "%n: index {tile.divisible = 16 : i64}", "%scale: f32"], body))
    assert [argument.type for argument in source.arguments] == ["*fp32", "*fp32", "i64", "fp32"]
    assert source.arguments[2].divisible == 16
    x, out = random(400), torch.full((512,), 7.0)
    simulate(source, [x, out, 400, 2.5])
    assert torch.equal(out, torch.cat([x * 2.5, torch.full((112,), 7.0)]))


def test_exponentials_are_as_accurate_as_the_librarys() -> None:
    """With each op of the printed helper rounded as on a GPU; also at the last numbers before 0 and infinity."""
    ends = torch.tensor([88.7228317, 88.7228394, -103.97, -1e30, 1e30, torch.inf, torch.nan, 0.0])
    x = torch.cat([torch.linspace(-110, 95, (1 << 16) - len(ends)), ends])
    start = "%i = tile.program_id {axis = 0} : index\n %n = arith.constant 64 : index\n %base = arith.muli %i, %n : index"
    text = one_op("math.exp $0 : $v", ["f32"], "f32").replace("%base = arith.constant 0 : index", start)
    found, exact = torch.empty_like(x), x.double().exp()
    simulate(
        printed(text.replace("array<i64: 1>", "array<i64: 1024>").replace("elements = 64", f"elements = {len(x)}")), [x, found]
    )
    expected = exact.float()
    normal = (expected > 1.2e-38) & expected.isfinite()
    assert ((found.double() - exact) / exact).abs()[normal].max() <= 2 * torch.finfo(torch.float32).eps
    torch.testing.assert_close(found[~normal], expected[~normal], rtol=0, atol=2e-44, equal_nan=True)


@pytest.mark.parametrize(("shift", "helper"), [(0, "consecutive_words"), (4, "consecutive_words"), (3, "random_words")])
def test_words_of_lanes_are_those_of_their_offsets(shift: int, helper: str) -> None:
    source = printed(CASES["random"].text.replace("5000000000000", str(5_000_000_000_000 + shift)))
    words = torch.empty(512, dtype=torch.int32)
    simulate(source, [words])
    assert f"def {helper}(" in source.source
    offsets = torch.arange(512) + 5_000_000_000_000 + shift
    assert torch.equal(words, random_bits(torch.tensor(1234567890123), offsets))
