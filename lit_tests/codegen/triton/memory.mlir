// RUN: fxc-opt %s --split-input-file --emit=triton | filecheck %s

/// Two dimensions: steps along each, masks stretched over both.
// CHECK-LABEL: # transpose: grid (4, 3), 4 warps, 32-bit index
// CHECK:       @triton.jit
// CHECK-NEXT:  def transpose(p, out):
// CHECK-NEXT:      i = tl.program_id(0)
// CHECK-NEXT:      j = tl.program_id(1)
// CHECK-NEXT:      row = i * 32
// CHECK-NEXT:      column = j * 32
// CHECK-NEXT:      in_rows = tl.broadcast_to(row + tl.arange(0, 32)[:, None] < 100, (32, 32))
// CHECK-NEXT:      in_columns = tl.broadcast_to(column + tl.arange(0, 32)[None, :] < 70, (32, 32))
// CHECK-NEXT:      mask = in_rows & in_columns
// CHECK-NEXT:      from_1 = row * 70
// CHECK-NEXT:      first = from_1 + column
// CHECK-NEXT:      x = tl.load(p + first + tl.arange(0, 32)[:, None] * 70 + tl.arange(0, 32)[None, :], mask=mask, other=0.0)
// CHECK-NEXT:      t = tl.permute(x, (1, 0))
// CHECK-NEXT:      out_mask = tl.permute(mask, (1, 0))
// CHECK-NEXT:      to = column * 100
// CHECK-NEXT:      target = to + row
// CHECK-NEXT:      tl.store(out + target + tl.arange(0, 32)[:, None] * 100 + tl.arange(0, 32)[None, :], t, mask=out_mask)
tile.kernel @transpose(%p: !tile.ptr<f32> {tile.access = "read", tile.elements = 7000 : i64, tile.divisible = 16 : i64}, %out: !tile.ptr<f32> {tile.access = "write", tile.elements = 7000 : i64, tile.divisible = 16 : i64}) attributes {grid = array<i64: 4, 3>} {
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
  tile.store %t, %out[%target] strides [%rows, 1], %out_mask : vector<32x32xf32>, !tile.ptr<f32>
  tile.return
}

// -----

/// Element numbers that were loaded.
// CHECK-LABEL: # gather: grid (9,), 1 warp, 32-bit index
// CHECK:       @triton.jit
// CHECK-NEXT:  def gather(table, indices, out):
// CHECK-NEXT:      row = tl.program_id(0)
// CHECK-NEXT:      number = tl.load(indices + row)
// CHECK-NEXT:      start = number * 48
// CHECK-NEXT:      lanes = tl.arange(0, 64).to(tl.int64)
// CHECK-NEXT:      offsets = start + lanes
// CHECK-NEXT:      mask = tl.arange(0, 64) < 48
// CHECK-NEXT:      v = tl.load(table + offsets, mask=mask, other=0.0)
// CHECK-NEXT:      base = row * 48
// CHECK-NEXT:      tl.store(out + base + tl.arange(0, 64), v, mask=mask)
tile.kernel @gather(%table: !tile.ptr<f32> {tile.access = "read", tile.elements = 4800 : i64, tile.divisible = 16 : i64}, %indices: !tile.ptr<i64> {tile.access = "read", tile.elements = 9 : i64, tile.divisible = 16 : i64}, %out: !tile.ptr<f32> {tile.access = "write", tile.elements = 432 : i64, tile.divisible = 16 : i64}) attributes {grid = array<i64: 9>} {
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
  tile.store %v, %out[%base] strides [1], %mask : vector<64xf32>, !tile.ptr<f32>
  tile.return
}

// -----

/// Sums in memory.
// CHECK-LABEL: # histogram: grid (8,), 1 warp, 32-bit index
// CHECK:       @triton.jit
// CHECK-NEXT:  def histogram(p, q, out):
// CHECK-NEXT:      i = tl.program_id(0)
// CHECK-NEXT:      start = i * 128
// CHECK-NEXT:      mask = start + tl.arange(0, 128) < 1000
// CHECK-NEXT:      bins = tl.load(p + start + tl.arange(0, 128), mask=mask, other=0)
// CHECK-NEXT:      v = tl.load(q + start + tl.arange(0, 128), mask=mask, other=0.0)
// CHECK-NEXT:      tl.atomic_add(out + bins, v, mask=mask, sem="relaxed")
tile.kernel @histogram(%p: !tile.ptr<i64> {tile.access = "read", tile.elements = 1000 : i64, tile.divisible = 16 : i64}, %q: !tile.ptr<f32> {tile.access = "read", tile.elements = 1000 : i64, tile.divisible = 16 : i64}, %out: !tile.ptr<f32> {tile.access = "readwrite", tile.elements = 10 : i64, tile.divisible = 16 : i64}) attributes {grid = array<i64: 8>} {
  %size = arith.constant 128 : index
  %n = arith.constant 1000 : index
  %none = arith.constant 0 : i64
  %zero = arith.constant 0.0 : f32
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %size : index
  %mask = tile.mask %start, %n {dim = 0} : vector<128xi1>
  %bins = tile.load %p[%start] strides [1], %mask, %none : !tile.ptr<i64> -> vector<128xi64>
  %v = tile.load %q[%start] strides [1], %mask, %zero : !tile.ptr<f32> -> vector<128xf32>
  tile.atomic_add %v, %out[%bins], %mask : vector<128xf32>, !tile.ptr<f32>
  tile.return
}

// -----

/// Philox computes four words at once: those of four lanes, where offsets count up from a multiple of 4.
// CHECK-LABEL: # words: grid (4,), 1 warp, 32-bit index
// CHECK:       @triton.jit
// CHECK-NEXT:  def consecutive_words(seed, first, size: tl.constexpr):
// CHECK-NEXT:      counter = (first >> 2) + tl.arange(0, size // 4)
// CHECK-NEXT:      low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
// CHECK-NEXT:      word_0, word_1, word_2, word_3 = tl.philox(seed, low, high, low * 0, low * 0)
// CHECK-NEXT:      words = tl.interleave(tl.interleave(word_0, word_2), tl.interleave(word_1, word_3))
// CHECK-NEXT:      return words.to(tl.int32, bitcast=True)
// CHECK:       @triton.jit
// CHECK-NEXT:  def words(out):
// CHECK-NEXT:      i = tl.program_id(0)
// CHECK-NEXT:      start = i * 128
// CHECK-NEXT:      start64 = tl.cast(start, tl.int64)
// CHECK-NEXT:      first = start64 + 5000000000000
// CHECK-NEXT:      words = consecutive_words(tl.full((), 1234567890123, tl.int64), first, 128)
// CHECK-NEXT:      tl.store(out + start + tl.arange(0, 128), words)
tile.kernel @words(%out: !tile.ptr<i32> {tile.access = "write", tile.elements = 512 : i64, tile.divisible = 16 : i64}) attributes {grid = array<i64: 4>} {
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
  tile.store %words, %out[%start] strides [1] : vector<128xi32>, !tile.ptr<i32>
  tile.return
}

// -----

/// From another number, each lane selects its word.
// CHECK-LABEL: # words: grid (4,), 1 warp, 32-bit index
// CHECK:       @triton.jit
// CHECK-NEXT:  def random_words(seed, offsets):
// CHECK-NEXT:      counter = offsets.to(tl.uint64, bitcast=True) >> 2
// CHECK-NEXT:      low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
// CHECK-NEXT:      word_0, word_1, word_2, word_3 = tl.philox(seed, low, high, low * 0, low * 0)
// CHECK-NEXT:      place = offsets & 3
// CHECK-NEXT:      words = tl.where(place < 2, tl.where(place == 0, word_0, word_1), tl.where(place == 2, word_2, word_3))
// CHECK-NEXT:      return words.to(tl.int32, bitcast=True)
// CHECK:       @triton.jit
// CHECK-NEXT:  def words(out):
// CHECK-NEXT:      i = tl.program_id(0)
// CHECK-NEXT:      start = i * 128
// CHECK-NEXT:      start64 = tl.cast(start, tl.int64)
// CHECK-NEXT:      first = start64 + 5000000000001
// CHECK-NEXT:      lanes = tl.arange(0, 128).to(tl.int64)
// CHECK-NEXT:      offsets = first + lanes
// CHECK-NEXT:      words = random_words(tl.full((), 1234567890123, tl.int64), offsets)
// CHECK-NEXT:      tl.store(out + start + tl.arange(0, 128), words)
tile.kernel @words(%out: !tile.ptr<i32> {tile.access = "write", tile.elements = 512 : i64, tile.divisible = 16 : i64}) attributes {grid = array<i64: 4>} {
  %size = arith.constant 128 : index
  %big = arith.constant 5000000000001 : i64
  %seed = arith.constant 1234567890123 : i64
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %size : index
  %start64 = arith.index_cast %start : index to i64
  %first = arith.addi %start64, %big : i64
  %firsts = tile.splat %first : i64 to vector<128xi64>
  %lanes = tile.iota {dim = 0} : vector<128xi64>
  %offsets = arith.addi %firsts, %lanes : vector<128xi64>
  %words = tile.random %seed, %offsets : vector<128xi64> -> vector<128xi32>
  tile.store %words, %out[%start] strides [1] : vector<128xi32>, !tile.ptr<i32>
  tile.return
}
