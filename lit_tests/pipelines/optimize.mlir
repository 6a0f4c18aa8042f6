// RUN: fxc-opt %s --pass-pipeline=optimize | filecheck %s
// RUN: fxc-opt %s --pass-pipeline='optimize{post="cse,func.func(dce)"}' | filecheck %s
// RUN: fxc-opt %s --pass-pipeline=optimize --print-ir-after-all -o %t 2>&1 | filecheck %s --check-prefix=STAGES

/// No gradient is taken, though arguments are marked: all that is pointwise is fused.
// CHECK-LABEL: func.func @main
// CHECK-NOT:   autodiff
// CHECK:         %c = fusion.group ({
// CHECK:         torch.aten.mm.default
// CHECK-NEXT:    %e = fusion.group ({
// CHECK-NOT:     requires_grad = [true]
// CHECK-NOT:   func.func private

/// Nothing of derivatives runs.
// STAGES:      IR Dump After decompose-ops
// STAGES-NOT:  differentiate
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
