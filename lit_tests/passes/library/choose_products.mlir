// RUN: fxc-opt %s --split-input-file -p "choose-products{gain=1.0e30 least=1}" | filecheck %s
// RUN: fxc-opt %s --split-input-file -p "choose-products{gain=0.0 least=1}" | filecheck %s --check-prefix=NEVER
// RUN: fxc-opt %s --split-input-file -p choose-products | filecheck %s --check-prefix=NEVER
// RUN: fxc-opt %s --split-input-file -p "set-target{to=cuda:sm_90},choose-products{gain=1.0e30 least=1}" | filecheck %s --check-prefix=NEVER

// NEVER-NOT: torch.mkldnn

/// The weight of a linear layer is taken as it lies: its transpose goes.
// CHECK-LABEL: func.func @layer
// CHECK-NEXT:    %y = torch.mkldnn._linear_pointwise.default(%x, %w, %b, "none", [], "")
// CHECK-NEXT:    func.return %y
func.func @layer(%x: tensor<2x4xf32>, %w: tensor<3x4xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %t = torch.aten.t.default(%w) : (tensor<3x4xf32>) -> tensor<4x3xf32, #torch.meta<strides = [1, 4]>>
  %y = torch.aten.addmm.default(%b, %x, %t) : (tensor<3xf32>, tensor<2x4xf32>, tensor<4x3xf32, #torch.meta<strides = [1, 4]>>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

/// A gradient of a weight: both matrices lie across.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    [[G:%[a-z0-9]+]] = torch.aten.t.default(%g)
// CHECK-NEXT:    [[X:%[a-z0-9]+]] = torch.aten.t.default(%x)
// CHECK-NEXT:    %y = torch.mkldnn._linear_pointwise.default([[G]], [[X]], none, "none", [], "")
func.func @gradient(%g: tensor<2x3xf32>, %x: tensor<2x4xf32>) -> tensor<3x4xf32> {
  %t = torch.aten.t.default(%g) : (tensor<2x3xf32>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %y = torch.aten.mm.default(%t, %x) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>, tensor<2x4xf32>) -> tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}

// -----

/// A transpose that something else reads stays.
// CHECK-LABEL: func.func @read
// CHECK-NEXT:    %t = torch.aten.t.default(%w)
// CHECK-NEXT:    %y = torch.mkldnn._linear_pointwise.default(%x, %w, none, "none", [], "")
func.func @read(%x: tensor<2x4xf32>, %w: tensor<3x4xf32>) -> (tensor<2x3xf32>, tensor<4x3xf32, #torch.meta<strides = [1, 4]>>) {
  %t = torch.aten.t.default(%w) : (tensor<3x4xf32>) -> tensor<4x3xf32, #torch.meta<strides = [1, 4]>>
  %y = torch.aten.mm.default(%x, %t) : (tensor<2x4xf32>, tensor<4x3xf32, #torch.meta<strides = [1, 4]>>) -> tensor<2x3xf32>
  func.return %y, %t : tensor<2x3xf32>, tensor<4x3xf32, #torch.meta<strides = [1, 4]>>
}

// -----

/// Not: one number for all columns, a factor, a gradient that is needed, another dtype, no rows, sizes that are not known.
// CHECK-LABEL: func.func @kept
// CHECK-NOT:     torch.mkldnn
func.func @kept(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %b: tensor<3xf32>, %one: tensor<1xf32>, %d: tensor<4x4xf64>, %none: tensor<0x4xf32>, %any: tensor<?x4xf32>)
    -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<4x4xf64>, tensor<0x3xf32>, tensor<?x3xf32>) {
  %1 = torch.aten.addmm.default(%one, %x, %w) : (tensor<1xf32>, tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %2 = torch.aten.addmm.default(%b, %x, %w, beta = 2) : (tensor<3xf32>, tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %3 = torch.aten.mm.default(%x, %w) {requires_grad = [true]} : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %4 = torch.aten.mm.default(%d, %d) : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %5 = torch.aten.mm.default(%none, %w) : (tensor<0x4xf32>, tensor<4x3xf32>) -> tensor<0x3xf32>
  %6 = torch.aten.mm.default(%any, %w) : (tensor<?x4xf32>, tensor<4x3xf32>) -> tensor<?x3xf32>
  func.return %1, %2, %3, %4, %5, %6 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<4x4xf64>, tensor<0x3xf32>, tensor<?x3xf32>
}
