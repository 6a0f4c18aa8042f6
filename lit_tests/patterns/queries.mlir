// RUN: fxc-opt %s --split-input-file --pass-pipeline=peephole | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=peephole,peephole | filecheck %s

/// All sizes at once: as results, as a list, and one taken of the list. What is returned is a constant.
// CHECK-LABEL: func.func @all_sizes
// CHECK-NEXT:    %[[N:.*]] = torch.constant(3) : !torch.int
// CHECK-NEXT:    %v = torch.aten.view.default(%z, [2, 3])
// CHECK-NEXT:    %w = torch.aten.view.default(%z, [3, 2])
// CHECK-NEXT:    fx.output((%v, %w, %[[N]]))
func.func @all_sizes(%x: tensor<2x3xf32>, %z: tensor<6xf32>) {
  %s = torch.aten.size.default(%x) : (tensor<2x3xf32>) -> tuple<!torch.int, !torch.int>
  %n = fx.call_function @operator.getitem(%s, 1) : (tuple<!torch.int, !torch.int>) -> !torch.int
  %a, %b = torch.aten.sym_size.default(%x) : (tensor<2x3xf32>) -> (!torch.int, !torch.int)
  %v = torch.aten.view.default(%z, %s) : (tensor<6xf32>, tuple<!torch.int, !torch.int>) -> tensor<2x3xf32>
  %w = torch.aten.view.default(%z, [%b, %a]) : (tensor<6xf32>, !torch.int, !torch.int) -> tensor<3x2xf32>
  fx.output((%v, %w, %n)) : (tensor<2x3xf32>, tensor<3x2xf32>, !torch.int) -> ()
}

// -----

/// A size that is known at run time only, next to one that is not.
// CHECK-LABEL: func.func @dynamic
// CHECK-NEXT:    %a, %b = torch.aten.sym_size.default(%x)
// CHECK-NEXT:    %n = torch.aten.sym_size.int(%x, 0)
// CHECK-NEXT:    %v = torch.aten.view.default(%x, [3, %a])
// CHECK-NEXT:    fx.output((%v, %n))
func.func @dynamic(%x: tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) {
  %a, %b = torch.aten.sym_size.default(%x) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> (!torch.int, !torch.int)
  %n = torch.aten.sym_size.int(%x, 0) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>) -> !torch.int<"s0">
  %v = torch.aten.view.default(%x, [%b, %a]) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, !torch.int, !torch.int) -> tensor<3x?xf32, #torch.meta<sizes = [3, "s0"]>>
  fx.output((%v, %n)) : (tensor<3x?xf32, #torch.meta<sizes = [3, "s0"]>>, !torch.int<"s0">) -> ()
}

// -----

/// A write may change the size.
// CHECK-LABEL: func.func @resized
// CHECK-NEXT:    torch.aten.clone.default
// CHECK-NEXT:    torch.aten.resize_.default
// CHECK-NEXT:    %n = torch.aten.sym_size.int(%c, 0)
// CHECK-NEXT:    %a, %b = torch.aten.size.default(%c)
// CHECK-NEXT:    torch.aten.mul.Scalar(%x, %n)
// CHECK-NEXT:    torch.aten.mul.Scalar(%{{.*}}, %a)
func.func @resized(%x: tensor<2x3xf32>) {
  %c = torch.aten.clone.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %w = torch.aten.resize_.default(%c, [3, 2]) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %n = torch.aten.sym_size.int(%c, 0) : (tensor<2x3xf32>) -> !torch.int
  %a, %b = torch.aten.size.default(%c) : (tensor<2x3xf32>) -> (!torch.int, !torch.int)
  %y = torch.aten.mul.Scalar(%x, %n) : (tensor<2x3xf32>, !torch.int) -> tensor<2x3xf32>
  %z = torch.aten.mul.Scalar(%y, %a) : (tensor<2x3xf32>, !torch.int) -> tensor<2x3xf32>
  fx.output(%z) : (tensor<2x3xf32>) -> ()
}

// -----

/// A device that is returned is no constant; neither is anything of a value without a type.
// CHECK-LABEL: func.func @unknown_types
// CHECK-NEXT:    %d = torch.prim.device.default(%x)
// CHECK-NEXT:    %f = torch.aten.is_floating_point.default(%y)
// CHECK-NEXT:    %n = fx.call_function @operator.is_(%y, none)
// CHECK-NEXT:    %l = fx.call_function @len(%y)
// CHECK-NEXT:    %s = torch.aten.size.default(%y)
// CHECK-NEXT:    fx.output
func.func @unknown_types(%x: tensor<4xf32>, %y: !fx.value) {
  %d = torch.prim.device.default(%x) : (tensor<4xf32>) -> !fx.value
  %f = torch.aten.is_floating_point.default(%y) : (!fx.value) -> !torch.bool
  %n = fx.call_function @operator.is_(%y, none) : (!fx.value) -> !torch.bool
  %l = fx.call_function @len(%y) : (!fx.value) -> !torch.int
  %s = torch.aten.size.default(%y) : (!fx.value) -> !fx.value
  fx.output((%d, %f, %n, %l, %s)) : (!fx.value, !torch.bool, !torch.bool, !torch.int, !fx.value) -> ()
}

// -----

/// A number that went into a tensor comes out as it was.
// CHECK-LABEL: func.func @numbers
// CHECK-NEXT:    fx.output((%n, %f, %n, %b))
func.func @numbers(%n: !torch.int, %f: !torch.float, %b: !torch.bool) {
  %t = torch.prim.NumToTensor.Scalar(%n) : (!torch.int) -> tensor<i64>
  %u = torch.aten.scalar_tensor.default(%f, dtype = torch.float64) : (!torch.float) -> tensor<f64>
  %v = torch.prim.NumToTensor.bool(%b) : (!torch.bool) -> tensor<i1>
  %i = torch.aten.Int.Tensor(%t) : (tensor<i64>) -> !torch.int
  %g = torch.aten._local_scalar_dense.default(%u) : (tensor<f64>) -> !torch.float
  %j = torch.aten.ScalarImplicit.default(%t) : (tensor<i64>) -> !torch.int
  %c = torch.aten.Bool.Tensor(%v) : (tensor<i1>) -> !torch.bool
  fx.output((%i, %g, %j, %c)) : (!torch.int, !torch.float, !torch.int, !torch.bool) -> ()
}

// -----

/// Another kind of number is asked for, the tensor rounds, or it is written.
// CHECK-LABEL: func.func @other_numbers
// CHECK:         torch.aten.Int.Tensor(%t)
// CHECK-NEXT:    torch.aten.item.default(%u)
// CHECK-NEXT:    torch.aten.neg_.default(%v)
// CHECK-NEXT:    torch.aten.Int.Tensor(%v)
func.func @other_numbers(%n: !torch.int, %f: !torch.float) {
  %t = torch.prim.NumToTensor.Scalar(%f) : (!torch.float) -> tensor<f64>
  %u = torch.aten.scalar_tensor.default(%f) : (!torch.float) -> tensor<f32>
  %v = torch.prim.NumToTensor.Scalar(%n) : (!torch.int) -> tensor<i64>
  %i = torch.aten.Int.Tensor(%t) : (tensor<f64>) -> !torch.int
  %g = torch.aten.item.default(%u) : (tensor<f32>) -> !torch.float
  %w = torch.aten.neg_.default(%v) : (tensor<i64>) -> tensor<i64>
  %j = torch.aten.Int.Tensor(%v) : (tensor<i64>) -> !torch.int
  fx.output((%i, %g, %j)) : (!torch.int, !torch.float, !torch.int) -> ()
}

// -----

/// Sums that do sum, of a scalar (-0.0 becomes 0.0), to a size that is a value, and one that is returned.
// CHECK-LABEL: func.func @other_sums
// CHECK-NEXT:    %a = torch.aten.sum_to_size.default(%x, [1, 3])
// CHECK-NEXT:    %b = torch.aten.sum_to_size.default(%z, [])
// CHECK-NEXT:    %g = torch.aten._grad_sum_to_size.default(%x, [1, 3])
// CHECK-NEXT:    %c = torch.aten._grad_sum_to_size.default(%g, %n)
// CHECK-NEXT:    %d = torch.aten.sum_to_size.default(%x, [2, 3])
// CHECK-NEXT:    fx.output
func.func @other_sums(%x: tensor<2x3xf32>, %z: tensor<f32>, %n: !fx.value) {
  %a = torch.aten.sum_to_size.default(%x, [1, 3]) : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %b = torch.aten.sum_to_size.default(%z, []) : (tensor<f32>) -> tensor<f32>
  %g = torch.aten._grad_sum_to_size.default(%x, [1, 3]) : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %c = torch.aten._grad_sum_to_size.default(%g, %n) : (tensor<1x3xf32>, !fx.value) -> tensor<3xf32>
  %d = torch.aten.sum_to_size.default(%x, [2, 3]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output((%a, %b, %c, %d)) : (tensor<1x3xf32>, tensor<f32>, tensor<3xf32>, tensor<2x3xf32>) -> ()
}

// -----

/// The size that a tensor has, where only the program knows it.
// CHECK-LABEL: func.func @own_size
// CHECK-NEXT:    %y = torch.aten.exp.default(%x)
// CHECK-NEXT:    %z = torch.aten.exp.default(%y)
// CHECK-NEXT:    fx.output(%z)
// CHECK-LABEL: func.func @other_size
// CHECK:         %e = torch.aten.expand.default(%x, [%b, %a])
// CHECK:         %g = torch.aten.expand.default(%y, [%a, %b])
func.func @own_size(%x: tensor<?x?xf32>) {
  %a = torch.aten.sym_size.int(%x, 0) : (tensor<?x?xf32>) -> !torch.int
  %c, %b = torch.aten.size.default(%x) : (tensor<?x?xf32>) -> (!torch.int, !torch.int)
  %e = torch.aten.expand.default(%x, [%a, %b]) : (tensor<?x?xf32>, !torch.int, !torch.int) -> tensor<?x?xf32>
  %y = torch.aten.exp.default(%e) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %s = torch.aten.size.default(%y) : (tensor<?x?xf32>) -> tuple<!torch.int, !torch.int>
  %f = torch.aten.sum_to_size.default(%y, %s) : (tensor<?x?xf32>, tuple<!torch.int, !torch.int>) -> tensor<?x?xf32>
  %z = torch.aten.exp.default(%f) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  fx.output(%z) : (tensor<?x?xf32>) -> ()
}
func.func @other_size(%x: tensor<?x?xf32>) {
  %a = torch.aten.sym_size.int(%x, 0) : (tensor<?x?xf32>) -> !torch.int
  %b = torch.aten.sym_size.int(%x, 1) : (tensor<?x?xf32>) -> !torch.int
  %e = torch.aten.expand.default(%x, [%b, %a]) : (tensor<?x?xf32>, !torch.int, !torch.int) -> tensor<?x?xf32>
  %y = torch.aten.exp.default(%e) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %g = torch.aten.expand.default(%y, [%a, %b]) : (tensor<?x?xf32>, !torch.int, !torch.int) -> tensor<?x?xf32>
  %z = torch.aten.exp.default(%g) : (tensor<?x?xf32>) -> tensor<?x?xf32>
  fx.output(%z) : (tensor<?x?xf32>) -> ()
}

// -----

/// A list that somebody appends to.
// CHECK-LABEL: func.func @appended
// CHECK-NEXT:    %s = torch.aten.size.default(%x)
// CHECK-NEXT:    fx.call_method @append(%s, 1)
// CHECK-NEXT:    %n = fx.call_function @len(%s)
// CHECK-NEXT:    %y = torch.aten.ones.default(%s)
func.func @appended(%x: tensor<2x3xf32>) {
  %s = torch.aten.size.default(%x) : (tensor<2x3xf32>) -> tuple<!torch.int, !torch.int>
  %a = fx.call_method @append(%s, 1) : (tuple<!torch.int, !torch.int>) -> !torch.none
  %n = fx.call_function @len(%s) : (tuple<!torch.int, !torch.int>) -> !torch.int
  %y = torch.aten.ones.default(%s) : (tuple<!torch.int, !torch.int>) -> tensor<2x3x1xf32>
  fx.output((%n, %y)) : (!torch.int, tensor<2x3x1xf32>) -> ()
}
