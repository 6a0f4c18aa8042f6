// RUN: fxc-opt %s --split-input-file --pass-pipeline=peephole | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=peephole,peephole | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=peephole{shapes=false} | filecheck %s --check-prefix=ANY

/// Sizes that a type states; strides, rank and number of elements too. Without shapes only the rank.
// CHECK-LABEL: func.func @sizes
// CHECK-NEXT:    torch.aten.add.Tensor(%x, %y, alpha = 3)
// CHECK-NEXT:    torch.aten.add.Tensor(%{{.*}}, %y, alpha = 6)
// CHECK-NEXT:    torch.aten.add.Tensor(%{{.*}}, %y, alpha = 3)
// CHECK-NEXT:    torch.aten.add.Tensor(%{{.*}}, %y, alpha = 2)
// ANY-LABEL: func.func @sizes
// ANY-NEXT:      torch.aten.sym_size.int
// ANY-NEXT:      torch.aten.sym_numel.default
// ANY-NEXT:      torch.aten.sym_stride.int
// ANY-NEXT:      torch.aten.add.Tensor(%x, %y, alpha = %n)
// ANY:           torch.aten.add.Tensor(%{{.*}}, %y, alpha = 2)
func.func @sizes(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) {
  %n = torch.aten.sym_size.int(%x, -1) : (tensor<2x3xf32>) -> !torch.int
  %m = torch.aten.sym_numel.default(%x) : (tensor<2x3xf32>) -> !torch.int
  %s = torch.aten.sym_stride.int(%x, 0) : (tensor<2x3xf32>) -> !torch.int
  %r = torch.aten.dim.default(%x) : (tensor<2x3xf32>) -> !torch.int
  %a = torch.aten.add.Tensor(%x, %y, alpha = %n) : (tensor<2x3xf32>, tensor<2x3xf32>, !torch.int) -> tensor<2x3xf32>
  %b = torch.aten.add.Tensor(%a, %y, alpha = %m) : (tensor<2x3xf32>, tensor<2x3xf32>, !torch.int) -> tensor<2x3xf32>
  %c = torch.aten.add.Tensor(%b, %y, alpha = %s) : (tensor<2x3xf32>, tensor<2x3xf32>, !torch.int) -> tensor<2x3xf32>
  %d = torch.aten.add.Tensor(%c, %y, alpha = %r) : (tensor<2x3xf32>, tensor<2x3xf32>, !torch.int) -> tensor<2x3xf32>
  fx.output(%d) : (tensor<2x3xf32>) -> ()
}

// -----

/// Questions about dtype and device do not need shapes.
// CHECK-LABEL: func.func @types
// CHECK-NEXT:    %true = torch.constant(true) : !torch.bool
// CHECK-NEXT:    %false = torch.constant(false) : !torch.bool
// CHECK-NEXT:    %code = torch.constant(15) : !torch.int
// CHECK-NEXT:    %cuda = torch.constant(true) : !torch.bool
// CHECK-NEXT:    %y = torch.aten.ones.default([2], device = device("cuda:0"))
// CHECK-NEXT:    fx.output
// ANY-LABEL: func.func @types
// ANY-NEXT:      %true = torch.constant(true)
// ANY-NEXT:      %false = torch.constant(false)
// ANY-NEXT:      %code = torch.constant(15)
func.func @types(%x: tensor<4xbf16, #torch.meta<device = "cuda:0">>) {
  %true = torch.aten.is_floating_point.default(%x) : (tensor<4xbf16, #torch.meta<device = "cuda:0">>) -> !torch.bool
  %false = torch.aten.is_complex.default(%x) : (tensor<4xbf16, #torch.meta<device = "cuda:0">>) -> !torch.bool
  %code = torch.prim.dtype.default(%x) : (tensor<4xbf16, #torch.meta<device = "cuda:0">>) -> !torch.int
  %cuda = torch.prim.is_cuda.default(%x) : (tensor<4xbf16, #torch.meta<device = "cuda:0">>) -> !torch.bool
  %device = torch.prim.device.default(%x) : (tensor<4xbf16, #torch.meta<device = "cuda:0">>) -> !fx.value
  %y = torch.aten.ones.default([2], device = %device) : (!fx.value) -> tensor<2xf32, #torch.meta<device = "cuda:0">>
  fx.output((%true, %false, %code, %cuda, %y)) : (!torch.bool, !torch.bool, !torch.int, !torch.bool, tensor<2xf32, #torch.meta<device = "cuda:0">>) -> ()
}

// -----

/// A tuple knows how many elements it has, and a tensor is not None.
// CHECK-LABEL: func.func @len_and_none
// CHECK-NEXT:    %n = torch.constant(2) : !torch.int
// CHECK-NEXT:    %m = torch.constant(2) : !torch.int
// CHECK-NEXT:    %p = torch.constant(false) : !torch.bool
// CHECK-NEXT:    %q = torch.constant(true) : !torch.bool
// CHECK-NEXT:    %r = fx.call_function @operator.is_(%x, %y)
// CHECK-NEXT:    fx.output
// ANY-LABEL: func.func @len_and_none
// ANY:           %n = torch.constant(2)
func.func @len_and_none(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) {
  %s = torch.aten.size.default(%x) : (tensor<2x3xf32>) -> tuple<!torch.int, !torch.int>
  %n = torch.aten.len.t(%s) : (tuple<!torch.int, !torch.int>) -> !torch.int
  %m = fx.call_function @len(%s) : (tuple<!torch.int, !torch.int>) -> !torch.int
  %p = fx.call_function @operator.is_(%x, none) : (tensor<2x3xf32>) -> !torch.bool
  %q = fx.call_function @operator.is_not(none, %x) : (tensor<2x3xf32>) -> !torch.bool
  %r = fx.call_function @operator.is_(%x, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> !torch.bool
  fx.output((%n, %m, %p, %q, %r)) : (!torch.int, !torch.int, !torch.bool, !torch.bool, !torch.bool) -> ()
}

// -----

/// Sums to the size that is there, or to none; a sum of a sum. Without shapes the first stays.
// CHECK-LABEL: func.func @sums
// CHECK-NEXT:    %c = torch.aten._grad_sum_to_size.default(%x, [3])
// CHECK-NEXT:    %d = torch.aten.exp.default(%c)
// ANY-LABEL: func.func @sums
// ANY-NEXT:      %a = torch.aten.sum_to_size.default(%x, [2, 3])
// ANY-NEXT:      %c = torch.aten._grad_sum_to_size.default(%a, [3])
func.func @sums(%x: tensor<2x3xf32>) {
  %a = torch.aten.sum_to_size.default(%x, [2, 3]) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %n = torch.aten._grad_sum_to_size.default(%a, none) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = torch.aten._grad_sum_to_size.default(%n, [1, 3]) : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %c = torch.aten._grad_sum_to_size.default(%b, [3]) : (tensor<1x3xf32>) -> tensor<3xf32>
  %d = torch.aten.exp.default(%c) : (tensor<3xf32>) -> tensor<3xf32>
  fx.output(%d) : (tensor<3xf32>) -> ()
}

// -----

/// The rules of canonicalize. Without shapes, those that hold for these sizes only stay away.
// CHECK-LABEL: func.func @canonicalize_too
// CHECK-NEXT:    %e = torch.aten.relu.default(%x)
// CHECK-NEXT:    fx.output(%e)
// ANY-LABEL: func.func @canonicalize_too
// ANY-NEXT:      %a = torch.aten.expand.default(%x, [2, 3])
// ANY-NEXT:      %e = torch.aten.relu.default(%a)
func.func @canonicalize_too(%x: tensor<2x3xi64>) {
  %a = torch.aten.expand.default(%x, [2, 3]) : (tensor<2x3xi64>) -> tensor<2x3xi64>
  %t = torch.aten.t.default(%a) : (tensor<2x3xi64>) -> tensor<3x2xi64, #torch.meta<strides = [1, 3]>>
  %b = torch.aten.t.default(%t) : (tensor<3x2xi64, #torch.meta<strides = [1, 3]>>) -> tensor<2x3xi64>
  %c = torch.aten.mul.Scalar(%b, 1) : (tensor<2x3xi64>) -> tensor<2x3xi64>
  %d = torch.aten.add.Scalar(%c, 0) : (tensor<2x3xi64>) -> tensor<2x3xi64>
  %e = torch.aten.relu.default(%d) : (tensor<2x3xi64>) -> tensor<2x3xi64>
  fx.output(%e) : (tensor<2x3xi64>) -> ()
}
