// RUN: fxc-opt %s --split-input-file --pass-pipeline=partition-min-cut | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=partition-min-cut,partition-min-cut | filecheck %s

/// Of a chain of pointwise operations after a product, the one nearest to the backward is saved that all others follow from.
/// The backward reads views of parameters, which are no values to save.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %h = torch.aten.mm.default(%x, %w) :
// CHECK-NEXT:    %a = torch.aten.sigmoid.default(%h) {autodiff.saved = array<i64: 0>}
// CHECK-NEXT:    %b = torch.aten.cos.default(%a) {autodiff.recomputed}
// CHECK-NEXT:    torch.aten.mul.Tensor(%d, %b) :
// CHECK-NEXT:    torch.aten.sigmoid_backward.default
// CHECK-NEXT:    %t = torch.aten.t.default(%w) :
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32> {fx.kind = "parameter", fx.name = "w"}, %d: tensor<8x8xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %h = torch.aten.mm.default(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = torch.aten.sigmoid.default(%h) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = torch.aten.cos.default(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = torch.aten.mul.Tensor(%d, %b) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %g = torch.aten.sigmoid_backward.default(%c, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t = torch.aten.t.default(%w) : (tensor<8x8xf32>) -> tensor<8x8xf32, #torch.meta<strides = [1, 8]>>
  %r = torch.aten.mm.default(%g, %t) : (tensor<8x8xf32>, tensor<8x8xf32, #torch.meta<strides = [1, 8]>>) -> tensor<8x8xf32>
  fx.output([%b, %r, none]) : (tensor<8x8xf32>, tensor<8x8xf32>) -> ()
}

// -----

/// Of an argument and what is computed from it, the argument is saved, without a mark.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %a = torch.aten.tanh.default(%x) {autodiff.recomputed}
// CHECK-NEXT:    %b = torch.aten.exp.default(%a) {autodiff.recomputed}
func.func @main(%x: tensor<8xf32>, %d: tensor<8xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %a = torch.aten.tanh.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = torch.aten.exp.default(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %c = torch.aten.mul.Tensor(%d, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %g = torch.aten.tanh_backward.default(%c, %a) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  fx.output([%b, %g]) : (tensor<8xf32>, tensor<8xf32>) -> ()
}

// -----

/// A sum is small, so that it is saved, and not what it is computed from.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    torch.aten.exp.default(%x) :
// CHECK-NEXT:    torch.aten.sum.dim_IntList({{.*}}) {autodiff.saved = array<i64: 0>}
// CHECK-NEXT:    %y = torch.aten.cos.default(%s) {autodiff.recomputed}
func.func @main(%x: tensor<64x8xf32>, %d: tensor<64x1xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %e = torch.aten.exp.default(%x) : (tensor<64x8xf32>) -> tensor<64x8xf32>
  %s = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<64x8xf32>) -> tensor<64x1xf32>
  %y = torch.aten.cos.default(%s) : (tensor<64x1xf32>) -> tensor<64x1xf32>
  %g = torch.aten.mul.Tensor(%d, %y) : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
  %f = torch.aten.mul.Tensor(%g, %s) : (tensor<64x1xf32>, tensor<64x1xf32>) -> tensor<64x1xf32>
  fx.output([%y, %f]) : (tensor<64x1xf32>, tensor<64x1xf32>) -> ()
}

// -----

/// The mask of dropout is saved: a second run would return another one.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %e = torch.aten.exp.default(%x) {autodiff.recomputed}
// CHECK-NEXT:    %y, %m = torch.aten.native_dropout.default(%e, 0.5, true) {autodiff.saved = array<i64: 1>}
func.func @main(%x: tensor<64xf32>, %d: tensor<64xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %e = torch.aten.exp.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %y, %m = torch.aten.native_dropout.default(%e, 0.5, true) : (tensor<64xf32>) -> (tensor<64xf32>, tensor<64xi1>)
  %c = torch.aten.native_dropout_backward.default(%d, %m, 2.0) : (tensor<64xf32>, tensor<64xi1>) -> tensor<64xf32>
  %g = torch.aten.mul.Tensor(%c, %e) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  fx.output([%y, %g]) : (tensor<64xf32>, tensor<64xf32>) -> ()
}

// -----

/// Random numbers that only the backward reads are from the forward, which samples them in the order of the program.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    torch.aten.rand_like.default(%x) {autodiff.saved = array<i64: 0>}
func.func @main(%x: tensor<64xf32>, %d: tensor<64xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %r = torch.aten.rand_like.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %y = torch.aten.cos.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %g = torch.aten.mul.Tensor(%d, %r) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  fx.output([%y, %g]) : (tensor<64xf32>, tensor<64xf32>) -> ()
}

// -----

/// A collective runs once; its result, which may share memory with its operand, is saved.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %e = torch.aten.exp.default(%x) :
// CHECK-NEXT:    %a = torch._c10d_functional.all_reduce.default(%e, "sum", "0") :
// CHECK-NEXT:    %y = torch._c10d_functional.wait_tensor.default(%a) {autodiff.saved = array<i64: 0>}
func.func @main(%x: tensor<64xf32>, %d: tensor<64xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %e = torch.aten.exp.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %a = torch._c10d_functional.all_reduce.default(%e, "sum", "0") : (tensor<64xf32>) -> tensor<64xf32>
  %y = torch._c10d_functional.wait_tensor.default(%a) : (tensor<64xf32>) -> tensor<64xf32>
  %g = torch.aten.mul.Tensor(%d, %y) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  fx.output([%y, %g]) : (tensor<64xf32>, tensor<64xf32>) -> ()
}

// -----

/// Of a tensor of which the backward reads a size only, this size is saved.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %h = torch.aten.exp.default(%x) :
// CHECK-NEXT:    torch.aten.sum.dim_IntList(%h, [0]) :
// CHECK-NEXT:    %k = torch.aten.sym_size.int(%h, 0) {autodiff.saved = array<i64: 0>}
func.func @main(%x: tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>, %d: tensor<8xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %h = torch.aten.exp.default(%x) : (tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>) -> tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>
  %s = torch.aten.sum.dim_IntList(%h, [0]) : (tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>) -> tensor<8xf32>
  %k = torch.aten.sym_size.int(%h, 0) : (tensor<?x8xf32, #torch.meta<sizes = ["s0", 8]>>) -> !torch.int<"s0">
  %g = torch.aten.expand.default(%d, [%k, 8]) : (tensor<8xf32>, !torch.int<"s0">) -> tensor<?x8xf32, #torch.meta<sizes = ["s0", 8], strides = [0, 1]>>
  fx.output([%s, %g]) : (tensor<8xf32>, tensor<?x8xf32, #torch.meta<sizes = ["s0", 8], strides = [0, 1]>>) -> ()
}

// -----

/// A number that is computed from an argument is computed again, which is free.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %k = fx.call_function @operator.mul(%n, 2) {autodiff.recomputed} :
// CHECK-NEXT:    torch.aten.expand.default(%x, [%k]) :
func.func @main(%n: !torch.int<"s0">, %x: tensor<1xf32>, %d: tensor<1xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %k = fx.call_function @operator.mul(%n, 2) : (!torch.int<"s0">) -> !torch.int<"2*s0">
  %y = torch.aten.expand.default(%x, [%k]) : (tensor<1xf32>, !torch.int<"2*s0">) -> tensor<?xf32, #torch.meta<sizes = ["2*s0"], strides = [0]>>
  %z = torch.aten.sum.default(%y) : (tensor<?xf32, #torch.meta<sizes = ["2*s0"], strides = [0]>>) -> tensor<f32>
  %g = torch.aten.expand.default(%d, [%k]) : (tensor<1xf32>, !torch.int<"2*s0">) -> tensor<?xf32, #torch.meta<sizes = ["2*s0"], strides = [0]>>
  fx.output([%z, none, %g]) : (tensor<f32>, tensor<?xf32, #torch.meta<sizes = ["2*s0"], strides = [0]>>) -> ()
}

// -----

/// A value of the forward that is a gradient as it is: it is saved, although no operation of the backward reads it.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %h = torch.aten.mm.default(%x, %w) {autodiff.saved = array<i64: 0>}
// CHECK-NEXT:    %y = torch.aten.cos.default(%h) {autodiff.recomputed}
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %d: tensor<8x8xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %h = torch.aten.mm.default(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = torch.aten.cos.default(%h) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %k = torch.aten.mul.Tensor(%d, %y) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  fx.output([%y, %h, %k]) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> ()
}

// -----

/// A new value of a buffer that the backward writes back is needed like a gradient.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %h = torch.aten.mm.default(%x, %x) {autodiff.saved = array<i64: 0>}
func.func @main(%x: tensor<8x8xf32>, %b: tensor<8x8xf32> {fx.kind = "buffer", fx.name = "b"}, %d: tensor<8x8xf32> {autodiff.tangent})
    -> (tensor<8x8xf32> {fx.mutates = 1 : i64, autodiff.part = "backward"}, tensor<8x8xf32>, tensor<8x8xf32>)
attributes {autodiff.forward_results = 1 : i64} {
  %h = torch.aten.mm.default(%x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = torch.aten.cos.default(%h) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  fx.output([%h, %y, %d]) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> ()
}

// -----

/// Marks that are there are obeyed: the product is computed again, the sigmoid is saved and the cosine is not.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %h = torch.aten.mm.default(%x, %w) {autodiff.recomputed}
// CHECK-NEXT:    %a = torch.aten.sigmoid.default(%h) {autodiff.saved = array<i64: 0>}
// CHECK-NEXT:    %b = torch.aten.cos.default(%a) {autodiff.recomputed}
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %d: tensor<8x8xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %h = torch.aten.mm.default(%x, %w) {autodiff.recomputed} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = torch.aten.sigmoid.default(%h) {autodiff.saved = array<i64: 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = torch.aten.cos.default(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = torch.aten.mul.Tensor(%d, %b) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = torch.aten.mul.Tensor(%c, %h) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %g = torch.aten.sigmoid_backward.default(%e, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  fx.output([%b, %g, none]) : (tensor<8x8xf32>, tensor<8x8xf32>) -> ()
}

// -----

/// One result of an operation is marked as saved; the other one is saved too, because the operation does not run again.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %v, %m = torch.aten.var_mean.correction(%x, [1], keepdim = true) {autodiff.saved = array<i64: 0, 1>}
func.func @main(%x: tensor<8x2xf32>, %d: tensor<8x1xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %v, %m = torch.aten.var_mean.correction(%x, [1], keepdim = true) {autodiff.saved = array<i64: 0>} : (tensor<8x2xf32>) -> (tensor<8x1xf32>, tensor<8x1xf32>)
  %g = torch.aten.addcmul.default(%d, %v, %m) : (tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
  fx.output([%v, %g]) : (tensor<8x1xf32>, tensor<8x1xf32>) -> ()
}

// -----

/// A product of the backward reads the activation from memory, so it is saved and not computed again to be written once more.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %h = torch.aten.mm.default(%x, %w) :
// CHECK-NEXT:    %y = torch.aten.relu.default(%h) {autodiff.saved = array<i64: 0>}
// CHECK-NEXT:    %z = torch.aten.mm.default(%y, %w) :
// CHECK-NEXT:    %t = torch.aten.t.default(%y) :
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %d: tensor<8x8xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %h = torch.aten.mm.default(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = torch.aten.relu.default(%h) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %z = torch.aten.mm.default(%y, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t = torch.aten.t.default(%y) : (tensor<8x8xf32>) -> tensor<8x8xf32, #torch.meta<strides = [1, 8]>>
  %g = torch.aten.mm.default(%t, %d) : (tensor<8x8xf32, #torch.meta<strides = [1, 8]>>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %k = torch.aten.threshold_backward.default(%d, %y, 0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  fx.output([%z, %k, %g]) : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> ()
}

// -----

/// What is computed from arguments and read by the backward only is computed there; constants, too.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    torch.aten.exp.default(%x) :
// CHECK-NEXT:    torch.aten.cos.default(%x) :
// CHECK-NEXT:    torch.aten.full.default([8], 2.0) :
func.func @main(%x: tensor<8xf32>, %d: tensor<8xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %y = torch.aten.exp.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %c = torch.aten.cos.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %two = torch.aten.full.default([8], 2.0) : () -> tensor<8xf32>
  %g = torch.aten.addcmul.default(%d, %c, %two) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  fx.output([%y, %g]) : (tensor<8xf32>, tensor<8xf32>) -> ()
}

// -----

/// Nothing depends on a gradient: nothing is saved.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    torch.aten.exp.default(%x) :
func.func @main(%x: tensor<8xf32>) attributes {autodiff.forward_results = 1 : i64} {
  %y = torch.aten.exp.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  fx.output([%y, none]) : (tensor<8xf32>) -> ()
}

// -----

/// A random operator that is marked as recomputed runs again, with the state that split-joint saves.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %y, %m = torch.aten.native_dropout.default(%x, 0.5, true) {autodiff.recomputed} :
func.func @main(%x: tensor<64xf32>, %d: tensor<64xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %y, %m = torch.aten.native_dropout.default(%x, 0.5, true) {autodiff.recomputed} : (tensor<64xf32>) -> (tensor<64xf32>, tensor<64xi1>)
  %g = torch.aten.native_dropout_backward.default(%d, %m, 2.0) : (tensor<64xf32>, tensor<64xi1>) -> tensor<64xf32>
  fx.output([%y, %g]) : (tensor<64xf32>, tensor<64xf32>) -> ()
}

// -----

/// A collective that is marked as recomputed runs once nevertheless. Memory that is not initialized would differ.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    torch._c10d_functional.all_reduce.default({{.*}}) {autodiff.recomputed} :
// CHECK-NEXT:    torch._c10d_functional.wait_tensor.default(%a) {autodiff.saved = array<i64: 0>} :
// CHECK-NEXT:    torch.aten.empty_like.default(%x) {autodiff.saved = array<i64: 0>} :
func.func @main(%x: tensor<64xf32>, %d: tensor<64xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 2 : i64} {
  %a = torch._c10d_functional.all_reduce.default(%x, "sum", "0") {autodiff.recomputed} : (tensor<64xf32>) -> tensor<64xf32>
  %y = torch._c10d_functional.wait_tensor.default(%a) : (tensor<64xf32>) -> tensor<64xf32>
  %e = torch.aten.empty_like.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %g = torch.aten.addcmul.default(%d, %y, %e) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  fx.output([%y, %e, %g]) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> ()
}

// -----

/// A product is between the users of %a, so that no kernel of the backward would compute both: %c is saved beside %p.
// CHECK-LABEL: func.func @main
// CHECK:         %b = torch.aten.exp.default(%a) :
// CHECK-NEXT:    %p = torch.aten.mm.default(%b, %w) {autodiff.saved = array<i64: 0>}
// CHECK-NEXT:    %c = torch.aten.mul.Tensor(%p, %a) {autodiff.saved = array<i64: 0>}
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %d: tensor<8x8xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %h = torch.aten.mm.default(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = torch.aten.sin.default(%h) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = torch.aten.exp.default(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = torch.aten.mm.default(%b, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = torch.aten.mul.Tensor(%p, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = torch.aten.cos.default(%c) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = torch.aten.mul.Tensor(%d, %c) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %f = torch.aten.mul.Tensor(%e, %p) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %g = torch.aten.mul.Tensor(%f, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  fx.output([%y, %g, none]) : (tensor<8x8xf32>, tensor<8x8xf32>) -> ()
}

// -----

/// Here none is between them, and %c is computed again.
// CHECK-LABEL: func.func @main
// CHECK:         %b = torch.aten.exp.default(%a) {autodiff.recomputed}
// CHECK-NEXT:    %c = torch.aten.mul.Tensor(%b, %a) {autodiff.recomputed}
func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>, %d: tensor<8x8xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %h = torch.aten.mm.default(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = torch.aten.sin.default(%h) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = torch.aten.exp.default(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = torch.aten.mul.Tensor(%b, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = torch.aten.cos.default(%c) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = torch.aten.mul.Tensor(%d, %c) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %f = torch.aten.mul.Tensor(%e, %b) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %g = torch.aten.mul.Tensor(%f, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  fx.output([%y, %g, none]) : (tensor<8x8xf32>, tensor<8x8xf32>) -> ()
}

// -----

/// The number of elements depends on data, and other types may name it: the positions are saved.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    torch.aten.nonzero.default(%x) {autodiff.saved = array<i64: 0>}
func.func @main(%x: tensor<8xf32>, %d: tensor<?x1xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %n = torch.aten.nonzero.default(%x) : (tensor<8xf32>) -> tensor<?x1xi64>
  %g = torch.aten.mul.Tensor(%d, %n) : (tensor<?x1xf32>, tensor<?x1xi64>) -> tensor<?x1xf32>
  fx.output([%n, %g]) : (tensor<?x1xi64>, tensor<?x1xf32>) -> ()
}

// -----

/// No joint graph.
// CHECK-LABEL: @no_joint_graph
// CHECK-NOT: autodiff
func.func @no_joint_graph(%x: tensor<8xf32>) {
  %y = torch.aten.exp.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  fx.output(%y) : (tensor<8xf32>) -> ()
}

// -----

/// Arguments that the caller holds beyond the step take no memory, so what is computed from them is computed again.
// CHECK-LABEL: func.func @held(%p: tensor<8xf32> {autodiff.held}, %q: tensor<8xf32> {autodiff.held},
// CHECK-NEXT:    %a = torch.aten.add.Tensor(%p, %q) {autodiff.recomputed}
func.func @held(%p: tensor<8xf32> {autodiff.held}, %q: tensor<8xf32> {autodiff.held}, %d: tensor<8xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %a = torch.aten.add.Tensor(%p, %q) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %y = torch.aten.exp.default(%a) {autodiff.part = "forward"} : (tensor<8xf32>) -> tensor<8xf32>
  %g = torch.aten.mul.Tensor(%d, %a) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  fx.output([%y, %g]) : (tensor<8xf32>, tensor<8xf32>) -> ()
}

// -----

/// Two other arguments are larger than the value, and so are those that are overwritten.
// CHECK-LABEL: func.func @not_held(
// CHECK-NEXT:    %a = torch.aten.add.Tensor(%p, %q) {autodiff.saved = array<i64: 0>}
func.func @not_held(%p: tensor<8xf32>, %q: tensor<8xf32> {autodiff.held, autodiff.written}, %d: tensor<8xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %a = torch.aten.add.Tensor(%p, %q) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %y = torch.aten.exp.default(%a) {autodiff.part = "forward"} : (tensor<8xf32>) -> tensor<8xf32>
  %g = torch.aten.mul.Tensor(%d, %a) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  fx.output([%y, %g]) : (tensor<8xf32>, tensor<8xf32>) -> ()
}
