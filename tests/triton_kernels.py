"""Kernels in ``tile``, written by hand, with the PyTorch that they compute. Data for the tests of backends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Case:
    """``text``: a kernel; ``inputs()``, ``outputs()``: what it reads and writes; ``expected(*inputs)``: what it is to write."""

    text: str
    inputs: Callable[[], list[Tensor]]
    outputs: Callable[[], list[Tensor]]
    expected: Callable[..., list[Tensor]]


def pointer(name: str, type: str, access: str, elements: int, divisible: int = 16) -> str:
    attributes = f'tile.access = "{access}", tile.elements = {elements} : i64, tile.divisible = {divisible} : i64'
    return f"%{name}: !tile.ptr<{type}> {{{attributes}}}"


def kernel(name: str, grid: list[int], arguments: list[str], body: str, extra: str = "") -> str:
    attributes = f"grid = array<i64: {', '.join(map(str, grid))}>{extra}"
    return f"tile.kernel @{name}({', '.join(arguments)}) attributes {{{attributes}}} {{\n{body}\n  tile.return\n}}\n"


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def pointwise(n: int, type: str = "f32") -> str:
    """out = relu(x * y + 0.1), in f32."""
    half = type != "f32"
    cast = "\n".join(f"  %{v}w = arith.extf %{v} : vector<1024x{type}> to vector<1024xf32>" for v in "xy") if half else ""
    a, b, r = ("%xw", "%yw", "%rounded") if half else ("%x", "%y", "%relu")
    down = f"  %rounded = arith.truncf %relu : vector<1024xf32> to vector<1024x{type}>" if half else ""
    body = f"""
  %size = arith.constant 1024 : index
  %n = arith.constant {n} : index
  %none = arith.constant 0.0 : {type}
  %shift = arith.constant dense<0.1> : vector<1024xf32>
  %zero = arith.constant dense<0.0> : vector<1024xf32>
  %i = tile.program_id {{axis = 0}} : index
  %start = arith.muli %i, %size : index
  %mask = tile.mask %start, %n {{dim = 0}} : vector<1024xi1>
  %x = tile.load %p[%start] strides [1], %mask, %none : !tile.ptr<{type}> -> vector<1024x{type}>
  %y = tile.load %q[%start] strides [1], %mask, %none : !tile.ptr<{type}> -> vector<1024x{type}>
{cast}
  %prod = arith.mulf {a}, {b} : vector<1024xf32>
  %sum = arith.addf %prod, %shift : vector<1024xf32>
  %relu = arith.maximumf %sum, %zero : vector<1024xf32>
{down}
  tile.store {r}, %out[%start] strides [1], %mask : vector<1024x{type}>, !tile.ptr<{type}>"""
    arguments = [pointer("p", type, "read", n), pointer("q", type, "read", n), pointer("out", type, "write", n)]
    return kernel("pointwise", [-(-n // 1024)], arguments, body)


def softmax(rows: int, columns: int) -> str:
    body = f"""
  %zero = arith.constant 0 : index
  %n = arith.constant {columns} : index
  %low = arith.constant 0xFF800000 : f32
  %row = tile.program_id {{axis = 0}} : index
  %base = arith.muli %row, %n : index
  %mask = tile.mask %zero, %n {{dim = 0}} : vector<1024xi1>
  %x = tile.load %p[%base] strides [1], %mask, %low : !tile.ptr<f32> -> vector<1024xf32>
  %max = tile.reduce "max" %x {{dims = [0]}} : vector<1024xf32> -> f32
  %maxes = tile.splat %max : f32 to vector<1024xf32>
  %shifted = arith.subf %x, %maxes : vector<1024xf32>
  %e = math.exp %shifted : vector<1024xf32>
  %sum = tile.reduce "add" %e {{dims = [0]}} : vector<1024xf32> -> f32
  %sums = tile.splat %sum : f32 to vector<1024xf32>
  %y = arith.divf %e, %sums : vector<1024xf32>
  tile.store %y, %out[%base] strides [1], %mask : vector<1024xf32>, !tile.ptr<f32>"""
    arguments = [pointer("p", "f32", "read", rows * columns), pointer("out", "f32", "write", rows * columns)]
    return kernel("softmax", [rows], arguments, body, ', tile.source = ["softmax: return x.softmax(-1)"]')


LAYER_NORM = """
  %zero = arith.constant 0 : index
  %n = arith.constant 1500 : index
  %block = arith.constant 256 : index
  %none = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : vector<256xf32>
  %count = arith.constant 1500.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %one = arith.constant 1.0 : f32
  %row = tile.program_id {axis = 0} : index
  %base = arith.muli %row, %n : index
  %sums = scf.for %i = %zero to %n step %block iter_args(%acc = %zeros) -> (vector<256xf32>) {
    %mask = tile.mask %i, %n {dim = 0} : vector<256xi1>
    %at = arith.addi %base, %i : index
    %x = tile.load %p[%at] strides [1], %mask, %none : !tile.ptr<f32> -> vector<256xf32>
    %next = arith.addf %acc, %x : vector<256xf32>
    scf.yield %next : vector<256xf32>
  }
  %sum = tile.reduce "add" %sums {dims = [0]} : vector<256xf32> -> f32
  %mean = arith.divf %sum, %count : f32
  %means = tile.splat %mean : f32 to vector<256xf32>
  %squares = scf.for %i = %zero to %n step %block iter_args(%acc = %zeros) -> (vector<256xf32>) {
    %mask = tile.mask %i, %n {dim = 0} : vector<256xi1>
    %at = arith.addi %base, %i : index
    %x = tile.load %p[%at] strides [1], %mask, %none : !tile.ptr<f32> -> vector<256xf32>
    %d = arith.subf %x, %means : vector<256xf32>
    %kept = tile.select %mask, %d, %zeros : vector<256xf32>
    %square = arith.mulf %kept, %kept : vector<256xf32>
    %next = arith.addf %acc, %square : vector<256xf32>
    tile.store %d, %out[%at] strides [1], %mask : vector<256xf32>, !tile.ptr<f32>
    scf.yield %next : vector<256xf32>
  }
  %total = tile.reduce "add" %squares {dims = [0]} : vector<256xf32> -> f32
  %var = arith.divf %total, %count : f32
  %safe = arith.addf %var, %eps : f32
  %root = math.sqrt %safe : f32
  %scale = arith.divf %one, %root : f32
  %scales = tile.splat %scale : f32 to vector<256xf32>
  scf.for %i = %zero to %n step %block {
    %mask = tile.mask %i, %n {dim = 0} : vector<256xi1>
    %at = arith.addi %base, %i : index
    %d = tile.load %out[%at] strides [1], %mask, %none : !tile.ptr<f32> -> vector<256xf32>
    %w = tile.load %weight[%i] strides [1], %mask, %none : !tile.ptr<f32> -> vector<256xf32>
    %normal = arith.mulf %d, %scales : vector<256xf32>
    %y = arith.mulf %normal, %w : vector<256xf32>
    tile.store %y, %out[%at] strides [1], %mask : vector<256xf32>, !tile.ptr<f32>
    scf.yield
  }"""

TRANSPOSE = """
  %size = arith.constant 32 : index
  %rows = arith.constant 100 : index
  %columns = arith.constant 70 : index
  %none = arith.constant 0.0 : f32
  %i = tile.program_id {axis = 0} : index
  %j = tile.program_id {axis = 1} : index
  %row = arith.muli %i, %size : index
  %column = arith.muli %j, %size : index
  %in_rows = tile.mask %row, %rows {dim = 0} : vector<32x32xi1>
  %in_columns = tile.mask %column, %columns {dim = 1} : vector<32x32xi1>
  %mask = arith.andi %in_rows, %in_columns : vector<32x32xi1>
  %from = arith.muli %row, %columns : index
  %first = arith.addi %from, %column : index
  %x = tile.load %p[%first] strides [70, 1], %mask, %none : !tile.ptr<f32> -> vector<32x32xf32>
  %t = tile.transpose %x {permutation = [1, 0]} : vector<32x32xf32> to vector<32x32xf32>
  %out_mask = tile.transpose %mask {permutation = [1, 0]} : vector<32x32xi1> to vector<32x32xi1>
  %to = arith.muli %column, %rows : index
  %target = arith.addi %to, %row : index
  tile.store %t, %out[%target] strides [%rows, 1], %out_mask : vector<32x32xf32>, !tile.ptr<f32>"""

GATHER = """
  %zero = arith.constant 0 : index
  %width = arith.constant 48 : index
  %wide = arith.constant 48 : i64
  %none = arith.constant 0.0 : f32
  %row = tile.program_id {axis = 0} : index
  %number = tile.load %indices[%row] : !tile.ptr<i64> -> i64
  %start = arith.muli %number, %wide : i64
  %starts = tile.splat %start : i64 to vector<64xi64>
  %lanes = tile.iota {dim = 0} : vector<64xi64>
  %offsets = arith.addi %starts, %lanes : vector<64xi64>
  %mask = tile.mask %zero, %width {dim = 0} : vector<64xi1>
  %v = tile.gather %table[%offsets], %mask, %none : !tile.ptr<f32> -> vector<64xf32>
  %base = arith.muli %row, %width : index
  tile.store %v, %out[%base] strides [1], %mask : vector<64xf32>, !tile.ptr<f32>"""

HISTOGRAM = """
  %size = arith.constant 128 : index
  %n = arith.constant 1000 : index
  %none = arith.constant 0 : i64
  %zero = arith.constant 0.0 : f32
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %size : index
  %mask = tile.mask %start, %n {dim = 0} : vector<128xi1>
  %bins = tile.load %p[%start] strides [1], %mask, %none : !tile.ptr<i64> -> vector<128xi64>
  %v = tile.load %q[%start] strides [1], %mask, %zero : !tile.ptr<f32> -> vector<128xf32>
  tile.atomic_add %v, %out[%bins], %mask : vector<128xf32>, !tile.ptr<f32>"""

SCAN = """
  %zero = arith.constant 0 : index
  %n = arith.constant 100 : index
  %none = arith.constant 0.0 : f32
  %row = tile.program_id {axis = 0} : index
  %base = arith.muli %row, %n : index
  %mask = tile.mask %zero, %n {dim = 0} : vector<128xi1>
  %x = tile.load %p[%base] strides [1], %mask, %none : !tile.ptr<f32> -> vector<128xf32>
  %sums = tile.scan "add" %x {dim = 0} : vector<128xf32> -> vector<128xf32>
  %maxes = tile.scan "max" %x {dim = 0} : vector<128xf32> -> vector<128xf32>
  tile.store %sums, %out[%base] strides [1], %mask : vector<128xf32>, !tile.ptr<f32>
  tile.store %maxes, %largest[%base] strides [1], %mask : vector<128xf32>, !tile.ptr<f32>"""

RANDOM = """
  %size = arith.constant 128 : index
  %big = arith.constant 5000000000000 : i64
  %seed = arith.constant 1234567890123 : i64
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %size : index
  %start64 = arith.index_cast %start : index to i64
  %first = arith.addi %start64, %big : i64
  %firsts = tile.splat %first : i64 to vector<128xi64>
  %lanes = tile.iota {dim = 0} : vector<128xi64>
  %offsets = arith.addi %firsts, %lanes : vector<128xi64>
  %words = tile.random %seed, %offsets : vector<128xi64> -> vector<128xi32>
  tile.store %words, %out[%start] strides [1] : vector<128xi32>, !tile.ptr<i32>"""

WAYS = """
  %zero = arith.constant 0 : i64
  %none = arith.constant 0 : index
  %one = arith.constant 1 : index
  %start = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %three = arith.constant 3 : i64
  %i = tile.program_id {axis = 0} : index
  %n = tile.load %p[%i] : !tile.ptr<i64> -> i64
  %rounds = arith.index_cast %n : i64 to index
  %power, %count = scf.for %k = %none to %rounds step %one iter_args(%a = %start, %b = %zero) -> (i64, i64) {
    %rest = arith.remsi %b, %two : i64
    %even = arith.cmpi eq, %rest, %zero : i64
    %c = scf.if %even -> (i64) {
      %doubled = arith.muli %a, %two : i64
      scf.yield %doubled : i64
    } else {
      %tripled = arith.muli %a, %three : i64
      scf.yield %tripled : i64
    }
    %d = arith.addi %b, %start : i64
    scf.yield %c, %d : i64, i64
  }
  tile.store %power, %out[%i] : i64, !tile.ptr<i64>"""


def ways(x: Tensor) -> list[Tensor]:
    """2 * 3 * 2 * ..., x factors."""
    return [torch.tensor([2 ** ((n + 1) // 2) * 3 ** (n // 2) for n in x.tolist()])]


EUCLID = """
  %none = arith.constant 0 : index
  %zero = arith.constant 0 : i64
  %zeros = arith.constant dense<0> : vector<4x8xi64>
  %rows = arith.constant 4 : index
  %columns = arith.constant 6 : index
  %i = tile.program_id {axis = 0} : index
  %length = arith.constant 24 : index
  %base = arith.muli %i, %length : index
  %mask = tile.mask %none, %columns {dim = 1} : vector<4x8xi1>
  %x = tile.load %p[%base] strides [6, 1], %mask, %zero : !tile.ptr<i64> -> vector<4x8xi64>
  %most = tile.reduce "max" %x {dims = [0, 1]} : vector<4x8xi64> -> i64
  %largest = tile.splat %most : i64 to vector<4x8xi64>
  %start = tile.compare "ne" %x, %zeros : vector<4x8xi64>
  %a, %divisor = tile.iterate %start (%b = %x, %c = %largest) : vector<4x8xi1>, vector<4x8xi64>, vector<4x8xi64> {
    %left = arith.remsi %c, %b : vector<4x8xi64>
    %more = tile.compare "ne" %left, %zeros : vector<4x8xi64>
    tile.next %more, %left, %b : vector<4x8xi1>, vector<4x8xi64>, vector<4x8xi64>
  }
  %two = arith.constant 2 : i64
  %going = arith.cmpi sgt, %most, %two : i64
  %small = tile.iterate %going (%n = %most) : i1, i64 {
    %half = arith.divsi %n, %two : i64
    %on = arith.cmpi sgt, %half, %two : i64
    tile.next %on, %half : i1, i64
  }
  %smalls = tile.splat %small : i64 to vector<4x8xi64>
  %r = arith.addi %divisor, %smalls : vector<4x8xi64>
  tile.store %r, %out[%base] strides [6, 1], %mask : vector<4x8xi64>, !tile.ptr<i64>"""


def euclid(x: Tensor) -> list[Tensor]:
    """The greatest common divisor of each number and the largest of its block, and the first two bits of that."""
    largest = x.amax((1, 2), keepdim=True)
    small = largest.clone()
    while (small > 2).any():
        small = torch.where(small > 2, small // 2, small)
    return [torch.gcd(x, largest) + small]


def two_scans(x: Tensor) -> list[Tensor]:
    return [x.cumsum(1), x.cummax(1).values]


def philox_words() -> list[Tensor]:
    """numpy's Philox is the 64-bit one, so: the definition, in Python's integers."""
    words = list[int]()
    for offset in range(5_000_000_000_000, 5_000_000_000_000 + 512):
        counter = [offset // 4 & 0xFFFFFFFF, offset // 4 >> 32, 0, 0]
        key = [1234567890123 & 0xFFFFFFFF, 1234567890123 >> 32]
        for _ in range(10):
            a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [b >> 32 ^ counter[1] ^ key[0], b & 0xFFFFFFFF, a >> 32 ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
            key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
        words.append(counter[offset % 4])
    return [torch.tensor(words).to(torch.int32)]


def scattered(bins: Tensor, values: Tensor) -> list[Tensor]:
    return [torch.zeros(10).index_add(0, bins, values)]


EXTREMES = """
  %size = arith.constant 128 : index
  %n = arith.constant 1000 : index
  %none = arith.constant 0 : i64
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %size : index
  %mask = tile.mask %start, %n {dim = 0} : vector<128xi1>
  %bins = tile.load %p[%start] strides [1], %mask, %none : !tile.ptr<i64> -> vector<128xi64>
  %v = tile.load %q[%start] strides [1], %mask, %none : !tile.ptr<i64> -> vector<128xi64>
  tile.atomic_max %v, %largest[%bins], %mask : vector<128xi64>, !tile.ptr<i64>
  %w = tile.cast "trunci" %v : vector<128xi64> to vector<128xi32>
  tile.atomic_min %w, %smallest[%bins], %mask : vector<128xi32>, !tile.ptr<i32>"""


def extremes(bins: Tensor, values: Tensor) -> list[Tensor]:
    largest, smallest = torch.zeros(10, dtype=torch.int64), torch.zeros(10, dtype=torch.int32)
    return [
        largest.scatter_reduce(0, bins, values, "amax"),
        smallest.scatter_reduce(0, bins, values.int(), "amin"),
    ]


TOTALS = """
  %rows = arith.constant 16 : index
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %rows : index
  %v = tile.load %p[%start] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  %sum = tile.reduce "add" %v {dims = [0]} : vector<16xf32> -> f32
  tile.store %sum, %parts[%i] : f32, !tile.ptr<f32>
  tile.last_program (%q = %parts, %o = %out) : !tile.ptr<f32>, !tile.ptr<f32> {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %all = tile.load %q[%zero] strides [1] : !tile.ptr<f32> -> vector<8xf32>
    %total = tile.reduce "add" %all {dims = [0]} : vector<8xf32> -> f32
    tile.store %total, %o[%zero] : f32, !tile.ptr<f32>
    %again = tile.load %o[%zero] : !tile.ptr<f32> -> f32
    %twice = arith.addf %again, %again : f32
    tile.store %twice, %o[%one] : f32, !tile.ptr<f32>
  }"""
"""The sum of each program, then that of all and twice that."""

CASES = {
    "last_program": Case(
        kernel(
            "totals",
            [8],
            [pointer("p", "f32", "read", 128), pointer("parts", "f32", "write", 8), pointer("out", "f32", "write", 2)],
            TOTALS,
        ),
        lambda: [random(8, 16)],
        lambda: [torch.empty(8), torch.empty(2)],
        lambda x: [x.sum(1), torch.stack([x.sum(), 2 * x.sum()])],
    ),
    "pointwise": Case(
        pointwise(5000),
        lambda: [random(5000), random(5000).flip(0)],
        lambda: [torch.empty(5000)],
        lambda x, y: [(x * y + 0.1).relu()],
    ),
    "pointwise_bf16": Case(
        pointwise(5000, "bf16"),
        lambda: [random(5000, dtype=torch.bfloat16), random(5000, dtype=torch.bfloat16).flip(0)],
        lambda: [torch.empty(5000, dtype=torch.bfloat16)],
        lambda x, y: [(x.float() * y.float() + 0.1).relu().bfloat16()],
    ),
    "softmax": Case(softmax(20, 1000), lambda: [random(20, 1000)], lambda: [torch.empty(20, 1000)], lambda x: [x.softmax(-1)]),
    "layer_norm": Case(
        kernel(
            "layer_norm",
            [7],
            [pointer("p", "f32", "read", 10500), pointer("weight", "f32", "read", 1500), pointer("out", "f32", "write", 10500)],
            LAYER_NORM,
        ),
        lambda: [random(7, 1500) + 3, random(1500)],
        lambda: [torch.empty(7, 1500)],
        lambda x, w: [torch.nn.functional.layer_norm(x, (1500,), w)],
    ),
    "transpose": Case(
        kernel("transpose", [4, 3], [pointer("p", "f32", "read", 7000), pointer("out", "f32", "write", 7000)], TRANSPOSE),
        lambda: [random(100, 70)],
        lambda: [torch.empty(70, 100)],
        lambda x: [x.t().contiguous()],
    ),
    "gather": Case(
        kernel(
            "gather",
            [9],
            [pointer("table", "f32", "read", 4800), pointer("indices", "i64", "read", 9), pointer("out", "f32", "write", 432)],
            GATHER,
        ),
        lambda: [random(100, 48), torch.tensor([3, 99, 0, 3, 57, 12, 98, 1, 40])],
        lambda: [torch.empty(9, 48)],
        lambda table, indices: [table[indices]],
    ),
    "atomic_add": Case(
        kernel(
            "histogram",
            [8],
            [pointer("p", "i64", "read", 1000), pointer("q", "f32", "read", 1000), pointer("out", "f32", "readwrite", 10)],
            HISTOGRAM,
        ),
        lambda: [torch.arange(1000) * 7 % 10, random(1000)],
        lambda: [torch.zeros(10)],
        scattered,
    ),
    "atomic_extremes": Case(
        kernel(
            "extremes",
            [8],
            [
                pointer("p", "i64", "read", 1000),
                pointer("q", "i64", "read", 1000),
                pointer("largest", "i64", "readwrite", 10),
                pointer("smallest", "i32", "readwrite", 10),
            ],
            EXTREMES,
        ),
        lambda: [torch.arange(1000) * 7 % 10, (random(1000) * 1000).long()],
        lambda: [torch.zeros(10, dtype=torch.int64), torch.zeros(10, dtype=torch.int32)],
        extremes,
    ),
    "scan": Case(
        kernel(
            "scan",
            [6],
            [pointer("p", "f32", "read", 600), pointer("out", "f32", "write", 600), pointer("largest", "f32", "write", 600)],
            SCAN,
        ),
        lambda: [random(6, 100)],
        lambda: [torch.empty(6, 100), torch.empty(6, 100)],
        two_scans,
    ),
    "random": Case(
        kernel("words", [4], [pointer("out", "i32", "write", 512)], RANDOM),
        lambda: [],
        lambda: [torch.empty(512, dtype=torch.int32)],
        philox_words,
    ),
    "control_flow": Case(
        kernel("ways", [12], [pointer("p", "i64", "read", 12), pointer("out", "i64", "write", 12)], WAYS),
        lambda: [torch.tensor([0, 1, 2, 3, 5, 8, 5, 0, 13, 2, 1, 7])],
        lambda: [torch.empty(12, dtype=torch.int64)],
        ways,
    ),
    "iterate": Case(
        kernel("euclid", [3], [pointer("p", "i64", "read", 72), pointer("out", "i64", "write", 72)], EUCLID),
        lambda: [torch.arange(72).reshape(3, 4, 6) * 7 % 60],
        lambda: [torch.empty(3, 4, 6, dtype=torch.int64)],
        euclid,
    ),
}
