// RUN: not fxc-opt %s --split-input-file --emit=triton 2>&1 | filecheck %s

// CHECK:      error: Triton has only blocks with sizes that are powers of two, not vector<12xf32>
// CHECK-NEXT:   at: "load"
// CHECK-NEXT:   op: %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<12xf32>
// CHECK-NEXT:   hint: give the kernel blocks with sizes that are powers of two, and mask what is beyond
tile.kernel @odd(%x: !tile.ptr<f32> {tile.access = "read"}) attributes {grid = array<i64: 1>} {
  %zero = arith.constant 0 : index
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<12xf32> loc("load")
  tile.return
}

// -----

// CHECK:      error: Triton has nothing for tile.math "digamma"
// CHECK-NEXT:   at: in @function
// CHECK-NEXT:   op: {{.*}} = tile.math "digamma" {{.*}} : vector<8xf32>
// CHECK-NEXT:   hint: leave what needs it to the library
tile.kernel @function(%x: !tile.ptr<f32> {tile.access = "read"}) attributes {grid = array<i64: 1>} {
  %zero = arith.constant 0 : index
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<8xf32>
  %y = tile.math "digamma" %v : vector<8xf32>
  tile.return
}

// -----

// CHECK:      error: a block with different constants in its lanes cannot be written in Triton
// CHECK-NEXT:   at: in @constants
// CHECK-NEXT:   op: {{.*}} = arith.addf
tile.kernel @constants(%x: !tile.ptr<f32> {tile.access = "read"}) attributes {grid = array<i64: 1>} {
  %zero = arith.constant 0 : index
  %c = arith.constant dense<[1.0, 2.0]> : vector<2xf32>
  %v = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<2xf32>
  %y = arith.addf %v, %c : vector<2xf32>
  tile.return
}

// -----

// CHECK:      error: the module has no tile.kernel to print
// CHECK-NEXT:   hint: run the passes that make kernels first
func.func @none() {
  func.return
}
