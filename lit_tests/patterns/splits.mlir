// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize,canonicalize | filecheck %s

/// A split into one piece.
// CHECK-LABEL: func.func @one_way
// CHECK-NEXT:    %y = torch.aten.relu.default(%x)
func.func @one_way(%x: tensor<4x3xf32>) {
  %p = torch.aten.split.Tensor(%x, 4) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %q = torch.aten.split_with_sizes.default(%p, [3], 1) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %y = torch.aten.relu.default(%q) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  fx.output(%y) : (tensor<4x3xf32>) -> ()
}

// -----

/// A piece that is the argument, returned; a split into one piece of an unknown size.
// CHECK-LABEL: func.func @one_way_returned
// CHECK-NEXT:    torch.aten.split.Tensor(%x, 4)
// CHECK-NEXT:    torch.aten.split.Tensor(%z, 9)
func.func @one_way_returned(%x: tensor<4x3xf32>, %z: tensor<?xf32>) {
  %p = torch.aten.split.Tensor(%x, 4) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %q = torch.aten.split.Tensor(%z, 9) : (tensor<?xf32>) -> tensor<?xf32>
  %y = torch.aten.relu.default(%q) : (tensor<?xf32>) -> tensor<?xf32>
  fx.output((%p, %y)) : (tensor<4x3xf32>, tensor<?xf32>) -> ()
}

// -----

/// The pieces of a concatenation, and those of a stack, are the tensors themselves. A negative dimension is the same one.
// CHECK-LABEL: func.func @split_of_cat
// CHECK-NEXT:    %s = torch.aten.sub.Tensor(%a, %b)
// CHECK-NEXT:    %t = torch.aten.mul.Tensor(%a, %s)
func.func @split_of_cat(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) {
  %c = torch.aten.cat.default([%a, %b], -2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %p, %q = torch.aten.split_with_sizes.default(%c, [2, 2], 0) : (tensor<4x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %s = torch.aten.sub.Tensor(%p, %q) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %d = torch.aten.stack.default([%p, %s]) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2x3xf32>
  %u, %v = torch.aten.unbind.int(%d) : (tensor<2x2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %t = torch.aten.mul.Tensor(%u, %v) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%t) : (tensor<2x3xf32>) -> ()
}

// -----

/// Other sizes, another dimension, another number of pieces.
// CHECK-LABEL: func.func @split_of_other_cat
// CHECK-COUNT-3: torch.aten.split
func.func @split_of_other_cat(%a: tensor<2x4xf32>, %b: tensor<4x4xf32>) {
  %c = torch.aten.cat.default([%a, %b]) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %p, %q = torch.aten.split_with_sizes.default(%c, [4, 2]) : (tensor<6x4xf32>) -> (tensor<4x4xf32>, tensor<2x4xf32>)
  %r, %s, %t = torch.aten.split.Tensor(%c, 2) : (tensor<6x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
  %u, %v = torch.aten.split.Tensor(%c, 2, 1) : (tensor<6x4xf32>) -> (tensor<6x2xf32, #torch.meta<strides = [4, 1]>>, tensor<6x2xf32, #torch.meta<strides = [4, 1]>>)
  %1 = torch.aten.sum.default(%p) : (tensor<4x4xf32>) -> tensor<f32>
  %2 = torch.aten.sum.default(%t) : (tensor<2x4xf32>) -> tensor<f32>
  %3 = torch.aten.sum.default(%v) : (tensor<6x2xf32, #torch.meta<strides = [4, 1]>>) -> tensor<f32>
  fx.output((%1, %2, %3)) : (tensor<f32>, tensor<f32>, tensor<f32>) -> ()
}

// -----

/// A caller could tell a returned piece from what was copied, and that two pieces share memory.
// CHECK-LABEL: func.func @split_of_cat_returned
// CHECK-NEXT:    torch.aten.cat.default
// CHECK-NEXT:    %p, %q = torch.aten.split.Tensor
// CHECK-NEXT:    fx.output((%p, %c))
func.func @split_of_cat_returned(%a: tensor<2x4xf32>, %b: tensor<2x4xf32>) {
  %c = torch.aten.cat.default([%a, %b]) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %p, %q = torch.aten.split.Tensor(%c, 2) : (tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  fx.output((%p, %c)) : (tensor<2x4xf32>, tensor<4x4xf32>) -> ()
}

// -----

/// The part is written before the piece is read.
// CHECK-LABEL: func.func @split_of_cat_written
// CHECK:         torch.aten.split.Tensor
func.func @split_of_cat_written(%a: tensor<2x4xf32>, %b: tensor<2x4xf32>) {
  %c = torch.aten.cat.default([%a, %b]) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %p, %q = torch.aten.split.Tensor(%c, 2) : (tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  %w = torch.aten.zero_.default(%a) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = torch.aten.relu.default(%p) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  fx.output(%y) : (tensor<2x4xf32>) -> ()
}

// -----

/// All pieces in order are the whole.
// CHECK-LABEL: func.func @cat_of_split
// CHECK-NEXT:    %y = torch.aten.relu.default(%x)
func.func @cat_of_split(%x: tensor<4x6xf32>) {
  %p, %q = torch.aten.split_with_sizes.default(%x, [2, 4], 1) : (tensor<4x6xf32>) -> (tensor<4x2xf32, #torch.meta<strides = [6, 1]>>, tensor<4x4xf32, #torch.meta<strides = [6, 1]>>)
  %c = torch.aten.cat.default([%p, %q], -1) : (tensor<4x2xf32, #torch.meta<strides = [6, 1]>>, tensor<4x4xf32, #torch.meta<strides = [6, 1]>>) -> tensor<4x6xf32>
  %a, %b, %d, %e = torch.aten.unbind.int(%c) : (tensor<4x6xf32>) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>)
  %s = torch.aten.stack.default([%a, %b, %d, %e]) : (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %y = torch.aten.relu.default(%s) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  fx.output(%y) : (tensor<4x6xf32>) -> ()
}

// -----

/// In another order, along another dimension, with a piece twice, or returned.
// CHECK-LABEL: func.func @cat_of_split_that_differs
// CHECK-COUNT-4: torch.aten.cat.default([
func.func @cat_of_split_that_differs(%x: tensor<4x4xf32>) {
  %p, %q = torch.aten.split.Tensor(%x, 2) : (tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  %a = torch.aten.cat.default([%q, %p]) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %b = torch.aten.cat.default([%p, %q], 1) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
  %c = torch.aten.cat.default([%p, %p]) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %d = torch.aten.cat.default([%p, %q]) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %e = torch.aten.sub.Tensor(%a, %c) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  fx.output((%b, %d, %e)) : (tensor<2x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}

// -----

/// Neighbours are one slice; the whole split is its source.
// CHECK-LABEL: func.func @cat_of_neighbours
// CHECK-NEXT:    [[S:%[0-9a-z]+]] = torch.aten.slice.Tensor(%x, 1, 1, 6)
// CHECK-NEXT:    %c = torch.aten.cat.default({{\[}}[[S]], %y], 1)
// CHECK-NEXT:    fx.output(%c)
func.func @cat_of_neighbours(%x: tensor<4x6xf32>, %y: tensor<4x1xf32>) {
  %p, %q, %r = torch.aten.split_with_sizes.default(%x, [1, 3, 2], 1) : (tensor<4x6xf32>) -> (tensor<4x1xf32, #torch.meta<strides = [6, 1]>>, tensor<4x3xf32, #torch.meta<strides = [6, 1]>>, tensor<4x2xf32, #torch.meta<strides = [6, 1]>>)
  %c = torch.aten.cat.default([%q, %r, %y], 1) : (tensor<4x3xf32, #torch.meta<strides = [6, 1]>>, tensor<4x2xf32, #torch.meta<strides = [6, 1]>>, tensor<4x1xf32>) -> tensor<4x6xf32>
  fx.output(%c) : (tensor<4x6xf32>) -> ()
}

// -----

/// Pieces in another order, of another dimension, and of images, whose layout could change.
// CHECK-LABEL: func.func @cat_of_no_neighbours
// CHECK-NOT:     slice
func.func @cat_of_no_neighbours(%x: tensor<4x4xf32>, %y: tensor<1x4x2x2xf32>) {
  %p, %q = torch.aten.split.Tensor(%x, 2) : (tensor<4x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  %a = torch.aten.cat.default([%q, %p, %p]) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<6x4xf32>
  %b = torch.aten.cat.default([%p, %q, %p], 1) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x12xf32>
  %r, %s = torch.aten.split.Tensor(%y, 2, 1) : (tensor<1x4x2x2xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>)
  %c = torch.aten.cat.default([%r, %s, %y], 1) : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>, tensor<1x4x2x2xf32>) -> tensor<1x8x2x2xf32>
  fx.output((%a, %b, %c)) : (tensor<6x4xf32>, tensor<2x12xf32>, tensor<1x8x2x2xf32>) -> ()
}

// -----

/// A piece that only another split reads.
// CHECK-LABEL: func.func @split_of_split
// CHECK-NEXT:    %p, %r, %s = torch.aten.split_with_sizes.default(%x, [2, 1, 3], 0)
// CHECK-NEXT:    fx.output((%p, %r, %s))
func.func @split_of_split(%x: tensor<6x4xf32>) {
  %p, %q = torch.aten.split_with_sizes.default(%x, [2, 4]) : (tensor<6x4xf32>) -> (tensor<2x4xf32>, tensor<4x4xf32>)
  %r, %s = torch.aten.split_with_sizes.default(%q, [1, 3]) : (tensor<4x4xf32>) -> (tensor<1x4xf32>, tensor<3x4xf32>)
  fx.output((%p, %r, %s)) : (tensor<2x4xf32>, tensor<1x4xf32>, tensor<3x4xf32>) -> ()
}

// -----

/// A piece with another use, another dimension.
// CHECK-LABEL: func.func @split_of_split_with_a_use
// CHECK-COUNT-4: torch.aten.split
func.func @split_of_split_with_a_use(%x: tensor<6x4xf32>) {
  %p, %q = torch.aten.split_with_sizes.default(%x, [2, 4]) : (tensor<6x4xf32>) -> (tensor<2x4xf32>, tensor<4x4xf32>)
  %r, %s = torch.aten.split_with_sizes.default(%q, [1, 3]) : (tensor<4x4xf32>) -> (tensor<1x4xf32>, tensor<3x4xf32>)
  %t, %u = torch.aten.split_with_sizes.default(%x, [2, 4]) : (tensor<6x4xf32>) -> (tensor<2x4xf32>, tensor<4x4xf32>)
  %v, %w = torch.aten.split.Tensor(%u, 2, 1) : (tensor<4x4xf32>) -> (tensor<4x2xf32, #torch.meta<strides = [4, 1]>>, tensor<4x2xf32, #torch.meta<strides = [4, 1]>>)
  fx.output((%q, %r, %s, %t, %v, %w)) : (tensor<4x4xf32>, tensor<1x4xf32>, tensor<3x4xf32>, tensor<2x4xf32>, tensor<4x2xf32, #torch.meta<strides = [4, 1]>>, tensor<4x2xf32, #torch.meta<strides = [4, 1]>>) -> ()
}
