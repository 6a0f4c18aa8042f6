// RUN: fxc-opt %s --split-input-file -p release-arguments | filecheck %s
// RUN: fxc-opt %s --split-input-file -p release-arguments,release-arguments | filecheck %s

/// %a ends with both calls; it is released with its last view. %x is an argument of the caller, and %w is read later.
// CHECK-LABEL: func.func private @f(%a: tensor<4xf32>, %x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<2x2xf32> attributes {plan.boxed}
// CHECK-NEXT:    %v = torch.aten.view.default(%a, [2, 2])
// CHECK-NEXT:    plan.free %a : tensor<4xf32>
// CHECK-NEXT:    %m = torch.aten.relu.default(%v)
// CHECK-NEXT:    plan.free %v
// CHECK-NEXT:    torch.aten.add.Tensor(%x, %w)
// CHECK-NOT:     plan.free
// CHECK:         func.return
func.func private @f(%a: tensor<4xf32>, %x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<2x2xf32> {
  %v = torch.aten.view.default(%a, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %m = torch.aten.relu.default(%v) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  plan.free %v : tensor<2x2xf32>
  %s = torch.aten.add.Tensor(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %m : tensor<2x2xf32>
}
func.func @main(%x: tensor<4xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %a = torch.aten.sin.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.cos.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = func.call @f(%a, %x, %w) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x2xf32>
  plan.free %a : tensor<4xf32>
  %b = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = func.call @f(%b, %x, %w) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x2xf32>
  plan.free %b, %w : tensor<4xf32>, tensor<4xf32>
  fx.output((%c, %d)) : (tensor<2x2xf32>, tensor<2x2xf32>) -> ()
}

// -----

/// Not: a function of another program, one that runs when the plan is made, and one without an operand that ends.
// CHECK-NOT: plan.boxed
func.func @open(%a: tensor<4xf32>) -> tensor<4xf32> {
  %m = plan.alloc : tensor<4xf32>
  %0 = torch.aten.exp.out(%a, out = %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %m : tensor<4xf32>
}
func.func private @once(%a: tensor<4xf32>) -> tensor<4xf32> {
  %m = plan.alloc : tensor<4xf32>
  %0 = torch.aten.exp.out(%a, out = %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %m : tensor<4xf32>
}
func.func private @given(%a: tensor<4xf32>) -> tensor<4xf32> {
  %m = plan.alloc : tensor<4xf32>
  %0 = torch.aten.exp.out(%a, out = %m) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %m : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = torch.aten.sin.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = func.call @open(%a) : (tensor<4xf32>) -> tensor<4xf32>
  plan.free %a : tensor<4xf32>
  %c = func.call @once(%b) {fx.once} : (tensor<4xf32>) -> tensor<4xf32>
  plan.free %b : tensor<4xf32>
  %d = func.call @given(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%c, %d)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}
