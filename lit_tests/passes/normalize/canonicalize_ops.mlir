// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize-ops | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize-ops,canonicalize-ops | filecheck %s

/// A constant tensor without dimensions on the right is a number; other arguments stay.
// CHECK-LABEL: func.func @numbers
// CHECK-NEXT:    %a = torch.aten.add.Scalar(%x, -0.0, %k)
// CHECK-NEXT:    %b = torch.aten.sub.Scalar(%a, 1.5, 2)
// CHECK-NEXT:    %d = torch.aten.mul.Scalar(%b, -7)
// CHECK-NEXT:    %e = torch.aten.div.Scalar(%d, 1.5)
// CHECK-NEXT:    %f = torch.aten.div.Scalar_mode(%e, 1.5, rounding_mode = "floor")
// CHECK-NEXT:    fx.output
func.func @numbers(%x: tensor<4xf32>, %k: !torch.int) {
  %z = torch.constant([-0.0]) : tensor<f32>
  %c = torch.constant([1.5]) : tensor<f64>
  %h = torch.constant([1.5]) : tensor<f16>
  %n = torch.constant([-7]) : tensor<i64>
  %a = torch.aten.add.Tensor(%x, %z, alpha = %k) : (tensor<4xf32>, tensor<f32>, !torch.int) -> tensor<4xf32>
  %b = torch.aten.sub.Tensor(%a, %c, alpha = 2) : (tensor<4xf32>, tensor<f64>) -> tensor<4xf32>
  %d = torch.aten.mul.Tensor(%b, %n) : (tensor<4xf32>, tensor<i64>) -> tensor<4xf32>
  %e = torch.aten.div.Tensor(%d, %h) : (tensor<4xf32>, tensor<f16>) -> tensor<4xf32>
  %f = torch.aten.div.Tensor_mode(%e, %c, rounding_mode = "floor") : (tensor<4xf32>, tensor<f64>) -> tensor<4xf32>
  fx.output(%f) : (tensor<4xf32>) -> ()
}

// -----

/// Integers with integers, also of another width; bfloat16; and two tensors without dimensions of one dtype.
// CHECK-LABEL: func.func @widths
// CHECK-NEXT:    %a = torch.aten.mul.Scalar(%i, 3)
// CHECK-NEXT:    %b = torch.aten.div.Scalar(%i, 3)
// CHECK-NEXT:    %c = torch.aten.mul.Scalar(%x, 1.5)
// CHECK-NEXT:    %d = torch.aten.sub.Scalar(%z, 0.5)
func.func @widths(%i: tensor<4xi32>, %x: tensor<4xbf16>, %z: tensor<f32>) {
  %n = torch.constant([3]) : tensor<i64>
  %h = torch.constant(#torch.literal<"c03f">) : tensor<bf16>
  %f = torch.constant([0.5]) : tensor<f32>
  %a = torch.aten.mul.Tensor(%i, %n) : (tensor<4xi32>, tensor<i64>) -> tensor<4xi32>
  %b = torch.aten.div.Tensor(%i, %n) : (tensor<4xi32>, tensor<i64>) -> tensor<4xf32>
  %c = torch.aten.mul.Tensor(%x, %h) : (tensor<4xbf16>, tensor<bf16>) -> tensor<4xbf16>
  %d = torch.aten.sub.Tensor(%z, %f) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  fx.output((%a, %b, %c, %d)) : (tensor<4xi32>, tensor<4xf32>, tensor<4xbf16>, tensor<f32>) -> ()
}

// -----

/// Numbers that decide the dtype, as a tensor or as nothing else.
// CHECK-LABEL: func.func @decides_the_dtype
// CHECK:         torch.aten.add.Tensor(%i, %f)
// CHECK-NEXT:    torch.aten.add.Tensor(%z, %f)
// CHECK-NEXT:    torch.aten.mul.Tensor(%p, %n)
// CHECK-NEXT:    torch.aten.add.Tensor(%i, %t)
func.func @decides_the_dtype(%i: tensor<4xi64>, %z: tensor<f32>, %p: tensor<4xi1>) {
  %f = torch.constant([0.5]) : tensor<f64>
  %n = torch.constant([3]) : tensor<i32>
  %t = torch.constant([true]) : tensor<i1>
  %a = torch.aten.add.Tensor(%i, %f) : (tensor<4xi64>, tensor<f64>) -> tensor<4xf64>
  %b = torch.aten.add.Tensor(%z, %f) : (tensor<f32>, tensor<f64>) -> tensor<f64>
  %c = torch.aten.mul.Tensor(%p, %n) : (tensor<4xi1>, tensor<i32>) -> tensor<4xi32>
  %d = torch.aten.add.Tensor(%i, %t) : (tensor<4xi64>, tensor<i1>) -> tensor<4xi64>
  fx.output((%a, %b, %c, %d)) : (tensor<4xf64>, tensor<f64>, tensor<4xi32>, tensor<4xi64>) -> ()
}

// -----

/// A constant with a dimension, on the left, or that is written; a tensor that is no constant.
// CHECK-LABEL: func.func @other_operands
// CHECK:         torch.aten.add.Tensor(%x, %one)
// CHECK-NEXT:    torch.aten.mul.Tensor(%c, %x)
// CHECK-NEXT:    torch.aten.add.Tensor(%x, %w)
// CHECK-NEXT:    torch.aten.add_.Tensor(%w, %c)
// CHECK-NEXT:    torch.aten.mul.Tensor(%x, %z)
func.func @other_operands(%x: tensor<4xf32>, %z: tensor<f32>) {
  %one = torch.constant([1.0]) : tensor<1xf32>
  %c = torch.constant([2.0]) : tensor<f32>
  %w = torch.constant([2.0]) : tensor<f32>
  %a = torch.aten.add.Tensor(%x, %one) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %b = torch.aten.mul.Tensor(%c, %x) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.add.Tensor(%x, %w) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %v = torch.aten.add_.Tensor(%w, %c) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %e = torch.aten.mul.Tensor(%x, %z) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  fx.output((%a, %b, %d, %e)) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// One operator for all ways to cut: even or not, from the end or by names.
// CHECK-LABEL: func.func @pieces
// CHECK-NEXT:    %a, %b, %c = torch.aten.split_with_sizes.default(%x, [2, 2, 2], 1)
// CHECK-NEXT:    %d, %e = torch.aten.split_with_sizes.default(%x, [3, 2], 0)
// CHECK-NEXT:    %f, %g = torch.aten.split_with_sizes.default(%x, [4, 2], 1)
// CHECK-NEXT:    %h, %i = torch.aten.split_with_sizes.default(%x, [1, 5], 1)
// CHECK-NEXT:    %j = torch.aten.split_with_sizes.default(%x, [5], 0)
func.func @pieces(%x: tensor<5x6xf32>) {
  %a, %b, %c = torch.aten.chunk.default(%x, 3, -1) : (tensor<5x6xf32>) -> (tensor<5x2xf32, #torch.meta<strides = [6, 1]>>, tensor<5x2xf32, #torch.meta<strides = [6, 1]>>, tensor<5x2xf32, #torch.meta<strides = [6, 1]>>)
  %d, %e = torch.aten.chunk.default(%x, 2) : (tensor<5x6xf32>) -> (tensor<3x6xf32>, tensor<2x6xf32>)
  %f, %g = torch.aten.split.Tensor(%x, 4, 1) : (tensor<5x6xf32>) -> (tensor<5x4xf32, #torch.meta<strides = [6, 1]>>, tensor<5x2xf32, #torch.meta<strides = [6, 1]>>)
  %h, %i = torch.aten.split.sizes(%x, [1, 5], dim = 1) : (tensor<5x6xf32>) -> (tensor<5x1xf32, #torch.meta<strides = [6, 1]>>, tensor<5x5xf32, #torch.meta<strides = [6, 1]>>)
  %j = torch.aten.chunk.default(%x, 1) : (tensor<5x6xf32>) -> tensor<5x6xf32>
  fx.output((%a, %b, %c, %d, %e, %f, %g, %h, %i, %j)) : (tensor<5x2xf32, #torch.meta<strides = [6, 1]>>, tensor<5x2xf32, #torch.meta<strides = [6, 1]>>, tensor<5x2xf32, #torch.meta<strides = [6, 1]>>, tensor<3x6xf32>, tensor<2x6xf32>, tensor<5x4xf32, #torch.meta<strides = [6, 1]>>, tensor<5x2xf32, #torch.meta<strides = [6, 1]>>, tensor<5x1xf32, #torch.meta<strides = [6, 1]>>, tensor<5x5xf32, #torch.meta<strides = [6, 1]>>, tensor<5x6xf32>) -> ()
}

// -----

/// Fewer pieces than were asked for: the sizes say how many there are.
// CHECK-LABEL: func.func @fewer_pieces
// CHECK-NEXT:    %a, %b = torch.aten.split_with_sizes.default(%x, [2, 2], 0)
func.func @fewer_pieces(%x: tensor<4xf32>) {
  %a, %b = torch.aten.chunk.default(%x, 3) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  fx.output((%a, %b)) : (tensor<2xf32>, tensor<2xf32>) -> ()
}

// -----

/// A list as a whole, a count that is a value, a size that is a value or zero.
// CHECK-LABEL: func.func @other_lists
// CHECK-NEXT:    torch.aten.chunk.default(%x, 2)
// CHECK-NEXT:    torch.aten.chunk.default(%x, %n)
// CHECK-NEXT:    torch.aten.chunk.default(%s, 2)
// CHECK-NEXT:    torch.aten.chunk.default(%z, 2)
func.func @other_lists(%x: tensor<4xf32>, %s: tensor<?xf32, #torch.meta<sizes = ["s0"]>>, %n: !torch.int, %z: tensor<0xf32>) {
  %l = torch.aten.chunk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xf32>>
  %a, %b = torch.aten.chunk.default(%x, %n) : (tensor<4xf32>, !torch.int) -> (tensor<2xf32>, tensor<2xf32>)
  %c, %d = torch.aten.chunk.default(%s, 2) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> (tensor<?xf32>, tensor<?xf32>)
  %e, %f = torch.aten.chunk.default(%z, 2) : (tensor<0xf32>) -> (tensor<0xf32>, tensor<0xf32>)
  fx.output((%l, %a, %b, %c, %d, %e, %f)) : (tuple<tensor<2xf32>, tensor<2xf32>>, tensor<2xf32>, tensor<2xf32>, tensor<?xf32>, tensor<?xf32>, tensor<0xf32>, tensor<0xf32>) -> ()
}

// -----

/// A copy, where the type says that memory is not as it should be; what is contiguous already, or one element a row, stays.
// CHECK-LABEL: func.func @copies
// CHECK-NEXT:    torch.aten.clone.default(%x, memory_format = torch.contiguous_format)
// CHECK-NEXT:    torch.aten.clone.default(%x, memory_format = torch.contiguous_format)
// CHECK-NEXT:    torch.aten.contiguous.default(%y)
// CHECK-NEXT:    torch.aten.contiguous.default(%z)
func.func @copies(%x: tensor<4x3xf32, #torch.meta<strides = [1, 4]>>, %y: tensor<4x3xf32>, %z: tensor<4x1xf32, #torch.meta<strides = [1, 4]>>) {
  %a = torch.aten.contiguous.default(%x) : (tensor<4x3xf32, #torch.meta<strides = [1, 4]>>) -> tensor<4x3xf32>
  %b = torch.aten.contiguous.default(%x, memory_format = torch.contiguous_format) : (tensor<4x3xf32, #torch.meta<strides = [1, 4]>>) -> tensor<4x3xf32>
  %c = torch.aten.contiguous.default(%y) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %d = torch.aten.contiguous.default(%z) : (tensor<4x1xf32, #torch.meta<strides = [1, 4]>>) -> tensor<4x1xf32, #torch.meta<strides = [1, 4]>>
  fx.output((%a, %b, %c, %d)) : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x1xf32, #torch.meta<strides = [1, 4]>>) -> ()
}

// -----

/// What refuses a lazy conjugation reads a resolved tensor where there may be one: behind views too, and what a caller gives.
// CHECK-LABEL: func.func @read_as_others
// CHECK:         %c = torch.aten._conj.default(%x)
// CHECK-NEXT:    %s = torch.aten.select.int(%c, 0, 0)
// CHECK-NEXT:    [[R:%\S+]] = torch.aten.resolve_conj.default(%s)
// CHECK-NEXT:    %r = torch.aten.view_as_real.default([[R]])
// CHECK-NEXT:    [[X:%\S+]] = torch.aten.resolve_conj.default(%x)
// CHECK-NEXT:    %p = torch.aten.view_as_real.default([[X]])
// CHECK-NEXT:    %n = torch.aten._neg_view.default(%p)
// CHECK-NEXT:    [[N:%\S+]] = torch.aten.resolve_neg.default(%n)
// CHECK-NEXT:    %i = torch.aten.view.dtype([[N]], torch.int32)
func.func @read_as_others(%x: tensor<2x3xcomplex<f32>>) {
  %c = torch.aten._conj.default(%x) : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xcomplex<f32>>
  %s = torch.aten.select.int(%c, 0, 0) : (tensor<2x3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
  %r = torch.aten.view_as_real.default(%s) : (tensor<3xcomplex<f32>>) -> tensor<3x2xf32>
  %p = torch.aten.view_as_real.default(%x) : (tensor<2x3xcomplex<f32>>) -> tensor<2x3x2xf32>
  %n = torch.aten._neg_view.default(%p) : (tensor<2x3x2xf32>) -> tensor<2x3x2xf32>
  %i = torch.aten.view.dtype(%n, torch.int32) : (tensor<2x3x2xf32>) -> tensor<2x3x2xi32>
  fx.output((%r, %p, %i)) : (tensor<3x2xf32>, tensor<2x3x2xf32>, tensor<2x3x2xi32>) -> ()
}
