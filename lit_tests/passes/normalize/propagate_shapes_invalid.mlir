// RUN: fxc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=propagate-shapes

/// A type that was stale hid a call that cannot be made.
func.func @changed(%x: tensor<2x3xf32>, %y: tensor<5x2xf32>) {
  %a = torch.aten.cat.default([%x, %x], 1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x5xf32>
  // expected-error@+1 {{the types of the operands changed, and the call is not possible: torch.aten.mm.default cannot take these operands}}
  %b = torch.aten.mm.default(%a, %y) : (tensor<2x5xf32>, tensor<5x2xf32>) -> tensor<2x2xf32>
  fx.output(%b) : (tensor<2x2xf32>) -> ()
}

// -----

/// Two calls of a public function, whose types stay as they are.
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  func.return %x : tensor<?xf32>
}
func.func @main(%x: tensor<4xf32>, %y: tensor<?xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<?xf32>
  // expected-error@+1 {{the types that @f takes are not those passed any more: inline it}}
  %b = func.call @f(%a) : (tensor<?xf32>) -> tensor<?xf32>
  %c = func.call @f(%y) : (tensor<?xf32>) -> tensor<?xf32>
  fx.output((%b, %c)) : (tensor<?xf32>, tensor<?xf32>) -> ()
}
