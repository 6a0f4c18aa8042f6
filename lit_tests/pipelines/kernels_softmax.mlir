// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},fuse{reductions=true}' | filecheck %s --check-prefix=FUSED
// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},fuse{reductions=true},convert-fusion-to-linalg' | filecheck %s --check-prefix=LINALG
// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},fuse{reductions=true},lower-kernels' | filecheck %s --check-prefix=TILE

/// One group, loops for the maximum, the sum and the quotient, and one kernel.
// FUSED-LABEL: func.func @main
// FUSED-NEXT:    fusion.group ({
// FUSED:           torch.aten.amax.default
// FUSED:           torch.aten.exp.default
// FUSED:           torch.aten.sum.dim_IntList
// FUSED:           torch.aten.div.Tensor
// FUSED:         fx.output

// LINALG-LABEL: func.func @main
// LINALG-COUNT-3: linalg.generic
// LINALG:         fx.output

// TILE-LABEL:  func.func @main
// TILE:          tile.launch @kernel_0(%x) : (tensor<64x256xf32>) -> tensor<64x256xf32>
// TILE-NOT:      tile.launch
// TILE-NOT:      torch.aten
// TILE:          tile.kernel @kernel_0(
func.func @main(%x: tensor<64x256xf32>) {
  %y = torch.aten.softmax.int(%x, 1) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  fx.output(%y) : (tensor<64x256xf32>) -> ()
}
