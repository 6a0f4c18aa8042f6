// RUN: fxc-opt %s --split-input-file --pass-pipeline=remove-expands | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=remove-expands,remove-expands | filecheck %s

/// The implicit one goes, the explicit one stays.
// CHECK-LABEL: func.func @implicit_and_explicit
// CHECK-NEXT:    %f = torch.aten.expand.default(%b, [4, 4])
// CHECK-NEXT:    %y = torch.aten.add.Tensor(%x, %b)
// CHECK-NEXT:    %z = torch.aten.mul.Tensor(%y, %f)
func.func @implicit_and_explicit(%x: tensor<4x4xf32>, %b: tensor<4xf32>) {
  %e = torch.aten.expand.default(%b, [4, 4], implicit = true) : (tensor<4xf32>) -> tensor<4x4xf32, #torch.meta<strides = [0, 1]>>
  %f = torch.aten.expand.default(%b, [4, 4]) : (tensor<4xf32>) -> tensor<4x4xf32, #torch.meta<strides = [0, 1]>>
  %y = torch.aten.add.Tensor(%x, %e) : (tensor<4x4xf32>, tensor<4x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<4x4xf32>
  %z = torch.aten.mul.Tensor(%y, %f) : (tensor<4x4xf32>, tensor<4x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<4x4xf32>
  fx.output(%z) : (tensor<4x4xf32>) -> ()
}

// -----

/// Whatever the operand: left, right, twice, beside a bool; a condition would be converted elsewhere, so it stays.
// CHECK-LABEL: func.func @operands
// CHECK-NEXT:    %q = torch.aten.expand.default(%p
// CHECK-NEXT:    %y = torch.aten.sub.Tensor(%b, %x)
// CHECK-NEXT:    %z = torch.aten.where.self(%q, %y, %b)
// CHECK-NEXT:    %w = torch.aten.addcmul.default(%z, %b, %b, value = 2)
func.func @operands(%x: tensor<3x4xf32>, %b: tensor<1x4xf32>, %p: tensor<3x1xi1>) {
  %e = torch.aten.expand.default(%b, [3, 4], implicit = true) : (tensor<1x4xf32>) -> tensor<3x4xf32, #torch.meta<strides = [0, 1]>>
  %q = torch.aten.expand.default(%p, [3, 4], implicit = true) : (tensor<3x1xi1>) -> tensor<3x4xi1, #torch.meta<strides = [1, 0]>>
  %y = torch.aten.sub.Tensor(%e, %x) : (tensor<3x4xf32, #torch.meta<strides = [0, 1]>>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %z = torch.aten.where.self(%q, %y, %e) : (tensor<3x4xi1, #torch.meta<strides = [1, 0]>>, tensor<3x4xf32>, tensor<3x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<3x4xf32>
  %w = torch.aten.addcmul.default(%z, %e, %e, value = 2) : (tensor<3x4xf32>, tensor<3x4xf32, #torch.meta<strides = [0, 1]>>, tensor<3x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<3x4xf32>
  fx.output(%w) : (tensor<3x4xf32>) -> ()
}

// -----

/// Sizes with names are known to be equal.
// CHECK-LABEL: func.func @symbolic
// CHECK-NEXT:    %y = torch.aten.add.Tensor(%x, %b)
// CHECK-LABEL: func.func @unnamed
// CHECK-NEXT:    %e = torch.aten.expand.default
// CHECK-NEXT:    %y = torch.aten.add.Tensor(%x, %e)
func.func @symbolic(%x: tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>, %b: tensor<4xf32>, %n: !torch.int<"s0">) {
  %e = torch.aten.expand.default(%b, [%n, 4], implicit = true) : (tensor<4xf32>, !torch.int<"s0">) -> tensor<?x4xf32, #torch.meta<sizes = ["s0", 4], strides = [0, 1]>>
  %y = torch.aten.add.Tensor(%x, %e) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>, tensor<?x4xf32, #torch.meta<sizes = ["s0", 4], strides = [0, 1]>>) -> tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>
  fx.output(%y) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> ()
}
func.func @unnamed(%x: tensor<?x4xf32>, %b: tensor<4xf32>, %n: !torch.int) {
  %e = torch.aten.expand.default(%b, [%n, 4], implicit = true) : (tensor<4xf32>, !torch.int) -> tensor<?x4xf32>
  %y = torch.aten.add.Tensor(%x, %e) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  fx.output(%y) : (tensor<?x4xf32>) -> ()
}

// -----

/// In the graphs of a higher-order operator too.
// CHECK-LABEL: func.func @in_regions
// CHECK:         torch.aten.add.Tensor(%y, %c)
// CHECK:         torch.aten.mul.Tensor(%y, %c)
// CHECK-NOT:     torch.aten.expand
func.func @in_regions(%p: tensor<i1>, %x: tensor<2x4xf32>, %b: tensor<4xf32>) {
  %h = torch.higher_order.cond(%p, @then, @else, (%x, %b)) ({
  ^bb0(%y: tensor<2x4xf32>, %c: tensor<4xf32>):
    %e = torch.aten.expand.default(%c, [2, 4], implicit = true) : (tensor<4xf32>) -> tensor<2x4xf32, #torch.meta<strides = [0, 1]>>
    %r = torch.aten.add.Tensor(%y, %e) : (tensor<2x4xf32>, tensor<2x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<2x4xf32>
    fx.output((%r,)) : (tensor<2x4xf32>) -> ()
  }, {
  ^bb0(%y: tensor<2x4xf32>, %c: tensor<4xf32>):
    %e = torch.aten.expand.default(%c, [2, 4], implicit = true) : (tensor<4xf32>) -> tensor<2x4xf32, #torch.meta<strides = [0, 1]>>
    %r = torch.aten.mul.Tensor(%y, %e) : (tensor<2x4xf32>, tensor<2x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<2x4xf32>
    fx.output((%r,)) : (tensor<2x4xf32>) -> ()
  }) : (tensor<i1>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  fx.output(%h) : (tensor<2x4xf32>) -> ()
}

// -----

/// One that is returned stays; who broadcasts reads past it all the same.
// CHECK-LABEL: func.func @returned
// CHECK-NEXT:    %e = torch.aten.expand.default
// CHECK-NEXT:    %y = torch.aten.add.Tensor(%x, %b)
// CHECK-NEXT:    fx.output((%e, %y))
func.func @returned(%x: tensor<4x4xf32>, %b: tensor<4xf32>) {
  %e = torch.aten.expand.default(%b, [4, 4], implicit = true) : (tensor<4xf32>) -> tensor<4x4xf32, #torch.meta<strides = [0, 1]>>
  %y = torch.aten.add.Tensor(%x, %e) : (tensor<4x4xf32>, tensor<4x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<4x4xf32>
  fx.output((%e, %y)) : (tensor<4x4xf32, #torch.meta<strides = [0, 1]>>, tensor<4x4xf32>) -> ()
}

// -----

/// Operators that do not broadcast: a product, a view, a reduction, a list, ``prims``.
// CHECK-LABEL: func.func @not_pointwise
// CHECK-NEXT:    %e = torch.aten.expand.default
// CHECK-NEXT:    torch.aten.mm.default(%e, %x)
// CHECK-NEXT:    torch.aten.t.default(%e)
// CHECK-NEXT:    torch.aten.sum.dim_IntList(%e, [0])
// CHECK-NEXT:    torch.aten.cat.default([%x, %e])
// CHECK-NEXT:    torch.prims.hypot.default(%x, %e)
func.func @not_pointwise(%x: tensor<4x4xf32>, %b: tensor<4xf32>) {
  %e = torch.aten.expand.default(%b, [4, 4], implicit = true) : (tensor<4xf32>) -> tensor<4x4xf32, #torch.meta<strides = [0, 1]>>
  %m = torch.aten.mm.default(%e, %x) : (tensor<4x4xf32, #torch.meta<strides = [0, 1]>>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = torch.aten.t.default(%e) : (tensor<4x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<4x4xf32, #torch.meta<strides = [1, 0]>>
  %s = torch.aten.sum.dim_IntList(%e, [0]) : (tensor<4x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<4xf32>
  %c = torch.aten.cat.default([%x, %e]) : (tensor<4x4xf32>, tensor<4x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<8x4xf32>
  %h = torch.prims.hypot.default(%x, %e) : (tensor<4x4xf32>, tensor<4x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<4x4xf32>
  fx.output((%m, %t, %s, %c, %h)) : (tensor<4x4xf32>, tensor<4x4xf32, #torch.meta<strides = [1, 0]>>, tensor<4xf32>, tensor<8x4xf32>, tensor<4x4xf32>) -> ()
}

// -----

/// A result that has its shape from the expand: of one operand, and of two of which one may go.
// CHECK-LABEL: func.func @gives_the_shape
// CHECK-NEXT:    %e = torch.aten.expand.default(%b, [3, 4], implicit = true)
// CHECK-NEXT:    %f = torch.aten.expand.default(%c, [3, 4], implicit = true)
// CHECK-NEXT:    %y = torch.aten.exp.default(%e)
// CHECK-NEXT:    %z = torch.aten.add.Tensor(%b, %f)
func.func @gives_the_shape(%b: tensor<4xf32>, %c: tensor<4xf32>) {
  %e = torch.aten.expand.default(%b, [3, 4], implicit = true) : (tensor<4xf32>) -> tensor<3x4xf32, #torch.meta<strides = [0, 1]>>
  %f = torch.aten.expand.default(%c, [3, 4], implicit = true) : (tensor<4xf32>) -> tensor<3x4xf32, #torch.meta<strides = [0, 1]>>
  %y = torch.aten.exp.default(%e) : (tensor<3x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<3x4xf32, #torch.meta<strides = [0, 1]>>
  %z = torch.aten.add.Tensor(%e, %f) : (tensor<3x4xf32, #torch.meta<strides = [0, 1]>>, tensor<3x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<3x4xf32>
  fx.output((%y, %z)) : (tensor<3x4xf32, #torch.meta<strides = [0, 1]>>, tensor<3x4xf32>) -> ()
}

// -----

/// f32 and an expanded f64 give f64, f32 and a 0-d f64 give f32; of one dtype it makes no difference.
// CHECK-LABEL: func.func @promotion
// CHECK-NEXT:    %e = torch.aten.expand.default(%d, [4], implicit = true)
// CHECK-NEXT:    %y = torch.aten.add.Tensor(%x, %e)
// CHECK-NEXT:    %z = torch.aten.mul.Tensor(%y, %d)
func.func @promotion(%x: tensor<4xf32>, %d: tensor<f64>) {
  %e = torch.aten.expand.default(%d, [4], implicit = true) : (tensor<f64>) -> tensor<4xf64, #torch.meta<strides = [0]>>
  %y = torch.aten.add.Tensor(%x, %e) : (tensor<4xf32>, tensor<4xf64, #torch.meta<strides = [0]>>) -> tensor<4xf64>
  %z = torch.aten.mul.Tensor(%y, %e) : (tensor<4xf64>, tensor<4xf64, #torch.meta<strides = [0]>>) -> tensor<4xf64>
  fx.output(%z) : (tensor<4xf64>) -> ()
}

// -----

/// What is written stays, and so do operands of operators that write.
// CHECK-LABEL: func.func @written
// CHECK-NEXT:    %c = torch.aten.clone.default(%b)
// CHECK-NEXT:    %e = torch.aten.expand.default(%c, [2, 4], implicit = true)
// CHECK-NEXT:    %w = torch.aten.zero_.default(%c)
// CHECK-NEXT:    %y = torch.aten.add.Tensor(%x, %e)
// CHECK-LABEL: func.func @written_beside
// CHECK-NEXT:    %e = torch.aten.expand.default
// CHECK-NEXT:    %y = torch.aten.clone.default(%x)
// CHECK-NEXT:    %w = torch.aten.add_.Tensor(%y, %e)
func.func @written(%x: tensor<2x4xf32>, %b: tensor<4xf32>) {
  %c = torch.aten.clone.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.expand.default(%c, [2, 4], implicit = true) : (tensor<4xf32>) -> tensor<2x4xf32, #torch.meta<strides = [0, 1]>>
  %w = torch.aten.zero_.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch.aten.add.Tensor(%x, %e) : (tensor<2x4xf32>, tensor<2x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<2x4xf32>
  fx.output(%y) : (tensor<2x4xf32>) -> ()
}
func.func @written_beside(%x: tensor<2x4xf32>, %b: tensor<4xf32>) {
  %e = torch.aten.expand.default(%b, [2, 4], implicit = true) : (tensor<4xf32>) -> tensor<2x4xf32, #torch.meta<strides = [0, 1]>>
  %y = torch.aten.clone.default(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %w = torch.aten.add_.Tensor(%y, %e) : (tensor<2x4xf32>, tensor<2x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<2x4xf32>
  fx.output(%y) : (tensor<2x4xf32>) -> ()
}

// -----

/// A new dimension of one element has a stride, which the result may take over.
// CHECK-LABEL: func.func @new_dimension_of_one
// CHECK-NEXT:    %e = torch.aten.expand.default(%b, [1, 4], implicit = true)
// CHECK-NEXT:    %y = torch.aten.add.Tensor(%x, %e)
func.func @new_dimension_of_one(%x: tensor<1x4xf32, #torch.meta<strides = [1, 1]>>, %b: tensor<4xf32>) {
  %e = torch.aten.expand.default(%b, [1, 4], implicit = true) : (tensor<4xf32>) -> tensor<1x4xf32>
  %y = torch.aten.add.Tensor(%x, %e) : (tensor<1x4xf32, #torch.meta<strides = [1, 1]>>, tensor<1x4xf32>) -> tensor<1x4xf32>
  fx.output(%y) : (tensor<1x4xf32>) -> ()
}

// -----

/// An operand that is converted first: an expanded one then has strides of its own. Comparing integers converts nothing.
// CHECK-LABEL: func.func @converted
// CHECK-NEXT:    %e = torch.aten.expand.default(%i, [2, 4], implicit = true)
// CHECK-NEXT:    %y = torch.aten.add.Tensor(%x, %e)
// CHECK-NEXT:    %z = torch.aten.div.Tensor(%k, %e)
// CHECK-NEXT:    %w = torch.aten.lt.Tensor(%k, %i)
func.func @converted(%x: tensor<2x4xf32>, %i: tensor<4xi64>, %k: tensor<2x4xi64>) {
  %e = torch.aten.expand.default(%i, [2, 4], implicit = true) : (tensor<4xi64>) -> tensor<2x4xi64, #torch.meta<strides = [0, 1]>>
  %y = torch.aten.add.Tensor(%x, %e) : (tensor<2x4xf32>, tensor<2x4xi64, #torch.meta<strides = [0, 1]>>) -> tensor<2x4xf32>
  %z = torch.aten.div.Tensor(%k, %e) : (tensor<2x4xi64>, tensor<2x4xi64, #torch.meta<strides = [0, 1]>>) -> tensor<2x4xf32>
  %w = torch.aten.lt.Tensor(%k, %e) : (tensor<2x4xi64>, tensor<2x4xi64, #torch.meta<strides = [0, 1]>>) -> tensor<2x4xi1>
  fx.output((%y, %z, %w)) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xi1>) -> ()
}

// -----

/// A chain of expansions, and one whose unnamed size another operand states only once that one is not expanded either.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %y = torch.aten.add.Tensor(%x, %b)
// CHECK-LABEL: func.func @sizes_of_each_other
// CHECK-NEXT:    %y = torch.aten.addcmul.default(%x, %b, %c)
func.func @chain(%x: tensor<2x3x4xf32>, %b: tensor<4xf32>) {
  %e = torch.aten.expand.default(%b, [3, 4], implicit = true) : (tensor<4xf32>) -> tensor<3x4xf32, #torch.meta<strides = [0, 1]>>
  %f = torch.aten.expand.default(%e, [2, 3, 4], implicit = true) : (tensor<3x4xf32, #torch.meta<strides = [0, 1]>>) -> tensor<2x3x4xf32, #torch.meta<strides = [0, 0, 1]>>
  %y = torch.aten.add.Tensor(%x, %f) : (tensor<2x3x4xf32>, tensor<2x3x4xf32, #torch.meta<strides = [0, 0, 1]>>) -> tensor<2x3x4xf32>
  fx.output(%y) : (tensor<2x3x4xf32>) -> ()
}
func.func @sizes_of_each_other(%x: tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>, %b: tensor<4xf32>, %c: tensor<4xf32>, %n: !torch.int<"s0">, %m: !torch.int) {
  %e = torch.aten.expand.default(%b, [%n, 4], implicit = true) : (tensor<4xf32>, !torch.int<"s0">) -> tensor<?x4xf32, #torch.meta<sizes = ["s0", 4], strides = [0, 1]>>
  %f = torch.aten.expand.default(%c, [%m, 4], implicit = true) : (tensor<4xf32>, !torch.int) -> tensor<?x4xf32>
  %y = torch.aten.addcmul.default(%x, %e, %f) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>, tensor<?x4xf32, #torch.meta<sizes = ["s0", 4], strides = [0, 1]>>, tensor<?x4xf32>) -> tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>
  fx.output(%y) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> ()
}
