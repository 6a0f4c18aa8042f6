// RUN: fxc-opt %s --split-input-file -p fold-uniform-values | filecheck %s
// RUN: fxc-opt %s --split-input-file -p fold-uniform-values,fold-uniform-values | filecheck %s

/// What pointwise operators and views make of numbers; a constant with equal elements.
// CHECK-LABEL: func.func @uniform
// CHECK-NEXT:    %c = torch.aten.full.default([2, 3], 3.0, dtype = torch.float32)
// CHECK-NEXT:    %w = torch.aten.full.default([2], true, dtype = torch.bool)
// CHECK-NEXT:    fx.output((%c, %w))
func.func @uniform() {
  %a = torch.aten.ones.default([2, 3]) : () -> tensor<2x3xf32>
  %b = torch.aten.mul.Tensor(%a, 2) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = torch.aten.add.Tensor(%b, 1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %k = torch.constant([4, 4]) : tensor<2xi64>
  %u = torch.aten.scalar_tensor.default(4.0) : () -> tensor<f32>
  %v = torch.aten.expand.default(%u, [2]) : (tensor<f32>) -> tensor<2xf32, #torch.meta<strides = [0]>>
  %w = torch.aten.eq.Tensor(%k, %v) : (tensor<2xi64>, tensor<2xf32, #torch.meta<strides = [0]>>) -> tensor<2xi1>
  fx.output((%c, %w)) : (tensor<2x3xf32>, tensor<2xi1>) -> ()
}

// -----

/// NaN and the sign of zero; pieces of a split; a tensor like an argument; a 0-d tensor promotes as such.
// CHECK-LABEL: func.func @special
// CHECK-NEXT:    %b = torch.aten.full.default([3], nan, dtype = torch.float32)
// CHECK-NEXT:    %d = torch.aten.full.default([3], -0.0, dtype = torch.float16)
// CHECK-NEXT:    fx.output((%b, %d))
func.func @special(%x: tensor<3xf16>) {
  %z = torch.aten.full.default([6], nan) : () -> tensor<6xf32>
  %p, %q = torch.aten.split.Tensor(%z, 3) : (tensor<6xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  %b = torch.aten.mul.Tensor(%p, %q) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %o = torch.aten.zeros_like.default(%x) : (tensor<3xf16>) -> tensor<3xf16>
  %s = torch.aten.scalar_tensor.default(-1.0, dtype = torch.float64) : () -> tensor<f64>
  %d = torch.aten.mul.Tensor(%o, %s) : (tensor<3xf16>, tensor<f64>) -> tensor<3xf16>
  fx.output((%b, %d)) : (tensor<3xf32>, tensor<3xf16>) -> ()
}

// -----

/// Random numbers, what is written, a view that is returned, strided and complex results, a call that raises, and a NaN of
/// another sign than that of a number.
// CHECK-LABEL: func.func @no_uniform
// CHECK-NOT:     full.default([3]
// CHECK:         %l = torch.aten.neg.default(%k)
func.func @no_uniform() {
  %r = torch.aten.rand.default([3]) : () -> tensor<3xf32>
  %a = torch.aten.ones.default([3]) : () -> tensor<3xf32>
  %w = torch.aten.add_.Tensor(%a, %r) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %b = torch.aten.mul.Tensor(%a, 2) : (tensor<3xf32>) -> tensor<3xf32>
  %c = torch.aten.ones.default([1, 3]) : () -> tensor<1x3xf32>
  %d = torch.aten.view.default(%c, [3]) : (tensor<1x3xf32>) -> tensor<3xf32>
  %e = torch.aten.scalar_tensor.default(2.0) : () -> tensor<f32>
  %f = torch.aten.expand.default(%e, [3]) : (tensor<f32>) -> tensor<3xf32, #torch.meta<strides = [0]>>
  %g = torch.aten.zeros.default([3], dtype = torch.complex64) : () -> tensor<3xcomplex<f32>>
  %h = torch.aten.mul.Tensor(%g, 2) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
  %i = torch.aten.zeros.default([3], dtype = torch.int64) : () -> tensor<3xi64>
  %j = torch.aten.remainder.Tensor(%i, %i) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  %k = torch.aten.full.default([3, 1], nan) : () -> tensor<3x1xf32>
  %l = torch.aten.neg.default(%k) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  fx.output((%b, %c, %d, %f, %h, %j, %l)) : (tensor<3xf32>, tensor<1x3xf32>, tensor<3xf32>, tensor<3xf32, #torch.meta<strides = [0]>>, tensor<3xcomplex<f32>>, tensor<3xi64>, tensor<3x1xf32>) -> ()
}

// -----

/// Symbolic sizes: those of an operand. No value of the sizes of %x is in the program, so %d remains, and so does %e, which is
/// strided, but %f is computed from it.
// CHECK-LABEL: func.func @symbolic
// CHECK-NEXT:    %b = torch.aten.full.default([%n, 3], 2.0, dtype = torch.float32)
// CHECK-NEXT:    %c = torch.aten.ones_like.default(%x)
// CHECK-NEXT:    %d = torch.aten.mul.Tensor(%c, 2)
// CHECK-NEXT:    %u = torch.aten.full.default
// CHECK-NEXT:    %e = torch.aten.expand.default(%u, [2, %n])
// CHECK-NEXT:    %f = torch.aten.full.default([2], 3.0, dtype = torch.float32)
func.func @symbolic(%n: !torch.int<"s0">, %x: tensor<?xf32, #torch.meta<sizes = ["s1"]>>) {
  %a = torch.aten.ones.default([%n, 3]) : (!torch.int<"s0">) -> tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
  %b = torch.aten.mul.Tensor(%a, 2) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>
  %c = torch.aten.ones_like.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s1"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s1"]>>
  %d = torch.aten.mul.Tensor(%c, 2) : (tensor<?xf32, #torch.meta<sizes = ["s1"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s1"]>>
  %u = torch.aten.full.default([1], 3.0) : () -> tensor<1xf32>
  %e = torch.aten.expand.default(%u, [2, %n]) : (tensor<1xf32>, !torch.int<"s0">) -> tensor<2x?xf32, #torch.meta<sizes = [2, "s0"], strides = [0, 0]>>
  %s = torch.aten.select.int(%e, 1, 0) : (tensor<2x?xf32, #torch.meta<sizes = [2, "s0"], strides = [0, 0]>>) -> tensor<2xf32, #torch.meta<strides = [0]>>
  %f = torch.aten.abs.default(%s) : (tensor<2xf32, #torch.meta<strides = [0]>>) -> tensor<2xf32>
  fx.output((%b, %d, %e, %f)) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, tensor<?xf32, #torch.meta<sizes = ["s1"]>>, tensor<2x?xf32, #torch.meta<sizes = [2, "s0"], strides = [0, 0]>>, tensor<2xf32>) -> ()
}

// -----

/// Neutral tensors, also of symbolic sizes and smaller ones; -0.0 + 0.0 is not -0.0, but x - 0.0 is x.
// CHECK-LABEL: func.func @neutral
// CHECK:         %g = torch.aten.relu.default(%x)
// CHECK-NEXT:    %k = torch.aten.neg.default(%i)
func.func @neutral(%x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>, %i: tensor<4xi64>) {
  %o = torch.aten.ones_like.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %z = torch.aten.zeros.default([1]) : () -> tensor<1xf32>
  %n = torch.aten.neg.default(%z) : (tensor<1xf32>) -> tensor<1xf32>
  %a = torch.aten.mul.Tensor(%o, %x) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %b = torch.aten.div.Tensor(%a, %o) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %c = torch.aten.sub.Tensor(%b, %z) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<1xf32>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %d = torch.aten.add.Tensor(%n, %c) : (tensor<1xf32>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %g = torch.aten.relu.default(%d) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %y = torch.aten.zeros_like.default(%i) : (tensor<4xi64>) -> tensor<4xi64>
  %j = torch.aten.add.Tensor(%i, %y) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %k = torch.aten.neg.default(%j) : (tensor<4xi64>) -> tensor<4xi64>
  fx.output((%g, %k)) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<4xi64>) -> ()
}

// -----

/// Only the dtype differs.
// CHECK-LABEL: func.func @converted
// CHECK:         %a = torch.aten._to_copy.default(%x, dtype = torch.float32)
// CHECK-NEXT:    %b = torch.aten._to_copy.default(%i, dtype = torch.float32)
func.func @converted(%x: tensor<4xf16>, %i: tensor<4xi64>) {
  %o = torch.aten.ones.default([4]) : () -> tensor<4xf32>
  %a = torch.aten.mul.Tensor(%x, %o) : (tensor<4xf16>, tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.zeros.default([4]) : () -> tensor<4xf32>
  %b = torch.aten.add.Tensor(%i, %z) : (tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// The sign of a zero, an alpha, 0 - x and 1 / x, x * 0, a broadcast of x, a complex tensor, results that are returned.
// CHECK-LABEL: func.func @not_neutral
// CHECK:         torch.aten.add.Tensor(%x, %z)
// CHECK-NEXT:    torch.aten.sub.Tensor(%x, %n)
// CHECK-NEXT:    torch.aten.sub.Tensor(%x, %z, alpha = 2)
// CHECK-NEXT:    torch.aten.sub.Tensor(%z, %x)
// CHECK-NEXT:    torch.aten.div.Tensor(%o, %x)
// CHECK-NEXT:    torch.aten.mul.Tensor(%x, %z)
// CHECK-NEXT:    torch.aten.mul.Tensor(%r, %o)
// CHECK-NEXT:    torch.aten.mul.Tensor(%c, %o)
// CHECK-NEXT:    torch.aten.mul.Tensor(%x, %o)
func.func @not_neutral(%x: tensor<4xf32>, %r: tensor<1xf32>, %c: tensor<4xcomplex<f32>>) {
  %o = torch.aten.ones.default([4]) : () -> tensor<4xf32>
  %z = torch.aten.zeros.default([4]) : () -> tensor<4xf32>
  %n = torch.aten.full.default([4], -0.0) : () -> tensor<4xf32>
  %1 = torch.aten.add.Tensor(%x, %z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = torch.aten.sub.Tensor(%x, %n) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = torch.aten.sub.Tensor(%x, %z, alpha = 2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = torch.aten.sub.Tensor(%z, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = torch.aten.div.Tensor(%o, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = torch.aten.mul.Tensor(%x, %z) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %7 = torch.aten.mul.Tensor(%r, %o) : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  %8 = torch.aten.mul.Tensor(%c, %o) : (tensor<4xcomplex<f32>>, tensor<4xf32>) -> tensor<4xcomplex<f32>>
  %9 = torch.aten.mul.Tensor(%x, %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%1, %2, %3, %4, %5, %6, %7, %8, %9)) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xcomplex<f32>>, tensor<4xf32>) -> ()
}
