// RUN: fxc-opt %s --split-input-file --pass-pipeline=hoist-gathers | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=hoist-gathers,hoist-gathers | filecheck %s

/// Through several ops; what is one number a row stands for itself.
// CHECK-LABEL: func.func @log_softmax
// CHECK-NEXT:    %0 = torch.aten.gather.default(%x, 1, %i) : (tensor<8x100xf32>, tensor<8x1xi64>) -> tensor<8x1xf32>
// CHECK-NEXT:    %1 = torch.aten.sub.Tensor(%0, %m) : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:    %g = torch.aten.sub.Tensor(%1, %l) : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
// CHECK-NEXT:    fx.output(%g)
func.func @log_softmax(%x: tensor<8x100xf32>, %m: tensor<8x1xf32>, %l: tensor<8x1xf32>, %i: tensor<8x1xi64>) {
  %a = torch.aten.sub.Tensor(%x, %m) : (tensor<8x100xf32>, tensor<8x1xf32>) -> tensor<8x100xf32>
  %b = torch.aten.sub.Tensor(%a, %l) : (tensor<8x100xf32>, tensor<8x1xf32>) -> tensor<8x100xf32>
  %g = torch.aten.gather.default(%b, 1, %i) : (tensor<8x100xf32>, tensor<8x1xi64>) -> tensor<8x1xf32>
  fx.output(%g) : (tensor<8x1xf32>) -> ()
}

// -----

/// A number, a tensor of one element, two that are gathered, a negative dimension.
// CHECK-LABEL: func.func @operands
// CHECK-NEXT:    %0 = torch.aten.gather.default(%x, -1, %i)
// CHECK-NEXT:    %1 = torch.aten.gather.default(%y, -1, %i)
// CHECK-NEXT:    %2 = torch.aten.mul.Tensor(%0, %1)
// CHECK-NEXT:    %3 = torch.aten.mul.Tensor(%2, %s)
// CHECK-NEXT:    %g = torch.aten.add.Scalar(%3, 2.0)
func.func @operands(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %s: tensor<f32>, %i: tensor<4x3xi64>) {
  %a = torch.aten.mul.Tensor(%x, %y) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %b = torch.aten.mul.Tensor(%a, %s) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %c = torch.aten.add.Scalar(%b, 2.0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %g = torch.aten.gather.default(%c, -1, %i) : (tensor<4x6xf32>, tensor<4x3xi64>) -> tensor<4x3xf32>
  fx.output(%g) : (tensor<4x3xf32>) -> ()
}

// -----

/// Others read a part of it too, but few elements are wanted here: these are computed again.
// CHECK-LABEL: func.func @few
// CHECK-NEXT:    %a = torch.aten.neg.default(%x)
// CHECK-NEXT:    %0 = torch.aten.gather.default(%x, 1, %i)
// CHECK-NEXT:    %1 = torch.aten.neg.default(%0)
// CHECK-NEXT:    %g = torch.aten.abs.default(%1)
func.func @few(%x: tensor<4x6xf32>, %i: tensor<4x1xi64>) {
  %a = torch.aten.neg.default(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %b = torch.aten.abs.default(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %g = torch.aten.gather.default(%b, 1, %i) : (tensor<4x6xf32>, tensor<4x1xi64>) -> tensor<4x1xf32>
  fx.output((%a, %g)) : (tensor<4x6xf32>, tensor<4x1xf32>) -> ()
}

// -----

/// Others read it; a row that is the same for all; more elements than there are; fewer rows; a draw.
// CHECK-LABEL: func.func @kept
// CHECK:         torch.aten.gather.default(%a, 1, %h)
// CHECK:         torch.aten.gather.default(%b, 1, %i)
// CHECK:         torch.aten.gather.default(%c, 1, %j)
// CHECK:         torch.aten.gather.default(%d, 1, %k)
// CHECK:         torch.aten.gather.default(%e, 1, %i)
func.func @kept(%x: tensor<4x6xf32>, %r: tensor<6xf32>, %i: tensor<4x1xi64>, %h: tensor<4x3xi64>, %j: tensor<4x9xi64>, %k: tensor<3x1xi64>) {
  %a = torch.aten.neg.default(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = torch.aten.gather.default(%a, 1, %h) : (tensor<4x6xf32>, tensor<4x3xi64>) -> tensor<4x3xf32>
  %b = torch.aten.add.Tensor(%x, %r) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %2 = torch.aten.gather.default(%b, 1, %i) : (tensor<4x6xf32>, tensor<4x1xi64>) -> tensor<4x1xf32>
  %c = torch.aten.neg.default(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %3 = torch.aten.gather.default(%c, 1, %j) : (tensor<4x6xf32>, tensor<4x9xi64>) -> tensor<4x9xf32>
  %d = torch.aten.neg.default(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %4 = torch.aten.gather.default(%d, 1, %k) : (tensor<4x6xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  %e = torch.aten.rand_like.default(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %5 = torch.aten.gather.default(%e, 1, %i) : (tensor<4x6xf32>, tensor<4x1xi64>) -> tensor<4x1xf32>
  fx.output((%a, %1, %2, %3, %4, %5)) : (tensor<4x6xf32>, tensor<4x3xf32>, tensor<4x1xf32>, tensor<4x9xf32>, tensor<3x1xf32>, tensor<4x1xf32>) -> ()
}

// -----

/// Not past a write.
// CHECK-LABEL: func.func @write
// CHECK-NEXT:    %a = torch.aten.neg.default(%x)
// CHECK-NEXT:    torch.aten.zero_.default(%x)
// CHECK-NEXT:    torch.aten.gather.default(%a, 1, %i)
func.func @write(%x: tensor<4x6xf32>, %i: tensor<4x1xi64>) {
  %a = torch.aten.neg.default(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %z = torch.aten.zero_.default(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %g = torch.aten.gather.default(%a, 1, %i) : (tensor<4x6xf32>, tensor<4x1xi64>) -> tensor<4x1xf32>
  fx.output((%g, %z)) : (tensor<4x1xf32>, tensor<4x6xf32>) -> ()
}
