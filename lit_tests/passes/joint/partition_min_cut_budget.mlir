// RUN: fxc-opt %s --split-input-file --pass-pipeline=partition-min-cut{budget=1} | filecheck %s --check-prefix=ALL
// RUN: fxc-opt %s --split-input-file --pass-pipeline=partition-min-cut{budget=0.6} | filecheck %s --check-prefix=SOME
// RUN: fxc-opt %s --split-input-file --pass-pipeline=partition-min-cut{budget=0.0} | filecheck %s --check-prefix=NONE
// RUN: fxc-opt %s --split-input-file --pass-pipeline=partition-min-cut{budget=1.5e9} | filecheck %s --check-prefix=ALL
// RUN: fxc-opt %s --split-input-file --pass-pipeline='partition-min-cut{budget="70KiB"}' | filecheck %s --check-prefix=SOME
// RUN: fxc-opt %s --split-input-file --pass-pipeline=partition-min-cut{budget=2} | filecheck %s --check-prefix=NONE

/// Two products of equal sizes. The one that takes less time is computed again first. No budget is too small: the plan with the
/// lowest peak is the least.
// ALL-LABEL:  func.func @main
// ALL:          %a = torch.aten.mm.default({{.*}}) {autodiff.saved = array<i64: 0>}
// ALL-NEXT:     %b = torch.aten.mm.default({{.*}}) {autodiff.saved = array<i64: 0>}
// SOME-LABEL: func.func @main
// SOME:         %a = torch.aten.mm.default({{.*}}) {autodiff.saved = array<i64: 0>}
// SOME-NEXT:    %b = torch.aten.mm.default({{.*}}) {autodiff.recomputed}
// NONE-LABEL: func.func @main
// NONE:         %a = torch.aten.mm.default({{.*}}) {autodiff.recomputed}
// NONE-NEXT:    %b = torch.aten.mm.default({{.*}}) {autodiff.recomputed}
func.func @main(%x: tensor<64x1024xf32> {fx.kind = "buffer", fx.name = "x"}, %u: tensor<1024x64xf32> {fx.kind = "parameter", fx.name = "u"}, %y: tensor<64x8xf32>, %v: tensor<8x64xf32>, %d: tensor<f32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %a = torch.aten.mm.default(%x, %u) : (tensor<64x1024xf32>, tensor<1024x64xf32>) -> tensor<64x64xf32>
  %b = torch.aten.mm.default(%y, %v) : (tensor<64x8xf32>, tensor<8x64xf32>) -> tensor<64x64xf32>
  %s = torch.aten.sin.default(%a) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %t = torch.aten.tanh.default(%b) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %z = torch.aten.mul.Tensor(%s, %t) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %r = torch.aten.sum.default(%z) : (tensor<64x64xf32>) -> tensor<f32>
  %e = torch.aten.mul.Tensor(%d, %a) : (tensor<f32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %f = torch.aten.mul.Tensor(%e, %b) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  fx.output([%r, %f, none, none, none]) : (tensor<f32>, tensor<64x64xf32>) -> ()
}

// -----

/// Neither a random operator nor a saved value is computed again, for any budget.
// ALL-LABEL:  func.func @main
// ALL:          %a = torch.aten.mm.default({{.*}}) {autodiff.saved = array<i64: 0>}
// ALL:          torch.aten.native_dropout.default({{.*}}) {autodiff.saved = array<i64: 1>}
// SOME-LABEL: func.func @main
// SOME:         %a = torch.aten.mm.default({{.*}}) {autodiff.saved = array<i64: 0>}
// SOME:         torch.aten.native_dropout.default({{.*}}) {autodiff.saved = array<i64: 1>}
// NONE-LABEL: func.func @main
// NONE:         %a = torch.aten.mm.default({{.*}}) {autodiff.saved = array<i64: 0>}
// NONE:         torch.aten.native_dropout.default({{.*}}) {autodiff.saved = array<i64: 1>}
func.func @main(%x: tensor<64x64xf32>, %d: tensor<64x64xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %a = torch.aten.mm.default(%x, %x) {autodiff.saved = array<i64: 0>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %y, %m = torch.aten.native_dropout.default(%a, 0.5, true) : (tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xi1>)
  %g = torch.aten.native_dropout_backward.default(%d, %m, 2.0) : (tensor<64x64xf32>, tensor<64x64xi1>) -> tensor<64x64xf32>
  %h = torch.aten.mul.Tensor(%g, %a) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  fx.output([%y, %h]) : (tensor<64x64xf32>, tensor<64x64xf32>) -> ()
}
