// RUN: fxc-opt %s --split-input-file --pass-pipeline=merge-kernels | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=merge-kernels,merge-kernels | filecheck %s

/// Equal kernels become the first one, for launches of both kinds; a launch says what it computes where that is another thing.
// CHECK-LABEL: builtin.module
// CHECK:         tile.kernel @first
// CHECK-NOT:     tile.kernel
// CHECK:         tile.launch @first(%x) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK:         plan.launch @first(%x) outs(%y) {tile.source = ["b = aten.neg"]}
// CHECK:         plan.launch @first(%x) outs(%y) : (
tile.kernel @first(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"})
attributes {grid = array<i64: 4>, tile.source = ["a = aten.neg"]} {
  %i = tile.program_id {axis = 0} : index
  %v = tile.load %x[%i] : !tile.ptr<f32> -> f32
  %r = arith.negf %v : f32
  tile.store %r, %y[%i] : f32, !tile.ptr<f32>
  tile.return
}
tile.kernel @second(%a: !tile.ptr<f32> {tile.access = "read"}, %b: !tile.ptr<f32> {tile.access = "write"})
attributes {grid = array<i64: 4>, tile.source = ["b = aten.neg"]} {
  %p = tile.program_id {axis = 0} : index
  %q = tile.load %a[%p] : !tile.ptr<f32> -> f32
  %s = arith.negf %q : f32
  tile.store %s, %b[%p] : f32, !tile.ptr<f32>
  tile.return
}
tile.kernel @third(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"})
attributes {grid = array<i64: 4>, tile.source = ["a = aten.neg"]} {
  %i = tile.program_id {axis = 0} : index
  %v = tile.load %x[%i] : !tile.ptr<f32> -> f32
  %r = arith.negf %v : f32
  tile.store %r, %y[%i] : f32, !tile.ptr<f32>
  tile.return
}
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %r = tile.launch @first(%x) : (tensor<4xf32>) -> tensor<4xf32>
  plan.launch @second(%x) outs(%y) : (tensor<4xf32>) outs(tensor<4xf32>)
  plan.launch @third(%x) outs(%y) : (tensor<4xf32>) outs(tensor<4xf32>)
  func.return %r : tensor<4xf32>
}

// -----

/// Another grid, another attribute of an argument, another op, another constant: each is a kernel of its own.
// CHECK-LABEL: builtin.module
// CHECK:         tile.kernel @one
// CHECK:         tile.kernel @grid
// CHECK:         tile.kernel @place
// CHECK:         tile.kernel @op
// CHECK:         tile.kernel @constant
tile.kernel @one(%y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 4>} {
  %i = tile.program_id {axis = 0} : index
  %c = arith.constant 1.0 : f32
  %r = arith.negf %c : f32
  tile.store %r, %y[%i] : f32, !tile.ptr<f32>
  tile.return
}
tile.kernel @grid(%y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 3>} {
  %i = tile.program_id {axis = 0} : index
  %c = arith.constant 1.0 : f32
  %r = arith.negf %c : f32
  tile.store %r, %y[%i] : f32, !tile.ptr<f32>
  tile.return
}
tile.kernel @place(%y: !tile.ptr<f32> {tile.access = "write", tile.in_place}) attributes {grid = array<i64: 4>} {
  %i = tile.program_id {axis = 0} : index
  %c = arith.constant 1.0 : f32
  %r = arith.negf %c : f32
  tile.store %r, %y[%i] : f32, !tile.ptr<f32>
  tile.return
}
tile.kernel @op(%y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 4>} {
  %i = tile.program_id {axis = 0} : index
  %c = arith.constant 1.0 : f32
  %r = math.exp %c : f32
  tile.store %r, %y[%i] : f32, !tile.ptr<f32>
  tile.return
}
tile.kernel @constant(%y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 4>} {
  %i = tile.program_id {axis = 0} : index
  %c = arith.constant 2.0 : f32
  %r = arith.negf %c : f32
  tile.store %r, %y[%i] : f32, !tile.ptr<f32>
  tile.return
}

// -----

/// A module inside this one has kernels of its own.
// CHECK-LABEL: builtin.module @inside
// CHECK:         plan.launch @second() outs(%x)
tile.kernel @first(%x: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 4>} {
  tile.return
}
tile.kernel @second(%y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 4>} {
  tile.return
}
builtin.module @inside {
  tile.kernel @second(%y: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 4>} {
    tile.return
  }
  func.func @main(%x: tensor<4xf32>) {
    plan.launch @second() outs(%x) : () outs(tensor<4xf32>)
    func.return
  }
}
