// RUN: fxc-opt %s --split-input-file --pass-pipeline="convert-to-plan{static=true}" | filecheck %s

/// Tensors of known sizes and strides; what is not read may be anything.
// CHECK:       func.func @main(%x: tensor<4xf32>, %n: !torch.int)
// CHECK:         plan.free %y
func.func @main(%x: tensor<4xf32>, %n: !torch.int) -> tensor<4xf32> {
  %y = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.neg.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%z) : (tensor<4xf32>) -> ()
}

// -----

/// A number.
// CHECK-LABEL: // -----
// CHECK:       func.func @main
// CHECK-NOT:     plan.
func.func @main(%x: tensor<4xf32>, %n: !torch.int) -> tensor<4xf32> {
  %y = torch.aten.mul.Scalar(%x, %n) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
  %z = torch.aten.neg.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%z) : (tensor<4xf32>) -> ()
}

// -----

/// A free size: what the entry calls stays as it is, too.
// CHECK-LABEL: // -----
// CHECK:       func.func private @f
// CHECK-NOT:     plan.
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.neg.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %y: tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> (tensor<4xf32>, tensor<f32>) {
  %a = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.sum.default(%y) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<f32>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<f32>) -> ()
}
