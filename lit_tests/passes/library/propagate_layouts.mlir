// RUN: fxc-opt %s --split-input-file -p propagate-layouts | filecheck %s
// RUN: fxc-opt %s --split-input-file -p propagate-layouts,propagate-layouts | filecheck %s


/// Between two ops that want channels_last nothing is copied; a bias is read as it is; a number may be read by both.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %a = torch.aten.add.Tensor(%x, %b) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>, tensor<2x1x1xf32>) -> tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>
// CHECK-NEXT:    %r = torch.aten.relu.default(%a)
// CHECK-NEXT:    %s = torch.aten.add.Tensor(%r, %a)
// CHECK-NEXT:    fx.output(%s)
func.func @main(%x: tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>> {fx.kind = "input"}, %b: tensor<2x1x1xf32> {fx.kind = "input"}) {
  %c = torch.aten.clone.default(%x, memory_format = torch.contiguous_format) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> tensor<1x2x3x3xf32>
  %a = torch.aten.add.Tensor(%c, %b) : (tensor<1x2x3x3xf32>, tensor<2x1x1xf32>) -> tensor<1x2x3x3xf32>
  %r = torch.aten.relu.default(%a) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %s = torch.aten.add.Tensor(%r, %a) : (tensor<1x2x3x3xf32>, tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %l = torch.aten.clone.default(%s, memory_format = torch.channels_last) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>
  fx.output(%l) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> ()
}

// -----


/// What is returned keeps its layout; a view reads the copy; a mean over pixels reads the image as it is.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %r = torch.aten.relu.default(%x) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>)
// CHECK-NEXT:    [[B:%[0-9a-z_]+]] = torch.aten.clone.default(%r, memory_format = torch.contiguous_format)
// CHECK-NEXT:    %v = torch.aten.view.default([[B]], [1, 18])
// CHECK-NEXT:    %m = torch.aten.mean.dim(%r, [2, 3])
// CHECK-NEXT:    fx.output([[B]], %v, %m)
func.func @main(%x: tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>> {fx.kind = "input"}) {
  %c = torch.aten.clone.default(%x, memory_format = torch.contiguous_format) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> tensor<1x2x3x3xf32>
  %r = torch.aten.relu.default(%c) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %v = torch.aten.view.default(%r, [1, 18]) : (tensor<1x2x3x3xf32>) -> tensor<1x18xf32>
  %m = torch.aten.mean.dim(%r, [2, 3]) : (tensor<1x2x3x3xf32>) -> tensor<1x2xf32>
  fx.output(%r, %v, %m) : (tensor<1x2x3x3xf32>, tensor<1x18xf32>, tensor<1x2xf32>) -> ()
}

// -----


/// An op that reads images of both layouts stays; so do a draw, whose numbers fall elsewhere, and a function that writes.
// CHECK-LABEL: func.func @both
// CHECK:         torch.aten.add.Tensor(%c, %y) : (tensor<1x2x3x3xf32>, tensor<1x2x3x3xf32>)
func.func @both(%x: tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>> {fx.kind = "input"}, %y: tensor<1x2x3x3xf32> {fx.kind = "input"}) {
  %c = torch.aten.clone.default(%x, memory_format = torch.contiguous_format) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> tensor<1x2x3x3xf32>
  %a = torch.aten.add.Tensor(%c, %y) : (tensor<1x2x3x3xf32>, tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  fx.output(%a) : (tensor<1x2x3x3xf32>) -> ()
}
// CHECK-LABEL: func.func @draw
// CHECK:         torch.aten.bernoulli.default(%c)
func.func @draw(%x: tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>> {fx.kind = "input"}) {
  %c = torch.aten.clone.default(%x, memory_format = torch.contiguous_format) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> tensor<1x2x3x3xf32>
  %a = torch.aten.bernoulli.default(%c) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  fx.output(%a) : (tensor<1x2x3x3xf32>) -> ()
}
// CHECK-LABEL: func.func @write
// CHECK:         torch.aten.relu.default(%c) : (tensor<1x2x3x3xf32>)
func.func @write(%x: tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>> {fx.kind = "input"}) {
  %c = torch.aten.clone.default(%x, memory_format = torch.contiguous_format) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> tensor<1x2x3x3xf32>
  %a = torch.aten.relu.default(%c) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %b = torch.aten.add_.Tensor(%c, 1) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  fx.output(%a) : (tensor<1x2x3x3xf32>) -> ()
}

// -----


/// Nothing changes where that would make more copies: both results are returned as they were.
// CHECK-LABEL: func.func @more
// CHECK-NEXT:    %c = torch.aten.clone.default(%x, memory_format = torch.contiguous_format)
// CHECK-NEXT:    %a = torch.aten.relu.default(%c)
// CHECK-NEXT:    %b = torch.aten.neg.default(%c)
func.func @more(%x: tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>> {fx.kind = "input"}) {
  %c = torch.aten.clone.default(%x, memory_format = torch.contiguous_format) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> tensor<1x2x3x3xf32>
  %a = torch.aten.relu.default(%c) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %b = torch.aten.neg.default(%c) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  fx.output(%a, %b) : (tensor<1x2x3x3xf32>, tensor<1x2x3x3xf32>) -> ()
}

// -----

/// Not: a copy of a copy of an argument that is returned, a second copy of what is returned in channels_last, and an operation
/// that may return its operand.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %c = torch.aten.clone.default(%x, memory_format = torch.contiguous_format)
// CHECK-NEXT:    %l = torch.aten.clone.default(%c, memory_format = torch.channels_last)
// CHECK-NEXT:    %m = torch.aten.clone.default(%y, memory_format = torch.channels_last)
// CHECK-NEXT:    %n = torch.aten.clone.default(%y, memory_format = torch.channels_last)
// CHECK-NEXT:    %d = torch.aten.clone.default(%x, memory_format = torch.contiguous_format)
// CHECK-NEXT:    %o = torch.aten.contiguous.default(%d, memory_format = torch.channels_last)
// CHECK-NEXT:    fx.output(%l, %m, %n, %o)
func.func @main(%x: tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>> {fx.kind = "input"}, %y: tensor<1x2x3x3xf32> {fx.kind = "input"}) {
  %c = torch.aten.clone.default(%x, memory_format = torch.contiguous_format) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> tensor<1x2x3x3xf32>
  %l = torch.aten.clone.default(%c, memory_format = torch.channels_last) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>
  %m = torch.aten.clone.default(%y, memory_format = torch.channels_last) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>
  %n = torch.aten.clone.default(%y, memory_format = torch.channels_last) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>
  %d = torch.aten.clone.default(%x, memory_format = torch.contiguous_format) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> tensor<1x2x3x3xf32>
  %o = torch.aten.contiguous.default(%d, memory_format = torch.channels_last) : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>
  fx.output(%l, %m, %n, %o) : (tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>, tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>, tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>, tensor<1x2x3x3xf32, #torch.meta<strides = [18, 1, 6, 2]>>) -> ()
}
