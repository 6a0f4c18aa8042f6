// RUN: fxc-opt %s --split-input-file -p "propagate-layouts{convolutions=true}" | filecheck %s
// RUN: fxc-opt %s --split-input-file -p propagate-layouts | filecheck %s --check-prefix=WITHOUT
// WITHOUT-NOT: channels_last


/// Two convolutions and their gradients: the image is copied once, and each weight gradient whose elements would move.
// CHECK-LABEL: func.func @train
// CHECK-NEXT:    [[L:%[0-9]+]] = torch.aten.clone.default(%x, memory_format = torch.channels_last)
// CHECK-NEXT:    %c = torch.aten.convolution.default([[L]], %w, {{.*}} -> tensor<2x4x6x6xf32, #torch.meta<strides = [144, 1, 24, 4]>>
// CHECK-NEXT:    %r = torch.aten.relu.default(%c)
// CHECK-NEXT:    %d = torch.aten.convolution.default(%r, %v
// CHECK-NEXT:    %m = torch.aten.mean.dim(%d, [2, 3], true)
// CHECK-NEXT:    %e = torch.aten.expand.default(%m
// CHECK-NEXT:    %f = torch.aten.mul.Tensor(%e, 2.0)
// CHECK-NEXT:    [[F:%[0-9]+]] = torch.aten.clone.default(%f, memory_format = torch.channels_last)
// CHECK-NEXT:    %g, %h, {{%[0-9]+}} = torch.aten.convolution_backward.default([[F]], %r, %v
// CHECK-NEXT:    [[V:%h_[0-9]+]] = torch.aten.as_strided.default(%h, [8, 4, 1, 1], [4, 1, 1, 1])
// CHECK-NEXT:    %t = torch.aten.threshold_backward.default(%g, %r, 0)
// CHECK-NEXT:    {{%[0-9]+}}, %i, {{%[0-9]+}} = torch.aten.convolution_backward.default(%t, [[L]], %w
// CHECK-NEXT:    [[W:%i_[0-9]+]] = torch.aten.clone.default(%i, memory_format = torch.contiguous_format)
// CHECK-NEXT:    fx.output(%m, [[V]], [[W]])
builtin.module attributes {fxc.target = #target.cpu} {
  func.func @train(%x: tensor<2x3x6x6xf32>, %w: tensor<4x3x3x3xf32>, %v: tensor<8x4x1x1xf32>) {
    %c = torch.aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x6x6xf32>
    %r = torch.aten.relu.default(%c) : (tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
    %d = torch.aten.convolution.default(%r, %v, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x4x6x6xf32>, tensor<8x4x1x1xf32>) -> tensor<2x8x6x6xf32>
    %m = torch.aten.mean.dim(%d, [2, 3], true) : (tensor<2x8x6x6xf32>) -> tensor<2x8x1x1xf32>
    %e = torch.aten.expand.default(%m, [2, 8, 6, 6]) : (tensor<2x8x1x1xf32>) -> tensor<2x8x6x6xf32, #torch.meta<strides = [8, 1, 0, 0]>>
    %f = torch.aten.mul.Tensor(%e, 2.0) : (tensor<2x8x6x6xf32, #torch.meta<strides = [8, 1, 0, 0]>>) -> tensor<2x8x6x6xf32>
    %g, %h, %0 = torch.aten.convolution_backward.default(%f, %r, %v, [0], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [true, true, false]) : (tensor<2x8x6x6xf32>, tensor<2x4x6x6xf32>, tensor<8x4x1x1xf32>) -> (tensor<2x4x6x6xf32>, tensor<8x4x1x1xf32>, !torch.none)
    %t = torch.aten.threshold_backward.default(%g, %r, 0) : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
    %1, %i, %2 = torch.aten.convolution_backward.default(%t, %x, %w, [0], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [false, true, false]) : (tensor<2x4x6x6xf32>, tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> (!torch.none, tensor<4x3x3x3xf32>, !torch.none)
    fx.output(%m, %h, %i) : (tensor<2x8x1x1xf32>, tensor<8x4x1x1xf32>, tensor<4x3x3x3xf32>) -> ()
  }
}

// -----


/// A CPU: not where oneDNN is not called, or where its result may be wrong: windows without a pixel, one column. Groups gain.
// CHECK-LABEL: func.func @grouped_channel
// CHECK-COUNT-2: torch.aten.clone.default
// CHECK-LABEL: func.func @half
// CHECK-COUNT-2: torch.aten.clone.default
// CHECK-LABEL: func.func @double
// CHECK-NOT: torch.aten.clone
// CHECK-LABEL: func.func @transposed
// CHECK-NOT: torch.aten.clone
// CHECK-LABEL: func.func @padded
// CHECK-NOT: torch.aten.clone
// CHECK-LABEL: func.func @outside
// CHECK-NOT: torch.aten.clone
// CHECK-LABEL: func.func @column
// CHECK-NOT: torch.aten.clone
// CHECK-LABEL: func.func @elsewhere
// CHECK-NOT: torch.aten.clone
builtin.module attributes {fxc.target = #target.cpu} {
  func.func @grouped_channel(%x: tensor<2x8x6x6xf32>, %w: tensor<8x4x3x3xf32>, %v: tensor<8x4x3x3xf32>) {
    %c = torch.aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 2) : (tensor<2x8x6x6xf32>, tensor<8x4x3x3xf32>) -> tensor<2x8x6x6xf32>
    %r = torch.aten.relu.default(%c) : (tensor<2x8x6x6xf32>) -> tensor<2x8x6x6xf32>
    %d = torch.aten.convolution.default(%r, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 2) : (tensor<2x8x6x6xf32>, tensor<8x4x3x3xf32>) -> tensor<2x8x6x6xf32>
    fx.output(%d) : (tensor<2x8x6x6xf32>) -> ()
  }
  func.func @half(%x: tensor<2x8x6x6xbf16>, %w: tensor<8x8x3x3xbf16>, %v: tensor<8x8x3x3xbf16>) {
    %c = torch.aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xbf16>, tensor<8x8x3x3xbf16>) -> tensor<2x8x6x6xbf16>
    %r = torch.aten.relu.default(%c) : (tensor<2x8x6x6xbf16>) -> tensor<2x8x6x6xbf16>
    %d = torch.aten.convolution.default(%r, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xbf16>, tensor<8x8x3x3xbf16>) -> tensor<2x8x6x6xbf16>
    fx.output(%d) : (tensor<2x8x6x6xbf16>) -> ()
  }
  func.func @double(%x: tensor<2x8x6x6xf64>, %w: tensor<8x8x3x3xf64>, %v: tensor<8x8x3x3xf64>) {
    %c = torch.aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf64>, tensor<8x8x3x3xf64>) -> tensor<2x8x6x6xf64>
    %r = torch.aten.relu.default(%c) : (tensor<2x8x6x6xf64>) -> tensor<2x8x6x6xf64>
    %d = torch.aten.convolution.default(%r, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf64>, tensor<8x8x3x3xf64>) -> tensor<2x8x6x6xf64>
    fx.output(%d) : (tensor<2x8x6x6xf64>) -> ()
  }
  func.func @transposed(%x: tensor<2x8x6x6xf32>, %w: tensor<8x8x3x3xf32>, %v: tensor<8x8x3x3xf32>) {
    %c = torch.aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], true, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
    %r = torch.aten.relu.default(%c) : (tensor<2x8x6x6xf32>) -> tensor<2x8x6x6xf32>
    %d = torch.aten.convolution.default(%r, %v, none, [1, 1], [1, 1], [1, 1], true, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
    fx.output(%d) : (tensor<2x8x6x6xf32>) -> ()
  }
  func.func @padded(%x: tensor<2x8x6x6xf32>, %w: tensor<8x8x1x1xf32>, %v: tensor<8x8x1x1xf32>) {
    %c = torch.aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x1x1xf32>) -> tensor<2x8x8x8xf32>
    %r = torch.aten.relu.default(%c) : (tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
    %d = torch.aten.convolution.default(%r, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x8x8xf32>, tensor<8x8x1x1xf32>) -> tensor<2x8x10x10xf32>
    fx.output(%d) : (tensor<2x8x10x10xf32>) -> ()
  }
  func.func @outside(%x: tensor<2x8x2x2xf32>, %w: tensor<8x8x3x3xf32>, %v: tensor<8x8x3x3xf32>) {
    %c = torch.aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x2x2xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x2x2xf32>
    %r = torch.aten.relu.default(%c) : (tensor<2x8x2x2xf32>) -> tensor<2x8x2x2xf32>
    %d = torch.aten.convolution.default(%r, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x2x2xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x2x2xf32>
    fx.output(%d) : (tensor<2x8x2x2xf32>) -> ()
  }
  func.func @column(%x: tensor<2x8x6x3xf32>, %w: tensor<8x8x3x3xf32>, %v: tensor<8x8x3x1xf32>) {
    %c = torch.aten.convolution.default(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x3xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x4x1xf32>
    %r = torch.aten.relu.default(%c) : (tensor<2x8x4x1xf32>) -> tensor<2x8x4x1xf32>
    %d = torch.aten.convolution.default(%r, %v, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (tensor<2x8x4x1xf32>, tensor<8x8x3x1xf32>) -> tensor<2x8x2x1xf32>
    fx.output(%d) : (tensor<2x8x2x1xf32>) -> ()
  }
  func.func @elsewhere(%x: tensor<2x8x6x6xf32, #torch.meta<device = "cuda:0">>, %w: tensor<8x8x3x3xf32, #torch.meta<device = "cuda:0">>, %v: tensor<8x8x3x3xf32, #torch.meta<device = "cuda:0">>) {
    %c = torch.aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32, #torch.meta<device = "cuda:0">>, tensor<8x8x3x3xf32, #torch.meta<device = "cuda:0">>) -> tensor<2x8x6x6xf32, #torch.meta<device = "cuda:0">>
    %r = torch.aten.relu.default(%c) : (tensor<2x8x6x6xf32, #torch.meta<device = "cuda:0">>) -> tensor<2x8x6x6xf32, #torch.meta<device = "cuda:0">>
    %d = torch.aten.convolution.default(%r, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32, #torch.meta<device = "cuda:0">>, tensor<8x8x3x3xf32, #torch.meta<device = "cuda:0">>) -> tensor<2x8x6x6xf32, #torch.meta<device = "cuda:0">>
    fx.output(%d) : (tensor<2x8x6x6xf32, #torch.meta<device = "cuda:0">>) -> ()
  }
}

// -----


/// One copy by convolution is worth it, more are not; free numbers of images are, free sizes of images stay.
// CHECK-LABEL: func.func @alone
// CHECK-NOT:     torch.aten.clone
// CHECK-LABEL: func.func @batch
// CHECK-COUNT-2: torch.aten.clone.default
// CHECK-LABEL: func.func @free
// CHECK-NOT:     torch.aten.clone
builtin.module attributes {fxc.target = #target.cpu} {
  func.func @alone(%x: tensor<2x8x6x6xf32>, %w: tensor<8x8x3x3xf32>) {
    %c = torch.aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x6x6xf32>
    fx.output(%c) : (tensor<2x8x6x6xf32>) -> ()
  }
  func.func @batch(%x: tensor<?x8x6x6xf32, #torch.meta<sizes = ["s0", 8, 6, 6]>>, %w: tensor<8x8x3x3xf32>, %v: tensor<8x8x3x3xf32>) {
    %c = torch.aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<?x8x6x6xf32, #torch.meta<sizes = ["s0", 8, 6, 6]>>, tensor<8x8x3x3xf32>) -> tensor<?x8x6x6xf32, #torch.meta<sizes = ["s0", 8, 6, 6]>>
    %r = torch.aten.relu.default(%c) : (tensor<?x8x6x6xf32, #torch.meta<sizes = ["s0", 8, 6, 6]>>) -> tensor<?x8x6x6xf32, #torch.meta<sizes = ["s0", 8, 6, 6]>>
    %d = torch.aten.convolution.default(%r, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<?x8x6x6xf32, #torch.meta<sizes = ["s0", 8, 6, 6]>>, tensor<8x8x3x3xf32>) -> tensor<?x8x6x6xf32, #torch.meta<sizes = ["s0", 8, 6, 6]>>
    fx.output(%d) : (tensor<?x8x6x6xf32, #torch.meta<sizes = ["s0", 8, 6, 6]>>) -> ()
  }
  func.func @free(%x: tensor<2x8x?x6xf32, #torch.meta<sizes = [2, 8, "s0", 6]>>, %w: tensor<8x8x3x3xf32>, %v: tensor<8x8x3x3xf32>) {
    %c = torch.aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x?x6xf32, #torch.meta<sizes = [2, 8, "s0", 6]>>, tensor<8x8x3x3xf32>) -> tensor<2x8x?x6xf32, #torch.meta<sizes = [2, 8, "s0", 6]>>
    %r = torch.aten.relu.default(%c) : (tensor<2x8x?x6xf32, #torch.meta<sizes = [2, 8, "s0", 6]>>) -> tensor<2x8x?x6xf32, #torch.meta<sizes = [2, 8, "s0", 6]>>
    %d = torch.aten.convolution.default(%r, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (tensor<2x8x?x6xf32, #torch.meta<sizes = [2, 8, "s0", 6]>>, tensor<8x8x3x3xf32>) -> tensor<2x8x?x6xf32, #torch.meta<sizes = [2, 8, "s0", 6]>>
    fx.output(%d) : (tensor<2x8x?x6xf32, #torch.meta<sizes = [2, 8, "s0", 6]>>) -> ()
  }
}
