// RUN: fxc-opt %s --split-input-file --emit=triton | filecheck %s

/// Comments name what the kernel computes, and each FX node with the user's line; the kernel may say its warps.
// CHECK-LABEL: # scaled: grid (5,), 8 warps, 32-bit index
// CHECK-NEXT:  #   mul
// CHECK-NEXT:  #   exp
// CHECK:       import triton
// CHECK-NEXT:  import triton.language as tl
/// Triton's exp is off by many ulp far from 0: the function that the kernel calls is in the file. No libdevice is imported.
// CHECK-NOT:   libdevice
// CHECK:       @triton.jit
// CHECK-NEXT:  def accurate_exp(x):
// CHECK:       @triton.jit
// CHECK-NEXT:  def scaled(x, out):
// CHECK-NEXT:      i = tl.program_id(0)
// CHECK-NEXT:      start = i * 1024
// CHECK-NEXT:      mask = start + tl.arange(0, 1024) < 5000
// CHECK-NEXT:      # mul: return torch.exp(x * 0.5)  (model.py:12)
// CHECK-NEXT:      v = tl.load(x + start + tl.arange(0, 1024), mask=mask, other=0.0)
// CHECK-NEXT:      mul = v * 0.5
// CHECK-NEXT:      # exp: return torch.exp(x * 0.5)  (model.py:12)
// CHECK-NEXT:      exp = accurate_exp(mul)
// CHECK-NEXT:      tl.store(out + start + tl.arange(0, 1024), exp, mask=mask)
tile.kernel @scaled(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 5000 : i64, tile.divisible = 16 : i64}, %out: !tile.ptr<f32> {tile.access = "write", tile.elements = 5000 : i64, tile.divisible = 16 : i64}) attributes {grid = array<i64: 5>, tile.source = ["mul", "exp"], warps = 8 : i64} {
  %size = arith.constant 1024 : index
  %n = arith.constant 5000 : index
  %none = arith.constant 0.0 : f32
  %half = arith.constant dense<0.5> : vector<1024xf32>
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %size : index
  %mask = tile.mask %start, %n {dim = 0} : vector<1024xi1>
  %v = tile.load %x[%start] strides [1], %mask, %none : !tile.ptr<f32> -> vector<1024xf32> loc("mul"("in forward: return torch.exp(x * 0.5)"("model.py":12:0)))
  %mul = arith.mulf %v, %half : vector<1024xf32> loc("mul"("in forward: return torch.exp(x * 0.5)"("model.py":12:0)))
  %exp = math.exp %mul : vector<1024xf32> loc("exp"("in forward: return torch.exp(x * 0.5)"("model.py":12:0)))
  tile.store %exp, %out[%start] strides [1], %mask : vector<1024xf32>, !tile.ptr<f32> loc("exp"("in forward: return torch.exp(x * 0.5)"("model.py":12:0)))
  tile.return
}

// -----

/// Half precision is computed in single precision, as the kernel says.
// CHECK-LABEL: # pointwise: grid (5,), 4 warps, 32-bit index
// CHECK:       @triton.jit
// CHECK-NEXT:  def pointwise(p, q, out):
// CHECK-NEXT:      i = tl.program_id(0)
// CHECK-NEXT:      start = i * 1024
// CHECK-NEXT:      mask = start + tl.arange(0, 1024) < 5000
// CHECK-NEXT:      x = tl.load(p + start + tl.arange(0, 1024), mask=mask, other=0.0)
// CHECK-NEXT:      y = tl.load(q + start + tl.arange(0, 1024), mask=mask, other=0.0)
// CHECK-NEXT:      xw = x.to(tl.float32)
// CHECK-NEXT:      yw = y.to(tl.float32)
// CHECK-NEXT:      prod = xw * yw
// CHECK-NEXT:      sum = prod + 0.1
// CHECK-NEXT:      relu = tl.maximum(sum, 0.0, propagate_nan=tl.PropagateNan.ALL)
// CHECK-NEXT:      rounded = relu.to(tl.bfloat16)
// CHECK-NEXT:      tl.store(out + start + tl.arange(0, 1024), rounded, mask=mask)
tile.kernel @pointwise(%p: !tile.ptr<bf16> {tile.access = "read", tile.elements = 5000 : i64, tile.divisible = 16 : i64}, %q: !tile.ptr<bf16> {tile.access = "read", tile.elements = 5000 : i64, tile.divisible = 16 : i64}, %out: !tile.ptr<bf16> {tile.access = "write", tile.elements = 5000 : i64, tile.divisible = 16 : i64}) attributes {grid = array<i64: 5>} {
  %size = arith.constant 1024 : index
  %n = arith.constant 5000 : index
  %none = arith.constant 0.0 : bf16
  %shift = arith.constant dense<0.1> : vector<1024xf32>
  %zero = arith.constant dense<0.0> : vector<1024xf32>
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %size : index
  %mask = tile.mask %start, %n {dim = 0} : vector<1024xi1>
  %x = tile.load %p[%start] strides [1], %mask, %none : !tile.ptr<bf16> -> vector<1024xbf16>
  %y = tile.load %q[%start] strides [1], %mask, %none : !tile.ptr<bf16> -> vector<1024xbf16>
  %xw = arith.extf %x : vector<1024xbf16> to vector<1024xf32>
  %yw = arith.extf %y : vector<1024xbf16> to vector<1024xf32>
  %prod = arith.mulf %xw, %yw : vector<1024xf32>
  %sum = arith.addf %prod, %shift : vector<1024xf32>
  %relu = arith.maximumf %sum, %zero : vector<1024xf32>
  %rounded = arith.truncf %relu : vector<1024xf32> to vector<1024xbf16>
  tile.store %rounded, %out[%start] strides [1], %mask : vector<1024xbf16>, !tile.ptr<bf16>
  tile.return
}

// -----

/// Where an index may need more, it has 64 bits.
// CHECK-LABEL: # pointwise: grid (4882813,), 4 warps, 64-bit index
// CHECK:       @triton.jit
// CHECK-NEXT:  def pointwise(p, q, out):
// CHECK-NEXT:      i = tl.program_id(0).to(tl.int64)
// CHECK-NEXT:      start = i * 1024
// CHECK-NEXT:      mask = start + tl.arange(0, 1024).to(tl.int64) < 5000000000
// CHECK-NEXT:      x = tl.load(p + start + tl.arange(0, 1024), mask=mask, other=0.0)
// CHECK-NEXT:      y = tl.load(q + start + tl.arange(0, 1024), mask=mask, other=0.0)
// CHECK-NEXT:      prod = x * y
// CHECK-NEXT:      sum = prod + 0.1
// CHECK-NEXT:      relu = tl.maximum(sum, 0.0, propagate_nan=tl.PropagateNan.ALL)
// CHECK-NEXT:      tl.store(out + start + tl.arange(0, 1024), relu, mask=mask)
tile.kernel @pointwise(%p: !tile.ptr<f32> {tile.access = "read", tile.elements = 5000000000 : i64, tile.divisible = 16 : i64}, %q: !tile.ptr<f32> {tile.access = "read", tile.elements = 5000000000 : i64, tile.divisible = 16 : i64}, %out: !tile.ptr<f32> {tile.access = "write", tile.elements = 5000000000 : i64, tile.divisible = 16 : i64}) attributes {grid = array<i64: 4882813>} {
  %size = arith.constant 1024 : index
  %n = arith.constant 5000000000 : index
  %none = arith.constant 0.0 : f32
  %shift = arith.constant dense<0.1> : vector<1024xf32>
  %zero = arith.constant dense<0.0> : vector<1024xf32>
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %size : index
  %mask = tile.mask %start, %n {dim = 0} : vector<1024xi1>
  %x = tile.load %p[%start] strides [1], %mask, %none : !tile.ptr<f32> -> vector<1024xf32>
  %y = tile.load %q[%start] strides [1], %mask, %none : !tile.ptr<f32> -> vector<1024xf32>
  %prod = arith.mulf %x, %y : vector<1024xf32>
  %sum = arith.addf %prod, %shift : vector<1024xf32>
  %relu = arith.maximumf %sum, %zero : vector<1024xf32>
  tile.store %relu, %out[%start] strides [1], %mask : vector<1024xf32>, !tile.ptr<f32>
  tile.return
}

// -----

/// A constant has no name that the minimum of it and infinity could have.
// CHECK-LABEL: def constants(out):
// CHECK-NEXT:      least = tl.minimum(
// CHECK-NEXT:      tl.store(out, least)
tile.kernel @constants(%out: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  %zero = arith.constant 0 : index
  %infinity = arith.constant 0x7f800000 : f32
  %ones = arith.constant 1.000000e+00 : f32
  %least = arith.minimumf %infinity, %ones : f32
  tile.store %least, %out[%zero] : f32, !tile.ptr<f32>
  tile.return
}

// -----

/// A kernel without programs has no code: Triton would divide by its sizes of 0.
// CHECK-LABEL: def nothing(out):
// CHECK-NEXT:      pass
tile.kernel @nothing(%out: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 0>} {
  %zero = arith.constant 0 : index
  %program = tile.program_id {axis = 0} : index
  %row = arith.divui %program, %zero : index
  %ones = arith.constant 1.000000e+00 : f32
  tile.store %ones, %out[%row] : f32, !tile.ptr<f32>
  tile.return
}
