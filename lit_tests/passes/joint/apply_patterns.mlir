// RUN: fxc-opt %s --split-input-file -p 'apply-patterns{files=%S/../../../examples/patterns/silu.mlir,%S/../../../examples/patterns/attention.mlir,%S/../../../examples/patterns/masked_attention.mlir,%S/../../../examples/patterns/range_of.mlir,%S/../../../examples/patterns/product.mlir,%S/../../../examples/patterns/negations.mlir}' | filecheck %s

/// Operands of a product may be exchanged; names and uses stay.
// CHECK-LABEL: func.func @commuted
// CHECK-NEXT:    %y = torch.aten.silu.default(%x)
// CHECK-NEXT:    %z = torch.aten.neg.default(%y)
func.func @commuted(%x: tensor<2x3xf32>) {
  %s = torch.aten.sigmoid.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = torch.aten.mul.Tensor(%s, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %z = torch.aten.neg.default(%y) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%z) : (tensor<2x3xf32>) -> ()
}

// -----

/// One parameter is one value.
// CHECK-LABEL: func.func @other_value
// CHECK-NOT:     silu
func.func @other_value(%x: tensor<2x3xf32>, %w: tensor<2x3xf32>) {
  %s = torch.aten.sigmoid.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = torch.aten.mul.Tensor(%w, %s) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%y) : (tensor<2x3xf32>) -> ()
}

// -----

/// A file has the dtype and rank of its example.
// CHECK-LABEL: func.func @other_dtype
// CHECK-NOT:     silu
func.func @other_dtype(%x: tensor<2x3xf64>, %w: tensor<3xf32>) {
  %s = torch.aten.sigmoid.default(%x) : (tensor<2x3xf64>) -> tensor<2x3xf64>
  %y = torch.aten.mul.Tensor(%x, %s) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
  %t = torch.aten.sigmoid.default(%w) : (tensor<3xf32>) -> tensor<3xf32>
  %z = torch.aten.mul.Tensor(%w, %t) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  fx.output((%y, %z)) : (tensor<2x3xf64>, tensor<3xf32>) -> ()
}

// -----

/// An inner value that is used or returned blocks the match.
// CHECK-LABEL: func.func @inner_is_returned
// CHECK-NOT:     silu
func.func @inner_is_returned(%x: tensor<2x3xf32>) {
  %s = torch.aten.sigmoid.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = torch.aten.mul.Tensor(%x, %s) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output((%y, %s)) : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}

// -----

/// A write between the operations blocks the match; one to other memory does not.
// CHECK-LABEL: func.func @write_between
// CHECK:         torch.aten.sigmoid.default
// CHECK-NEXT:    torch.aten.neg_.default
// CHECK-NEXT:    torch.aten.mul.Tensor
func.func @write_between(%x: tensor<2x3xf32>) {
  %c = torch.aten.clone.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %s = torch.aten.sigmoid.default(%c) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %w = torch.aten.neg_.default(%c) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = torch.aten.mul.Tensor(%c, %s) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%y) : (tensor<2x3xf32>) -> ()
}
// CHECK-LABEL: func.func @write_elsewhere
// CHECK:         torch.aten.neg_.default
// CHECK-NEXT:    torch.aten.silu.default(%x)
func.func @write_elsewhere(%x: tensor<2x3xf32>) {
  %c = torch.aten.clone.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %s = torch.aten.sigmoid.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %w = torch.aten.neg_.default(%c) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = torch.aten.mul.Tensor(%x, %s) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output((%y, %w)) : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}

// -----

/// An operation that is saved or recomputed by a mark stays.
// CHECK-LABEL: func.func @marked
// CHECK-NOT:     silu
func.func @marked(%x: tensor<2x3xf32>) {
  %s = torch.aten.sigmoid.default(%x) {autodiff.recomputed} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = torch.aten.mul.Tensor(%x, %s) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%y) : (tensor<2x3xf32>) -> ()
}

// -----

/// A result that is returned must not become the argument itself.
// CHECK-LABEL: func.func @becomes_argument
// CHECK-NEXT:    %y = torch.aten.neg.default
// CHECK:         fx.output(%z)
func.func @becomes_argument(%x: tensor<2x3xf32>) {
  %y = torch.aten.neg.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %z = torch.aten.neg.default(%y) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%z) : (tensor<2x3xf32>) -> ()
}

// -----

/// Overlapping matches: the first in program order.
// CHECK-LABEL: func.func @overlapping
// CHECK-NEXT:    %y = torch.aten.silu.default(%x)
// CHECK-NEXT:    %z = torch.aten.silu.default(%y)
func.func @overlapping(%x: tensor<2x3xf32>) {
  %s = torch.aten.sigmoid.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = torch.aten.mul.Tensor(%x, %s) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %t = torch.aten.sigmoid.default(%y) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %z = torch.aten.mul.Tensor(%y, %t) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%z) : (tensor<2x3xf32>) -> ()
}

// -----

/// A number that is a parameter matches any float, and no integer or bool.
// CHECK-LABEL: func.func @numbers
// CHECK:         scaled_dot_product_attention.default(%q, %k, %v, scale = 0.5)
// CHECK:         torch.aten.mul.Tensor(%t, 2)
// CHECK:         torch.aten.mul.Tensor(%t2, true)
func.func @numbers(%q: tensor<2x3x5x16xf32>, %k: tensor<2x3x7x16xf32>, %v: tensor<2x3x7x16xf32>) {
  %kt = torch.aten.transpose.int(%k, -2, -1) : (tensor<2x3x7x16xf32>) -> tensor<2x3x16x7xf32, #torch.meta<strides = [336, 112, 1, 16]>>
  %p = torch.aten.matmul.default(%q, %kt) : (tensor<2x3x5x16xf32>, tensor<2x3x16x7xf32, #torch.meta<strides = [336, 112, 1, 16]>>) -> tensor<2x3x5x7xf32>
  %m = torch.aten.mul.Tensor(%p, 0.5) : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %s = torch.aten.softmax.int(%m, -1) : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %o = torch.aten.matmul.default(%s, %v) : (tensor<2x3x5x7xf32>, tensor<2x3x7x16xf32>) -> tensor<2x3x5x16xf32>
  %kt1 = torch.aten.transpose.int(%k, -2, -1) : (tensor<2x3x7x16xf32>) -> tensor<2x3x16x7xf32, #torch.meta<strides = [336, 112, 1, 16]>>
  %t = torch.aten.matmul.default(%q, %kt1) : (tensor<2x3x5x16xf32>, tensor<2x3x16x7xf32, #torch.meta<strides = [336, 112, 1, 16]>>) -> tensor<2x3x5x7xf32>
  %m1 = torch.aten.mul.Tensor(%t, 2) : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %s1 = torch.aten.softmax.int(%m1, -1) : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %o1 = torch.aten.matmul.default(%s1, %v) : (tensor<2x3x5x7xf32>, tensor<2x3x7x16xf32>) -> tensor<2x3x5x16xf32>
  %kt2 = torch.aten.transpose.int(%k, -2, -1) : (tensor<2x3x7x16xf32>) -> tensor<2x3x16x7xf32, #torch.meta<strides = [336, 112, 1, 16]>>
  %t2 = torch.aten.matmul.default(%q, %kt2) : (tensor<2x3x5x16xf32>, tensor<2x3x16x7xf32, #torch.meta<strides = [336, 112, 1, 16]>>) -> tensor<2x3x5x7xf32>
  %m2 = torch.aten.mul.Tensor(%t2, true) : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %s2 = torch.aten.softmax.int(%m2, -1) : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %o2 = torch.aten.matmul.default(%s2, %v) : (tensor<2x3x5x7xf32>, tensor<2x3x7x16xf32>) -> tensor<2x3x5x16xf32>
  fx.output((%o, %o1, %o2)) : (tensor<2x3x5x16xf32>, tensor<2x3x5x16xf32>, tensor<2x3x5x16xf32>) -> ()
}

// -----

/// Another dimension of softmax, and a key that is permuted directly (pytorch#195320), are not the pattern.
// CHECK-LABEL: func.func @other_dimensions
// CHECK-NOT:     scaled_dot_product_attention
func.func @other_dimensions(%q: tensor<1x8x8x8xf32>, %k: tensor<1x8x8x8xf32>, %v: tensor<1x8x8x8xf32>) {
  %kt = torch.aten.permute.default(%k, [0, 2, 3, 1]) : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32, #torch.meta<strides = [512, 8, 1, 64]>>
  %p = torch.aten.matmul.default(%q, %kt) : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32, #torch.meta<strides = [512, 8, 1, 64]>>) -> tensor<1x8x8x8xf32>
  %m = torch.aten.mul.Tensor(%p, 0.25) : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %s = torch.aten.softmax.int(%m, -1) : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %o = torch.aten.matmul.default(%s, %v) : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %kt1 = torch.aten.transpose.int(%k, -2, -1) : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32, #torch.meta<strides = [512, 64, 1, 8]>>
  %p1 = torch.aten.matmul.default(%q, %kt1) : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32, #torch.meta<strides = [512, 64, 1, 8]>>) -> tensor<1x8x8x8xf32>
  %m1 = torch.aten.mul.Tensor(%p1, 0.25) : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %s1 = torch.aten.softmax.int(%m1, -2) : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %o1 = torch.aten.matmul.default(%s1, %v) : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  fx.output((%o, %o1)) : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>) -> ()
}

// -----

/// The mask may stand before the scores (B8), and its literal scale is exact.
// CHECK-LABEL: func.func @masks
// CHECK:         scaled_dot_product_attention.default(%q, %k, %v, %mask, scale = 0.25)
// CHECK:         torch.aten.mul.Tensor(%p1, 0.125)
func.func @masks(%q: tensor<2x3x5x16xf32>, %k: tensor<2x3x7x16xf32>, %v: tensor<2x3x7x16xf32>, %mask: tensor<5x7xf32>) {
  %kt = torch.aten.transpose.int(%k, -2, -1) : (tensor<2x3x7x16xf32>) -> tensor<2x3x16x7xf32, #torch.meta<strides = [336, 112, 1, 16]>>
  %p = torch.aten.matmul.default(%q, %kt) : (tensor<2x3x5x16xf32>, tensor<2x3x16x7xf32, #torch.meta<strides = [336, 112, 1, 16]>>) -> tensor<2x3x5x7xf32>
  %m = torch.aten.mul.Tensor(%p, 0.25) : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %a = torch.aten.add.Tensor(%mask, %m) : (tensor<5x7xf32>, tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %s = torch.aten.softmax.int(%a, -1) : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %o = torch.aten.matmul.default(%s, %v) : (tensor<2x3x5x7xf32>, tensor<2x3x7x16xf32>) -> tensor<2x3x5x16xf32>
  %kt1 = torch.aten.transpose.int(%k, -2, -1) : (tensor<2x3x7x16xf32>) -> tensor<2x3x16x7xf32, #torch.meta<strides = [336, 112, 1, 16]>>
  %p1 = torch.aten.matmul.default(%q, %kt1) : (tensor<2x3x5x16xf32>, tensor<2x3x16x7xf32, #torch.meta<strides = [336, 112, 1, 16]>>) -> tensor<2x3x5x7xf32>
  %m1 = torch.aten.mul.Tensor(%p1, 0.125) : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %a1 = torch.aten.add.Tensor(%m1, %mask) : (tensor<2x3x5x7xf32>, tensor<5x7xf32>) -> tensor<2x3x5x7xf32>
  %s1 = torch.aten.softmax.int(%a1, -1) : (tensor<2x3x5x7xf32>) -> tensor<2x3x5x7xf32>
  %o1 = torch.aten.matmul.default(%s1, %v) : (tensor<2x3x5x7xf32>, tensor<2x3x7x16xf32>) -> tensor<2x3x5x16xf32>
  fx.output((%o, %o1)) : (tensor<2x3x5x16xf32>, tensor<2x3x5x16xf32>) -> ()
}

// -----

/// Several outputs; an operand of the other output may be defined between them, but not after a use of the first.
// CHECK-LABEL: func.func @two_outputs
// CHECK-NEXT:    %l, %h = torch.aten.aminmax.default(%x, dim = -1)
// CHECK-NEXT:    %d = torch.aten.sub.Tensor(%h, %l)
func.func @two_outputs(%x: tensor<2x3xf32>) {
  %l = torch.aten.amin.default(%x, [-1]) : (tensor<2x3xf32>) -> tensor<2xf32>
  %h = torch.aten.amax.default(%x, [-1]) : (tensor<2x3xf32>) -> tensor<2xf32>
  %d = torch.aten.sub.Tensor(%h, %l) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  fx.output(%d) : (tensor<2xf32>) -> ()
}
// CHECK-LABEL: func.func @one_output
// CHECK-NOT:     aminmax
func.func @one_output(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) {
  %h = torch.aten.amax.default(%x, [-1]) : (tensor<2x3xf32>) -> tensor<2xf32>
  %l = torch.aten.amin.default(%y, [-1]) : (tensor<2x3xf32>) -> tensor<2xf32>
  fx.output((%l, %h)) : (tensor<2xf32>, tensor<2xf32>) -> ()
}

// -----

/// An argument that the pattern does not pass must have its default.
// CHECK-LABEL: func.func @alpha
// CHECK:         torch.aten.add.Tensor(%m, %c, alpha = 2)
// CHECK:         torch.aten.addmm.default(%c, %a, %b)
func.func @alpha(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<2x4xf32>) {
  %m = torch.aten.matmul.default(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %y = torch.aten.add.Tensor(%m, %c, alpha = 2) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %n = torch.aten.matmul.default(%a, %b) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %z = torch.aten.add.Tensor(%n, %c, alpha = 1) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  fx.output((%y, %z)) : (tensor<2x4xf32>, tensor<2x4xf32>) -> ()
}

// -----

/// Exclusive parameters are distinct values; and sizes that are equal in the example are equal in a match.
// CHECK-LABEL: func.func @exclusive
// CHECK-NOT:     addmm
func.func @exclusive(%a: tensor<3x3xf32>, %c: tensor<3x3xf32>, %r: tensor<1x3xf32>) {
  %m = torch.aten.matmul.default(%a, %a) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %y = torch.aten.add.Tensor(%m, %c) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %n = torch.aten.matmul.default(%a, %c) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %z = torch.aten.add.Tensor(%n, %r) : (tensor<3x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
  fx.output((%y, %z)) : (tensor<3x3xf32>, tensor<3x3xf32>) -> ()
}

// -----

/// Symbolic sizes, and nested regions.
// CHECK-LABEL: func.func @symbolic
// CHECK-NEXT:    %y = torch.aten.silu.default(%x)
builtin.module attributes {torch.symbols = {s5 = {hint = 7 : i64, min = 2 : i64}}} {
  func.func @symbolic(%x: tensor<?x3xf32, #torch.meta<sizes = ["s5", 3]>>) {
    %s = torch.aten.sigmoid.default(%x) : (tensor<?x3xf32, #torch.meta<sizes = ["s5", 3]>>) -> tensor<?x3xf32, #torch.meta<sizes = ["s5", 3]>>
    %y = torch.aten.mul.Tensor(%x, %s) : (tensor<?x3xf32, #torch.meta<sizes = ["s5", 3]>>, tensor<?x3xf32, #torch.meta<sizes = ["s5", 3]>>) -> tensor<?x3xf32, #torch.meta<sizes = ["s5", 3]>>
    fx.output(%y) : (tensor<?x3xf32, #torch.meta<sizes = ["s5", 3]>>) -> ()
  }
}
