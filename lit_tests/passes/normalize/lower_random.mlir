// RUN: fxc-opt %s --split-input-file --pass-pipeline=lower-random | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=lower-random,lower-random | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=lower-random,fuse{reductions=true},convert-fusion-to-linalg | filecheck %s --check-prefix=LOOPS

/// One seed for all draws of a block, a stream for each.
// CHECK-LABEL: func.func @streams
// CHECK-NEXT:    %seed = torch.aten.randint.default(9223372036854775807, [], dtype = torch.int64) : () -> tensor<i64>
// CHECK-NEXT:    %a = torch.fxc.uniform.default(%seed, [4, 3], 0, torch.float32) : (tensor<i64>) -> tensor<4x3xf32>
// CHECK-NEXT:    %b = torch.fxc.uniform.default(%seed, [5], 1, torch.float64) : (tensor<i64>) -> tensor<5xf64>
// CHECK-NEXT:    fx.output
func.func @streams() {
  %a = torch.aten.rand.default([4, 3]) : () -> tensor<4x3xf32>
  %b = torch.aten.rand.default([5], dtype = torch.float64) : () -> tensor<5xf64>
  fx.output((%a, %b)) : (tensor<4x3xf32>, tensor<5xf64>) -> ()
}

// -----

/// What stays is scaled; the mask is what a derivative reads. In loops: bits of the place, and no tensor of numbers.
// CHECK-LABEL: func.func @dropout
// CHECK:         %[[U:.*]] = torch.fxc.uniform.default(%seed, [4, 6], 0, torch.float32)
// CHECK-NEXT:    %mask = torch.aten.lt.Scalar(%[[U]], 0.75) : (tensor<4x6xf32>) -> tensor<4x6xi1>
// CHECK-NEXT:    %[[K:.*]] = torch.aten.mul.Tensor(%x, %mask) : (tensor<4x6xf16>, tensor<4x6xi1>) -> tensor<4x6xf16>
// CHECK-NEXT:    %y = torch.aten.mul.Tensor(%[[K]], 1.3333333333333333)
// LOOPS-LABEL: func.func @dropout
// LOOPS:         linalg.generic
// LOOPS:         tile.random
// LOOPS-NOT:     torch.fxc.uniform
// LOOPS:         fx.output
func.func @dropout(%x: tensor<4x6xf16>) {
  %y, %mask = torch.aten.native_dropout.default(%x, 0.25, true) : (tensor<4x6xf16>) -> (tensor<4x6xf16>, tensor<4x6xi1>)
  fx.output((%y, %mask)) : (tensor<4x6xf16>, tensor<4x6xi1>) -> ()
}

// -----

/// Normal numbers are made of two streams, integers of numbers with 53 bits.
// CHECK-LABEL: func.func @formulas
// CHECK:         torch.fxc.uniform.default(%seed, [3], 0, torch.float32)
// CHECK:         torch.fxc.uniform.default(%seed, [3], 1, torch.float32)
// CHECK:         %n = torch.aten._to_copy.default(%{{.*}}, dtype = torch.bfloat16)
// CHECK:         torch.fxc.uniform.default(%seed, [3], 2, torch.float64)
// CHECK:         torch.aten.floor.default
// CHECK-NEXT:    torch.aten.add.Tensor(%{{.*}}, -2.0)
// CHECK-NEXT:    %i = torch.aten._to_copy.default(%{{.*}}, dtype = torch.int64)
func.func @formulas(%x: tensor<3xbf16>) {
  %n = torch.aten.randn_like.default(%x) : (tensor<3xbf16>) -> tensor<3xbf16>
  %i = torch.aten.randint.low(-2, 7, [3]) : () -> tensor<3xi64>
  fx.output((%n, %i)) : (tensor<3xbf16>, tensor<3xi64>) -> ()
}

// -----

/// A seed for each device, and for each run of a region.
// CHECK-LABEL: func.func @devices
// CHECK-NEXT:    %seed = torch.aten.randint.default(9223372036854775807, [], dtype = torch.int64, device = device("cuda:0"))
// CHECK-NEXT:    %a = torch.fxc.uniform.default(%seed, [4], 0, torch.float32)
// CHECK-NEXT:    %[[S:.*]] = torch.aten.randint.default(9223372036854775807, [], dtype = torch.int64) : () -> tensor<i64>
// CHECK-NEXT:    %b = torch.fxc.uniform.default(%[[S]], [4], 1, torch.float32)
func.func @devices() {
  %a = torch.aten.rand.default([4], device = device("cuda:0")) : () -> tensor<4xf32, #torch.meta<device = "cuda:0">>
  %b = torch.aten.rand.default([4]) : () -> tensor<4xf32>
  fx.output((%a, %b)) : (tensor<4xf32, #torch.meta<device = "cuda:0">>, tensor<4xf32>) -> ()
}

// -----

// CHECK-LABEL: func.func @regions
// CHECK:       ^bb0
// CHECK-NEXT:    torch.aten.randint.default(9223372036854775807, []
// CHECK-NEXT:    torch.fxc.uniform.default
func.func @regions(%p: tensor<i1>, %x: tensor<3xf32>) {
  %h = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%y: tensor<3xf32>):
    %a = torch.aten.rand_like.default(%y) : (tensor<3xf32>) -> tensor<3xf32>
    fx.output((%a,)) : (tensor<3xf32>) -> ()
  }, {
  ^bb0(%y: tensor<3xf32>):
    fx.output((%y,)) : (tensor<3xf32>) -> ()
  }) : (tensor<i1>, tensor<3xf32>) -> tensor<3xf32>
  fx.output(%h) : (tensor<3xf32>) -> ()
}

// -----

/// Left alone: sizes and shares that are values, strides, complex numbers, wide ranges, one integer, other operators, and
/// dropout that drops nothing, or all.
// CHECK-LABEL: func.func @left
// CHECK-NOT:     torch.fxc.uniform
// CHECK:         fx.output
func.func @left(%s: tensor<?x3xf32>, %x: tensor<2x3xf32>, %t: tensor<2x3xf32, #torch.meta<strides = [1, 2]>>, %k: !torch.float) {
  %a = torch.aten.rand_like.default(%s) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  %b = torch.aten.dropout.default(%x, %k, true) : (tensor<2x3xf32>, !torch.float) -> tensor<2x3xf32>
  %c = torch.aten.rand_like.default(%t) : (tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) -> tensor<2x3xf32, #torch.meta<strides = [1, 2]>>
  %d = torch.aten.randn.default([3], dtype = torch.complex64) : () -> tensor<3xcomplex<f32>>
  %e = torch.aten.randint.default(4294967296, [3]) : () -> tensor<3xi64>
  %f = torch.aten.randint.default(9, []) : () -> tensor<i64>
  %g = torch.aten.randperm.default(5) : () -> tensor<5xi64>
  %h = torch.aten.dropout.default(%x, 0.5, false) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %i = torch.aten.dropout.default(%x, 1.0, true) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output((%a, %b, %c, %d, %e, %f, %g, %h, %i)) : (tensor<?x3xf32>, tensor<2x3xf32>, tensor<2x3xf32, #torch.meta<strides = [1, 2]>>, tensor<3xcomplex<f32>>, tensor<3xi64>, tensor<i64>, tensor<5xi64>, tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}
