// RUN: fxc-opt %s --pass-pipeline='fuse{reductions=true}' | filecheck %s --check-prefix=FUSED
// RUN: fxc-opt %s --pass-pipeline='fuse{reductions=true},convert-fusion-to-linalg' | filecheck %s --check-prefix=LINALG
// RUN: fxc-opt %s --pass-pipeline='fuse{reductions=true},lower-kernels' | filecheck %s --check-prefix=TILE

/// A lone function that takes longer than memory does is a group, one loop, and a kernel.
// FUSED-LABEL: func.func @main
// FUSED-NEXT:    fusion.group ({
// FUSED-NEXT:      torch.aten.gelu.default

// LINALG-LABEL: func.func @main
// LINALG-COUNT-1: linalg.generic
// LINALG:         math.erf

// TILE-LABEL:  func.func @main
// TILE:          tile.launch @kernel_0(%x) : (tensor<64x256xf32>) -> tensor<64x256xf32>
// TILE-NOT:      torch.aten
// TILE:          tile.kernel @kernel_0(
func.func @main(%x: tensor<64x256xf32>) {
  %y = torch.aten.gelu.default(%x) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  fx.output(%y) : (tensor<64x256xf32>) -> ()
}
