// RUN: fxc-opt %s --pass-pipeline=lower-kernels{matmul=all} | filecheck %s
// RUN: fxc-opt %s --pass-pipeline="builtin.module(builtin.module(lower-kernels{matmul=all}))" | filecheck %s --check-prefix=INSIDE

/// Groups, products and scans of a module inside are lowered by passes that are anchored on it, into kernels of its own.
// CHECK:     func.func @main
// CHECK-NOT: fusion.group
// CHECK-NOT: torch.aten.mm.default
// CHECK-NOT: torch.aten.cumsum.default
// CHECK:     builtin.module @inside
// CHECK:       fusion.group
// CHECK:       torch.aten.mm.default
// CHECK:       torch.aten.cumsum.default
// CHECK:     tile.kernel

// INSIDE:     func.func @main
// INSIDE:       fusion.group
// INSIDE:       torch.aten.mm.default
// INSIDE:       torch.aten.cumsum.default
// INSIDE:     builtin.module @inside
// INSIDE-NOT:   fusion.group
// INSIDE-NOT:   torch.aten.mm.default
// INSIDE-NOT:   torch.aten.cumsum.default
// INSIDE:       tile.kernel
func.func @main(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %a = fusion.group ({
    %e = torch.aten.exp.default(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    fusion.yield %e : tensor<8x8xf32>
  }) -> tensor<8x8xf32>
  %b = torch.aten.mm.default(%a, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = torch.aten.cumsum.default(%x, 1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %b, %c : tensor<8x8xf32>, tensor<8x8xf32>
}
builtin.module @inside {
  func.func @main(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %a = fusion.group ({
      %e = torch.aten.exp.default(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      fusion.yield %e : tensor<8x8xf32>
    }) -> tensor<8x8xf32>
    %b = torch.aten.mm.default(%a, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %c = torch.aten.cumsum.default(%x, 1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    func.return %b, %c : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
