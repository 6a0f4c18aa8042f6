// RUN: fxc-opt %s --split-input-file --pass-pipeline=differentiate | filecheck %s --check-prefix=ONCE
// RUN: fxc-opt %s --split-input-file "--pass-pipeline=differentiate{twice=true}" | filecheck %s --check-prefix=TWICE

/// silu has a fused backward, which has no derivative.
// ONCE-LABEL:  func.func private @fused_df
// ONCE-NOT:      autodiff.twice
// ONCE:          torch.aten.silu_backward.default
// TWICE-LABEL: func.func private @fused_df
// TWICE-SAME:    attributes {autodiff.twice}
// TWICE-NOT:     silu_backward
// TWICE:         torch.aten.sigmoid.default
func.func private @fused(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = torch.aten.silu.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) {
  %y = autodiff.subgraph @fused(%x) : (tensor<2xf32>) -> tensor<2xf32>
  fx.output(%y) : (tensor<2xf32>) -> ()
}

// -----

/// A factor that df reads and that has no gradient in the first backward may have one in the second.
// ONCE-LABEL:  func.func @main
// ONCE:          input_vjps = [0], captured_inputs = [], captured_outputs = [1, 2]
// TWICE-LABEL: func.func @main
// TWICE:         input_vjps = [0, 1, 2], captured_inputs = [], captured_outputs = [1, 0, 2]
func.func private @factors(%x: tensor<3x3xf32>) -> tensor<3xf32> {
  %u, %s, %v = torch.aten._linalg_svd.default(%x) : (tensor<3x3xf32>) -> (tensor<3x3xf32, #torch.meta<strides = [1, 3]>>, tensor<3xf32>, tensor<3x3xf32>)
  func.return %s : tensor<3xf32>
}
func.func @main(%x: tensor<3x3xf32>) {
  %s = autodiff.subgraph @factors(%x) : (tensor<3x3xf32>) -> tensor<3xf32>
  fx.output(%s) : (tensor<3xf32>) -> ()
}

// -----

/// An input that is only compared has no gradient, whatever comes in.
// ONCE-LABEL:  func.func private @compared
// ONCE-SAME:     attributes {autodiff.unreached = [0 : i64]}
// TWICE-LABEL: func.func private @compared
// TWICE-SAME:    attributes {autodiff.unreached = [0 : i64]}
func.func private @compared(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %p = torch.aten.gt.Scalar(%x, 0) : (tensor<2xf32>) -> tensor<2xi1>
  %z = torch.aten.mul.Tensor(%y, %p) : (tensor<2xf32>, tensor<2xi1>) -> tensor<2xf32>
  func.return %z : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) {
  %z = autodiff.subgraph @compared(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  fx.output(%z) : (tensor<2xf32>) -> ()
}
