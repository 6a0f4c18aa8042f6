// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true}' | filecheck %s --check-prefix=FUSED
// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true},convert-fusion-to-linalg' | filecheck %s --check-prefix=LINALG
// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true},lower-kernels' | filecheck %s --check-prefix=TILE

/// PyTorch draws, and one kernel does the rest.
// FUSED-LABEL: func.func @main
// FUSED-NEXT:    %[[D:.*]] = torch.aten.bernoulli.p(%x
// FUSED-NEXT:    %y = fusion.group ({
// FUSED:           torch.aten.add.Tensor
// FUSED-NOT:     fusion.group
// FUSED:         fx.output

// LINALG-LABEL: func.func @main
// LINALG:         torch.aten.bernoulli.p
// LINALG:         arith.mulf
// LINALG:         arith.addf
// LINALG:         fx.output

// TILE-LABEL:  func.func @main
// TILE-NEXT:     %[[D:.*]] = torch.aten.bernoulli.p(%x
// TILE-NEXT:     %y = tile.launch @kernel_0(
// TILE-NEXT:     fx.output((%y,))
// TILE:          tile.kernel @kernel_0(
// TILE-NOT:      tile.kernel
func.func @main(%x: tensor<16x64xf32>, %r: tensor<16x64xf32>) {
  %d = torch.aten.dropout.default(%x, 0.2, true) : (tensor<16x64xf32>) -> tensor<16x64xf32>
  %y = torch.aten.add.Tensor(%d, %r) : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<16x64xf32>
  fx.output((%y,)) : (tensor<16x64xf32>) -> ()
}
