// RUN: fxc-opt %s --pass-pipeline=fuse,lower-kernels | filecheck %s

/// Pointwise ops between library calls become one kernel.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %m = torch.aten.mm.default(%x, %y)
// CHECK-NEXT:    %b = tile.launch @kernel_0(%m, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT:    fx.output(%b)
// CHECK:         tile.kernel @kernel_0(
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) {
  %m = torch.aten.mm.default(%x, %y) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = torch.aten.add.Tensor(%m, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = torch.aten.relu.default(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  fx.output(%b) : (tensor<4x4xf32>) -> ()
}
