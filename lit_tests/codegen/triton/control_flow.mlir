// RUN: fxc-opt %s --split-input-file --emit=triton | filecheck %s

/// A loop carries its sums in a variable; what other threads stored is read behind a barrier.
// CHECK-LABEL: # layer_norm: grid (7,), 1 warp, 32-bit index
// CHECK:       @triton.jit
// CHECK-NEXT:  def layer_norm(p, weight, out):
// CHECK-NEXT:      row = tl.program_id(0)
// CHECK-NEXT:      base = row * 1500
// CHECK-NEXT:      sums = tl.full((256,), 0.0, tl.float32)
// CHECK-NEXT:      for i in range(0, 1500, 256):
// CHECK-NEXT:          mask = i + tl.arange(0, 256) < 1500
// CHECK-NEXT:          at = base + i
// CHECK-NEXT:          x = tl.load(p + at + tl.arange(0, 256), mask=mask, other=0.0)
// CHECK-NEXT:          sums = sums + x
// CHECK-NEXT:      sum = tl.sum(sums, axis=0)
// CHECK-NEXT:      mean = tl.div_rn(sum, 1500.0)
// CHECK-NEXT:      squares = tl.full((256,), 0.0, tl.float32)
// CHECK-NEXT:      for i_1 in range(0, 1500, 256):
// CHECK-NEXT:          mask_1 = i_1 + tl.arange(0, 256) < 1500
// CHECK-NEXT:          at_1 = base + i_1
// CHECK-NEXT:          x_1 = tl.load(p + at_1 + tl.arange(0, 256), mask=mask_1, other=0.0)
// CHECK-NEXT:          d = x_1 - mean
// CHECK-NEXT:          kept = tl.where(mask_1, d, 0.0)
// CHECK-NEXT:          square = kept * kept
// CHECK-NEXT:          squares = squares + square
// CHECK-NEXT:          tl.store(out + at_1 + tl.arange(0, 256), d, mask=mask_1)
// CHECK-NEXT:      total = tl.sum(squares, axis=0)
// CHECK-NEXT:      var = tl.div_rn(total, 1500.0)
// CHECK-NEXT:      safe = var + 1e-05
// CHECK-NEXT:      root = tl.sqrt_rn(safe)
// CHECK-NEXT:      scale = tl.div_rn(1.0, root)
// CHECK-NEXT:      for i_2 in range(0, 1500, 256):
// CHECK-NEXT:          mask_2 = i_2 + tl.arange(0, 256) < 1500
// CHECK-NEXT:          at_2 = base + i_2
// CHECK-NEXT:          tl.debug_barrier()
// CHECK-NEXT:          d_1 = tl.load(out + at_2 + tl.arange(0, 256), mask=mask_2, other=0.0)
// CHECK-NEXT:          w = tl.load(weight + i_2 + tl.arange(0, 256), mask=mask_2, other=0.0)
// CHECK-NEXT:          normal = d_1 * scale
// CHECK-NEXT:          y = normal * w
// CHECK-NEXT:          tl.store(out + at_2 + tl.arange(0, 256), y, mask=mask_2)
tile.kernel @layer_norm(%p: !tile.ptr<f32> {tile.access = "read", tile.elements = 10500 : i64, tile.divisible = 16 : i64}, %weight: !tile.ptr<f32> {tile.access = "read", tile.elements = 1500 : i64, tile.divisible = 16 : i64}, %out: !tile.ptr<f32> {tile.access = "write", tile.elements = 10500 : i64, tile.divisible = 16 : i64}) attributes {grid = array<i64: 7>} {
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
  }
  tile.return
}

// -----

/// Numbers decide how often, and which.
// CHECK-LABEL: # ways: grid (12,), 1 warp, 64-bit index
// CHECK:       @triton.jit
// CHECK-NEXT:  def ways(p, out):
// CHECK-NEXT:      i = tl.program_id(0).to(tl.int64)
// CHECK-NEXT:      n = tl.load(p + i)
// CHECK-NEXT:      rounds = tl.cast(n, tl.int64)
// CHECK-NEXT:      power = tl.full((), 1, tl.int64)
// CHECK-NEXT:      count = tl.full((), 0, tl.int64)
// CHECK-NEXT:      for k in range(tl.full((), 0, tl.int64), rounds):
// CHECK-NEXT:          rest = count % 2
// CHECK-NEXT:          even = rest == 0
// CHECK-NEXT:          if even:
// CHECK-NEXT:              doubled = power * 2
// CHECK-NEXT:              c = doubled
// CHECK-NEXT:          else:
// CHECK-NEXT:              tripled = power * 3
// CHECK-NEXT:              c = tripled
// CHECK-NEXT:          count = count + 1
// CHECK-NEXT:          power = c
// CHECK-NEXT:      tl.store(out + i, power)
tile.kernel @ways(%p: !tile.ptr<i64> {tile.access = "read", tile.elements = 12 : i64, tile.divisible = 16 : i64}, %out: !tile.ptr<i64> {tile.access = "write", tile.elements = 12 : i64, tile.divisible = 16 : i64}) attributes {grid = array<i64: 12>} {
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
  tile.store %power, %out[%i] : i64, !tile.ptr<i64>
  tile.return
}
