// RUN: fxc-opt %s --split-input-file --pass-pipeline=fuse{reductions=true} | filecheck %s

/// What reads a gather is in its group, and what computes the indices.
// CHECK-LABEL: func.func @indices
// CHECK-NEXT:    %n = fusion.group ({
// CHECK-NEXT:      torch.aten.add.Tensor
// CHECK-NEXT:      torch.aten.index_select.default
// CHECK-NEXT:      torch.aten.neg.default
func.func @indices(%x: tensor<8x4xf32>, %i: tensor<8xi64>) {
  %j = torch.aten.add.Tensor(%i, 1) : (tensor<8xi64>) -> tensor<8xi64>
  %g = torch.aten.index_select.default(%x, 0, %j) : (tensor<8x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %n = torch.aten.neg.default(%g) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  fx.output((%n,)) : (tensor<8x4xf32>) -> ()
}

// -----

/// What is gathered is not, through views of it neither.
// CHECK-LABEL: func.func @source
// CHECK-NEXT:    %b = fusion.group ({
// CHECK-NEXT:      torch.aten.exp.default
// CHECK-NEXT:      torch.aten.neg.default
// CHECK-NEXT:      fusion.yield
// CHECK:         %n = fusion.group ({
// CHECK-NEXT:      torch.aten.t.default
// CHECK-NEXT:      torch.aten.index_select.default
// CHECK-NEXT:      torch.aten.neg.default
func.func @source(%x: tensor<8x4xf32>, %i: tensor<8xi64>) {
  %a = torch.aten.exp.default(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %b = torch.aten.neg.default(%a) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %t = torch.aten.t.default(%b) : (tensor<8x4xf32>) -> tensor<4x8xf32, #torch.meta<strides = [1, 4]>>
  %g = torch.aten.index_select.default(%t, 1, %i) : (tensor<4x8xf32, #torch.meta<strides = [1, 4]>>, tensor<8xi64>) -> tensor<4x8xf32>
  %n = torch.aten.neg.default(%g) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  fx.output((%n,)) : (tensor<4x8xf32>) -> ()
}

// -----

/// A concatenation of many tensors is in no group with what reads it.
// CHECK-LABEL: func.func @many
// CHECK-NOT:     fusion.group
// CHECK:         torch.aten.cat.default
// CHECK-NEXT:    torch.aten.neg.default
func.func @many(%x: tensor<4xf32>) {
  %c = torch.aten.cat.default([%x, %x, %x, %x, %x, %x, %x, %x, %x]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<36xf32>
  %n = torch.aten.neg.default(%c) : (tensor<36xf32>) -> tensor<36xf32>
  fx.output((%n,)) : (tensor<36xf32>) -> ()
}
