// RUN: fxc-opt %s --split-input-file -p pack-weights{gain=1.0e30} | filecheck %s
// RUN: fxc-opt %s --split-input-file -p pack-weights{gain=0.0} | filecheck %s --check-prefix=NEVER

// NEVER-NOT: torch.mkl

/// A convolution with the activation behind it: images in channels_last, a copy around it.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    [[P:%[0-9]+]] = torch.mkldnn._reorder_convolution_weight.default(%w, [1, 1], [2, 2], [1, 1], 1, [1, 2, 4, 4])
// CHECK-NEXT:    [[L:%[0-9]+]] = torch.aten.clone.default(%x, memory_format = torch.channels_last)
// CHECK-NEXT:    [[Y:%[0-9]+]] = torch.mkldnn._convolution_pointwise.default([[L]], [[P]], none, [1, 1], [2, 2], [1, 1], 1, "leaky_relu", [0.2], "")
// CHECK-NEXT:    %r = torch.aten.clone.default([[Y]], memory_format = torch.contiguous_format)
// CHECK-NEXT:    fx.output(%r)
func.func @main(%x: tensor<1x2x4x4xf32> {fx.kind = "input"}, %w: tensor<3x2x3x3xf32> {fx.kind = "parameter", fx.name = "w"}) {
  %c = torch.aten.conv2d.default(%x, %w, none, [2], [1, 1]) : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x2x2xf32>
  %r = torch.aten.leaky_relu.default(%c, 0.2) : (tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32>
  fx.output(%r) : (tensor<1x3x2x2xf32>) -> ()
}

// -----

/// An image that is added, computed after the convolution, and an activation behind the sum.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %o = torch.aten.neg.default
// CHECK-NEXT:    [[P:%[0-9]+]] = torch.mkldnn._reorder_convolution_weight.default(%w
// CHECK-NEXT:    [[O:%[0-9]+]] = torch.aten.clone.default(%o, memory_format = torch.channels_last)
// CHECK-NEXT:    [[L:%[0-9]+]] = torch.aten.clone.default(%x, memory_format = torch.channels_last)
// CHECK-NEXT:    [[Y:%[0-9]+]] = torch.mkldnn._convolution_pointwise.binary([[L]], [[O]], [[P]], none, [0, 0], [1, 1], [1, 1], 1, "add", none, "relu", [], none)
// CHECK-NEXT:    %r = torch.aten.clone.default([[Y]], memory_format = torch.contiguous_format)
// CHECK-NEXT:    fx.output(%r)
func.func @main(%x: tensor<1x3x4x4xf32> {fx.kind = "input"}, %w: tensor<3x3x1x1xf32> {fx.kind = "parameter", fx.name = "w"}) {
  %c = torch.aten.conv2d.default(%x, %w) : (tensor<1x3x4x4xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32>
  %o = torch.aten.neg.default(%x) : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %s = torch.aten.add.Tensor(%o, %c) : (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %r = torch.aten.relu.default(%s) : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  fx.output(%r) : (tensor<1x3x4x4xf32>) -> ()
}

// -----

/// Not computed with the convolution: the sum of it and itself, with a row, or with a factor.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: torch.mkldnn._convolution_pointwise.default
// CHECK-COUNT-3: torch.aten.add.Tensor
func.func @main(%x: tensor<1x3x4x4xf32> {fx.kind = "input"}, %v: tensor<4xf32> {fx.kind = "input"}, %w: tensor<3x3x1x1xf32> {fx.kind = "parameter", fx.name = "w"}) {
  %1 = torch.aten.conv2d.default(%x, %w) : (tensor<1x3x4x4xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32>
  %2 = torch.aten.conv2d.default(%x, %w) : (tensor<1x3x4x4xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32>
  %3 = torch.aten.conv2d.default(%x, %w) : (tensor<1x3x4x4xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32>
  %a = torch.aten.add.Tensor(%1, %1) : (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %b = torch.aten.add.Tensor(%2, %v) : (tensor<1x3x4x4xf32>, tensor<4xf32>) -> tensor<1x3x4x4xf32>
  %c = torch.aten.add.Tensor(%3, %x, alpha = 2) : (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  fx.output(%a, %b, %c) : (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) -> ()
}

// -----

/// What else reads the product is not given the activation's result.
// CHECK-LABEL: func.func @main
// CHECK:         %c = torch.aten.clone.default
// CHECK-NEXT:    %r = torch.aten.relu.default(%c)
func.func @main(%x: tensor<1x2x4x4xf32> {fx.kind = "input"}, %w: tensor<3x2x3x3xf32> {fx.kind = "parameter", fx.name = "w"}) {
  %c = torch.aten.conv2d.default(%x, %w) : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x2x2xf32>
  %r = torch.aten.relu.default(%c) : (tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32>
  fx.output(%r, %c) : (tensor<1x3x2x2xf32>, tensor<1x3x2x2xf32>) -> ()
}

// -----

/// Products in their three forms, with a weight or its transpose.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-3: torch.mk{{[a-z]+}}._{{[a-z_]*}}reorder_linear_weight.default
// CHECK-NOT:     torch.aten.linear
// CHECK-NOT:     torch.aten.addmm
// CHECK-NOT:     torch.aten.mm.
// CHECK:         fx.output
func.func @main(%x: tensor<5x4xf32> {fx.kind = "input"}, %w: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w"}, %b: tensor<3xf32> {fx.kind = "parameter", fx.name = "b"}, %u: tensor<4x3xf32> {fx.kind = "parameter", fx.name = "u"}) {
  %y = torch.aten.linear.default(%x, %w, %b) : (tensor<5x4xf32>, tensor<3x4xf32>, tensor<3xf32>) -> tensor<5x3xf32>
  %t = torch.aten.t.default(%w) : (tensor<3x4xf32>) -> tensor<4x3xf32, #torch.meta<strides = [1, 4]>>
  %a = torch.aten.addmm.default(%b, %x, %t) : (tensor<3xf32>, tensor<5x4xf32>, tensor<4x3xf32, #torch.meta<strides = [1, 4]>>) -> tensor<5x3xf32>
  %m = torch.aten.mm.default(%x, %u) : (tensor<5x4xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
  fx.output(%y, %a, %m) : (tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>) -> ()
}

// -----

/// Not: weights that are inputs, that change, of other dtypes, sizes that are not known, scaled products, empty ones, and
/// padding in words.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     torch.mk
func.func @main(%x: tensor<5x4xf32> {fx.kind = "input"}, %i: tensor<3x4xf32> {fx.kind = "input"}, %b: tensor<3x4xf32> {fx.kind = "buffer", fx.name = "b"}, %d: tensor<3x4xf64> {fx.kind = "parameter", fx.name = "d"}, %z: tensor<5x4xf64> {fx.kind = "input"}, %w: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w"}, %s: tensor<?x4xf32> {fx.kind = "input"}, %v: tensor<3xf32> {fx.kind = "parameter", fx.name = "v"}, %e: tensor<0x4xf32> {fx.kind = "input"}, %f: tensor<1x2x4x4xf32> {fx.kind = "input"}, %k: tensor<3x2x3x3xf32> {fx.kind = "parameter", fx.name = "k"}) -> (tensor<3x4xf32> {fx.mutates = 2}, tensor<5x3xf32>) {
  %1 = torch.aten.linear.default(%x, %i) : (tensor<5x4xf32>, tensor<3x4xf32>) -> tensor<5x3xf32>
  %2 = torch.aten.linear.default(%x, %b) : (tensor<5x4xf32>, tensor<3x4xf32>) -> tensor<5x3xf32>
  %3 = torch.aten.linear.default(%z, %d) : (tensor<5x4xf64>, tensor<3x4xf64>) -> tensor<5x3xf64>
  %4 = torch.aten.linear.default(%s, %w) : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<?x3xf32>
  %t = torch.aten.t.default(%w) : (tensor<3x4xf32>) -> tensor<4x3xf32, #torch.meta<strides = [1, 4]>>
  %5 = torch.aten.addmm.default(%v, %x, %t, alpha = 2) : (tensor<3xf32>, tensor<5x4xf32>, tensor<4x3xf32, #torch.meta<strides = [1, 4]>>) -> tensor<5x3xf32>
  %6 = torch.aten.linear.default(%e, %w) : (tensor<0x4xf32>, tensor<3x4xf32>) -> tensor<0x3xf32>
  %7 = torch.aten.conv2d.padding(%f, %k, none, [1, 1], "same") : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x4x4xf32>
  %n = torch.aten.neg.default(%b) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  fx.output(%n, %1, %2, %3, %4, %5, %6, %7) : (tensor<3x4xf32>, tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf64>, tensor<?x3xf32>, tensor<5x3xf32>, tensor<0x3xf32>, tensor<1x3x4x4xf32>) -> ()
}

// -----

/// Not in float32, nor behind a sum.
// CHECK-LABEL: func.func @main
// CHECK:         torch.aten.gelu.default
// CHECK:         torch.aten.tanh.default
func.func @main(%x: tensor<5x4xf32> {fx.kind = "input"}, %w: tensor<3x4xf32> {fx.kind = "parameter", fx.name = "w"}, %y: tensor<1x3x4x4xbf16> {fx.kind = "input"}, %k: tensor<3x3x1x1xbf16> {fx.kind = "parameter", fx.name = "k"}) {
  %1 = torch.aten.linear.default(%x, %w) : (tensor<5x4xf32>, tensor<3x4xf32>) -> tensor<5x3xf32>
  %2 = torch.aten.gelu.default(%1) : (tensor<5x3xf32>) -> tensor<5x3xf32>
  %3 = torch.aten.conv2d.default(%y, %k) : (tensor<1x3x4x4xbf16>, tensor<3x3x1x1xbf16>) -> tensor<1x3x4x4xbf16>
  %4 = torch.aten.add.Tensor(%3, %y) : (tensor<1x3x4x4xbf16>, tensor<1x3x4x4xbf16>) -> tensor<1x3x4x4xbf16>
  %5 = torch.aten.tanh.default(%4) : (tensor<1x3x4x4xbf16>) -> tensor<1x3x4x4xbf16>
  fx.output((%2, %5)) : (tensor<5x3xf32>, tensor<1x3x4x4xbf16>) -> ()
}
