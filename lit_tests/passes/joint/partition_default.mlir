// RUN: fxc-opt %s --split-input-file --pass-pipeline=partition-default | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=partition-default,partition-default | filecheck %s

/// What the backward reads and the forward computes is saved, and nothing else.
// CHECK-LABEL: func.func @read_by_the_backward
// CHECK:         torch.aten.sigmoid.default(%x) {autodiff.saved = array<i64: 0>} :
// CHECK:         torch.aten.cos.default(%a) {autodiff.saved = array<i64: 0>} :
// CHECK:         torch.aten.exp.default(%b) :
// CHECK:         torch.aten.mul.Tensor(%d, %b) :
func.func @read_by_the_backward(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %a = torch.aten.sigmoid.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.cos.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch.aten.exp.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.mul.Tensor(%d, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.sigmoid_backward.default(%e, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// What only the backward needs is computed there: the comparison is not saved, its operand is.
// CHECK-LABEL: func.func @only_the_backward
// CHECK:         torch.aten.relu.default(%x) {autodiff.saved = array<i64: 0>} :
// CHECK:         torch.aten.le.Scalar(%y, 0) :
func.func @only_the_backward(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %y = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.le.Scalar(%y, 0) : (tensor<4xf32>) -> tensor<4xi1>
  %g = torch.aten.masked_fill.Scalar(%d, %c, 0) : (tensor<4xf32>, tensor<4xi1>) -> tensor<4xf32>
  fx.output([%y, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Of a tensor of which only a size is read the size is saved; what is computed from sizes is computed again.
// CHECK-LABEL: func.func @size_only
// CHECK:         torch.aten.exp.default(%x) :
// CHECK:         torch.aten.sym_size.int(%t, 0) {autodiff.saved = array<i64: 0>} :
// CHECK:         fx.call_function @operator.mul(%n, 2) :
func.func @size_only(%x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>, %d: tensor<f32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %t = torch.aten.exp.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %y = torch.aten.sum.default(%t) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<f32>
  %n = torch.aten.sym_size.int(%t, 0) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> !torch.int<"s0">
  %m = fx.call_function @operator.mul(%n, 2) : (!torch.int<"s0">) -> !torch.int<"2*s0">
  %e = torch.aten.mul.Scalar(%d, %m) : (tensor<f32>, !torch.int<"2*s0">) -> tensor<f32>
  %g = torch.aten.expand.default(%e, [%n]) : (tensor<f32>, !torch.int<"s0">) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  fx.output([%y, %g]) : (tensor<f32>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> ()
}

// -----

/// A marked operation is computed again; what it reads is saved. A mark of one result of several stays.
// CHECK-LABEL: func.func @marks
// CHECK:         torch.aten.mm.default(%x, %w) {autodiff.saved = array<i64: 0>} :
// CHECK:         torch.aten.tanh.default(%h) {autodiff.recomputed} :
// CHECK:         torch.aten.native_layer_norm.default(%t, [4], none, none, 0.1) {autodiff.saved = array<i64: 1, 2>} :
func.func @marks(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %d: tensor<4x4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %h = torch.aten.mm.default(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = torch.aten.tanh.default(%h) {autodiff.recomputed} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y, %mean, %rstd = torch.aten.native_layer_norm.default(%t, [4], none, none, 0.1) {autodiff.saved = array<i64: 2>} : (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  %a = torch.aten.mul.Tensor(%d, %t) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = torch.aten.mul.Tensor(%a, %mean) : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  %g = torch.aten.mul.Tensor(%b, %rstd) : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  fx.output([%y, %g, none]) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}

// -----

/// Random numbers are saved, unless the user marks them as computed again.
// CHECK-LABEL: func.func @random
// CHECK:         torch.aten.rand_like.default(%x) {autodiff.saved = array<i64: 0>} :
// CHECK:         torch.aten.rand_like.default(%y) {autodiff.recomputed} :
func.func @random(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %r = torch.aten.rand_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch.aten.mul.Tensor(%x, %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.rand_like.default(%y) {autodiff.recomputed} : (tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.mul.Tensor(%y, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.mul.Tensor(%d, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.mul.Tensor(%e, %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%z, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// An operation with an effect runs once, marked or not.
// CHECK-LABEL: func.func @effect
// CHECK:         torch._c10d_functional.all_reduce.default(%x, "sum", "0") {autodiff.recomputed, autodiff.saved = array<i64: 0>} :
func.func @effect(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %r = torch._c10d_functional.all_reduce.default(%x, "sum", "0") {autodiff.recomputed} : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch.aten.exp.default(%r) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.mul.Tensor(%d, %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A saved value may be a gradient itself; constants are in both parts.
// CHECK-LABEL: func.func @returned_as_a_gradient
// CHECK:         torch.aten.exp.default(%x) {autodiff.saved = array<i64: 0>} :
// CHECK:         torch.constant(2.0)
// CHECK-NOT:     autodiff.saved
func.func @returned_as_a_gradient(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.constant(2.0) : !torch.float
  %z = torch.aten.mul.Scalar(%y, %c) : (tensor<4xf32>, !torch.float) -> tensor<4xf32>
  %h = torch.aten.mul.Scalar(%d, %c) : (tensor<4xf32>, !torch.float) -> tensor<4xf32>
  fx.output([%z, %y, %h]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// No joint graph.
// CHECK-LABEL: func.func @plain(
// CHECK-NEXT:    torch.aten.exp.default(%x) :
func.func @plain(%x: tensor<4xf32>) {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%y) : (tensor<4xf32>) -> ()
}
