// RUN: fxc-opt %s --pass-pipeline=torchscript | filecheck %s --check-prefix=GRAD
// RUN: fxc-opt %s --pass-pipeline='torchscript{inline-threshold=20}' | filecheck %s --check-prefix=INLINE
// RUN: fxc-opt %s --pass-pipeline='torchscript{subgraph-threshold=9}' | filecheck %s --check-prefix=FEW
// RUN: fxc-opt %s --pass-pipeline=torchscript --print-ir-after-all -o %t 2>&1 | filecheck %s --check-prefix=STAGES

/// What needs a gradient becomes a function with its derivative; both are simplified, and the function is fused.
// GRAD-LABEL: func.func @main
// GRAD-NEXT:    %e = autodiff.subgraph @subgraph(%x, %b, %w) {gradient = #autodiff.gradient<@subgraph_df, real_outputs = 1
// GRAD-NEXT:    func.return %e
// GRAD-LABEL: func.func private @subgraph(
// GRAD-NEXT:    %c = fusion.group ({
// GRAD-NEXT:      torch.aten.sin.default
// GRAD-NEXT:      torch.aten.cos.default
// GRAD:         torch.aten.mm.default(%c, %w)
// GRAD-NEXT:    fusion.group ({
// GRAD-NEXT:      torch.aten.add.Tensor(%b, %0)
// GRAD-LABEL: func.func private @subgraph_df(
// GRAD-NOT:     fusion.group

/// A subgraph that is put back is autograd's again: what needs no gradient is fused, and nothing else.
// INLINE-LABEL: func.func @main
// INLINE-NEXT:    %c = fusion.group ({
// INLINE-NEXT:      torch.aten.sin.default(%x) {requires_grad = [false]}
// INLINE-NOT:     fusion.group
// INLINE:         torch.aten.mm.default(%c, %w) {requires_grad = [true]}
// INLINE-NOT:     fusion.group
// INLINE:         torch.aten.exp.default(%t) {requires_grad = [true]}
// INLINE-NEXT:    func.return

/// A threshold above the number of ops leaves all to autograd.
// FEW-NOT:       autodiff
// FEW-LABEL:   func.func @main
// FEW-NEXT:      %c = fusion.group ({
// FEW-NOT:       fusion.group
// FEW:           func.return
// FEW-NOT:       autodiff

/// Stage by stage.
// STAGES:      IR Dump After inline
// STAGES:      IR Dump After propagate-requires-grad
// STAGES:      IR Dump After create-autodiff-subgraphs
// STAGES:      IR Dump After differentiate
// STAGES:        autodiff.grad_of
// STAGES:      IR Dump After inline-autodiff-subgraphs
// STAGES:      IR Dump After decompose-ops
// STAGES:      IR Dump After fuse

func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32> {fx.requires_grad}, %b: tensor<8xf32> {fx.requires_grad}) -> tensor<4x8xf32> {
  %s = torch.aten.sin.default(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = torch.aten.cos.default(%s) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = torch.aten.addmm.default(%b, %c, %w) : (tensor<8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %g = torch.aten.sigmoid.default(%m) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %h = torch.aten.mul.Tensor(%g, %m) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = torch.aten.tanh.default(%h) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = torch.aten.exp.default(%t) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %e : tensor<4x8xf32>
}
