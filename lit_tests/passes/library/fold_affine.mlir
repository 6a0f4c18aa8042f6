// RUN: fxc-opt %s --split-input-file -p fold-affine | filecheck %s
// RUN: fxc-opt %s --split-input-file -p fold-affine,fold-affine,freeze-parameters,dce | filecheck %s --check-prefix=FROZEN

/// One number per channel of images, at the position of the channels; the bias is changed like the result.
// CHECK-LABEL: func.func @convolution
// CHECK-NEXT:    [[K:%[0-9a-z]+]] = torch.aten.view.default(%k, [3])
// CHECK-NEXT:    [[V:%[0-9a-z]+]] = torch.aten.view.default([[K]], [3, 1, 1, 1])
// CHECK-NEXT:    [[W:%[0-9a-z]+]] = torch.aten.mul.Tensor(%w, [[V]])
// CHECK-NEXT:    [[B:%[0-9a-z]+]] = torch.aten.mul.Tensor(%b, [[K]])
// CHECK-NEXT:    [[S:%[0-9a-z]+]] = torch.aten.sub.Tensor([[B]], 0.5)
// CHECK-NEXT:    %y = torch.aten.conv2d.default(%x, [[W]], [[S]], [2, 2])
// CHECK-NEXT:    fx.output(%y)
// FROZEN-LABEL: func.func @convolution
// FROZEN-NEXT:    func.call @frozen
// FROZEN-NEXT:    torch.aten.conv2d.default
// FROZEN-NEXT:    fx.output
func.func @convolution(
  %x: tensor<1x2x4x4xf32> {fx.kind = "input"}, %w: tensor<3x2x1x1xf32> {fx.kind = "parameter", fx.name = "w"},
  %b: tensor<3xf32> {fx.kind = "parameter", fx.name = "b"}, %k: tensor<1x3x1x1xf32> {fx.kind = "parameter", fx.name = "k"}
) {
  %c = torch.aten.conv2d.default(%x, %w, %b, [2, 2]) : (tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32>, tensor<3xf32>) -> tensor<1x3x2x2xf32>
  %d = torch.aten.mul.Tensor(%k, %c) : (tensor<1x3x1x1xf32>, tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32>
  %y = torch.aten.sub.Tensor(%d, 0.5) : (tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32>
  fx.output(%y) : (tensor<1x3x2x2xf32>) -> ()
}

// -----

/// The channels of a linear are last; a new bias is the negative of what is subtracted. Constants may be computed later.
// CHECK-LABEL: func.func @linear
// CHECK-NEXT:    %e = torch.aten.exp.default(%k)
// CHECK-NEXT:    [[N:%[0-9a-z]+]] = torch.aten.neg.default(%e)
// CHECK-NEXT:    [[W:%[0-9a-z]+]] = torch.aten.div.Tensor(%w, 2.0)
// CHECK-NEXT:    [[B:%[0-9a-z]+]] = torch.aten.div.Tensor([[N]], 2.0)
// CHECK-NEXT:    %y = torch.aten.linear.default(%x, [[W]], [[B]])
func.func @linear(%x: tensor<2x4xf32> {fx.kind = "input"}, %w: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w"}, %k: tensor<3xf32> {fx.kind = "parameter", fx.name = "k"}) {
  %c = torch.aten.linear.default(%x, %w) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %e = torch.aten.exp.default(%k) : (tensor<3xf32>) -> tensor<3xf32>
  %d = torch.aten.sub.Tensor(%c, %e) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %y = torch.aten.div.Tensor(%d, 2.0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%y) : (tensor<2x3xf32>) -> ()
}

// -----

/// A row of as many elements as there are channels, but along the width; a tensor that varies by pixel.
// CHECK-LABEL: func.func @other_shapes
// CHECK:         torch.aten.add.Tensor(%c, %k)
// CHECK:         torch.aten.mul.Tensor(%d, %m)
func.func @other_shapes(%x: tensor<1x2x3x3xf32> {fx.kind = "input"}, %w: tensor<3x2x1x1xf32> {fx.kind = "parameter", fx.name = "w"}, %v: tensor<3x2x1x1xf32> {fx.kind = "parameter", fx.name = "v"}, %k: tensor<1x3xf32> {fx.kind = "parameter", fx.name = "k"}, %m: tensor<3x3x1xf32> {fx.kind = "parameter", fx.name = "m"}) {
  %c = torch.aten.conv2d.default(%x, %w) : (tensor<1x2x3x3xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x3x3xf32>
  %a = torch.aten.add.Tensor(%c, %k) : (tensor<1x3x3x3xf32>, tensor<1x3xf32>) -> tensor<1x3x3x3xf32>
  %d = torch.aten.conv2d.default(%x, %v) : (tensor<1x2x3x3xf32>, tensor<3x2x1x1xf32>) -> tensor<1x3x3x3xf32>
  %b = torch.aten.mul.Tensor(%d, %m) : (tensor<1x3x3x3xf32>, tensor<3x3x1xf32>) -> tensor<1x3x3x3xf32>
  fx.output(%a, %b) : (tensor<1x3x3x3xf32>, tensor<1x3x3x3xf32>) -> ()
}

// -----

/// An alpha, a reversed difference, a quotient by a tensor, a sum with a number without a bias, zero, a divisor by which weights are infinite.
// CHECK-LABEL: func.func @other_arithmetic
// CHECK-NOT:     torch.aten.view.default
// CHECK:         %e = torch.aten.mul.Tensor(%4, 0.0)
// CHECK:         %f = torch.aten.div.Tensor(%5,
// CHECK:         fx.output
// FROZEN-LABEL: func.func @other_arithmetic
// FROZEN-NOT:     func.call
func.func @other_arithmetic(%x: tensor<2x4xf32> {fx.kind = "input"}, %k: tensor<3xf32> {fx.kind = "parameter", fx.name = "k"}, %w1: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w1"}, %w2: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w2"}, %w3: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w3"}, %w4: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w4"}, %w5: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w5"}, %w6: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w6"}) {
  %1 = torch.aten.linear.default(%x, %w1) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %a = torch.aten.add.Tensor(%1, %k, alpha = 2) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %2 = torch.aten.linear.default(%x, %w2) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %b = torch.aten.sub.Tensor(%k, %2) : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = torch.aten.linear.default(%x, %w3) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %c = torch.aten.div.Tensor(%3, %k) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %4 = torch.aten.linear.default(%x, %w4) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %d = torch.aten.add.Tensor(%4, 1.0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = torch.aten.linear.default(%x, %w5) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %e = torch.aten.mul.Tensor(%5, 0.0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = torch.aten.linear.default(%x, %w6) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %f = torch.aten.div.Tensor(%6, 1.0e-40) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%a, %b, %c, %d, %e, %f) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}

// -----

/// A product with another use, a weight with another use, a factor or a bias that is an input, a result of another shape.
// CHECK-LABEL: func.func @shared
// CHECK-COUNT-5: torch.aten.mul.Tensor(%{{[0-9]+}}, %{{[km]}})
func.func @shared(%x: tensor<2x4xf32> {fx.kind = "input"}, %m: tensor<3xf32> {fx.kind = "input"}, %k: tensor<3xf32> {fx.kind = "parameter", fx.name = "k"}, %w1: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w1"}, %w2: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w2"}, %w3: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w3"}, %w4: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w4"}) {
  %1 = torch.aten.linear.default(%x, %w1) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %a = torch.aten.mul.Tensor(%1, %k) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %2 = torch.aten.linear.default(%x, %w2) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %b = torch.aten.mul.Tensor(%2, %k) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %3 = torch.aten.linear.default(%b, %w3, %k) : (tensor<2x3xf32>, tensor<3x4xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %4 = torch.aten.linear.default(%x, %w2) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %c = torch.aten.mul.Tensor(%4, %k) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %5 = torch.aten.linear.default(%x, %w4) : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
  %d = torch.aten.mul.Tensor(%5, %m) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %6 = torch.aten.linear.default(%x, %w3, %m) : (tensor<2x4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %e = torch.aten.mul.Tensor(%6, %k) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  fx.output(%1, %a, %3, %c, %d, %e) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}

// -----

/// Transposed convolutions have the channels elsewhere; in half precision, weights would be rounded twice.
// CHECK-LABEL: func.func @other_products
// CHECK:         torch.aten.mul.Tensor(%c, 2.0)
// CHECK:         torch.aten.mul.Tensor(%d, 2.0)
func.func @other_products(%x: tensor<1x2x4xf32> {fx.kind = "input"}, %w: tensor<2x3x1xf32> {fx.kind = "parameter", fx.name = "w"}, %z: tensor<2x4xf16> {fx.kind = "input"}, %h: tensor<3x4xf16> {fx.kind = "parameter", fx.name = "h"}) {
  %c = torch.aten.convolution.default(%x, %w, none, [1], [0], [1], true, [0], 1) : (tensor<1x2x4xf32>, tensor<2x3x1xf32>) -> tensor<1x3x4xf32>
  %a = torch.aten.mul.Tensor(%c, 2.0) : (tensor<1x3x4xf32>) -> tensor<1x3x4xf32>
  %d = torch.aten.linear.default(%z, %h) : (tensor<2x4xf16>, tensor<3x4xf16>) -> tensor<2x3xf16>
  %b = torch.aten.mul.Tensor(%d, 2.0) : (tensor<2x3xf16>) -> tensor<2x3xf16>
  fx.output(%a, %b) : (tensor<1x3x4xf32>, tensor<2x3xf16>) -> ()
}
