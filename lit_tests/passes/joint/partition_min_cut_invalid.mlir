// RUN: fxc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=partition-min-cut

/// The mask may not be saved, and its operand, a tuple, cannot be; the random operator does not run again.
func.func @main(%x: tensor<8xf32>, %d: tensor<8xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  // expected-error@+1 {{the backward needs %p: tuple<tensor<8xf32>, tensor<8xi1>>, %m: tensor<8xi1>, which cannot be saved, and the operation may not run again: it is random}}
  %p = torch.aten.native_dropout.default(%x, 0.5, true) : (tensor<8xf32>) -> tuple<tensor<8xf32>, tensor<8xi1>>
  %y = fx.call_function @operator.getitem(%p, 0) : (tuple<tensor<8xf32>, tensor<8xi1>>) -> tensor<8xf32>
  %m = fx.call_function @operator.getitem(%p, 1) {autodiff.recomputed} : (tuple<tensor<8xf32>, tensor<8xi1>>) -> tensor<8xi1>
  %g = torch.aten.native_dropout_backward.default(%d, %m, 2.0) : (tensor<8xf32>, tensor<8xi1>) -> tensor<8xf32>
  fx.output([%y, %g]) : (tensor<8xf32>, tensor<8xf32>) -> ()
}
