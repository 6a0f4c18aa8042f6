// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true}' | filecheck %s --check-prefix=FUSED
// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true},convert-fusion-to-linalg' | filecheck %s --check-prefix=LINALG
// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true},lower-kernels' | filecheck %s --check-prefix=TILE

/// Statistics of each channel over all images, what they make of it, and relu: a channel is a row of the kernel.
// FUSED-LABEL: func.func @main
// FUSED:         fusion.group ({
// FUSED:           rsqrt
// FUSED:           torch.aten.relu.default
// FUSED-NOT:     fusion.group
// FUSED:         fx.output

// LINALG-LABEL: func.func @main
// LINALG:         math.rsqrt
// LINALG:         fx.output

// TILE-LABEL:  func.func @main
// TILE:          tile.launch @kernel_0(
// TILE-NOT:      tile.launch
// TILE:          fx.output
// TILE:          tile.kernel @kernel_0(
// TILE-NOT:      tile.kernel
func.func @main(%x: tensor<4x8x6x6xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) {
  %n = torch.aten.batch_norm.default(%x, %w, %b, none, none, true, 0.1, 1.0e-05, false) : (tensor<4x8x6x6xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8x6x6xf32>
  %y = torch.aten.relu.default(%n) : (tensor<4x8x6x6xf32>) -> tensor<4x8x6x6xf32>
  fx.output((%y,)) : (tensor<4x8x6x6xf32>) -> ()
}
