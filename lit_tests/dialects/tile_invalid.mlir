// RUN: fxc-opt %s --split-input-file --verify-diagnostics

tile.kernel @load_element(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.load has type vector<8xf64>, expected vector<8xf32>}}
  %a = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> vector<8xf64>
  tile.return
}

// -----

tile.kernel @load_rank(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.load: 1 strides for a block of rank 2}}
  %a = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> vector<8x2xf32>
  tile.return
}

// -----

tile.kernel @load_mask_alone(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.load: a mask and the value of masked lanes come together}}
  %a = tile.load %x[%i] strides [1], %m : !tile.ptr<f32> -> vector<8xf32>
  tile.return
}

// -----

tile.kernel @load_too_many(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{expected at most 2 operands behind the address}}
  %a = tile.load %x[%i] strides [1], %m, %f, %f : !tile.ptr<f32> -> vector<8xf32>
  tile.return
}

// -----

tile.kernel @load_pointer(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{expected a !tile.ptr, not f32}}
  %a = tile.load %x[%i] strides [1] : f32 -> vector<8xf32>
  tile.return
}

// -----

tile.kernel @load_empty(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{expected a static vector without empty dimensions}}
  %a = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> vector<0xf32>
  tile.return
}

// -----

tile.kernel @gather_offsets(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.gather: offsets has type vector<8xi1>, expected vector<8xi64>}}
  %a = "tile.gather"(%x, %m) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>}> : (!tile.ptr<f32>, vector<8xi1>) -> vector<8xf32>
  tile.return
}

// -----

tile.kernel @load_other(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.load: the value of masked lanes has type f16, expected f32}}
  %a = "tile.load"(%x, %i, %m, %h) <{static_strides = array<i64: 1>, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1>}> : (!tile.ptr<f32>, index, vector<8xi1>, f16) -> vector<8xf32>
  tile.return
}

// -----

tile.kernel @load_mask(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.load: the mask has type vector<8xi64>, expected vector<8xi1>}}
  %a = "tile.load"(%x, %i, %n, %f) <{static_strides = array<i64: 1>, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1>}> : (!tile.ptr<f32>, index, vector<8xi64>, f32) -> vector<8xf32>
  tile.return
}

// -----

tile.kernel @store_element(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.store has type vector<8xi64>, expected vector<8xf32>}}
  tile.store %n, %out[%i] strides [1] : vector<8xi64>, !tile.ptr<f32>
  tile.return
}

// -----

tile.kernel @axis(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.program_id: the grid has no axis 1}}
  %a = tile.program_id {axis = 1} : index
  tile.return
}

// -----

tile.kernel @axis_missing(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.program_id needs {axis = ...}}}
  %a = tile.program_id : index
  tile.return
}

// -----

tile.kernel @iota_type(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.iota: the result has type vector<8xi32>, expected vector<8xi64>}}
  %a = tile.iota {dim = 0} : vector<8xi32>
  tile.return
}

// -----

tile.kernel @iota_dim(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{dims [1] must be ascending dimensions of a block of rank 1}}
  %a = tile.iota {dim = 1} : vector<8xi64>
  tile.return
}

// -----

tile.kernel @mask_type(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.mask: the result has type vector<8xi8>, expected vector<8xi1>}}
  %a = tile.mask %i, %i {dim = 0} : vector<8xi8>
  tile.return
}

// -----

tile.kernel @splat(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.splat: from a number to a block, not from vector<8xf32> to vector<8x8xf32>}}
  %a = tile.splat %v : vector<8xf32> to vector<8x8xf32>
  tile.return
}

// -----

tile.kernel @splat_element(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.splat: the result has type vector<8xf16>, expected vector<8xf32>}}
  %a = tile.splat %f : f32 to vector<8xf16>
  tile.return
}

// -----

tile.kernel @transpose(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.transpose: vector<8x1xf32> permuted by [0, 0] is not vector<8x8xf32>}}
  %a = tile.transpose %u {permutation = [0, 0]} : vector<8x1xf32> to vector<8x8xf32>
  tile.return
}

// -----

tile.kernel @expand(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  // expected-error@+1 {{tile.expand: vector<8xf32> repeated along dimension 1 is not vector<4x8xf32>}}
  %a = tile.expand %v {dim = 1} : vector<8xf32> to vector<4x8xf32>
  tile.return
}

// -----

tile.kernel @cast_kind(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.cast: there is no "cast", but "sitofp", "uitofp"}}
  %a = tile.cast "cast" %n : vector<8xi64> to vector<8xf32>
  tile.return
}

// -----

tile.kernel @cast_types(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.cast: "sitofp" is from integer to float, not from vector<8xf32> to vector<8xf32>}}
  %a = tile.cast "sitofp" %v : vector<8xf32> to vector<8xf32>
  tile.return
}

// -----

tile.kernel @cast_width(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.cast: "trunci" is from integer to narrower integer}}
  %a = tile.cast "trunci" %n : vector<8xi64> to vector<8xi64>
  tile.return
}

// -----

tile.kernel @compare_kind(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.compare: there is no "slt" for vector<8xf32>, but "false", "oeq"}}
  %a = tile.compare "slt" %v, %v : vector<8xf32>
  tile.return
}

// -----

tile.kernel @math(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.math: there is no "tan", but "erfc"}}
  %a = tile.math "tan" %v : vector<8xf32>
  tile.return
}

// -----

tile.kernel @math_count(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.math: "fmod" takes 2 arguments, but got 1}}
  %a = tile.math "fmod" %v : vector<8xf32>
  tile.return
}

// -----

tile.kernel @math_type(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.math: a function of floats, not of vector<8xi64>}}
  %a = tile.math "erfc" %n : vector<8xi64>
  tile.return
}

// -----

tile.kernel @reduce_kind(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.reduce: there is no "mean", but "add", "mul"}}
  %a = tile.reduce "mean" %v {dims = [0]} : vector<8xf32> -> f32
  tile.return
}

// -----

tile.kernel @reduce_bits(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.reduce: "xor" combines integers, not vector<8xf32>}}
  %a = tile.reduce "xor" %v {dims = [0]} : vector<8xf32> -> f32
  tile.return
}

// -----

tile.kernel @reduce_dims(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{dims [1, 0] must be ascending dimensions of a block of rank 2}}
  %a = tile.reduce "add" %u {dims = [1, 0]} : vector<8x1xf32> -> f32
  tile.return
}

// -----

tile.kernel @reduce_result(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.reduce: the result has type f32, expected vector<8xf32>}}
  %a = tile.reduce "add" %u {dims = [1]} : vector<8x1xf32> -> f32
  tile.return
}

// -----

tile.kernel @reduce_number(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.reduce: the operand is a block, not f32}}
  %a = tile.reduce "add" %f {dims = []} : f32 -> f32
  tile.return
}

// -----

tile.kernel @scan(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  // expected-error@+1 {{tile.scan: the result has type f32, expected vector<8xf32>}}
  %a = tile.scan "add" %v {dim = 0} : vector<8xf32> -> f32
  tile.return
}

// -----

tile.kernel @random(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %i: index, %f: f32, %h: f16) attributes {grid = array<i64: 4>} {
  %v = arith.constant dense<1.0> : vector<8xf32>
  %u = arith.constant dense<1.0> : vector<8x1xf32>
  %n = arith.constant dense<1> : vector<8xi64>
  %m = arith.constant dense<true> : vector<8xi1>
  %s = arith.constant 0 : i64
  // expected-error@+1 {{tile.random: the result has type vector<8xi64>, expected vector<8xi32>}}
  %a = tile.random %s, %n : vector<8xi64> -> vector<8xi64>
  tile.return
}

// -----

// expected-error@+1 {{tile.access of argument 0 must be "read", "write" or "readwrite", not ""}}
tile.kernel @access(%x: !tile.ptr<f32>) attributes {grid = array<i64: 1>} {
  tile.return
}

// -----

// expected-error@+1 {{tile.kernel: arguments must be pointers that are read, pointers that are written, scalars}}
tile.kernel @order(%x: !tile.ptr<f32> {tile.access = "write"}, %y: !tile.ptr<f32> {tile.access = "read"}) attributes {grid = array<i64: 1>} {
  tile.return
}

// -----

// expected-error@+1 {{tile.kernel: argument 0 is a pointer or a number, not vector<4xf32>}}
tile.kernel @argument(%x: vector<4xf32>) attributes {grid = array<i64: 1>} {
  tile.return
}

// -----

// expected-error@+1 {{tile.kernel needs attributes {grid = array<i64: ...>}}}
tile.kernel @grid_missing() {
  tile.return
}

// -----

// expected-error@+1 {{tile.kernel: grid [1, 1, 1, 1] must have one to three sizes, none negative}}
tile.kernel @grid() attributes {grid = array<i64: 1, 1, 1, 1>} {
  tile.return
}

// -----

// expected-error@+1 {{!tile.ptr points to one of f16, bf16, f32, f64, i1, i8, i16, i32, i64, ui8, not to complex<f32>}}
tile.kernel @pointee(%x: !tile.ptr<complex<f32>> {tile.access = "read"}) attributes {grid = array<i64: 1>} {
  tile.return
}

// -----

func.func @outside() {
  // expected-error@+1 {{tile.program_id must be in a tile.kernel}}
  %a = tile.program_id {axis = 0} : index
  func.return
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %n: index) attributes {grid = array<i64: 1>} {
  tile.return
}
func.func @none(%x: tensor<4xf32>) {
  // expected-error@+1 {{tile.launch: callee names @other, which does not exist}}
  %y = tile.launch @other(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %n: index) attributes {grid = array<i64: 1>} {
  tile.return
}
func.func @no_kernel(%x: tensor<4xf32>) {
  // expected-error@+1 {{tile.launch: @no_kernel is not a tile.kernel}}
  %y = tile.launch @no_kernel(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %n: index) attributes {grid = array<i64: 1>} {
  tile.return
}
func.func @count(%x: tensor<4xf32>) {
  // expected-error@+1 {{tile.launch: the kernel takes 2 operands and gives 1 results, but there are 1 and 1}}
  %y = tile.launch @k(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %n: index) attributes {grid = array<i64: 1>} {
  tile.return
}
func.func @element(%x: tensor<4xf16>, %n: !torch.int) {
  // expected-error@+1 {{tile.launch: for argument 0, expected a tensor of f32, not tensor<4xf16>}}
  %y = tile.launch @k(%x, %n) : (tensor<4xf16>, !torch.int) -> tensor<4xf32>
  func.return
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 8}, %out: !tile.ptr<f32> {tile.access = "write"}, %n: index) attributes {grid = array<i64: 1>} {
  tile.return
}
func.func @size(%x: tensor<2x3xf32, #torch.meta<strides = [4, 1]>>, %n: !torch.int) {
  // expected-error@+1 {{tile.launch: argument 0 addresses 8 elements, but there are 7 in tensor<2x3xf32, #torch.meta<strides = [4, 1]>>}}
  %y = tile.launch @k(%x, %n) : (tensor<2x3xf32, #torch.meta<strides = [4, 1]>>, !torch.int) -> tensor<4xf32>
  func.return
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}, %n: index) attributes {grid = array<i64: 1>} {
  tile.return
}
func.func @number(%x: tensor<4xf32>) {
  // expected-error@+1 {{tile.launch: argument 2 is a number, not tensor<4xf32>}}
  %y = tile.launch @k(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

tile.kernel @k(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "readwrite"}, %n: index) attributes {grid = array<i64: 1>} {
  tile.return
}
func.func @readwrite(%x: tensor<4xf32>, %n: !torch.int) {
  // expected-error@+1 {{tile.launch: argument 1 is readwrite, and has no tile.init}}
  %y = tile.launch @k(%x, %n) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
  func.return
}

// -----

func.func @dot_sizes(%a: vector<8x4xf32>, %b: vector<8x4xf32>, %c: vector<8x4xf32>) {
  // expected-error@+1 {{tile.dot: vector<8x4xf32> and vector<8x4xf32> have no product}}
  %d = tile.dot %a, %b, %c : vector<8x4xf32>, vector<8x4xf32> -> vector<8x4xf32>
  func.return
}

// -----

func.func @dot_types(%a: vector<8x4xf32>, %b: vector<4x8xf16>, %c: vector<8x8xf32>) {
  // expected-error@+1 {{tile.dot: factors have one type of floats, not vector<8x4xf32> and vector<4x8xf16>}}
  %d = tile.dot %a, %b, %c : vector<8x4xf32>, vector<4x8xf16> -> vector<8x8xf32>
  func.return
}

// -----

func.func @dot_integers(%a: vector<8x4xi32>, %b: vector<4x8xi32>, %c: vector<8x8xf32>) {
  // expected-error@+1 {{tile.dot: factors have one type of floats}}
  %d = tile.dot %a, %b, %c : vector<8x4xi32>, vector<4x8xi32> -> vector<8x8xf32>
  func.return
}

// -----

func.func @dot_half(%a: vector<8x4xf16>, %b: vector<4x8xf16>, %c: vector<8x8xf16>) {
  // expected-error@+1 {{tile.dot: the result is of f32 or f64, not vector<8x8xf16>}}
  %d = tile.dot %a, %b, %c : vector<8x4xf16>, vector<4x8xf16> -> vector<8x8xf16>
  func.return
}

// -----

func.func @dot_shape(%a: vector<8x4xf32>, %b: vector<4x8xf32>, %c: vector<8x4xf32>) {
  // expected-error@+1 {{tile.dot: the result has type vector<8x4xf32>, expected vector<8x8xf32>}}
  %d = tile.dot %a, %b, %c : vector<8x4xf32>, vector<4x8xf32> -> vector<8x4xf32>
  func.return
}
