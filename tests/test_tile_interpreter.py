"""The reference interpreter of kernels, against PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from fxc.bridge.random_numbers import philox, random_bits
from fxc.interpret.tile_ops import BINARY, FUNCTIONS
from tests.interpreted_kernels import NAMES, SOFTMAX, compute, made, run

POINTWISE = """
  %p = tile.program_id {axis = 0} : index
  %n = arith.constant 45 : index
  %at = arith.muli %p, %c16 : index
  %m = tile.mask %at, %n {dim = 0} : vector<16xi1>
  %zero = arith.constant 0.0 : f32
  %v = tile.load %x0[%at] strides [1], %m, %zero : !tile.ptr<f32> -> vector<16xf32>
  %t = math.tanh %v : vector<16xf32>
  %r = arith.mulf %t, %v : vector<16xf32>
  tile.store %r, %y0[%at] strides [1], %m : vector<16xf32>, !tile.ptr<f32>
"""


def test_a_mask_guards_the_tail() -> None:
    x, y = made(45), torch.empty(48).fill_(7)
    compute(POINTWISE, [x], y[:45], grid=[3])
    torch.testing.assert_close(y[:45], x * x.tanh())
    assert (y[45:] == 7).all()


def test_softmax_of_rows() -> None:
    x, y = made(7, 100), torch.empty(7, 100)
    run(SOFTMAX, x, y)
    torch.testing.assert_close(y, x.softmax(1))


def test_two_dimensions_transposed_by_loads_and_by_transpose() -> None:
    body = """
      %p = tile.program_id {axis = 0} : index
      %q = tile.program_id {axis = 1} : index
      %n = arith.constant 24 : index
      %h = arith.constant 8 : index
      %row = arith.muli %p, %h : index
      %column = arith.muli %q, %h : index
      %r = arith.muli %row, %n : index
      %at = arith.addi %r, %column : index
      %v = tile.load %x0[%at] strides [%n, 1] : !tile.ptr<f64> -> vector<8x8xf64>
      %back = arith.muli %column, %c16 : index
      %to = arith.addi %back, %row : index
      %t = tile.transpose %v {permutation = [1, 0]} : vector<8x8xf64> to vector<8x8xf64>
      tile.store %t, %y0[%to] strides [%c16, 1] : vector<8x8xf64>, !tile.ptr<f64>
      tile.store %v, %y1[%to] strides [1, 16] : vector<8x8xf64>, !tile.ptr<f64>
    """
    x = made(16, 24, dtype=torch.float64)
    y, z = torch.empty(24, 16, dtype=torch.float64), torch.empty(24, 16, dtype=torch.float64)
    compute(body, [x], y, z, grid=[2, 3])
    assert torch.equal(y, x.t()) and torch.equal(z, x.t())


def test_gather_and_scatter() -> None:
    body = """
      %i = tile.iota {dim = 0} : vector<16xi64>
      %v = tile.load %x1[%c0] strides [1] : !tile.ptr<i64> -> vector<16xi64>
      %m = tile.mask %c8, %c16 {dim = 0} : vector<16xi1>
      %other = arith.constant -1.0 : f32
      %g = tile.gather %x0[%v], %m, %other : !tile.ptr<f32> -> vector<16xf32>
      tile.store %g, %y0[%c0] strides [1] : vector<16xf32>, !tile.ptr<f32>
      tile.scatter %g, %y1[%v] : vector<16xf32>, !tile.ptr<f32>
    """
    x, index = made(16), torch.randperm(16, generator=torch.Generator().manual_seed(1))
    y, z = torch.empty(16), torch.empty(16)
    compute(body, [x, index], y, z)
    expected = torch.where(torch.arange(16) < 8, x[index], -1.0)
    assert torch.equal(y, expected) and torch.equal(z[index], expected)


@pytest.mark.parametrize(
    "kind, reference", [("add", lambda x: x.cumsum(1)), ("mul", lambda x: x.cumprod(1)), ("max", lambda x: x.cummax(1)[0])]
)
def test_scan(kind: str, reference: Callable[[torch.Tensor], torch.Tensor]) -> None:
    body = f"""
      %v = tile.load %x0[%c0] strides [%c8, 1] : !tile.ptr<f32> -> vector<4x8xf32>
      %s = tile.scan "{kind}" %v {{dim = 1}} : vector<4x8xf32> -> vector<4x8xf32>
      tile.store %s, %y0[%c0] strides [%c8, 1] : vector<4x8xf32>, !tile.ptr<f32>
    """
    x, y = made(4, 8), torch.empty(4, 8)
    compute(body, [x], y)
    torch.testing.assert_close(y, reference(x))


REDUCTIONS = {
    "add": lambda x: x.sum(0, dtype=x.dtype),
    "mul": lambda x: x.prod(0, dtype=x.dtype),
    "max": lambda x: x.amax(0),
    "min": lambda x: x.amin(0),
    "and": lambda x: x[0] & x[1] & x[2] & x[3],
    "or": lambda x: x[0] | x[1] | x[2] | x[3],
    "xor": lambda x: x[0] ^ x[1] ^ x[2] ^ x[3],
}


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_reductions_of_an_outer_dimension(kind: str, dtype: torch.dtype) -> None:
    if dtype.is_floating_point and kind in ("and", "or", "xor"):
        return
    name = NAMES[dtype]
    body = f"""
      %v = tile.load %x0[%c0] strides [%c8, 1] : !tile.ptr<{name}> -> vector<4x8x{name}>
      %s = tile.reduce "{kind}" %v {{dims = [0]}} : vector<4x8x{name}> -> vector<8x{name}>
      tile.store %s, %y0[%c0] strides [1] : vector<8x{name}>, !tile.ptr<{name}>
    """
    x, y = made(4, 8, dtype=dtype), torch.empty(8, dtype=dtype)
    if dtype.is_floating_point:
        x[2, 3] = math.nan
    compute(body, [x], y)
    torch.testing.assert_close(y, REDUCTIONS[kind](x), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened_and_rounded(dtype: torch.dtype) -> None:
    name = NAMES[dtype]
    body = f"""
      %v = tile.load %x0[%c0] strides [1] : !tile.ptr<{name}> -> vector<16x{name}>
      %w = arith.extf %v : vector<16x{name}> to vector<16xf32>
      %e = math.exp %w : vector<16xf32>
      %d = arith.addf %e, %w : vector<16xf32>
      %r = arith.truncf %d : vector<16xf32> to vector<16x{name}>
      tile.store %r, %y0[%c0] strides [1] : vector<16x{name}>, !tile.ptr<{name}>
    """
    x, y = made(16, dtype=dtype), torch.empty(16, dtype=dtype)
    compute(body, [x], y)
    assert torch.equal(y, (x.float().exp() + x.float()).to(dtype))


def test_booleans_bytes_and_comparisons() -> None:
    body = """
      %a = tile.load %x0[%c0] strides [1] : !tile.ptr<i1> -> vector<16xi1>
      %b = tile.load %x1[%c0] strides [1] : !tile.ptr<ui8> -> vector<16xi8>
      %w = tile.cast "extui" %b : vector<16xi8> to vector<16xi64>
      %f = tile.cast "uitofp" %b : vector<16xi8> to vector<16xf32>
      %limit = arith.constant dense<127> : vector<16xi64>
      %c = tile.compare "sgt" %w, %limit : vector<16xi64>
      %d = arith.xori %a, %c : vector<16xi1>
      tile.store %d, %y0[%c0] strides [1] : vector<16xi1>, !tile.ptr<i1>
      tile.store %f, %y1[%c0] strides [1] : vector<16xf32>, !tile.ptr<f32>
      %any = tile.reduce "or" %a {dims = [0]} : vector<16xi1> -> i1
      tile.store %any, %y2[%c0] : i1, !tile.ptr<i1>
      tile.store %b, %y3[%c0] strides [1] : vector<16xi8>, !tile.ptr<ui8>
    """
    a, b = made(16) > 0, torch.arange(0, 256, 16).to(torch.uint8)
    outputs = [torch.empty(16, dtype=d) for d in (torch.bool, torch.float32, torch.bool, torch.uint8)]
    outputs[2] = outputs[2][:1].reshape(())
    compute(body, [a, b], *outputs)
    for got, expected in zip(outputs, (a ^ (b > 127), b.float(), a.any(), b), strict=True):
        assert torch.equal(got, expected)


INTEGERS = {
    "divsi": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "floordivsi": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "remsi": torch.fmod,
    "shli": lambda a, b: a << (b & 7),
    "shrsi": lambda a, b: a >> (b & 7),
    "shrui": lambda a, b: torch.tensor([(x % 2**32) >> (y & 7) for x, y in zip(a.tolist(), b.tolist(), strict=True)]).int(),
    "divui": lambda a, b: torch.tensor([(x % 2**32) // (y % 2**32) for x, y in zip(a.tolist(), b.tolist(), strict=True)]).int(),
    "maxui": lambda a, b: torch.where((a < 0) == (b < 0), torch.maximum(a, b), torch.minimum(a, b)),
    "minsi": torch.minimum,
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name: str) -> None:
    body = f"""
      %a = tile.load %x0[%c0] strides [1] : !tile.ptr<i32> -> vector<16xi32>
      %b = tile.load %x1[%c0] strides [1] : !tile.ptr<i32> -> vector<16xi32>
      %seven = arith.constant dense<7> : vector<16xi32>
      %s = arith.andi %b, %seven : vector<16xi32>
      %r = arith.{name} %a, {"%s" if name.startswith("sh") else "%b"} : vector<16xi32>
      tile.store %r, %y0[%c0] strides [1] : vector<16xi32>, !tile.ptr<i32>
    """
    a = torch.tensor([7, -7, 8, -8, 2**31 - 1, -(2**31), 0, 5] * 2, dtype=torch.int32)
    b = torch.tensor([2, 2, -3, -3, 5, 3, 9, -1, -2, -5, 4, 1, 7, 3, 3, 5], dtype=torch.int32)
    y = torch.empty(16, dtype=torch.int32)
    compute(body, [a, b], y)
    assert torch.equal(y, INTEGERS[name](a, b))


CASTS = [
    ("sitofp", torch.bool, torch.float32, lambda x: -x.float()),
    ("uitofp", torch.bool, torch.float32, lambda x: x.float()),
    ("sitofp", torch.int64, torch.bfloat16, lambda x: x.bfloat16()),
    ("uitofp", torch.int8, torch.float64, lambda x: (x.long() & 255).double()),
    ("fptosi", torch.float32, torch.int32, lambda x: x.int()),
    ("fptoui", torch.float64, torch.int64, lambda x: x.long()),
    ("extsi", torch.bool, torch.int32, lambda x: -x.int()),
    ("extui", torch.bool, torch.int64, lambda x: x.long()),
    ("extui", torch.int32, torch.int64, lambda x: x.long() & 0xFFFFFFFF),
    ("trunci", torch.int64, torch.int8, lambda x: x.to(torch.int8)),
    ("trunci", torch.int32, torch.bool, lambda x: (x & 1).bool()),
]


@pytest.mark.parametrize("kind, old, new, reference", CASTS)
def test_casts(kind: str, old: torch.dtype, new: torch.dtype, reference: Callable[[torch.Tensor], torch.Tensor]) -> None:
    a, b = NAMES[old], NAMES[new]
    body = f"""
      %v = tile.load %x0[%c0] strides [1] : !tile.ptr<{a}> -> vector<16x{a}>
      %r = tile.cast "{kind}" %v : vector<16x{a}> to vector<16x{b}>
      tile.store %r, %y0[%c0] strides [1] : vector<16x{b}>, !tile.ptr<{b}>
    """
    x = made(16) > 0 if old is torch.bool else (made(16) * 40).to(old)
    x = x.abs() if kind == "fptoui" else x
    y = torch.empty(16, dtype=new)
    compute(body, [x], y)
    assert torch.equal(y, reference(x))


def test_float64_is_rounded_once() -> None:
    """Through float32 1 + 2**-11 + 2**-40 would become the tie 1 + 2**-11, and then 1."""
    body = """
      %v = tile.load %x0[%c0] strides [1] : !tile.ptr<f64> -> vector<4xf64>
      %r = arith.truncf %v : vector<4xf64> to vector<4xf16>
      tile.store %r, %y0[%c0] strides [1] : vector<4xf16>, !tile.ptr<f16>
    """
    above = 1 + 2.0**-11 + 2.0**-40
    x, y = torch.tensor([above, -above, math.inf, 1e-3], dtype=torch.float64), torch.empty(4, dtype=torch.float16)
    compute(body, [x], y)
    assert y.tolist() == [1 + 2.0**-10, -1 - 2.0**-10, math.inf, float(torch.tensor(1e-3).half())]


COMPARISONS = {"olt": torch.lt, "ueq": lambda a, b: (a == b) | a.isnan() | b.isnan(), "une": torch.ne}
COMPARISONS |= {"uno": lambda a, b: a.isnan() | b.isnan(), "ord": lambda a, b: ~(a.isnan() | b.isnan()), "oge": torch.ge}


@pytest.mark.parametrize("predicate", COMPARISONS)
def test_comparisons_of_floats(predicate: str) -> None:
    body = f"""
      %a = tile.load %x0[%c0] strides [1] : !tile.ptr<f32> -> vector<4xf32>
      %b = tile.load %x1[%c0] strides [1] : !tile.ptr<f32> -> vector<4xf32>
      %r = tile.compare "{predicate}" %a, %b : vector<4xf32>
      tile.store %r, %y0[%c0] strides [1] : vector<4xi1>, !tile.ptr<i1>
    """
    a, b, y = torch.tensor([1, math.nan, 2, 3]), torch.tensor([2, 2, 2, math.nan]), torch.empty(4, dtype=torch.bool)
    compute(body, [a, b], y)
    assert torch.equal(y, COMPARISONS[predicate](a, b))


def test_loops_and_branches_differ_between_programs() -> None:
    body = """
      %p = tile.program_id {axis = 0} : index
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %sum = scf.for %i = %c0 to %p step %c1 iter_args(%acc = %zero) -> (f32) {
        %v = tile.load %x0[%i] : !tile.ptr<f32> -> f32
        %new = arith.addf %acc, %v : f32
        scf.yield %new : f32
      }
      %few = arith.cmpi ult, %p, %c1 : index
      %r = scf.if %few -> (f32) {
        scf.yield %one : f32
      } else {
        %half = arith.addf %sum, %sum : f32
        scf.yield %half : f32
      }
      scf.if %few {
        tile.store %one, %y1[%p] : f32, !tile.ptr<f32>
      }
      tile.store %r, %y0[%p] : f32, !tile.ptr<f32>
    """
    x, y, z = made(5), torch.empty(5), torch.zeros(5)
    compute(body, [x], y, z, grid=[5])
    torch.testing.assert_close(y, torch.tensor([1.0, *[2 * float(x[:i].sum()) for i in range(1, 5)]]))
    assert z.tolist() == [1, 0, 0, 0, 0]


def test_functions_that_math_lacks() -> None:
    body = """
      %v = tile.load %x0[%c0] strides [1] : !tile.ptr<f32> -> vector<16xf32>
      %e = tile.math "erfc" %v : vector<16xf32>
      %f = tile.math "fmod" %v, %e : vector<16xf32>
      %zero = arith.constant dense<0.0> : vector<16xf32>
      %m = tile.compare "olt" %v, %zero : vector<16xf32>
      %s = tile.select %m, %e, %f : vector<16xf32>
      tile.store %s, %y0[%c0] strides [1] : vector<16xf32>, !tile.ptr<f32>
    """
    x, y = made(16), torch.empty(16)
    compute(body, [x], y)
    torch.testing.assert_close(y, torch.where(x < 0, x.erfc(), x.fmod(x.erfc())))


# the known answers that come with Random123 (examples/kat_vectors)
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize("counter, key, expected", KNOWN)
def test_philox_gives_the_known_answers(counter: str, key: str, expected: str) -> None:
    def words(text: str) -> list[torch.Tensor]:
        return [torch.tensor([int(word, 16)]) for word in text.split()]

    assert philox(words(counter), words(key)) == words(expected)


def test_random_bits_are_words_of_philox() -> None:
    body = """
      %seed = tile.load %x0[%c0] : !tile.ptr<i64> -> i64
      %p = tile.program_id {axis = 0} : index
      %at = arith.muli %p, %c8 : index
      %i = tile.iota {dim = 0} : vector<8xi64>
      %b = arith.index_cast %at : index to i64
      %s = tile.splat %b : i64 to vector<8xi64>
      %o = arith.addi %s, %i : vector<8xi64>
      %r = tile.random %seed, %o : vector<8xi64> -> vector<8xi32>
      tile.store %r, %y0[%at] strides [1] : vector<8xi32>, !tile.ptr<i32>
    """
    seed, y = torch.tensor([0x299F31D0_A4093822]), torch.empty(4096, dtype=torch.int32)
    compute(body, [seed], y, grid=[512])
    assert torch.equal(y, random_bits(seed, torch.arange(4096)))
    zero = random_bits(torch.tensor([0]), torch.arange(4)) & 0xFFFFFFFF
    assert [f"{word % 2**32:08x}" for word in zero.tolist()] == KNOWN[0][2].split()
    assert abs(float((y.double() / 2**32).mean())) < 0.02 and y.unique().numel() > 4090


def test_large_grids_run_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxc.interpret.tile_level._LANES", 32)
    x, y = made(45), torch.empty(45)
    compute(POINTWISE, [x], y, grid=[3])
    torch.testing.assert_close(y, x * x.tanh())


def test_an_empty_grid_computes_nothing() -> None:
    compute(POINTWISE, [torch.empty(0)], torch.empty(0), grid=[0])


@pytest.mark.parametrize("name", [*BINARY, *FUNCTIONS])
def test_functions_of_tensors_without_dimensions(name: str) -> None:
    function, agreed = {**BINARY, **FUNCTIONS}[name], 0
    for dtype in (torch.int64, torch.float32):
        for count in (1, 2, 3):
            operands = [torch.tensor([3, 1]).to(dtype)] * count
            try:
                expected = function(*operands)
            except (RuntimeError, TypeError):
                continue  # a function of another dtype, or number of operands
            torch.testing.assert_close(function(*(operand[0] for operand in operands)), expected[0], equal_nan=True)
            agreed += 1
    assert agreed
