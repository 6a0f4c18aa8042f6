// RUN: fxc-opt %s --split-input-file --pass-pipeline="move-to-device{device=cuda:1}" | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline="move-to-device{device=cuda:1},move-to-device{device=cuda:1}" | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=move-to-device | filecheck %s --check-prefix=DEFAULT

/// Types with symbols and strides, in regions too, and devices in calls, are moved.
// CHECK-LABEL: builtin.module
// CHECK:         func.func @main(%x: tensor<?x3xf32, #torch.meta<sizes = ["s0", 3], strides = [1, "s0"], device = "cuda:1">>, %n: !torch.int)
// CHECK:           torch.aten.ones.default([4], device = device("cuda:1")) : () -> tensor<4xf32, #torch.meta<device = "cuda:1">>
// CHECK:           scf.yield %{{.*}} : tensor<4xf32, #torch.meta<device = "cuda:1">>
// DEFAULT-LABEL: builtin.module
// DEFAULT:         torch.aten.ones.default([4], device = device("cuda:0")) : () -> tensor<4xf32, #torch.meta<device = "cuda:0">>
func.func @main(%x: tensor<?x3xf32, #torch.meta<sizes = ["s0", 3], strides = [1, "s0"]>>, %n: !torch.int) -> tensor<4xf32> {
  %ones = torch.aten.ones.default([4], device = device("cpu")) : () -> tensor<4xf32>
  %0 = arith.constant true
  %r = scf.if %0 -> (tensor<4xf32>) {
    scf.yield %ones : tensor<4xf32>
  } else {
    scf.yield %ones : tensor<4xf32>
  }
  fx.output(%r) : (tensor<4xf32>) -> ()
}

// -----

/// Tensors on other devices stay there.
// CHECK-LABEL: builtin.module
// CHECK:         func.func @main(%x: tensor<4xf32, #torch.meta<device = "meta">>) -> tensor<4xf32, #torch.meta<device = "cuda:3">>
// CHECK-NEXT:      torch.aten.to.device(%x, device("cuda:3"), f32)
func.func @main(%x: tensor<4xf32, #torch.meta<device = "meta">>) -> tensor<4xf32, #torch.meta<device = "cuda:3">> {
  %c = torch.aten.to.device(%x, device("cuda:3"), f32) : (tensor<4xf32, #torch.meta<device = "meta">>) -> tensor<4xf32, #torch.meta<device = "cuda:3">>
  fx.output(%c) : (tensor<4xf32, #torch.meta<device = "cuda:3">>) -> ()
}
