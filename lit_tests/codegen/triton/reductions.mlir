// RUN: fxc-opt %s --split-input-file --emit=triton | filecheck %s

/// A NaN is the maximum: the function that combines two lanes stands in the file.
// CHECK-LABEL: # softmax: grid (20,), 4 warps, 32-bit index
// CHECK-NEXT:  #   softmax: return x.softmax(-1)
// CHECK:       import triton
// CHECK-NEXT:  import triton.language as tl
// CHECK:       @triton.jit
// CHECK-NEXT:  def maximum(a, b):
// CHECK-NEXT:      return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
// CHECK:       @triton.jit
// CHECK-NEXT:  def accurate_exp(x):
// CHECK:       @triton.jit
// CHECK-NEXT:  def softmax(p, out):
// CHECK-NEXT:      row = tl.program_id(0)
// CHECK-NEXT:      base = row * 1000
// CHECK-NEXT:      mask = tl.arange(0, 1024) < 1000
// CHECK-NEXT:      x = tl.load(p + base + tl.arange(0, 1024), mask=mask, other=float("-inf"))
// CHECK-NEXT:      max = tl.reduce(x, 0, maximum)
// CHECK-NEXT:      shifted = x - max
// CHECK-NEXT:      e = accurate_exp(shifted)
// CHECK-NEXT:      sum = tl.sum(e, axis=0)
// CHECK-NEXT:      y = tl.div_rn(e, sum)
// CHECK-NEXT:      tl.store(out + base + tl.arange(0, 1024), y, mask=mask)
tile.kernel @softmax(%p: !tile.ptr<f32> {tile.access = "read", tile.elements = 20000 : i64, tile.divisible = 16 : i64}, %out: !tile.ptr<f32> {tile.access = "write", tile.elements = 20000 : i64, tile.divisible = 16 : i64}) attributes {grid = array<i64: 20>, tile.source = ["softmax: return x.softmax(-1)"]} {
  %zero = arith.constant 0 : index
  %n = arith.constant 1000 : index
  %low = arith.constant 0xFF800000 : f32
  %row = tile.program_id {axis = 0} : index
  %base = arith.muli %row, %n : index
  %mask = tile.mask %zero, %n {dim = 0} : vector<1024xi1>
  %x = tile.load %p[%base] strides [1], %mask, %low : !tile.ptr<f32> -> vector<1024xf32>
  %max = tile.reduce "max" %x {dims = [0]} : vector<1024xf32> -> f32
  %maxes = tile.splat %max : f32 to vector<1024xf32>
  %shifted = arith.subf %x, %maxes : vector<1024xf32>
  %e = math.exp %shifted : vector<1024xf32>
  %sum = tile.reduce "add" %e {dims = [0]} : vector<1024xf32> -> f32
  %sums = tile.splat %sum : f32 to vector<1024xf32>
  %y = arith.divf %e, %sums : vector<1024xf32>
  tile.store %y, %out[%base] strides [1], %mask : vector<1024xf32>, !tile.ptr<f32>
  tile.return
}

// -----

/// Sums and maxima so far; of equal maxima the last.
// CHECK-LABEL: # scan: grid (6,), 1 warp, 32-bit index
// CHECK:       @triton.jit
// CHECK-NEXT:  def later_maximum(a, b):
// CHECK-NEXT:      return tl.where((a > b) | (a != a), a, b)
// CHECK:       @triton.jit
// CHECK-NEXT:  def scan(p, out, largest):
// CHECK-NEXT:      row = tl.program_id(0)
// CHECK-NEXT:      base = row * 100
// CHECK-NEXT:      mask = tl.arange(0, 128) < 100
// CHECK-NEXT:      x = tl.load(p + base + tl.arange(0, 128), mask=mask, other=0.0)
// CHECK-NEXT:      sums = tl.cumsum(x, axis=0)
// CHECK-NEXT:      maxes = tl.associative_scan(x, 0, later_maximum)
// CHECK-NEXT:      tl.store(out + base + tl.arange(0, 128), sums, mask=mask)
// CHECK-NEXT:      tl.store(largest + base + tl.arange(0, 128), maxes, mask=mask)
tile.kernel @scan(%p: !tile.ptr<f32> {tile.access = "read", tile.elements = 600 : i64, tile.divisible = 16 : i64}, %out: !tile.ptr<f32> {tile.access = "write", tile.elements = 600 : i64, tile.divisible = 16 : i64}, %largest: !tile.ptr<f32> {tile.access = "write", tile.elements = 600 : i64, tile.divisible = 16 : i64}) attributes {grid = array<i64: 6>} {
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
  tile.store %maxes, %largest[%base] strides [1], %mask : vector<128xf32>, !tile.ptr<f32>
  tile.return
}
