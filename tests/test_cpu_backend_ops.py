"""Each op that a kernel may hold, natively on several kinds of CPU, against the reference interpreter and PyTorch."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from tests.tile_programs import NAMES, TARGETS, both, kernel_text, llvm_text, parse_kernel, run_native

LANES = 19
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 2.5, -2.5)
TARGET = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def numbers(dtype: torch.dtype, seed: int) -> Tensor:
    """``LANES`` numbers; special ones among floats, the extremes among integers, zeros in both."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(LANES, generator=generator) < 0.5
    if dtype.is_floating_point:
        values = torch.randn(LANES, generator=generator, dtype=torch.float64) * 3
        values[seed % 3 : seed % 3 + len(SPECIAL)] = torch.tensor(SPECIAL)
        return values.to(dtype)
    limits = torch.iinfo(dtype)
    values = torch.randint(-20, 20, (LANES,), generator=generator)
    values[:4] = torch.tensor([limits.min, limits.max, 0, -1]).roll(seed)
    return values.to(dtype)


def block(dtype: torch.dtype) -> str:
    return f"vector<{LANES}x{NAMES[dtype].removeprefix('u')}>"


def lanewise(line: str, inputs: Sequence[Tensor], output: torch.dtype) -> str:
    """A body that computes ``line`` (operands ``%a0``, ``%a1``, result ``%r``) on blocks of all elements."""
    loads = [
        f"  %a{i} = tile.load %x{i}[%c0] strides [1] : !tile.ptr<{NAMES[x.dtype]}> -> {block(x.dtype)}"
        for i, x in enumerate(inputs)
    ]
    store = f"  tile.store %r, %y0[%c0] strides [1] : {block(output)}, !tile.ptr<{NAMES[output]}>"
    return "\n".join(["  %c0 = arith.constant 0 : index", *loads, f"  {line}", store])


def together(cases: Sequence[tuple[str, Sequence[Tensor], torch.dtype]]) -> tuple[str, list[Tensor], list[Tensor]]:
    """The body of one kernel for several lines, each with its inputs and the type of its result; all inputs, and outputs."""
    inputs = list({id(x): x for _, given, _ in cases for x in given}.values())
    places = {id(x): place for place, x in enumerate(inputs)}
    lines = ["  %c0 = arith.constant 0 : index"]
    for place, x in enumerate(inputs):
        lines.append(f"  %a{place} = tile.load %x{place}[%c0] strides [1] : !tile.ptr<{NAMES[x.dtype]}> -> {block(x.dtype)}")
    for number, (line, given, output) in enumerate(cases):
        renamed = re.sub(r"%a(\d+)", lambda found, given=given: f"%a{places[id(given[int(found[1])])]}", line)
        lines.append(f"  {renamed.replace('%r =', f'%r{number} =')}")
        lines.append(f"  tile.store %r{number}, %y{number}[%c0] strides [1] : {block(output)}, !tile.ptr<{NAMES[output]}>")
    return "\n".join(lines), inputs, [torch.empty(LANES, dtype=output) for _, _, output in cases]


INTEGER_OPS = """addi subi muli divsi divui remsi remui floordivsi ceildivsi minsi maxsi minui maxui andi ori xori shli shrui
    shrsi""".split()
FLOAT_OPS = "addf subf mulf divf minimumf maximumf minnumf maxnumf".split()
INTEGERS = (torch.bool, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.mark.share(3)
@TARGET
@pytest.mark.parametrize("name", INTEGER_OPS)
def test_integer_arithmetic(name: str, target) -> None:
    cases = list[tuple[str, Sequence[Tensor], torch.dtype]]()
    for dtype in INTEGERS:
        if dtype == torch.bool and ("div" in name or "rem" in name or name.startswith("sh")):
            continue
        inputs = [numbers(dtype, 0), numbers(dtype, 2)]
        if name == "ceildivsi":  # the interpreter negates: -128 has no opposite
            inputs[0][inputs[0] == torch.iinfo(dtype).min] = 0
        cases.append((f"%r = arith.{name} %a0, %a1 : {block(dtype)}", inputs, dtype))
    both(*together(cases), target=target)


@TARGET
@pytest.mark.parametrize("name", ["divsi", "remsi", "floordivsi", "ceildivsi"])
def test_a_quotient_that_does_not_fit_wraps(name: str, target) -> None:
    """The processor's own division traps; PyTorch's, and the interpreter with it, kills the process."""
    for dtype in INTEGERS[1:]:
        least = torch.full((LANES,), torch.iinfo(dtype).min, dtype=dtype)
        inputs = [least, torch.full_like(least, -1)]
        kernel = parse_kernel(
            kernel_text(lanewise(f"%r = arith.{name} %a0, %a1 : {block(dtype)}", inputs, dtype), inputs, [least])
        )
        found = torch.ones_like(least)
        run_native(kernel, [*inputs, found], target)
        assert found.equal(torch.zeros_like(least) if name == "remsi" else least)


@TARGET
@pytest.mark.parametrize("name", FLOAT_OPS)
def test_float_arithmetic(name: str, target) -> None:
    given = [(dtype, [numbers(dtype, 0), numbers(dtype, 1)]) for dtype in FLOATS]
    cases = [(f"%r = arith.{name} %a0, %a1 : {block(dtype)}", inputs, dtype) for dtype, inputs in given]
    both(*together(cases), target=target, rtol=0, atol=0)


INTEGER_PREDICATES = "eq ne slt sle sgt sge ult ule ugt uge".split()
FLOAT_PREDICATES = "oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno".split()


@TARGET
def test_comparisons(target) -> None:
    for dtypes, predicates in ((INTEGERS, INTEGER_PREDICATES), (FLOATS, FLOAT_PREDICATES)):
        for dtype in dtypes:
            inputs = [numbers(dtype, 0), numbers(dtype, 1)]
            inputs[1][::3] = inputs[0][::3]
            lines = [f'%r = tile.compare "{predicate}" %a0, %a1 : {block(dtype)}' for predicate in predicates]
            both(*together([(line, inputs, torch.bool) for line in lines]), target=target)


CASTS = [
    *(("sitofp", a, b) for a in INTEGERS for b in FLOATS),
    *(("uitofp", a, b) for a in (torch.bool, torch.int8, torch.int32) for b in FLOATS),
    *(("fptosi", a, b) for a in FLOATS for b in INTEGERS[1:]),
    *(("extf", a, b) for i, a in enumerate(FLOATS) for b in FLOATS[max(i + 1, 2) :]),
    *(("truncf", b, a) for i, a in enumerate(FLOATS) for b in FLOATS[max(i + 1, 2) :]),
    *((kind, a, b) for kind in ("extsi", "extui") for i, a in enumerate(INTEGERS) for b in INTEGERS[i + 1 :]),
    *(("trunci", b, a) for i, a in enumerate(INTEGERS) for b in INTEGERS[i + 1 :]),
]


@TARGET
def test_casts(target) -> None:
    cases = list[tuple[str, Sequence[Tensor], torch.dtype]]()
    for kind, source, result in CASTS:
        value = numbers(source, 2)
        if kind == "fptosi":
            value = value.nan_to_num(0.0, 100.0, -100.0).clamp(-100, 100)
        op = f"arith.{kind}" if kind in ("extf", "truncf") else f'tile.cast "{kind}"'
        cases.append((f"%r = {op} %a0 : {block(source)} to {block(result)}", [value], result))
    for start in range(0, len(cases), 12):
        both(*together(cases[start : start + 12]), target=target, rtol=0, atol=0)


def test_rounding_to_half_precision_is_to_nearest_even() -> None:
    """Ties, denormals, overflow and numbers between two floats, from float32 and float64."""
    values = [1.00390625, 1.01171875, 1e-40, 9.2e-41, 3.3895e38, 3.4e38, 65519.99, 65520.0, 5.9e-8, 1 + 2**-8 + 2**-40]
    values += SPECIAL[:3]
    for source in (torch.float32, torch.float64):
        value = torch.tensor(values, dtype=torch.float64).repeat(2)[:LANES].to(source)
        for result in (torch.float16, torch.bfloat16):
            line = f"%r = arith.truncf %a0 : {block(source)} to {block(result)}"
            found = both(lanewise(line, [value], result), [value], [torch.empty(LANES, dtype=result)], rtol=0, atol=0)
            if source == torch.float32:  # PyTorch rounds float64 twice
                torch.testing.assert_close(found[0], value.to(result), rtol=0, atol=0, equal_nan=True)


UNARY = """absf acos acosh asin asinh atan atanh cbrt ceil cos cosh erf exp exp2 expm1 floor log log10 log1p log2 round
    roundeven rsqrt sin sinh sqrt tan tanh trunc""".split()
TILE_UNARY = ("erfc", "erfinv", "lgamma", "digamma")


@pytest.mark.parametrize("name", [*UNARY, *TILE_UNARY])
def test_functions_of_one_number(name: str) -> None:
    """On every float type, with what is special; ``tests/test_cpu_backend_math.py`` says how exact they are."""
    for dtype in FLOATS:
        value = numbers(dtype, 3)
        op = f'tile.math "{name}"' if name in TILE_UNARY else f"math.{name}"
        body = lanewise(f"%r = {op} %a0 : {block(dtype)}", [value], dtype)
        tolerance = {torch.float64: 1e-12, torch.float32: 5e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
        both(body, [value], [value], rtol=tolerance, atol=tolerance / 100)


@pytest.mark.parametrize("name", ["atan2", "powf", "copysign", "fmod", "hypot", "nextafter"])
def test_functions_of_two_numbers(name: str) -> None:
    for dtype in FLOATS[2:]:
        values = torch.tensor([*SPECIAL, 0.5, 3.0, -3.0, 1e30], dtype=dtype)
        if name == "fmod":  # PyTorch's takes a denormal divisor for zero
            values = values[values.abs() != values[5]]
        first, second = (grid.flatten() for grid in torch.meshgrid(values, values, indexing="ij"))
        op = f'tile.math "{name}"' if name in ("fmod", "hypot", "nextafter") else f"math.{name}"
        for start in range(0, first.numel() - LANES, LANES):
            inputs = [first[start : start + LANES].clone(), second[start : start + LANES].clone()]
            body = lanewise(f"%r = {op} %a0, %a1 : {block(dtype)}", inputs, dtype)
            both(body, inputs, [inputs[0]], rtol=1e-6, atol=0)


@TARGET
def test_other_lanewise_ops(target) -> None:
    a, b, c = (numbers(torch.float32, seed) for seed in (0, 1, 2))
    condition, bits = numbers(torch.bool, 3), numbers(torch.int32, 4)
    out, f = torch.empty(LANES), block(torch.float32)
    both(lanewise(f"%r = math.fma %a0, %a1, %a2 : {f}", [a, b, c], a.dtype), [a, b, c], [out], target=target)
    both(lanewise(f"%r = arith.negf %a0 : {f}", [a], a.dtype), [a], [out], target=target)
    select = f"%r = tile.select %a0, %a1, %a2 : {f}"
    both(lanewise(select, [condition, b, c], a.dtype), [condition, b, c], [out], target=target)
    line = f"%r = arith.bitcast %a0 : {f} to {block(torch.int32)}"
    both(lanewise(line, [a], torch.int32), [a], [bits], target=target)
    line = f"%r = math.absi %a0 : {block(torch.int32)}"
    both(lanewise(line, [bits], torch.int32), [bits], [bits], target=target)


REDUCTIONS = ("add", "mul", "max", "min", "and", "or", "xor")


@pytest.mark.share(2)
@TARGET
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions(kind: str, target) -> None:
    """Of each choice of dimensions, of blocks whose sizes are no powers of two."""
    shape, choices = (3, 4, 5), ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2))
    kept = [[size for dim, size in enumerate(shape) if dim not in dims] for dims in choices]
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.bool):
        if dtype.is_floating_point and kind in ("and", "or", "xor"):
            continue
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        x = x > 0 if dtype == torch.bool else (x if dtype.is_floating_point else x * 4).to(dtype)
        if dtype.is_floating_point and kind in ("max", "min"):
            x[1, 2, 3] = math.nan
        source = f"vector<3x4x5x{NAMES[dtype]}>"
        body = "  %c0 = arith.constant 0 : index\n"
        body += f"  %a = tile.load %x0[%c0] strides [20, 5, 1] : !tile.ptr<{NAMES[dtype]}> -> {source}"
        for number, (dims, sizes) in enumerate(zip(choices, kept, strict=True)):
            body += reduction_lines(number, kind, dtype, source, list(dims), sizes)
        tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
        outputs = [torch.empty(sizes, dtype=dtype) for sizes in kept]
        both(body, [x], outputs, target=target, rtol=tolerance, atol=tolerance)


def reduction_lines(number: int, kind: str, dtype: torch.dtype, source: str, dims: list[int], kept: Sequence[int]) -> str:
    name = NAMES[dtype]
    result = f"vector<{'x'.join(map(str, kept))}x{name}>" if kept else name
    strides = f"strides {list(torch.empty(kept).stride())} " if kept else ""
    return f"""
  %r{number} = tile.reduce "{kind}" %a {{dims = {dims}}} : {source} -> {result}
  tile.store %r{number}, %y{number}[%c0] {strides}: {result}, !tile.ptr<{name}>"""


@TARGET
@pytest.mark.parametrize("kind", ["add", "mul", "max"])
def test_scans(kind: str, target) -> None:
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    for dim in (0, 1):
        body = f"""
  %c0 = arith.constant 0 : index
  %a = tile.load %x0[%c0] strides [5, 1] : !tile.ptr<f32> -> vector<3x5xf32>
  %r = tile.scan "{kind}" %a {{dim = {dim}}} : vector<3x5xf32> -> vector<3x5xf32>
  tile.store %r, %y0[%c0] strides [5, 1] : vector<3x5xf32>, !tile.ptr<f32>"""
        (found,) = both(body, [x], [torch.empty_like(x)], target=target)
        scan = {"add": torch.cumsum, "mul": torch.cumprod, "max": lambda x, dim: x.cummax(dim).values}[kind]
        torch.testing.assert_close(found, scan(x, dim))


@TARGET
def test_random_numbers(target) -> None:
    """Also of counters and seeds with more than 32 bits."""
    for seed, start in ((0, 0), (0x123456789ABCDEF0, 5), (-1, 1 << 34)):
        body = f"""
  %c0 = arith.constant 0 : index
  %seed = arith.constant {seed} : i64
  %start = arith.constant {start} : i64
  %i = tile.iota {{dim = 0}} : vector<16xi64>
  %s = tile.splat %start : i64 to vector<16xi64>
  %o = arith.addi %i, %s : vector<16xi64>
  %r = tile.random %seed, %o : i64, vector<16xi64> -> vector<16xi32>
  tile.store %r, %y0[%c0] strides [1] : vector<16xi32>, !tile.ptr<i32>""".replace(
            ": i64, vector<16xi64> ->", ": vector<16xi64> ->"
        )
        both(body, [], [torch.empty(16, dtype=torch.int32)], target=target)


def test_what_has_no_code_is_said() -> None:
    from fxc.errors import KernelError

    out = torch.empty(1, dtype=torch.int32)
    body = """
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i32
  %r, %o = arith.addui_extended %one, %one : i32, i1
  tile.store %r, %y0[%c0] : i32, !tile.ptr<i32>"""
    with pytest.raises(KernelError, match=r"no code for arith.addui_extended") as caught:
        llvm_text(parse_kernel(kernel_text(body, [], [out])))
    assert "arith.addui_extended" in (caught.value.op or "")
