// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize,canonicalize | filecheck %s

/// The equations themselves are tested in patterns/. Here: one rewrite makes room for the next.
// CHECK-LABEL: func.func @cascade
// CHECK-NEXT:    %f = torch.aten.relu.default(%x)
// CHECK-NEXT:    fx.output(%f)
func.func @cascade(%x: tensor<2x3xf32>) {
  %one = torch.constant(1) : !torch.int
  %zero = torch.constant(0) : !torch.int
  %a = torch.aten.transpose.int(%x, %zero, %one) : (tensor<2x3xf32>, !torch.int, !torch.int) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %b = torch.aten.neg.default(%a) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %c = torch.aten.mul.Tensor(%b, %one) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>, !torch.int) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %d = torch.aten.neg.default(%c) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %e = torch.aten.t.default(%d) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>) -> tensor<2x3xf32>
  %f = torch.aten.relu.default(%e) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %g = torch.aten.relu.default(%f) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%g) : (tensor<2x3xf32>) -> ()
}

// -----

/// What other ops use too stays; what nothing read before stays for dce.
// CHECK-LABEL: func.func @shared
// CHECK-NEXT:    %a = torch.aten.neg.default(%x)
// CHECK-NEXT:    %dead = torch.aten.mul.Tensor(%x, 1)
// CHECK-NEXT:    %c = torch.aten.add.Tensor(%a, %x)
func.func @shared(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %dead = torch.aten.mul.Tensor(%x, 1) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%c) : (tensor<4xf32>) -> ()
}

// -----

/// A random draw that only a rewritten op used is drawn all the same.
// CHECK-LABEL: func.func @draws
// CHECK-NEXT:    torch.aten.rand_like.default
// CHECK-NEXT:    %e = torch.aten.sin.default(%x)
func.func @draws(%p: tensor<4xi1>, %x: tensor<4xf32>) {
  %r = torch.aten.rand_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.gt.Scalar(%r, 0.5) : (tensor<4xf32>) -> tensor<4xi1>
  %d = torch.aten.where.self(%c, %x, %x) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.sin.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%e) : (tensor<4xf32>) -> ()
}

// -----

/// A copy that the forward saves for the backward remains; what replaces an operation has its attributes.
// CHECK-LABEL: func.func @marks
// CHECK-NEXT:    %a = torch.aten.clone.default(%x) {autodiff.saved = array<i64: 0>}
// CHECK-NEXT:    %c = torch.aten.permute.default(%a, [2, 0, 1]) {autodiff.recomputed}
func.func @marks(%x: tensor<2x3x4xf32>) {
  %a = torch.aten.clone.default(%x) {autodiff.saved = array<i64: 0>} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %b = torch.aten.transpose.int(%a, 0, 1) : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32, #torch.meta<strides = [4, 12, 1]>>
  %c = torch.aten.permute.default(%b, [2, 1, 0]) {autodiff.recomputed} : (tensor<3x2x4xf32, #torch.meta<strides = [4, 12, 1]>>) -> tensor<4x2x3xf32, #torch.meta<strides = [1, 12, 4]>>
  %d = torch.aten.relu.default(%c) : (tensor<4x2x3xf32, #torch.meta<strides = [1, 12, 4]>>) -> tensor<4x2x3xf32, #torch.meta<strides = [1, 12, 4]>>
  fx.output(%d) : (tensor<4x2x3xf32, #torch.meta<strides = [1, 12, 4]>>) -> ()
}

// -----

/// A group yields only what it makes: the first view stays, the second, which it does not yield, goes.
// CHECK-LABEL: func.func @group
// CHECK:         fusion.group ({
// CHECK-NEXT:      %v = torch.aten.view.default(%x, [4])
// CHECK-NEXT:      %s = torch.aten.sin.default(%x)
func.func @group(%x: tensor<4xf32>) {
  %g, %h = fusion.group ({
    %v = torch.aten.view.default(%x, [4]) : (tensor<4xf32>) -> tensor<4xf32>
    %w = torch.aten.view.default(%x, [4]) : (tensor<4xf32>) -> tensor<4xf32>
    %s = torch.aten.sin.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %v, %s : tensor<4xf32>, tensor<4xf32>
  }) -> (tensor<4xf32>, tensor<4xf32>)
  fx.output((%g, %h)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}
