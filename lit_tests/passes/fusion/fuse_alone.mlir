// RUN: fxc-opt %s --split-input-file -p "set-target{to=cuda:sm_90},fuse{reductions=true}" | filecheck %s
// RUN: fxc-opt %s --split-input-file -p "set-target{to=cpu:avx2},fuse{reductions=true}" | filecheck %s

/// An operator on tensors of different memory orders is a kernel alone: PyTorch's loops read one of them by single elements.
// CHECK-LABEL: func.func @orders
// CHECK:         fusion.group
// CHECK:           torch.aten.add.Tensor(%x, %y)
// CHECK:         }
func.func @orders(%x: tensor<64x64xf32, #torch.meta<strides = [1, 64]>>, %y: tensor<64x64xf32>) {
  %a = torch.aten.add.Tensor(%x, %y) : (tensor<64x64xf32, #torch.meta<strides = [1, 64]>>, tensor<64x64xf32>) -> tensor<64x64xf32, #torch.meta<strides = [1, 64]>>
  fx.output(%a) : (tensor<64x64xf32, #torch.meta<strides = [1, 64]>>) -> ()
}

// -----

/// One on tensors of one order is PyTorch's.
// CHECK-LABEL: func.func @order
// CHECK-NOT:     fusion.group
func.func @order(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) {
  %a = torch.aten.add.Tensor(%x, %y) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  fx.output(%a) : (tensor<64x64xf32>) -> ()
}
