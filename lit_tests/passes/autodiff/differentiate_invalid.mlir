// RUN: not fxc-opt %s --split-input-file --pass-pipeline=differentiate 2>&1 | filecheck %s

/// Mutation must be gone.
// CHECK: writes to memory: run functionalize before differentiate
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = torch.aten.relu_.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = autodiff.subgraph @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
