// RUN: fxc-opt %s --split-input-file --pass-pipeline=inline-autodiff-subgraphs,dce,symbol-dce | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=inline-autodiff-subgraphs,dce,symbol-dce,inline-autodiff-subgraphs | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline='inline-autodiff-subgraphs{threshold=1}' | filecheck %s --check-prefix=ONE

/// Four ops go back: f and df are gone, and outputs for the derivative with them.
// CHECK-NOT:   private
// CHECK-LABEL: func.func @four
// CHECK-NEXT:    %a = torch.aten.exp.default(%x)
// CHECK-NEXT:    %b = torch.aten.exp.default(%a)
// CHECK-NEXT:    %c = torch.aten.exp.default(%b)
// CHECK-NEXT:    func.return %c
// ONE-LABEL:   func.func @four
// ONE-NEXT:      %c = autodiff.subgraph @f
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %a = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = torch.aten.exp.default(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %c = torch.aten.exp.default(%b) : (tensor<2xf32>) -> tensor<2xf32>
  %t = torch.aten.neg.default(%c) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %c, %t : tensor<2xf32>, tensor<2xf32>
}
func.func private @df(%g: tensor<2xf32>, %t: tensor<2xf32>) -> tensor<2xf32> {
  func.return %g : tensor<2xf32>
}
func.func @four(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@df, real_outputs = 1, input_vjps = [0], captured_inputs = [], captured_outputs = [1], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %c : tensor<2xf32>
}

// -----

/// Five stay. Constants count, nested ops too.
// CHECK-LABEL: func.func @five
// CHECK-NEXT:    autodiff.subgraph @f(%x)
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = torch.aten.exp.default(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %c = torch.aten.exp.default(%b) : (tensor<2xf32>) -> tensor<2xf32>
  %k = torch.constant([1.0, 2.0]) : tensor<2xf32>
  %d = torch.aten.mul.Tensor(%c, %k) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %d : tensor<2xf32>
}
func.func @five(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = autodiff.subgraph @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %c : tensor<2xf32>
}

// -----

/// One with an op that autograd cannot run stays, however small.
// CHECK-LABEL: func.func @not_torch
// CHECK-NEXT:    autodiff.subgraph @f(%x)
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %z = autodiff.zero : tensor<2xf32>
  %a = autodiff.add(%x, %z) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %a : tensor<2xf32>
}
func.func @not_torch(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = autodiff.subgraph @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %c : tensor<2xf32>
}
