// RUN: fxc-opt %s --split-input-file --verify-diagnostics

func.func @kind(%x: tensor<8xf32>, %i: tensor<8xi64>, %z: tensor<5xf32>) {
  // expected-error@+1 {{tile.accumulate: the kind must be one of add, max, min, not "mul"}}
  %r = tile.accumulate "mul" %x at %i into %z : tensor<8xf32>, tensor<8xi64>, tensor<5xf32> -> tensor<5xf32>
  func.return
}

// -----

func.func @places(%x: tensor<8xf32>, %i: tensor<7xi64>, %z: tensor<5xf32>) {
  // expected-error@+1 {{tile.accumulate: each update has a position, an i64}}
  %r = tile.accumulate "add" %x at %i into %z : tensor<8xf32>, tensor<7xi64>, tensor<5xf32> -> tensor<5xf32>
  func.return
}

// -----

func.func @elements(%x: tensor<8xf32>, %i: tensor<8xi64>, %z: tensor<5xf64>) {
  // expected-error@+1 {{tile.accumulate: updates, the start and the result have one element type}}
  %r = tile.accumulate "add" %x at %i into %z : tensor<8xf32>, tensor<8xi64>, tensor<5xf64> -> tensor<5xf64>
  func.return
}

// -----

func.func @floats(%x: tensor<8xf32>, %i: tensor<8xi64>, %z: tensor<5xf32>) {
  // expected-error@+1 {{tile.accumulate: no memory combines f32 by "max"; combine in i32 or i64}}
  %r = tile.accumulate "max" %x at %i into %z : tensor<8xf32>, tensor<8xi64>, tensor<5xf32> -> tensor<5xf32>
  func.return
}

// -----

func.func @bytes(%x: tensor<8xi8>, %i: tensor<8xi64>, %z: tensor<5xi8>) {
  // expected-error@+1 {{tile.accumulate: no memory combines i8 by "add"; combine in i32 or i64}}
  %r = tile.accumulate "add" %x at %i into %z : tensor<8xi8>, tensor<8xi64>, tensor<5xi8> -> tensor<5xi8>
  func.return
}

// -----

tile.kernel @atomic(%out: !tile.ptr<f32> {tile.access = "readwrite"}) attributes {grid = array<i64: 1>} {
  %v = arith.constant dense<3.0> : vector<8xf32>
  %o = tile.iota {dim = 0} : vector<8xi64>
  // expected-error@+1 {{tile.atomic_max: i32 or i64 are compared in memory, as signed numbers, not vector<8xf32>}}
  tile.atomic_max %v, %out[%o] : vector<8xf32>, !tile.ptr<f32>
  tile.return
}
