"""Whole kernels on the CPU: against the reference interpreter, which checks each access, and against PyTorch."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

import fxc
from fxc.dialects.target import PRESETS
from fxc.interpret.tile_level import run_kernel
from tests.tile_programs import NAMES, TARGETS, both, kernel_text, llvm_text, parse_kernel, run_native

TARGET = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def load_benchmark() -> ModuleType:
    """``benchmarks/kernels_cpu.py``: its kernels are tested here."""
    path = Path(__file__).parent.parent / "benchmarks" / "kernels_cpu.py"
    spec = importlib.util.spec_from_file_location("kernels_cpu", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KERNELS = load_benchmark()


def check(text: str, inputs: Sequence[Tensor], expected: Tensor, target=None, tolerance: float = 2e-6) -> None:
    """The kernel gives ``expected``, and what the interpreter gives."""
    kernel = parse_kernel(text)
    for run in (run_kernel, lambda kernel, arguments: run_native(kernel, arguments, target)):
        found = torch.full_like(expected, 7)
        run(kernel, [*inputs, found])
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.share(3)
@TARGET
@pytest.mark.parametrize("name", ["chain", "softmax", "layernorm"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (2, 16), (5, 100), (0, 5)], ids=str)
def test_rows(name: str, shape: tuple[int, int], target) -> None:
    """Loops over rows with accumulators, tails under masks, and what one loop stores another loads."""
    text, function, _ = KERNELS.KERNELS[name]
    inputs = KERNELS.arguments(name, *shape)
    check(text(*shape, width=8 if target is not None else 16), inputs, function(*inputs), target, 1e-5)


@pytest.mark.parametrize("name", ["chain", "softmax", "layernorm"])
def test_nan_and_infinity_go_where_they_go_in_pytorch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Infinity apart: oneDNN's gelu, which PyTorch calls, makes a NaN of it."""
    monkeypatch.setattr(KERNELS, "gelu", lambda x: 0.5 * x * (1 + torch.erf(x * 0.7071067811865476)))
    text, function, _ = KERNELS.KERNELS[name]
    inputs = KERNELS.arguments(name, 6, 20)
    for row, value in enumerate((math.nan, math.inf, -math.inf, 3e38, 1e-41)):
        inputs[0][row, 3 * row] = value
    inputs[0][5] = -math.inf
    check(text(6, 20), inputs, function(*inputs), tolerance=1e-5)


def test_no_instruction_assumes_that_numbers_are_finite() -> None:
    for name in KERNELS.KERNELS:
        text = llvm_text(parse_kernel(KERNELS.KERNELS[name][0](2, 40)), PRESETS["cpu:avx512"].features.data)
        assert "contract" in text
        assert not any(flag in text for flag in (" nnan", " ninf", " fast "))
        assert text.count("reassoc") == text.count("vector.reduce.fadd.v16f32(float 0x8000000000000000")


def pointwise(count: int, dtype: torch.dtype, width: int, compute: str, result: torch.dtype | None = None) -> str:
    """One program: all of a tensor, in masked blocks."""
    a, b = NAMES[dtype], NAMES[result or dtype]
    zero = "false" if dtype == torch.bool else "0.0" if dtype.is_floating_point else "0"
    constant = f"arith.constant {zero}" if dtype == torch.bool else f"arith.constant {zero} : {a}"
    return f"""
  %start = arith.constant 0 : index
  %stop = arith.constant {count} : index
  %step = arith.constant {width} : index
  %zero = {constant}
  scf.for %i = %start to %stop step %step {{
    %m = tile.mask %i, %stop {{dim = 0}} : vector<{width}xi1>
    %a = tile.load %x0[%i] strides [1], %m, %zero : !tile.ptr<{a}> -> vector<{width}x{a}>
    {compute}
    tile.store %r, %y0[%i] strides [1], %m : vector<{width}x{b}>, !tile.ptr<{b}>
  }}"""


@TARGET
@pytest.mark.parametrize("count", [0, 1, 17, 64, 65])
def test_element_types_with_a_tail(count: int, target) -> None:
    """Masked loads and stores of each type; half precision is computed in float32."""
    for dtype in NAMES:
        if dtype == torch.uint8:
            continue
        x = torch.randn(count, generator=torch.Generator().manual_seed(0)) * 9
        x = x > 0 if dtype == torch.bool else x.to(dtype)
        name = NAMES[dtype]
        op = "xori" if dtype == torch.bool else "addf" if dtype.is_floating_point else "addi"
        compute = f"%r = arith.{op} %a, %a : vector<16x{name}>"
        expected = x ^ x if dtype == torch.bool else x + x
        (found,) = both(pointwise(count, dtype, 16, compute), [x], [torch.zeros_like(x)], target=target)
        torch.testing.assert_close(found, expected)


@TARGET
def test_bytes_without_a_sign(target) -> None:
    """Pointers know of them, blocks hold i8."""
    x = torch.arange(256, dtype=torch.uint8)
    body = """
  %c0 = arith.constant 0 : index
  %v = tile.load %x0[%c0] strides [1] : !tile.ptr<ui8> -> vector<256xi8>
  %w = tile.cast "uitofp" %v : vector<256xi8> to vector<256xf32>
  tile.store %v, %y0[%c0] strides [1] : vector<256xi8>, !tile.ptr<ui8>
  tile.store %w, %y1[%c0] strides [1] : vector<256xf32>, !tile.ptr<f32>"""
    found = both(body, [x], [torch.empty_like(x), torch.empty(256)], target=target)
    assert torch.equal(found[0], x) and torch.equal(found[1], x.float())


@TARGET
def test_nothing_beside_the_mask_is_written(target) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64):
        x = torch.ones(19).to(dtype)
        kernel = parse_kernel(
            kernel_text(pointwise(5, dtype, 16, f"%r = tile.select %m, %a, %a : vector<16x{NAMES[dtype]}>"), [x], [x])
        )
        found = torch.zeros_like(x)
        run_native(kernel, [x, found], target)
        assert found.tolist() == x[:5].tolist() + [0] * 14


STRIDES = [(16, 1), (1, 8), (1, 32), (40, 1), (80, 2), (3, 24), (0, 1), (1, 0), (0, 0), (0, 3)]


@pytest.mark.share(3)
@TARGET
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("strides", STRIDES, ids=str)
def test_loads_at_any_stride(strides: tuple[int, int], masked: bool, target) -> None:
    """Contiguous, transposed, broadcast and scattered; the strides as numbers and as operands."""
    source = torch.arange(2000.0)
    for dynamic in (False, True):
        texts = [f"%s{i}" for i in range(2)] if dynamic else list(map(str, strides))
        more, setup = (", %m, %other", MASK) if masked else ("", "")
        body = f"""
  %base = arith.constant 3 : index
  %c0 = arith.constant 0 : index
  %s0 = arith.constant {strides[0]} : index
  %s1 = arith.constant {strides[1]} : index
  {setup}
  %v = tile.load %x0[%base] strides [{", ".join(texts)}]{more} : !tile.ptr<f32> -> vector<8x16xf32>
  tile.store %v, %y0[%c0] strides [16, 1] : vector<8x16xf32>, !tile.ptr<f32>"""
        (found,) = both(body, [source], [torch.empty(8, 16)], target=target)
        expected = source[3:].as_strided((8, 16), strides)
        inside = torch.arange(8)[:, None] < 5 if masked else torch.tensor(True)
        assert torch.equal(
            found, torch.where(inside & (torch.arange(16) < (11 if masked else 16)), expected, -1.0 if masked else 0.0)
        )


MASK = """%other = arith.constant -1.0 : f32
  %rows = arith.constant 5 : index
  %columns = arith.constant 11 : index
  %m0 = tile.mask %c0, %rows {dim = 0} : vector<8x16xi1>
  %m1 = tile.mask %c0, %columns {dim = 1} : vector<8x16xi1>
  %m = arith.andi %m0, %m1 : vector<8x16xi1>"""


@TARGET
@pytest.mark.parametrize("strides", [(16, 1), (1, 8), (40, 1), (2, 16), (48, 3)], ids=str)
def test_stores_at_any_stride(strides: tuple[int, int], target) -> None:
    source = torch.arange(128.0) + 1
    size = 1 + 7 * strides[0] + 15 * strides[1]
    for more, setup in (("", ""), (", %m", MASK)):
        body = f"""
  %c0 = arith.constant 0 : index
  {setup}
  %v = tile.load %x0[%c0] strides [16, 1] : !tile.ptr<f32> -> vector<8x16xf32>
  tile.store %v, %y0[%c0] strides [{strides[0]}, {strides[1]}]{more} : vector<8x16xf32>, !tile.ptr<f32>"""
        (found,) = both(body, [source], [torch.zeros(size)], target=target)
        inside = (torch.arange(8)[:, None] < 5) & (torch.arange(16) < 11) if more else torch.ones(8, 16, dtype=torch.bool)
        expected = torch.zeros(size)
        expected.as_strided((8, 16), strides).copy_(torch.where(inside, source.view(8, 16), 0.0))
        assert torch.equal(found, expected)


@TARGET
@pytest.mark.parametrize("shape", [(16, 16), (8, 32), (32, 8), (3, 5), (1, 7), (12, 4)], ids=str)
def test_matrices_are_transposed(shape: tuple[int, int], target) -> None:
    rows, columns = shape
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.bool):
        x, name = (torch.arange(rows * columns).view(shape) % 100).to(dtype), NAMES[dtype]
        body = f"""
  %c0 = arith.constant 0 : index
  %a = tile.load %x0[%c0] strides [{columns}, 1] : !tile.ptr<{name}> -> vector<{rows}x{columns}x{name}>
  %t = tile.transpose %a {{permutation = [1, 0]}} : vector<{rows}x{columns}x{name}> to vector<{columns}x{rows}x{name}>
  tile.store %t, %y0[%c0] strides [{rows}, 1] : vector<{columns}x{rows}x{name}>, !tile.ptr<{name}>"""
        (found,) = both(body, [x], [torch.empty(columns, rows, dtype=dtype)], target=target)
        assert torch.equal(found, x.t())


@pytest.mark.parametrize("order", [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [0, 1, 2]], ids=str)
def test_blocks_of_three_dimensions_are_permuted(order: list[int]) -> None:
    x = torch.randn(2, 4, 8)
    shape = [(2, 4, 8)[dim] for dim in order]
    result = f"vector<{'x'.join(map(str, shape))}xf32>"
    body = f"""
  %c0 = arith.constant 0 : index
  %a = tile.load %x0[%c0] strides [32, 8, 1] : !tile.ptr<f32> -> vector<2x4x8xf32>
  %t = tile.transpose %a {{permutation = {order}}} : vector<2x4x8xf32> to {result}
  tile.store %t, %y0[%c0] strides {list(torch.empty(shape).stride())} : {result}, !tile.ptr<f32>"""
    (found,) = both(body, [x], [torch.empty(shape)])
    assert torch.equal(found, x.permute(order))


def test_column_sums() -> None:
    """A program a block of columns, a loop over rows, a masked last block."""
    x = torch.randn(33, 40)
    body = """
  %p = tile.program_id {axis = 0} : index
  %w = arith.constant 16 : index
  %first = arith.muli %p, %w : index
  %columns = arith.constant 40 : index
  %rows = arith.constant 33 : index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %none = tile.splat %zero : f32 to vector<16xf32>
  %m = tile.mask %first, %columns {dim = 0} : vector<16xi1>
  %sum = scf.for %i = %c0 to %rows step %c1 iter_args(%acc = %none) -> (vector<16xf32>) {
    %row = arith.muli %i, %columns : index
    %at = arith.addi %row, %first : index
    %v = tile.load %x0[%at] strides [1], %m, %zero : !tile.ptr<f32> -> vector<16xf32>
    %next = arith.addf %acc, %v : vector<16xf32>
    scf.yield %next : vector<16xf32>
  }
  tile.store %sum, %y0[%first] strides [1], %m : vector<16xf32>, !tile.ptr<f32>"""
    (found,) = both(body, [x], [torch.empty(40)], (3,))
    torch.testing.assert_close(found, x.sum(0))


@TARGET
def test_gather_and_scatter(target) -> None:
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(20, generator=generator)
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        x, name = (torch.randn(20, generator=generator) * 5).to(dtype), NAMES[dtype]
        zero = (
            "arith.constant false"
            if dtype == torch.bool
            else f"arith.constant {'0.0' if dtype.is_floating_point else '0'} : {name}"
        )
        body = f"""
  %c0 = arith.constant 0 : index
  %n = arith.constant 20 : index
  %zero = {zero}
  %none = arith.constant 0 : i64
  %m = tile.mask %c0, %n {{dim = 0}} : vector<32xi1>
  %i = tile.load %x1[%c0] strides [1], %m, %none : !tile.ptr<i64> -> vector<32xi64>
  %v = tile.gather %x0[%i], %m, %zero : !tile.ptr<{name}> -> vector<32x{name}>
  tile.store %v, %y0[%c0] strides [1], %m : vector<32x{name}>, !tile.ptr<{name}>
  tile.scatter %v, %y1[%i], %m : vector<32x{name}>, !tile.ptr<{name}>"""
        found = both(body, [x, order], [torch.empty_like(x), torch.empty_like(x)], target=target)
        assert torch.equal(found[0], x[order]) and torch.equal(found[1], x)


@TARGET
def test_masked_lanes_are_not_touched(target) -> None:
    """Their addresses are far outside of any memory."""
    x = torch.arange(4.0)
    body = """
  %c0 = arith.constant 0 : index
  %far = arith.constant 4611686018427387904 : index
  %n = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  %away = arith.constant 1152921504606846976 : i64
  %none = tile.mask %n, %c0 {dim = 0} : vector<16xi1>
  %some = tile.mask %c0, %n {dim = 0} : vector<16xi1>
  %i = tile.iota {dim = 0} : vector<16xi64>
  %a = tile.splat %away : i64 to vector<16xi64>
  %j = tile.select %some, %i, %a : vector<16xi64>
  %u = tile.load %x0[%far] strides [1], %none, %zero : !tile.ptr<f32> -> vector<16xf32>
  %s = tile.load %x0[%far] strides [0], %none, %zero : !tile.ptr<f32> -> vector<16xf32>
  %w = tile.load %x0[%far] strides [%n], %none, %zero : !tile.ptr<f32> -> vector<16xf32>
  %g = tile.gather %x0[%j], %some, %zero : !tile.ptr<f32> -> vector<16xf32>
  %us = arith.addf %u, %s : vector<16xf32>
  %uw = arith.addf %us, %w : vector<16xf32>
  %r = arith.addf %uw, %g : vector<16xf32>
  tile.store %r, %y0[%far] strides [1], %none : vector<16xf32>, !tile.ptr<f32>
  tile.scatter %r, %y0[%j], %some : vector<16xf32>, !tile.ptr<f32>"""
    kernel = parse_kernel(kernel_text(body, [x], [x]))
    found = torch.zeros_like(x)
    run_native(kernel, [x, found], target)
    assert torch.equal(found, x)


@TARGET
def test_sums_in_memory(target) -> None:
    """Lanes of one block and of several programs that add to one element."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64):
        x, name = torch.arange(64).to(dtype) % 4, NAMES[dtype]
        bins = torch.arange(64) % 3
        zero = f"arith.constant {'0.0' if dtype.is_floating_point else '0'} : {name}"
        body = f"""
  %p = tile.program_id {{axis = 0}} : index
  %w = arith.constant 16 : index
  %n = arith.constant 60 : index
  %at = arith.muli %p, %w : index
  %zero = {zero}
  %none = arith.constant 0 : i64
  %m = tile.mask %at, %n {{dim = 0}} : vector<16xi1>
  %v = tile.load %x0[%at] strides [1], %m, %zero : !tile.ptr<{name}> -> vector<16x{name}>
  %i = tile.load %x1[%at] strides [1], %m, %none : !tile.ptr<i64> -> vector<16xi64>
  tile.atomic_add %v, %y0[%i], %m : vector<16x{name}>, !tile.ptr<{name}>"""
        start = torch.zeros(3, dtype=dtype)
        (found,) = both(body, [x, bins], [start], (4,), access="readwrite", target=target)
        assert torch.equal(found, torch.zeros(3, dtype=dtype).index_add(0, bins[:60], x[:60]))


def test_places_in_grids_and_branches() -> None:
    """Each program of three axes once; a branch with a result and one with an effect, numbers as arguments."""
    body = """
  %i = tile.program_id {axis = 0} : index
  %j = tile.program_id {axis = 1} : index
  %k = tile.program_id {axis = 2} : index
  %c2 = arith.constant 2 : index
  %c5 = arith.constant 5 : index
  %c3 = arith.constant 3 : index
  %ij = arith.muli %i, %c3 : index
  %row = arith.addi %ij, %j : index
  %rk = arith.muli %row, %c5 : index
  %at = arith.addi %rk, %k : index
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %low = arith.cmpi slt, %k, %c2 : index
  %v = scf.if %low -> (f32) {
    scf.yield %one : f32
  } else {
    %w = arith.addf %two, %one : f32
    scf.yield %w : f32
  }
  tile.store %v, %y0[%at] : f32, !tile.ptr<f32>
  scf.if %low {
    tile.store %two, %y0[%at] : f32, !tile.ptr<f32>
  }"""
    (found,) = both(body, [], [torch.empty(2, 3, 5)], (2, 3, 5))
    assert torch.equal(found, torch.where(torch.arange(5) < 2, 2.0, 3.0).expand(2, 3, 5))


def test_numbers_as_arguments() -> None:
    body = """
  %c0 = arith.constant 0 : index
  %v = tile.load %x0[%n] : !tile.ptr<f32> -> f32
  %r = arith.mulf %v, %scale : f32
  tile.store %r, %y0[%c0] : f32, !tile.ptr<f32>"""
    x, out = torch.arange(5.0), torch.empty(1)
    kernel = parse_kernel(kernel_text(body, [x], [out], scalars="%n: index, %scale: f32"))
    run_native(kernel, [x, out, 3, 0.5])
    assert out.item() == 1.5


def test_nested_loops_carry_several_values() -> None:
    body = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %a, %b = scf.for %i = %c0 to %c3 step %c1 iter_args(%u = %one, %v = %two) -> (f32, f32) {
    %s, %t = scf.for %j = %c0 to %c4 step %c3 iter_args(%p = %u, %q = %v) -> (f32, f32) {
      %sum = arith.addf %p, %q : f32
      scf.yield %q, %sum : f32, f32
    }
    scf.yield %t, %s : f32, f32
  }
  tile.store %a, %y0[%c0] : f32, !tile.ptr<f32>
  tile.store %b, %y0[%c1] : f32, !tile.ptr<f32>"""
    both(body, [], [torch.empty(2)])


def test_all_strides_of_all_pairs_agree_with_the_interpreter() -> None:
    """Small blocks, so that runs are short and sizes odd."""
    x = torch.randn(200)
    for shape, first, second in product([(3, 5), (1, 6), (5, 1), (2, 4)], (0, 1, 2, 5), (0, 1, 3)):
        block = f"vector<{shape[0]}x{shape[1]}xf32>"
        body = f"""
  %c0 = arith.constant 0 : index
  %v = tile.load %x0[%c0] strides [{first}, {second}] : !tile.ptr<f32> -> {block}
  tile.store %v, %y0[%c0] strides [{shape[1]}, 1] : {block}, !tile.ptr<f32>"""
        (found,) = both(body, [x], [torch.empty(shape)])
        assert torch.equal(found, x.as_strided(shape, (first, second)))


CPUS = pytest.mark.parametrize("cpu", ["cpu:avx2", "cpu:avx512", "host"])


@CPUS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_operation_is_rounded_as_in_eager(cpu: str, dtype: torch.dtype) -> None:
    """A product of which its own maximum is subtracted has a zero, whatever kernels compute the two."""

    def function(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        product = a * b
        return product - c, c + a * b, product - product.amax(0), (a - b * c) / (a * a + c)

    torch.manual_seed(0)
    inputs = [torch.randn(37, 21).to(dtype) for _ in range(3)]
    for found, expected in zip(fxc.compile(function, inputs, options={"target": cpu})(*inputs), function(*inputs), strict=True):
        assert torch.equal(found, expected)


@CPUS
@pytest.mark.parametrize("in_place", [True, False])
def test_masks_that_are_false_for_a_whole_register(cpu: str, in_place: bool) -> None:
    """LLVM reads such a half of a load without its mask, where it splits the load."""

    def function(x: Tensor) -> Tensor:
        y = x.mul_(2) if in_place else x * 2
        return y.scatter_add(0, (torch.arange(9) % 7).reshape(1, 3, 3), torch.full((1, 3, 3), 2.0))

    x = torch.arange(140.0).reshape(7, 4, 5)
    compiled = fxc.compile(function, (x.clone(),), options={"target": cpu})
    assert torch.equal(compiled(x.clone()), function(x.clone()))


def test_no_load_is_wider_than_a_register() -> None:
    for target, width in (("cpu:avx2", 256), ("cpu:avx512", 512)):
        text = llvm_text(parse_kernel(KERNELS.KERNELS["softmax"][0](3, 100)), PRESETS[target].features.data)
        widths = [int(lanes) * int(bits) for lanes, bits in re.findall(r"masked\.load\.v(\d+)[fi](\d+)", text)]
        assert widths and max(widths) <= width
