// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true}' | filecheck %s --check-prefix=FUSED
// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true},convert-fusion-to-linalg' | filecheck %s --check-prefix=LINALG
// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true},lower-kernels' | filecheck %s --check-prefix=TILE

/// The sum with the residual, both statistics and what they make of it: one group, and one kernel with two results.
// FUSED-LABEL: func.func @main
// FUSED-NEXT:    %s, %y = fusion.group ({
// FUSED:           torch.aten.add.Tensor(%x, %r)
// FUSED:           rsqrt
// FUSED-NOT:     fusion.group
// FUSED:         fx.output((%y, %s))

/// Loops for the sum, the mean, the variance, and the result.
// LINALG-LABEL: func.func @main
// LINALG:         arith.addf
// LINALG:         iterator_types = ["parallel", "reduction"]
// LINALG:         math.rsqrt
// LINALG:         fx.output((%y, %s))

// TILE-LABEL:  func.func @main
// TILE-NEXT:     %s, %y = tile.launch @kernel_0(%x, %r, {{.*}}) : {{.*}} -> (tensor<16x64xf32>, tensor<16x64xf32>)
// TILE-NEXT:     fx.output((%y, %s))
// TILE:          tile.kernel @kernel_0(
// TILE-NOT:      tile.kernel
func.func @main(%x: tensor<16x64xf32>, %r: tensor<16x64xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>) {
  %s = torch.aten.add.Tensor(%x, %r) : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
  %y = torch.aten.layer_norm.default(%s, [64], %w, %b) : (tensor<16x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<16x64xf32>
  fx.output((%y, %s)) : (tensor<16x64xf32>, tensor<16x64xf32>) -> ()
}
