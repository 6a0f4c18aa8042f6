// RUN: fxc-opt %s --split-input-file -p pad-matmul{choose=all} | filecheck %s
// RUN: fxc-opt %s --split-input-file -p pad-matmul{choose=all},pad-matmul{choose=all} | filecheck %s
// RUN: fxc-opt %s --split-input-file -p pad-matmul | filecheck %s --check-prefix=UNMEASURED
// UNMEASURED-NOT: constant_pad_nd

/// Half precision: depth and columns are padded to multiples of 8, rows are not. The result has its strides.
builtin.module attributes {fxc.target = #target.gpu} {
  // CHECK-LABEL: func.func @both
  // CHECK-NEXT:    [[L:%[0-9]+]] = torch.aten.constant_pad_nd.default(%x, [0, 2, 0, 0])
  // CHECK-NEXT:    [[R:%[0-9]+]] = torch.aten.constant_pad_nd.default(%y, [0, 3, 0, 2])
  // CHECK-NEXT:    [[P:%[0-9]+]] = torch.aten.mm.default([[L]], [[R]])
  // CHECK-NEXT:    [[S:%[0-9]+]] = torch.aten.slice.Tensor([[P]], 1, 0, 5)
  // CHECK-NEXT:    %z = torch.aten.clone.default([[S]], memory_format = torch.contiguous_format)
  func.func @both(%x: tensor<3x6xf16, #torch.meta<device = "cuda:0">>, %y: tensor<6x5xf16, #torch.meta<device = "cuda:0">>) {
    %z = torch.aten.mm.default(%x, %y) : (tensor<3x6xf16, #torch.meta<device = "cuda:0">>, tensor<6x5xf16, #torch.meta<device = "cuda:0">>) -> tensor<3x5xf16, #torch.meta<device = "cuda:0">>
    fx.output(%z) : (tensor<3x5xf16, #torch.meta<device = "cuda:0">>) -> ()
  }

  /// A bias of as many numbers as there are columns is padded, one that is broadcast is not; factors are retained.
  // CHECK-LABEL: func.func @bias
  // CHECK-NEXT:    [[R:%[0-9]+]] = torch.aten.constant_pad_nd.default(%y, [0, 3, 0, 0])
  // CHECK-NEXT:    [[B:%[0-9]+]] = torch.aten.constant_pad_nd.default(%b, [0, 3])
  // CHECK-NEXT:    torch.aten.addmm.default([[B]], %x, [[R]], alpha = 2)
  // CHECK:         [[Q:%[0-9]+]] = torch.aten.constant_pad_nd.default(%y, [0, 3, 0, 0])
  // CHECK-NEXT:    torch.aten.addmm.default(%c, %x, [[Q]], beta = 3)
  func.func @bias(%x: tensor<3x4xf32, #torch.meta<device = "cuda:0">>, %y: tensor<4x5xf32, #torch.meta<device = "cuda:0">>, %b: tensor<5xf32, #torch.meta<device = "cuda:0">>, %c: tensor<3x1xf32, #torch.meta<device = "cuda:0">>) {
    %u = torch.aten.addmm.default(%b, %x, %y, alpha = 2) : (tensor<5xf32, #torch.meta<device = "cuda:0">>, tensor<3x4xf32, #torch.meta<device = "cuda:0">>, tensor<4x5xf32, #torch.meta<device = "cuda:0">>) -> tensor<3x5xf32, #torch.meta<device = "cuda:0">>
    %v = torch.aten.addmm.default(%c, %x, %y, beta = 3) : (tensor<3x1xf32, #torch.meta<device = "cuda:0">>, tensor<3x4xf32, #torch.meta<device = "cuda:0">>, tensor<4x5xf32, #torch.meta<device = "cuda:0">>) -> tensor<3x5xf32, #torch.meta<device = "cuda:0">>
    fx.output((%u, %v)) : (tensor<3x5xf32, #torch.meta<device = "cuda:0">>, tensor<3x5xf32, #torch.meta<device = "cuda:0">>) -> ()
  }

  /// Batches are not padded.
  // CHECK-LABEL: func.func @batch
  // CHECK-NEXT:    [[L:%[0-9]+]] = torch.aten.constant_pad_nd.default(%x, [0, 1, 0, 0])
  // CHECK-NEXT:    [[R:%[0-9]+]] = torch.aten.constant_pad_nd.default(%y, [0, 0, 0, 1])
  // CHECK-NEXT:    %z = torch.aten.bmm.default([[L]], [[R]])
  // CHECK-NEXT:    fx.output(%z)
  func.func @batch(%x: tensor<5x3x7xbf16, #torch.meta<device = "cuda:0">>, %y: tensor<5x7x8xbf16, #torch.meta<device = "cuda:0">>) {
    %z = torch.aten.bmm.default(%x, %y) : (tensor<5x3x7xbf16, #torch.meta<device = "cuda:0">>, tensor<5x7x8xbf16, #torch.meta<device = "cuda:0">>) -> tensor<5x3x8xbf16, #torch.meta<device = "cuda:0">>
    fx.output(%z) : (tensor<5x3x8xbf16, #torch.meta<device = "cuda:0">>) -> ()
  }

  /// Aligned sizes, one column and a depth of one, no elements, symbolic sizes, other dtypes, the CPU.
  // CHECK-LABEL: func.func @others
  // CHECK-NOT:     constant_pad_nd
  func.func @others(%a: tensor<3x4xf32, #torch.meta<device = "cuda:0">>, %b: tensor<4x8xf32, #torch.meta<device = "cuda:0">>, %c: tensor<4x1xf32, #torch.meta<device = "cuda:0">>, %d: tensor<3x0xf32, #torch.meta<device = "cuda:0">>, %e: tensor<0x5xf32, #torch.meta<device = "cuda:0">>, %f: tensor<?x5xf32, #torch.meta<sizes = ["s0", 5], device = "cuda:0">>, %g: tensor<5x5xf32, #torch.meta<device = "cuda:0">>, %h: tensor<3x5xf64, #torch.meta<device = "cuda:0">>, %i: tensor<5x5xf64, #torch.meta<device = "cuda:0">>, %j: tensor<3x5xf32>, %k: tensor<5x5xf32>) {
    %1 = torch.aten.mm.default(%a, %b) : (tensor<3x4xf32, #torch.meta<device = "cuda:0">>, tensor<4x8xf32, #torch.meta<device = "cuda:0">>) -> tensor<3x8xf32, #torch.meta<device = "cuda:0">>
    %2 = torch.aten.mm.default(%a, %c) : (tensor<3x4xf32, #torch.meta<device = "cuda:0">>, tensor<4x1xf32, #torch.meta<device = "cuda:0">>) -> tensor<3x1xf32, #torch.meta<device = "cuda:0">>
    %3 = torch.aten.mm.default(%d, %e) : (tensor<3x0xf32, #torch.meta<device = "cuda:0">>, tensor<0x5xf32, #torch.meta<device = "cuda:0">>) -> tensor<3x5xf32, #torch.meta<device = "cuda:0">>
    %4 = torch.aten.mm.default(%f, %g) : (tensor<?x5xf32, #torch.meta<sizes = ["s0", 5], device = "cuda:0">>, tensor<5x5xf32, #torch.meta<device = "cuda:0">>) -> tensor<?x5xf32, #torch.meta<sizes = ["s0", 5], device = "cuda:0">>
    %5 = torch.aten.mm.default(%h, %i) : (tensor<3x5xf64, #torch.meta<device = "cuda:0">>, tensor<5x5xf64, #torch.meta<device = "cuda:0">>) -> tensor<3x5xf64, #torch.meta<device = "cuda:0">>
    %6 = torch.aten.mm.default(%j, %k) : (tensor<3x5xf32>, tensor<5x5xf32>) -> tensor<3x5xf32>
    fx.output((%1, %2, %3, %4, %5, %6)) : (tensor<3x8xf32, #torch.meta<device = "cuda:0">>, tensor<3x1xf32, #torch.meta<device = "cuda:0">>, tensor<3x5xf32, #torch.meta<device = "cuda:0">>, tensor<?x5xf32, #torch.meta<sizes = ["s0", 5], device = "cuda:0">>, tensor<3x5xf64, #torch.meta<device = "cuda:0">>, tensor<3x5xf32>) -> ()
  }
}

// -----

/// A measurement must not select the numbers.
builtin.module attributes {fxc.target = #target.gpu, fxc.deterministic} {
  // CHECK-LABEL: func.func @deterministic
  // CHECK-NOT:     constant_pad_nd
  func.func @deterministic(%x: tensor<3x6xf16, #torch.meta<device = "cuda:0">>, %y: tensor<6x5xf16, #torch.meta<device = "cuda:0">>) {
    %z = torch.aten.mm.default(%x, %y) : (tensor<3x6xf16, #torch.meta<device = "cuda:0">>, tensor<6x5xf16, #torch.meta<device = "cuda:0">>) -> tensor<3x5xf16, #torch.meta<device = "cuda:0">>
    fx.output(%z) : (tensor<3x5xf16, #torch.meta<device = "cuda:0">>) -> ()
  }
}
