// RUN: fxc-opt %s --split-input-file --pass-pipeline=outline-forwards | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=outline-forwards,outline-forwards | filecheck %s

/// f with the kernel that it launches, and no other. f and the subgraph stay.
// CHECK:       func.func private @f(
// CHECK:         autodiff.subgraph @f(%x)
// CHECK:         builtin.module @f_forward attributes {autodiff.implements = @f} {
// CHECK-NEXT:      tile.kernel @kernel(
// CHECK-NOT:       tile.kernel @other(
// CHECK:           func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
// CHECK-NEXT:        %u = tile.launch @kernel(%x)
tile.kernel @kernel(%p: !tile.ptr<f32> {tile.access = "read"}, %q: !tile.ptr<f32> {tile.access = "write"})
attributes {grid = array<i64: 2>} {
  %i = tile.program_id {axis = 0} : index
  %v = tile.load %p[%i] : !tile.ptr<f32> -> f32
  %r = arith.negf %v : f32
  tile.store %r, %q[%i] : f32, !tile.ptr<f32>
  tile.return
}
tile.kernel @other(%p: !tile.ptr<f32> {tile.access = "read"}, %q: !tile.ptr<f32> {tile.access = "write"})
attributes {grid = array<i64: 2>} {
  %i = tile.program_id {axis = 0} : index
  %v = tile.load %p[%i] : !tile.ptr<f32> -> f32
  %r = arith.negf %v : f32
  tile.store %r, %q[%i] : f32, !tile.ptr<f32>
  tile.return
}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = tile.launch @kernel(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}
func.func private @f_df(%d_u: tensor<2xf32>) -> tensor<2xf32> {
  func.return %d_u : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0], captured_inputs = [], captured_outputs = [], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}

// -----

/// Of a call in f the function and its kernels.
// CHECK-LABEL: // -----
// CHECK:       builtin.module @f_forward
// CHECK-NEXT:    tile.kernel @kernel(
// CHECK:         tile.kernel @other(
// CHECK:         func.func @main
// CHECK:           func.call @g(
// CHECK:         func.func private @g(
tile.kernel @kernel(%p: !tile.ptr<f32> {tile.access = "read"}, %q: !tile.ptr<f32> {tile.access = "write"})
attributes {grid = array<i64: 2>} {
  %i = tile.program_id {axis = 0} : index
  %v = tile.load %p[%i] : !tile.ptr<f32> -> f32
  %r = arith.negf %v : f32
  tile.store %r, %q[%i] : f32, !tile.ptr<f32>
  tile.return
}
tile.kernel @other(%p: !tile.ptr<f32> {tile.access = "read"}, %q: !tile.ptr<f32> {tile.access = "write"})
attributes {grid = array<i64: 2>} {
  %i = tile.program_id {axis = 0} : index
  %v = tile.load %p[%i] : !tile.ptr<f32> -> f32
  %r = arith.negf %v : f32
  tile.store %r, %q[%i] : f32, !tile.ptr<f32>
  tile.return
}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %t = tile.launch @kernel(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %u = func.call @g(%t) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}
func.func private @g(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = tile.launch @other(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}
func.func private @f_df(%d_u: tensor<2xf32>) -> tensor<2xf32> {
  func.return %d_u : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0], captured_inputs = [], captured_outputs = [], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}

// -----

/// Without a kernel f is a graph of operators.
// CHECK-LABEL: // -----
// CHECK:       func.func @main
// CHECK-NOT:     builtin.module
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = torch.aten.neg.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}
func.func private @f_df(%d_u: tensor<2xf32>) -> tensor<2xf32> {
  func.return %d_u : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0], captured_inputs = [], captured_outputs = [], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}

// -----

/// Autograd looks into what has no derivative yet.
// CHECK-LABEL: // -----
// CHECK:       func.func @main
// CHECK-NOT:     builtin.module
tile.kernel @kernel(%p: !tile.ptr<f32> {tile.access = "read"}, %q: !tile.ptr<f32> {tile.access = "write"})
attributes {grid = array<i64: 2>} {
  %i = tile.program_id {axis = 0} : index
  %v = tile.load %p[%i] : !tile.ptr<f32> -> f32
  %r = arith.negf %v : f32
  tile.store %r, %q[%i] : f32, !tile.ptr<f32>
  tile.return
}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = tile.launch @kernel(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}

// -----

/// A number that f reads is no tensor.
// CHECK-LABEL: // -----
// CHECK:       func.func private @f(
// CHECK-NOT:     builtin.module
tile.kernel @kernel(%p: !tile.ptr<f32> {tile.access = "read"}, %q: !tile.ptr<f32> {tile.access = "write"})
attributes {grid = array<i64: 2>} {
  %i = tile.program_id {axis = 0} : index
  %v = tile.load %p[%i] : !tile.ptr<f32> -> f32
  %r = arith.negf %v : f32
  tile.store %r, %q[%i] : f32, !tile.ptr<f32>
  tile.return
}
func.func private @f(%x: tensor<2xf32>, %n: !torch.int) -> tensor<2xf32> {
  %t = tile.launch @kernel(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %u = torch.aten.mul.Scalar(%t, %n) : (tensor<2xf32>, !torch.int) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}
func.func private @f_df(%d_u: tensor<2xf32>) -> tensor<2xf32> {
  func.return %d_u : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>, %n: !torch.int) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x, %n) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0], captured_inputs = [], captured_outputs = [], output_vjps = [0]>} : (tensor<2xf32>, !torch.int) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}

// -----

/// A number that f does not read is in nobody's way.
// CHECK-LABEL: // -----
// CHECK:       builtin.module @f_forward
tile.kernel @kernel(%p: !tile.ptr<f32> {tile.access = "read"}, %q: !tile.ptr<f32> {tile.access = "write"})
attributes {grid = array<i64: 2>} {
  %i = tile.program_id {axis = 0} : index
  %v = tile.load %p[%i] : !tile.ptr<f32> -> f32
  %r = arith.negf %v : f32
  tile.store %r, %q[%i] : f32, !tile.ptr<f32>
  tile.return
}
func.func private @f(%x: tensor<2xf32>, %n: !torch.int) -> tensor<2xf32> {
  %u = tile.launch @kernel(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}
func.func private @f_df(%d_u: tensor<2xf32>) -> tensor<2xf32> {
  func.return %d_u : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>, %n: !torch.int) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x, %n) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0], captured_inputs = [], captured_outputs = [], output_vjps = [0]>} : (tensor<2xf32>, !torch.int) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}

// -----

/// Nor is a tensor of free sizes one whose memory is known.
// CHECK-LABEL: // -----
// CHECK:       func.func private @f(
// CHECK-NOT:     builtin.module
tile.kernel @kernel(%p: !tile.ptr<f32> {tile.access = "read"}, %q: !tile.ptr<f32> {tile.access = "write"})
attributes {grid = array<i64: 2>} {
  %i = tile.program_id {axis = 0} : index
  %v = tile.load %p[%i] : !tile.ptr<f32> -> f32
  %r = arith.negf %v : f32
  tile.store %r, %q[%i] : f32, !tile.ptr<f32>
  tile.return
}
func.func private @f(%x: tensor<2xf32>, %y: tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<2xf32> {
  %t = tile.launch @kernel(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %s = torch.aten.sum.default(%y) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<f32>
  %u = torch.aten.mul.Tensor(%t, %s) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}
func.func private @f_df(%d_u: tensor<2xf32>) -> tensor<2xf32> {
  func.return %d_u : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>, %y: tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x, %y) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0], captured_inputs = [], captured_outputs = [], output_vjps = [0]>} : (tensor<2xf32>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}
