// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true}' | filecheck %s --check-prefix=FUSED
// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true},convert-fusion-to-linalg' | filecheck %s --check-prefix=LINALG
// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true},lower-kernels' | filecheck %s --check-prefix=TILE

/// RMSNorm of each head, and its halves turned: the pieces are slices, and the concatenation is chosen element by element.
// FUSED-LABEL: func.func @main
// FUSED-NEXT:    %y = fusion.group ({
// FUSED:           torch.aten.mean.dim
// FUSED:           torch.aten.slice.Tensor
// FUSED:           torch.aten.cat.default
// FUSED-NOT:     fusion.group
// FUSED:         fx.output

// LINALG-LABEL: func.func @main
// LINALG:         iterator_types = [{{.*}}"reduction"]
// LINALG:         arith.select
// LINALG:         fx.output

// TILE-LABEL:  func.func @main
// TILE:          %y = tile.launch @kernel_0(
// TILE-NEXT:     fx.output((%y,))
// TILE:          tile.kernel @kernel_0(
// TILE-NOT:      tile.kernel
func.func @main(%x: tensor<2x8x4x32xf32>, %w: tensor<32xf32>, %cos: tensor<8x1x32xf32>, %sin: tensor<8x1x32xf32>) {
  %n = torch.aten.rms_norm.default(%x, [32], %w, 1.0e-06) : (tensor<2x8x4x32xf32>, tensor<32xf32>) -> tensor<2x8x4x32xf32>
  %p, %q = torch.aten.chunk.default(%n, 2, -1) : (tensor<2x8x4x32xf32>) -> (tensor<2x8x4x16xf32, #torch.meta<strides = [1024, 128, 32, 1]>>, tensor<2x8x4x16xf32, #torch.meta<strides = [1024, 128, 32, 1]>>)
  %m = torch.aten.neg.default(%q) : (tensor<2x8x4x16xf32, #torch.meta<strides = [1024, 128, 32, 1]>>) -> tensor<2x8x4x16xf32>
  %t = torch.aten.cat.default([%m, %p], -1) : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32, #torch.meta<strides = [1024, 128, 32, 1]>>) -> tensor<2x8x4x32xf32>
  %a = torch.aten.mul.Tensor(%n, %cos) : (tensor<2x8x4x32xf32>, tensor<8x1x32xf32>) -> tensor<2x8x4x32xf32>
  %b = torch.aten.mul.Tensor(%t, %sin) : (tensor<2x8x4x32xf32>, tensor<8x1x32xf32>) -> tensor<2x8x4x32xf32>
  %y = torch.aten.add.Tensor(%a, %b) : (tensor<2x8x4x32xf32>, tensor<2x8x4x32xf32>) -> tensor<2x8x4x32xf32>
  fx.output((%y,)) : (tensor<2x8x4x32xf32>) -> ()
}
