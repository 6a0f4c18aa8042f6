// RUN: fxc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=tile-matmul

/// Blocks are three powers of two.
func.func @main(%x: tensor<32x32xf32>) {
  // expected-error@+1 {{tile.blocks is array<i64: rows, columns, depth>, powers of two}}
  %m = torch.aten.mm.default(%x, %x) {tile.blocks = array<i64: 24, 16, 16>} : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  fx.output(%m) : (tensor<32x32xf32>) -> ()
}
