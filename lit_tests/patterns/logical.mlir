// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize,canonicalize | filecheck %s

/// not(not(b)), b and b, b == true.
// CHECK-LABEL: func.func @booleans
// CHECK-NEXT:    %z = torch.aten.sin.default(%b)
// CHECK-NEXT:    fx.output
func.func @booleans(%b: tensor<4xi1>) {
  %c = torch.aten.logical_not.default(%b) : (tensor<4xi1>) -> tensor<4xi1>
  %d = torch.aten.logical_not.default(%c) : (tensor<4xi1>) -> tensor<4xi1>
  %e = torch.aten.logical_and.default(%d, %d) : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  %f = torch.aten.eq.Scalar(%e, true) : (tensor<4xi1>) -> tensor<4xi1>
  %g = torch.aten.ne.Scalar(%f, 0) : (tensor<4xi1>) -> tensor<4xi1>
  %h = torch.aten.bitwise_not.default(%g) : (tensor<4xi1>) -> tensor<4xi1>
  %i = torch.aten.bitwise_not.default(%h) : (tensor<4xi1>) -> tensor<4xi1>
  %z = torch.aten.sin.default(%i) : (tensor<4xi1>) -> tensor<4xf32>
  fx.output(%z) : (tensor<4xf32>) -> ()
}

// -----

/// Of integers, logical ops and comparisons make booleans.
// CHECK-LABEL: func.func @integers
// CHECK-NEXT:    torch.aten.logical_not.default
// CHECK-NEXT:    torch.aten.logical_not.default
// CHECK-NEXT:    torch.aten.logical_or.default
// CHECK-NEXT:    torch.aten.eq.Scalar(%i, 1)
// CHECK-NEXT:    torch.aten.eq.Scalar(%b, false)
func.func @integers(%i: tensor<4xi64>, %b: tensor<4xi1>) {
  %c = torch.aten.logical_not.default(%i) : (tensor<4xi64>) -> tensor<4xi1>
  %d = torch.aten.logical_not.default(%c) : (tensor<4xi1>) -> tensor<4xi1>
  %e = torch.aten.logical_or.default(%i, %i) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
  %f = torch.aten.eq.Scalar(%i, 1) : (tensor<4xi64>) -> tensor<4xi1>
  %g = torch.aten.eq.Scalar(%b, false) : (tensor<4xi1>) -> tensor<4xi1>
  %s = torch.aten.stack.default([%d, %e, %f, %g]) : (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) -> tensor<4x4xi1>
  fx.output(%s) : (tensor<4x4xi1>) -> ()
}

// -----

/// A choice between equal things, as long as nothing broadcasts.
// CHECK-LABEL: func.func @choices
// CHECK-NEXT:    %c = torch.aten.where.self(%q, %x, %x)
// CHECK-NEXT:    %d = torch.aten.mul.Tensor(%c, %x)
func.func @choices(%p: tensor<4xi1>, %q: tensor<2x4xi1>, %x: tensor<4xf32>) {
  %a = torch.aten.where.self(%p, %x, %x) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.maximum.default(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.where.self(%q, %x, %x) : (tensor<2x4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %d = torch.aten.mul.Tensor(%c, %b) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  fx.output(%d) : (tensor<2x4xf32>) -> ()
}

// -----

/// The choice is returned and would be the argument itself.
// CHECK-LABEL: func.func @choice_returned
// CHECK:         torch.aten.where.self
// CHECK-NEXT:    torch.aten.bitwise_and.Tensor
func.func @choice_returned(%p: tensor<4xi1>, %x: tensor<4xf32>) {
  %a = torch.aten.where.self(%p, %x, %x) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.bitwise_and.Tensor(%p, %p) : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<4xi1>) -> ()
}
