// RUN: fxc-opt %s --split-input-file -p choose-convolutions{gain=1.0e30} | filecheck %s
// RUN: fxc-opt %s --split-input-file -p choose-convolutions{gain=0.0} | filecheck %s --check-prefix=NEVER
// RUN: fxc-opt %s --split-input-file -p "set-target{to=cuda:sm_90},choose-convolutions{gain=1.0e30}" | filecheck %s --check-prefix=NEVER

// NEVER-NOT: torch.mkldnn

/// With the activation behind it, of a weight that is an input: images in channels_last, a copy on each side.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    [[L:%[0-9]+]] = torch.aten.clone.default(%x, memory_format = torch.channels_last)
// CHECK-NEXT:    [[Y:%[0-9]+]] = torch.mkldnn._convolution_pointwise.default([[L]], %w, %b, [1, 1], [2, 2], [1, 1], 1, "relu", [], "")
// CHECK-NEXT:    %r = torch.aten.clone.default([[Y]], memory_format = torch.contiguous_format)
// CHECK-NEXT:    fx.output(%r)
func.func @main(%x: tensor<1x2x4x4xf32>, %w: tensor<3x2x3x3xf32>, %b: tensor<3xf32>) {
  %c = torch.aten.conv2d.default(%x, %w, %b, [2], [1, 1]) : (tensor<1x2x4x4xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<1x3x2x2xf32>
  %r = torch.aten.relu.default(%c) : (tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32>
  fx.output(%r) : (tensor<1x3x2x2xf32>) -> ()
}

// -----

/// An image that is added.
// CHECK-LABEL: func.func @main
// CHECK:         torch.mkldnn._convolution_pointwise.binary({{%[0-9]+}}, {{%[0-9]+}}, %w, none, [0, 0], [1, 1], [1, 1], 1, "add", none, none, [], none)
func.func @main(%x: tensor<1x3x4x4xf32>, %o: tensor<1x3x4x4xf32>, %w: tensor<3x3x1x1xf32>) {
  %c = torch.aten.conv2d.default(%x, %w) : (tensor<1x3x4x4xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32>
  %s = torch.aten.add.Tensor(%c, %o) : (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  fx.output(%s) : (tensor<1x3x4x4xf32>) -> ()
}

// -----

/// Not: where a gradient is needed, one that is transposed, other dtypes, sizes that are not known.
// CHECK-LABEL: func.func @kept
// CHECK-NOT:     torch.mkldnn
func.func @kept(%x: tensor<1x3x4x4xf32>, %d: tensor<1x3x4x4xf64>, %any: tensor<?x3x4x4xf32>, %w: tensor<3x3x1x1xf32>, %v: tensor<3x3x1x1xf64>)
    -> (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>, tensor<1x3x4x4xf64>, tensor<?x3x4x4xf32>) {
  %1 = torch.aten.conv2d.default(%x, %w) {requires_grad = [true]} : (tensor<1x3x4x4xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32>
  %2 = torch.aten.convolution.default(%x, %w, none, [1, 1], [0, 0], [1, 1], true, [0, 0], 1) : (tensor<1x3x4x4xf32>, tensor<3x3x1x1xf32>) -> tensor<1x3x4x4xf32>
  %3 = torch.aten.conv2d.default(%d, %v) : (tensor<1x3x4x4xf64>, tensor<3x3x1x1xf64>) -> tensor<1x3x4x4xf64>
  %4 = torch.aten.conv2d.default(%any, %w) : (tensor<?x3x4x4xf32>, tensor<3x3x1x1xf32>) -> tensor<?x3x4x4xf32>
  func.return %1, %2, %3, %4 : tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>, tensor<1x3x4x4xf64>, tensor<?x3x4x4xf32>
}

// -----

/// Not beside a group norm of images.
// CHECK-LABEL: func.func @groups
// CHECK-NOT:     torch.mkldnn
func.func @groups(%x: tensor<1x4x4x4xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x4x4x4xf32> {
  %c = torch.aten.conv2d.default(%x, %w) : (tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x4x4xf32>
  %n = torch.aten.group_norm.default(%c, 2) : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  func.return %n : tensor<1x4x4x4xf32>
}

// -----

/// Not a filter of one element on padded images: oneDNN's kernel crashes on it.
// CHECK-LABEL: func.func @padded
// CHECK-NOT:     torch.mkldnn
func.func @padded(%x: tensor<1x3x4x1xf32>, %w: tensor<3x3x1x1xf32>, %b: tensor<3xf32>) -> tensor<1x3x2x2xf32> {
  %c = torch.aten.conv2d.default(%x, %w, %b, [2, 2], [0, 1], [1, 2]) : (tensor<1x3x4x1xf32>, tensor<3x3x1x1xf32>, tensor<3xf32>) -> tensor<1x3x2x2xf32>
  func.return %c : tensor<1x3x2x2xf32>
}

// -----

/// Not one number of each image: oneDNN's kernel returns wrong ones.
// CHECK-LABEL: func.func @one_number
// CHECK-NOT:     torch.mkldnn
func.func @one_number(%x: tensor<6x4x8x8xf32>, %w: tensor<1x4x8x8xf32>) -> tensor<6x1x1x1xf32> {
  %c = torch.aten.conv2d.default(%x, %w) : (tensor<6x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<6x1x1x1xf32>
  func.return %c : tensor<6x1x1x1xf32>
}
