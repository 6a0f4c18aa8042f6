// RUN: fxc-opt %s --convert-dist-to-torch | filecheck %s
// RUN: fxc-opt %s --convert-dist-to-torch --convert-dist-to-torch | filecheck %s

/// A reduce_scatter of several tensors is one of their concatenation, where they are on the CPU and of known sizes.
// CHECK-LABEL: func.func @joined
// CHECK-NEXT:    %[[A:.*]] = torch.aten.view.default(%x, [2, 6]) : (tensor<4x3xf32>) -> tensor<2x6xf32>
// CHECK-NEXT:    %[[B:.*]] = torch.aten.view.default(%y, [2, 1]) : (tensor<2x1xf32, #torch.meta<strides = [1, 2]>>) -> tensor<2x1xf32>
// CHECK-NEXT:    %[[C:.*]] = torch.aten.cat.default([%[[A]], %[[B]]], 1) : (tensor<2x6xf32>, tensor<2x1xf32>) -> tensor<2x7xf32>
// CHECK-NEXT:    %[[R:.*]] = torch._c10d_functional.reduce_scatter_tensor.default(%[[C]], "avg", 2, "7") : (tensor<2x7xf32>) -> tensor<1x7xf32>
// CHECK-NEXT:    %e = torch.aten.exp.default
// CHECK-NEXT:    %[[W:.*]] = torch._c10d_functional.wait_tensor.default(%[[R]])
// CHECK-NEXT:    %u = torch.aten.slice.Tensor(%[[W]], 1, 0, 6)
// CHECK-NEXT:    %u_1 = torch.aten.view.default(%u, [2, 3]) : (tensor<1x6xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:    %v = torch.aten.slice.Tensor(%[[W]], 1, 6, 7)
// CHECK-NEXT:    %v_1 = torch.aten.view.default(%v, [1, 1]) : (tensor<1x1xf32>) -> tensor<1x1xf32>
// CHECK-LABEL: func.func @on_a_gpu
// CHECK:         torch._c10d_functional.reduce_scatter_tensor_coalesced.default([%x, %y]
// CHECK-LABEL: func.func @unknown
// CHECK:         torch._c10d_functional.reduce_scatter_tensor_coalesced.default([%x, %x]
dist.group @dp "7" ranks [0, 1]
!y = tensor<2x1xf32, #torch.meta<strides = [1, 2]>>
func.func @joined(%x: tensor<4x3xf32>, %y: !y) {
  %r, %s = dist.reduce_scatter "avg" over @dp (%x, %y) : (tensor<4x3xf32>, !y) -> (tensor<2x3xf32>, tensor<1x1xf32>)
  %e = torch.aten.exp.default(%x) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %u = dist.wait %r : tensor<2x3xf32>
  %v = dist.wait %s : tensor<1x1xf32>
  fx.output(%u, %v) : (tensor<2x3xf32>, tensor<1x1xf32>) -> ()
}
!t = tensor<4xf32, #torch.meta<device = "cuda:0">>
!p = tensor<2xf32, #torch.meta<device = "cuda:0">>
func.func @on_a_gpu(%x: !t, %y: !t) {
  %r, %s = dist.reduce_scatter "avg" over @dp (%x, %y) : (!t, !t) -> (!p, !p)
  fx.output() : () -> ()
}
func.func @unknown(%x: tensor<?xf32>) {
  %r, %s = dist.reduce_scatter "avg" over @dp (%x, %x) : (tensor<?xf32>, tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>)
  fx.output() : () -> ()
}

// CHECK-LABEL: func.func @transposed
// CHECK:         torch._c10d_functional.reduce_scatter_tensor_coalesced.default([%x, %x]
func.func @transposed(%x: tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) {
  %r, %s = dist.reduce_scatter "avg" over @dp (%x, %x) : (tensor<2x3xf32, #torch.meta<strides = [1, 2]>>, tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) -> (tensor<1x3xf32>, tensor<1x3xf32>)
  fx.output() : () -> ()
}
