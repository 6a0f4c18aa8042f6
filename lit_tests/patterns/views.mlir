// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize,canonicalize | filecheck %s

/// Two transposes, counted from either end, cancel; so does t(t(x)).
// CHECK-LABEL: func.func @transpose_of_transpose
// CHECK-NEXT:    %c = torch.aten.relu.default(%x)
// CHECK-NEXT:    %f = torch.aten.relu.default(%x)
func.func @transpose_of_transpose(%x: tensor<2x3xf32>) {
  %a = torch.aten.transpose.int(%x, 0, 1) : (tensor<2x3xf32>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %b = torch.aten.transpose.int(%a, -1, -2) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>) -> tensor<2x3xf32>
  %c = torch.aten.relu.default(%b) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %d = torch.aten.t.default(%x) : (tensor<2x3xf32>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %e = torch.aten.t.default(%d) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>) -> tensor<2x3xf32>
  %f = torch.aten.relu.default(%e) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output((%c, %f)) : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}

// -----

/// The result is returned and would be the argument itself.
// CHECK-LABEL: func.func @transpose_of_transpose_returned
// CHECK-COUNT-2: torch.aten.t.default
func.func @transpose_of_transpose_returned(%x: tensor<2x3xf32>) {
  %d = torch.aten.t.default(%x) : (tensor<2x3xf32>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %e = torch.aten.t.default(%d) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>) -> tensor<2x3xf32>
  fx.output(%e) : (tensor<2x3xf32>) -> ()
}

// -----

/// A chain of permutations is one; the identity is none.
// CHECK-LABEL: func.func @permute_chain
// CHECK-NEXT:    %b = torch.aten.permute.default(%x, [2, 1, 0]) : (tensor<2x3x5xf32>)
// CHECK-NEXT:    %e = torch.aten.relu.default(%b)
func.func @permute_chain(%x: tensor<2x3x5xf32>) {
  %a = torch.aten.permute.default(%x, [1, 2, 0]) : (tensor<2x3x5xf32>) -> tensor<3x5x2xf32, #torch.meta<strides = [5, 1, 15]>>
  %b = torch.aten.transpose.int(%a, 0, 1) : (tensor<3x5x2xf32, #torch.meta<strides = [5, 1, 15]>>) -> tensor<5x3x2xf32, #torch.meta<strides = [1, 5, 15]>>
  %c = torch.aten.permute.default(%b, [0, -2, 2]) : (tensor<5x3x2xf32, #torch.meta<strides = [1, 5, 15]>>) -> tensor<5x3x2xf32, #torch.meta<strides = [1, 5, 15]>>
  %d = torch.aten.transpose.int(%c, 1, 1) : (tensor<5x3x2xf32, #torch.meta<strides = [1, 5, 15]>>) -> tensor<5x3x2xf32, #torch.meta<strides = [1, 5, 15]>>
  %e = torch.aten.relu.default(%d) : (tensor<5x3x2xf32, #torch.meta<strides = [1, 5, 15]>>) -> tensor<5x3x2xf32, #torch.meta<strides = [1, 5, 15]>>
  fx.output((%c, %e)) : (tensor<5x3x2xf32, #torch.meta<strides = [1, 5, 15]>>, tensor<5x3x2xf32, #torch.meta<strides = [1, 5, 15]>>) -> ()
}

// -----

/// The tensor is transposed in place in between.
// CHECK-LABEL: func.func @permute_written
// CHECK-COUNT-2: torch.aten.t.default
func.func @permute_written(%y: tensor<3x3xf32>) {
  %x = torch.aten.exp.default(%y) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %a = torch.aten.t.default(%x) : (tensor<3x3xf32>) -> tensor<3x3xf32, #torch.meta<strides = [1, 3]>>
  %w = torch.aten.transpose_.default(%x, 0, 1) : (tensor<3x3xf32>) -> tensor<3x3xf32, #torch.meta<strides = [1, 3]>>
  %b = torch.aten.t.default(%a) : (tensor<3x3xf32, #torch.meta<strides = [1, 3]>>) -> tensor<3x3xf32>
  %c = torch.aten.relu.default(%b) : (tensor<3x3xf32>) -> tensor<3x3xf32>
  fx.output(%c) : (tensor<3x3xf32>) -> ()
}

// -----

/// Reshapes of a contiguous tensor collapse; back to its own shape they vanish.
// CHECK-LABEL: func.func @view_of_view
// CHECK-NEXT:    %b = torch.aten.view.default(%x, [3, 2])
// CHECK-NEXT:    %e = torch.aten.relu.default(%x)
func.func @view_of_view(%x: tensor<2x3xf32>) {
  %a = torch.aten.view.default(%x, [6]) : (tensor<2x3xf32>) -> tensor<6xf32>
  %b = torch.aten.view.default(%a, [3, 2]) : (tensor<6xf32>) -> tensor<3x2xf32>
  %c = torch.aten.unsqueeze.default(%a, 0) : (tensor<6xf32>) -> tensor<1x6xf32>
  %d = torch.aten.reshape.default(%c, [2, -1]) : (tensor<1x6xf32>) -> tensor<2x3xf32>
  %e = torch.aten.relu.default(%d) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output((%b, %e)) : (tensor<3x2xf32>, tensor<2x3xf32>) -> ()
}

// -----

/// Of a strided tensor the first view may be what makes the second one possible.
// CHECK-LABEL: func.func @view_of_strided
// CHECK-COUNT-2: torch.aten.view.default
func.func @view_of_strided(%x: tensor<2x3xf32, #torch.meta<strides = [6, 2]>>) {
  %a = torch.aten.view.default(%x, [6]) : (tensor<2x3xf32, #torch.meta<strides = [6, 2]>>) -> tensor<6xf32, #torch.meta<strides = [2]>>
  %b = torch.aten.view.default(%a, [3, 2]) : (tensor<6xf32, #torch.meta<strides = [2]>>) -> tensor<3x2xf32, #torch.meta<strides = [4, 2]>>
  fx.output(%b) : (tensor<3x2xf32, #torch.meta<strides = [4, 2]>>) -> ()
}

// -----

/// Symbolic sizes are sizes, if they have names.
// CHECK-LABEL: func.func @symbolic
// CHECK-NEXT:    %b = torch.aten.relu.default(%x)
// CHECK-NEXT:    %c = torch.aten.view.default(%y, [%n])
// CHECK-NEXT:    %d = torch.aten.relu.default(%c)
func.func @symbolic(%n: !torch.int<"s0">, %x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>, %y: tensor<?xf32>) {
  %a = torch.aten.view.default(%x, [%n]) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, !torch.int<"s0">) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %b = torch.aten.relu.default(%a) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %c = torch.aten.view.default(%y, [%n]) : (tensor<?xf32>, !torch.int<"s0">) -> tensor<?xf32>
  %d = torch.aten.relu.default(%c) : (tensor<?xf32>) -> tensor<?xf32>
  fx.output((%b, %d)) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<?xf32>) -> ()
}

// -----

/// The outer sizes say it all, unless one of them keeps an inner one.
// CHECK-LABEL: func.func @expand_of_expand
// CHECK-NEXT:    %b = torch.aten.expand.default(%x, [2, 4, 3])
// CHECK-NEXT:    %c = torch.aten.expand.default(%x, [4, 3])
// CHECK-NEXT:    %d = torch.aten.expand.default(%c, [2, -1, 3])
func.func @expand_of_expand(%x: tensor<1x3xf32>) {
  %a = torch.aten.expand.default(%x, [4, 3]) : (tensor<1x3xf32>) -> tensor<4x3xf32, #torch.meta<strides = [0, 1]>>
  %b = torch.aten.expand.default(%a, [2, 4, 3]) : (tensor<4x3xf32, #torch.meta<strides = [0, 1]>>) -> tensor<2x4x3xf32, #torch.meta<strides = [0, 0, 1]>>
  %c = torch.aten.expand.default(%x, [4, 3]) : (tensor<1x3xf32>) -> tensor<4x3xf32, #torch.meta<strides = [0, 1]>>
  %d = torch.aten.expand.default(%c, [2, -1, 3]) : (tensor<4x3xf32, #torch.meta<strides = [0, 1]>>) -> tensor<2x4x3xf32, #torch.meta<strides = [0, 0, 1]>>
  fx.output((%b, %d)) : (tensor<2x4x3xf32, #torch.meta<strides = [0, 0, 1]>>, tensor<2x4x3xf32, #torch.meta<strides = [0, 0, 1]>>) -> ()
}

// -----

/// squeeze undoes unsqueeze of the same dimension, and only of that.
// CHECK-LABEL: func.func @squeeze_of_unsqueeze
// CHECK-NEXT:    %c = torch.aten.relu.default(%x)
// CHECK-NEXT:    %d = torch.aten.unsqueeze.default(%x, 0)
// CHECK-NEXT:    %e = torch.aten.squeeze.dim(%d, 1)
func.func @squeeze_of_unsqueeze(%x: tensor<1x3xf32>) {
  %a = torch.aten.unsqueeze.default(%x, -1) : (tensor<1x3xf32>) -> tensor<1x3x1xf32>
  %b = torch.aten.squeeze.dim(%a, 2) : (tensor<1x3x1xf32>) -> tensor<1x3xf32>
  %c = torch.aten.relu.default(%b) : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %d = torch.aten.unsqueeze.default(%x, 0) : (tensor<1x3xf32>) -> tensor<1x1x3xf32>
  %e = torch.aten.squeeze.dim(%d, 1) : (tensor<1x1x3xf32>) -> tensor<1x3xf32>
  %f = torch.aten.relu.default(%e) : (tensor<1x3xf32>) -> tensor<1x3xf32>
  fx.output((%c, %f)) : (tensor<1x3xf32>, tensor<1x3xf32>) -> ()
}

// -----

/// Calls that hand back their argument: same type, no copy asked for, no training.
// CHECK-LABEL: func.func @handed_back
// CHECK-NEXT:    %k = torch.aten.relu.default(%x)
// CHECK-NEXT:    fx.output(%k)
func.func @handed_back(%x: tensor<2x3xf32>) {
  %a = torch.aten.expand.default(%x, [2, -1]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = torch.aten.contiguous.default(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = torch.aten.to.dtype(%b, torch.float32) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %drop = torch.aten.dropout.default(%c, 0.5, false) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %d = torch.aten.dropout.default(%drop, 0.0, true) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %e = torch.aten.slice.Tensor(%d, 1, 0, 9223372036854775807) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %f = torch.aten.alias.default(%e) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %g = torch.aten.squeeze.default(%f) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %h = torch.aten.resolve_conj.default(%g) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %i = torch.aten.type_as.default(%h, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %j = torch.aten.to.device(%i, device("cpu"), torch.float32) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %k = torch.aten.relu.default(%j) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%k) : (tensor<2x3xf32>) -> ()
}

// -----

/// A copy that is asked for, another layout, dropout while training, a conjugate, detach (which autograd sees).
// CHECK-LABEL: func.func @not_handed_back
// CHECK-NEXT:    %a = torch.aten.to.dtype(%x, torch.float32, false, true)
// CHECK-NEXT:    %b = torch.aten.contiguous.default(%x, memory_format = torch.channels_last)
// CHECK-NEXT:    %c = torch.aten.dropout.default(%a, 0.5, true)
// CHECK-NEXT:    %d = torch.aten.resolve_conj.default(%z)
// CHECK-NEXT:    %e = torch.aten.detach.default(%c)
func.func @not_handed_back(%x: tensor<1x2x3x4xf32>, %z: tensor<4xcomplex<f32>>) {
  %a = torch.aten.to.dtype(%x, torch.float32, false, true) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %b = torch.aten.contiguous.default(%x, memory_format = torch.channels_last) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32, #torch.meta<strides = [24, 1, 8, 2]>>
  %c = torch.aten.dropout.default(%a, 0.5, true) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %d = torch.aten.resolve_conj.default(%z) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %e = torch.aten.detach.default(%c) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %f = torch.aten.relu.default(%e) : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  fx.output((%b, %d, %f)) : (tensor<1x2x3x4xf32, #torch.meta<strides = [24, 1, 8, 2]>>, tensor<4xcomplex<f32>>, tensor<1x2x3x4xf32>) -> ()
}

// -----

/// Slices that take part of a dimension, or every second element of one with one element.
// CHECK-LABEL: func.func @part_slices
// CHECK-COUNT-2: torch.aten.slice.Tensor
func.func @part_slices(%x: tensor<1x3xf32>) {
  %a = torch.aten.slice.Tensor(%x, 1, 1, 9) : (tensor<1x3xf32>) -> tensor<1x2xf32, #torch.meta<strides = [3, 1]>>
  %b = torch.aten.slice.Tensor(%x, 0, 0, 1, 2) : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %c = torch.aten.cat.default([%a, %b], 1) : (tensor<1x2xf32, #torch.meta<strides = [3, 1]>>, tensor<1x3xf32>) -> tensor<1x5xf32>
  fx.output(%c) : (tensor<1x5xf32>) -> ()
}

// -----

/// Copies of what nobody writes or returns.
// CHECK-LABEL: func.func @copies
// CHECK-NEXT:    %e = torch.aten.relu.default(%x)
// CHECK-NEXT:    fx.output(%e)
func.func @copies(%x: tensor<2x3xf32>) {
  %a = torch.aten.clone.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = torch.aten.repeat.default(%a, [1, 1]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = torch.aten.cat.default([%b], 1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %d = torch.aten.constant_pad_nd.default(%c, [0, 0]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %e = torch.aten.relu.default(%d) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%e) : (tensor<2x3xf32>) -> ()
}

// -----

/// A copy of an argument that is returned, as itself or in a view, separates the two.
// CHECK-LABEL: func.func @copy_returned
// CHECK-NEXT:    %a = torch.aten.clone.default(%x)
// CHECK-NEXT:    %b = torch.aten.clone.default(%x)
// CHECK-NEXT:    %c = torch.aten.t.default(%b)
func.func @copy_returned(%x: tensor<2x3xf32>) {
  %a = torch.aten.clone.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = torch.aten.clone.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = torch.aten.t.default(%b) : (tensor<2x3xf32>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  fx.output((%a, %c)) : (tensor<2x3xf32>, tensor<3x2xf32, #torch.meta<strides = [1, 3]>>) -> ()
}

// -----

/// A returned copy of a temporary may be the temporary, once.
// CHECK-LABEL: func.func @copy_of_temporary
// CHECK-NEXT:    %t = torch.aten.exp.default(%x)
// CHECK-NEXT:    %b = torch.aten.clone.default(%t)
// CHECK-NEXT:    fx.output((%t, %b))
func.func @copy_of_temporary(%x: tensor<2x3xf32>) {
  %t = torch.aten.exp.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %a = torch.aten.clone.default(%t) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = torch.aten.clone.default(%t) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output((%a, %b)) : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}

// -----

/// A constant is not ours to hand out.
// CHECK-LABEL: func.func @copy_of_constant
// CHECK:         torch.aten.lift_fresh_copy.default
func.func @copy_of_constant() {
  %c = torch.constant([1.0, 2.0]) : tensor<2xf32>
  %a = torch.aten.lift_fresh_copy.default(%c) : (tensor<2xf32>) -> tensor<2xf32>
  fx.output(%a) : (tensor<2xf32>) -> ()
}

// -----

/// The copy, or what was copied, is written; through a view too.
// CHECK-LABEL: func.func @copy_written
// CHECK-COUNT-2: torch.aten.clone.default
func.func @copy_written(%x: tensor<2x3xf32>) {
  %t = torch.aten.exp.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %a = torch.aten.clone.default(%t) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %v = torch.aten.t.default(%a) : (tensor<2x3xf32>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %w = torch.aten.zero_.default(%v) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %u = torch.aten.sin.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = torch.aten.clone.default(%u) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = torch.aten.zero_.default(%u) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %s = torch.aten.stack.default([%a, %b, %t, %u]) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x2x3xf32>
  fx.output(%s) : (tensor<4x2x3xf32>) -> ()
}

// -----

/// Copies that change strides, repeat or pad, and copies of complex tensors, which resolve a lazy conjugate.
// CHECK-LABEL: func.func @changing_copies
// CHECK-NEXT:    %a = torch.aten.clone.default
// CHECK-NEXT:    %b = torch.aten.repeat.default(%y, [2, 1])
// CHECK-NEXT:    %c = torch.aten.constant_pad_nd.default(%y, [0, 1])
// CHECK-NEXT:    %d = torch.aten.clone.default(%z)
func.func @changing_copies(%x: tensor<3x2xf32, #torch.meta<strides = [1, 3]>>, %y: tensor<3x2xf32>, %z: tensor<4xcomplex<f32>>) {
  %a = torch.aten.clone.default(%x, memory_format = torch.contiguous_format) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>) -> tensor<3x2xf32>
  %b = torch.aten.repeat.default(%y, [2, 1]) : (tensor<3x2xf32>) -> tensor<6x2xf32>
  %c = torch.aten.constant_pad_nd.default(%y, [0, 1]) : (tensor<3x2xf32>) -> tensor<3x3xf32>
  %d = torch.aten.clone.default(%z) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %e = torch.aten.abs.default(%d) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  fx.output((%a, %b, %c, %e)) : (tensor<3x2xf32>, tensor<6x2xf32>, tensor<3x3xf32>, tensor<4xf32>) -> ()
}

// -----

/// Inside the graphs of a higher-order operator, whose arguments come from outside too.
// CHECK-LABEL: func.func @in_regions
// CHECK:         ^{{.*}}(%y: tensor<4xf32>):
// CHECK-NEXT:      %b = torch.aten.exp.default(%y)
// CHECK-NEXT:      fx.output((%b,))
// CHECK:         ^{{.*}}(%y: tensor<4xf32>):
// CHECK-NEXT:      %c = torch.aten.clone.default(%y)
// CHECK-NEXT:      fx.output((%c,))
func.func @in_regions(%p: tensor<i1>, %x: tensor<4xf32>) {
  %h = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%y: tensor<4xf32>):
    %a = torch.aten.clone.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    %b = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%b,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%y: tensor<4xf32>):
    %c = torch.aten.clone.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%c,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%h) : (tensor<4xf32>) -> ()
}

// -----

/// A contiguous tensor in other sizes; not with an offset, with gaps, or a part of it.
// CHECK-LABEL: func.func @as_strided
// CHECK-NEXT:    %a = torch.aten.view.default(%x, [3, 2])
// CHECK-NEXT:    %b = torch.aten.as_strided.default
// CHECK-NEXT:    %c = torch.aten.as_strided.default
// CHECK-NEXT:    %d = torch.aten.as_strided.default
// CHECK-NEXT:    %e = torch.aten.as_strided.default
func.func @as_strided(%x: tensor<2x3xf32>, %y: tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) {
  %a = torch.aten.as_strided.default(%x, [3, 2], [2, 1]) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %b = torch.aten.as_strided.default(%x, [3, 2], [2, 1], 0) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %c = torch.aten.as_strided.default(%x, [2, 2], [2, 1]) : (tensor<2x3xf32>) -> tensor<2x2xf32>
  %d = torch.aten.as_strided.default(%x, [3, 2], [1, 3]) : (tensor<2x3xf32>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %e = torch.aten.as_strided.default(%y, [3, 2], [2, 1]) : (tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) -> tensor<3x2xf32>
  fx.output((%a, %b, %c, %d, %e)) : (tensor<3x2xf32>, tensor<3x2xf32>, tensor<2x2xf32>, tensor<3x2xf32, #torch.meta<strides = [1, 3]>>, tensor<3x2xf32>) -> ()
}

// -----

/// A copy over the whole of a tensor is what was copied; of another type it is not.
// CHECK-LABEL: func.func @whole_copy
// CHECK-NEXT:    %b = torch.aten.neg.default(%y)
// CHECK-NEXT:    %c = torch.aten.relu.default(%b)
// CHECK-NEXT:    %d = torch.aten.copy.default(%x, %z)
func.func @whole_copy(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<1xf32>) {
  %b = torch.aten.neg.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %a = torch.aten.copy.default(%x, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.relu.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.copy.default(%x, %z) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  fx.output((%c, %d)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A copy of another dtype or order in memory is a conversion; not of complex numbers, nor to strides with gaps.
// CHECK-LABEL: func.func @converting_copy
// CHECK-NEXT:    %a = torch.aten._to_copy.default(%y, dtype = torch.float32, memory_format = torch.contiguous_format)
// CHECK-NEXT:    %b = torch.aten._to_copy.default(%z, dtype = torch.float32, memory_format = torch.contiguous_format)
// CHECK-NEXT:    %c = torch.aten.copy.default(%z, %x)
// CHECK-NEXT:    %d = torch.aten.copy.default(%x, %w)
func.func @converting_copy(%x: tensor<2x3xf32>, %y: tensor<2x3xsi64>, %z: tensor<2x3xf32, #torch.meta<strides = [1, 2]>>, %w: tensor<2x3xcomplex<f32>>) {
  %a = torch.aten.copy.default(%x, %y) : (tensor<2x3xf32>, tensor<2x3xsi64>) -> tensor<2x3xf32>
  %b = torch.aten.copy.default(%x, %z) : (tensor<2x3xf32>, tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) -> tensor<2x3xf32>
  %c = torch.aten.copy.default(%z, %x) : (tensor<2x3xf32, #torch.meta<strides = [1, 2]>>, tensor<2x3xf32>) -> tensor<2x3xf32, #torch.meta<strides = [1, 2]>>
  %d = torch.aten.copy.default(%x, %w) : (tensor<2x3xf32>, tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
  fx.output((%a, %b, %c, %d)) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32, #torch.meta<strides = [1, 2]>>, tensor<2x3xf32>) -> ()
}

// -----

/// A view back to the sizes of the argument, also where it is strided.
// CHECK-LABEL: func.func @back
// CHECK-NEXT:    %e = torch.aten.relu.default(%x)
func.func @back(%x: tensor<2x6xf32, #torch.meta<strides = [12, 2]>>) {
  %a = torch.aten.view.default(%x, [2, 3, 2]) : (tensor<2x6xf32, #torch.meta<strides = [12, 2]>>) -> tensor<2x3x2xf32, #torch.meta<strides = [12, 4, 2]>>
  %b = torch.aten.view.default(%a, [2, -1]) : (tensor<2x3x2xf32, #torch.meta<strides = [12, 4, 2]>>) -> tensor<2x6xf32, #torch.meta<strides = [12, 2]>>
  %e = torch.aten.relu.default(%b) : (tensor<2x6xf32, #torch.meta<strides = [12, 2]>>) -> tensor<2x6xf32, #torch.meta<strides = [12, 2]>>
  fx.output(%e) : (tensor<2x6xf32, #torch.meta<strides = [12, 2]>>) -> ()
}

// -----

/// A reshape that copies and back is contiguous; a bitcast has no gradient, also one to the same dtype.
// CHECK-LABEL: func.func @not_back
// CHECK-NEXT:    %a = torch.aten.reshape.default(%x, [6])
// CHECK-NEXT:    %b = torch.aten.reshape.default(%a, [2, 3])
// CHECK-NEXT:    %c = torch.aten.view.dtype(%b, torch.int32)
// CHECK-NEXT:    %d = torch.aten.view.dtype(%y, torch.int32)
// CHECK-NEXT:    %e = torch.aten.view.dtype(%d, torch.float32)
// CHECK-NEXT:    %f = torch.aten.view.dtype(%e, torch.float32)
// CHECK-NEXT:    torch.aten.relu.default(%f)
func.func @not_back(%x: tensor<2x3xf32, #torch.meta<strides = [1, 2]>>, %y: tensor<4xf32>) {
  %a = torch.aten.reshape.default(%x, [6]) : (tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) -> tensor<6xf32>
  %b = torch.aten.reshape.default(%a, [2, 3]) : (tensor<6xf32>) -> tensor<2x3xf32>
  %c = torch.aten.view.dtype(%b, torch.int32) : (tensor<2x3xf32>) -> tensor<2x3xi32>
  %d = torch.aten.view.dtype(%y, torch.int32) : (tensor<4xf32>) -> tensor<4xi32>
  %e = torch.aten.view.dtype(%d, torch.float32) : (tensor<4xi32>) -> tensor<4xf32>
  %f = torch.aten.view.dtype(%e, torch.float32) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.relu.default(%f) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%c, %g)) : (tensor<2x3xi32>, tensor<4xf32>) -> ()
}

// -----

/// A slice that is all of a tensor is scattered; a tensor is put on its device.
// CHECK-LABEL: func.func @whole_scatter
// CHECK-NEXT:    %c = torch.aten.relu.default(%y)
func.func @whole_scatter(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) {
  %a = torch.aten.slice_scatter.default(%x, %y, 1, 0, 9223372036854775807) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = torch.prims.device_put.default(%a, device("cpu")) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = torch.aten.relu.default(%b) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%c) : (tensor<2x3xf32>) -> ()
}

// -----

/// Part of a tensor, every second element of one, a slice of other strides; a returned copy of an argument.
// CHECK-LABEL: func.func @part_scatter
// CHECK-COUNT-3: torch.aten.slice_scatter.default
// CHECK:         torch.prims.device_put.default
func.func @part_scatter(%x: tensor<2x1xf32>, %y: tensor<1x1xf32>, %z: tensor<2x1xf32>, %t: tensor<2x3xf32>, %u: tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) {
  %a = torch.aten.slice_scatter.default(%x, %y, 0, 1) : (tensor<2x1xf32>, tensor<1x1xf32>) -> tensor<2x1xf32>
  %b = torch.aten.slice_scatter.default(%a, %z, 1, 0, 1, 2) : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %c = torch.aten.slice_scatter.default(%t, %u, 1, 0, 3) : (tensor<2x3xf32>, tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) -> tensor<2x3xf32>
  %d = torch.prims.device_put.default(%x, device("cpu")) : (tensor<2x1xf32>) -> tensor<2x1xf32>
  fx.output((%b, %c, %d)) : (tensor<2x1xf32>, tensor<2x3xf32>, tensor<2x1xf32>) -> ()
}
