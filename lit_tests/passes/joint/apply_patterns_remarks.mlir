// RUN: fxc-opt %s --split-input-file --remarks=patterns -p 'apply-patterns{files=%S/../../../examples/patterns/silu.mlir,%S/../../../examples/patterns/masked_attention.mlir,%S/../../../examples/patterns/product.mlir}' 2>&1 | filecheck %s

// CHECK: remark: apply-patterns: silu: an inner value has another user: %z = aten.neg.default
func.func @another_user(%x: tensor<2x3xf32>) {
  %s = torch.aten.sigmoid.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = torch.aten.mul.Tensor(%x, %s) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %z = torch.aten.neg.default(%s) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output((%y, %z)) : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}

// -----

// CHECK: remark: apply-patterns: silu: a write lies between its operations: %y = aten.mul.Tensor
func.func @write_between(%x: tensor<2x3xf32>) {
  %c = torch.aten.clone.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %s = torch.aten.sigmoid.default(%c) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %w = torch.aten.neg_.default(%c) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = torch.aten.mul.Tensor(%c, %s) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%y) : (tensor<2x3xf32>) -> ()
}

// -----

// CHECK: remark: apply-patterns: silu: it does not accept the types of a match, as (tensor<2x3xf64>): %y = aten.mul.Tensor
func.func @dtype(%x: tensor<2x3xf64>) {
  %s = torch.aten.sigmoid.default(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %y = torch.aten.mul.Tensor(%x, %s) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  fx.output(%y) : (tensor<2x3xf64>) -> ()
}

// -----

// CHECK: remark: apply-patterns: masked_attention: other differs: 0.125 for 0.25: %m = aten.mul.Tensor
func.func @literal(%q: tensor<2x3x5x16xf32>, %k: tensor<2x3x7x16xf32>, %v: tensor<2x3x7x16xf32>, %mask: tensor<5x7xf32>) {
  %kt = torch.aten.transpose.int(%k, -2, -1) : (tensor<2x3x7x16xf32>) -> tensor<2x3x16x7xf32, #torch.meta<strides = [336, 112, 1, 16]>>
  %p = torch.aten.matmul.default(%q, %kt) : (tensor<2x3x5x16xf32>, tensor<2x3x16x7xf32, #torch.meta<strides = [336, 112, 1, 16]>>) -> tensor<2x3x5x7xf32>
  %m = torch.aten.mul.Tensor(%p, 0.125) : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %a = torch.aten.add.Tensor(%m, %mask) : (tensor<2x3x5x7xf32>, tensor<5x7xf32>) -> tensor<2x3x5x7xf32>
  %s = torch.aten.softmax.int(%a, -1) : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %o = torch.aten.matmul.default(%s, %v) : (tensor<2x3x5x7xf32>, tensor<2x3x7x16xf32>) -> tensor<2x3x5x16xf32>
  fx.output(%o) : (tensor<2x3x5x16xf32>) -> ()
}

// -----

// CHECK: remark: apply-patterns: product: two exclusive parameters are one value: %y = aten.add.Tensor
func.func @exclusive(%a: tensor<3x3xf32>, %c: tensor<3x3xf32>) {
  %m = torch.aten.matmul.default(%a, %a) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %y = torch.aten.add.Tensor(%m, %c) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  fx.output(%y) : (tensor<3x3xf32>) -> ()
}
