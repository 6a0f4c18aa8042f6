// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true}' | filecheck %s --check-prefix=FUSED
// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true},convert-fusion-to-linalg' | filecheck %s --check-prefix=LINALG
// RUN: fxc-opt %s --pass-pipeline='decompose-ops{reductions=true},lower-simple-tuples,fuse{reductions=true},lower-kernels' | filecheck %s --check-prefix=TILE

/// The logarithm of softmax is read at the labels, so it is in memory before; the mean is over all rows. So it is the last
/// program that reads and adds, when all have stored.
// FUSED-LABEL: func.func @main
// FUSED:         fusion.group ({
// FUSED:           torch.aten.amax.default
// FUSED:           torch.aten.log.default
// FUSED:         %y = fusion.group ({
// FUSED:           torch.aten.gather.default
// FUSED-NOT:     fusion.group
// FUSED:         fx.output

// LINALG-LABEL: func.func @main
// LINALG:         math.log
// LINALG:         fx.output

// TILE-LABEL:    func.func @main
// TILE-COUNT-1:    tile.launch
// TILE-NOT:        tile.launch
// TILE:            fx.output
// TILE:            tile.kernel @
// TILE:              math.log
// TILE:              tile.last_program (
// TILE:                tile.gather
// TILE:                tile.reduce "add"
// TILE-NOT:        tile.kernel @
func.func @main(%x: tensor<32x100xf32>, %l: tensor<32xi64>) {
  %y = torch.aten.cross_entropy_loss.default(%x, %l) : (tensor<32x100xf32>, tensor<32xi64>) -> tensor<f32>
  fx.output((%y,)) : (tensor<f32>) -> ()
}
