// RUN: fxc-opt %s --split-input-file -p fold-batch-norm | filecheck %s
// RUN: fxc-opt %s --split-input-file -p fold-batch-norm,fold-batch-norm,freeze-parameters,dce | filecheck %s --check-prefix=FROZEN

/// Scale, shift and bias; the last use of a statistic is not folded into others.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    [[A:%[0-9a-z]+]] = torch.aten.add.Scalar(%v, 1.0e-05)
// CHECK-NEXT:    [[R:%[0-9a-z]+]] = torch.aten.rsqrt.default([[A]])
// CHECK-NEXT:    [[S:%[0-9a-z]+]] = torch.aten.mul.Tensor([[R]], %g)
// CHECK-NEXT:    [[D:%[0-9a-z]+]] = torch.aten.sub.Tensor(%b, %m)
// CHECK-NEXT:    [[V:%[0-9a-z]+]] = torch.aten.view.default([[S]], [3, 1, 1, 1])
// CHECK-NEXT:    [[W:%[0-9a-z]+]] = torch.aten.mul.Tensor(%w, [[V]])
// CHECK-NEXT:    [[E:%[0-9a-z]+]] = torch.aten.mul.Tensor([[D]], [[S]])
// CHECK-NEXT:    [[B:%[0-9a-z]+]] = torch.aten.add.Tensor([[E]], %h)
// CHECK-NEXT:    %y = torch.aten.conv2d.default(%x, [[W]], [[B]], [2, 2])
// CHECK-NEXT:    fx.output(%y)
// FROZEN-LABEL: func.func @main
// FROZEN-NEXT:    func.call @frozen(%v, %g, %b, %m, %w, %h) {fx.once}
// FROZEN-NEXT:    torch.aten.conv2d.default
// FROZEN-NEXT:    fx.output
func.func @main(
  %x: tensor<1x2x4x4xf32> {fx.kind = "input"}, %w: tensor<3x2x1x1xf32> {fx.kind = "parameter", fx.name = "w"},
  %b: tensor<3xf32> {fx.kind = "parameter", fx.name = "b"}, %g: tensor<3xf32> {fx.kind = "parameter", fx.name = "g"},
  %h: tensor<3xf32> {fx.kind = "parameter", fx.name = "h"}, %m: tensor<3xf32> {fx.kind = "buffer", fx.name = "m"},
  %v: tensor<3xf32> {fx.kind = "buffer", fx.name = "v"}
) {
  %c = torch.aten.conv2d.default(%x, %w, %b, [2, 2]) : (tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32>, tensor<3xf32>) -> tensor<1x3x2x2xf32>
  %y = torch.aten.batch_norm.default(%c, %g, %h, %m, %v, false, 0.1, 1.0e-05, true) : (tensor<1x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x3x2x2xf32>
  fx.output(%y) : (tensor<1x3x2x2xf32>) -> ()
}

// -----

/// Not in training mode.
// CHECK-LABEL: func.func @main
// CHECK:         torch.aten.batch_norm.default
func.func @main(%x: tensor<1x2x4xf32> {fx.kind = "input"}, %w: tensor<3x2x1xf32> {fx.kind = "parameter", fx.name = "w"}, %m: tensor<3xf32> {fx.kind = "buffer", fx.name = "m"}, %v: tensor<3xf32> {fx.kind = "buffer", fx.name = "v"}) {
  %c = torch.aten.conv1d.default(%x, %w) : (tensor<1x2x4xf32>, tensor<3x2x1xf32>) -> tensor<1x3x4xf32>
  %y = torch.aten.batch_norm.default(%c, none, none, %m, %v, true, 0.1, 1.0e-05, true) : (tensor<1x3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x3x4xf32>
  fx.output(%y) : (tensor<1x3x4xf32>) -> ()
}

// -----

/// Not where the convolution is read otherwise.
// CHECK-LABEL: func.func @main
// CHECK:         torch.aten._native_batch_norm_legit_no_training.default
func.func @main(%x: tensor<1x2x4xf32> {fx.kind = "input"}, %w: tensor<3x2x1xf32> {fx.kind = "parameter", fx.name = "w"}, %m: tensor<3xf32> {fx.kind = "buffer", fx.name = "m"}, %v: tensor<3xf32> {fx.kind = "buffer", fx.name = "v"}) {
  %c = torch.aten.conv1d.default(%x, %w) : (tensor<1x2x4xf32>, tensor<3x2x1xf32>) -> tensor<1x3x4xf32>
  %y, %s, %t = torch.aten._native_batch_norm_legit_no_training.default(%c, none, none, %m, %v, 0.1, 1.0e-05) : (tensor<1x3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<1x3x4xf32>, tensor<0xf32>, tensor<0xf32>)
  fx.output(%y, %c) : (tensor<1x3x4xf32>, tensor<1x3x4xf32>) -> ()
}

// -----

/// Not in half precision, where weights would be rounded twice; nor with weights that are inputs.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: torch.aten._native_batch_norm_legit_no_training.default
func.func @main(%x: tensor<1x2x4xf16> {fx.kind = "input"}, %w: tensor<3x2x1xf16> {fx.kind = "parameter", fx.name = "w"}, %m: tensor<3xf16> {fx.kind = "buffer", fx.name = "m"}, %v: tensor<3xf16> {fx.kind = "buffer", fx.name = "v"}, %z: tensor<1x2x4xf32> {fx.kind = "input"}, %u: tensor<3x2x1xf32> {fx.kind = "input"}, %n: tensor<3xf32> {fx.kind = "buffer", fx.name = "n"}) {
  %c = torch.aten.conv1d.default(%x, %w) : (tensor<1x2x4xf16>, tensor<3x2x1xf16>) -> tensor<1x3x4xf16>
  %y, %s, %t = torch.aten._native_batch_norm_legit_no_training.default(%c, none, none, %m, %v, 0.1, 1.0e-05) : (tensor<1x3x4xf16>, tensor<3xf16>, tensor<3xf16>) -> (tensor<1x3x4xf16>, tensor<0xf16>, tensor<0xf16>)
  %d = torch.aten.conv1d.default(%z, %u) : (tensor<1x2x4xf32>, tensor<3x2x1xf32>) -> tensor<1x3x4xf32>
  %e, %f, %g = torch.aten._native_batch_norm_legit_no_training.default(%d, none, none, %n, %n, 0.1, 1.0e-05) : (tensor<1x3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<1x3x4xf32>, tensor<0xf32>, tensor<0xf32>)
  fx.output(%y, %e) : (tensor<1x3x4xf16>, tensor<1x3x4xf32>) -> ()
}

// -----

/// Nor transposed convolutions, whose weights have the channels elsewhere.
// CHECK-LABEL: func.func @main
// CHECK:         torch.aten._native_batch_norm_legit_no_training.default
func.func @main(%x: tensor<1x2x4xf32> {fx.kind = "input"}, %w: tensor<2x3x1xf32> {fx.kind = "parameter", fx.name = "w"}, %m: tensor<3xf32> {fx.kind = "buffer", fx.name = "m"}, %v: tensor<3xf32> {fx.kind = "buffer", fx.name = "v"}) {
  %c = torch.aten.convolution.default(%x, %w, none, [1], [0], [1], true, [0], 1) : (tensor<1x2x4xf32>, tensor<2x3x1xf32>) -> tensor<1x3x4xf32>
  %y, %s, %t = torch.aten._native_batch_norm_legit_no_training.default(%c, none, none, %m, %v, 0.1, 1.0e-05) : (tensor<1x3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<1x3x4xf32>, tensor<0xf32>, tensor<0xf32>)
  fx.output(%y) : (tensor<1x3x4xf32>) -> ()
}
