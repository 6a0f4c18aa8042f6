// RUN: fxc-opt %s --split-input-file --pass-pipeline=lower-grad-mode | filecheck %s

/// Writes and reads go through detached values; a value that comes back is itself, written or not, and numbers are not detached.
// CHECK-LABEL: @off
// CHECK-NEXT:    [[C:%.+]] = torch.aten.detach.default(%c)
// CHECK-NEXT:    [[X:%.+]] = torch.aten.detach.default(%x)
// CHECK-NEXT:    %m = torch.aten.add_.Tensor([[C]], [[X]], alpha = %n)
// CHECK-NEXT:    func.return %c, %x
func.func @off(%c: tensor<3xf32>, %x: tensor<3xf32>, %n: !torch.int<"n">) -> (tensor<3xf32>, tensor<3xf32>) {
  %t = torch.higher_order.wrap_with_set_grad_enabled(false, @submod, %c, %x, %n) ({
  ^bb0(%b: tensor<3xf32>, %a: tensor<3xf32>, %k: !torch.int<"n">):
    %m = torch.aten.add_.Tensor(%b, %a, alpha = %k) : (tensor<3xf32>, tensor<3xf32>, !torch.int<"n">) -> tensor<3xf32>
    fx.output((%m, %a)) : (tensor<3xf32>, tensor<3xf32>) -> ()
  }) : (tensor<3xf32>, tensor<3xf32>, !torch.int<"n">) -> tuple<tensor<3xf32>, tensor<3xf32>>
  %y = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<3xf32>, tensor<3xf32>>) -> tensor<3xf32>
  %z = fx.call_function @operator.getitem(%t, 1) : (tuple<tensor<3xf32>, tensor<3xf32>>) -> tensor<3xf32>
  func.return %y, %z : tensor<3xf32>, tensor<3xf32>
}

// -----

/// A region with gradients, in a branch too, is its ops.
// CHECK-LABEL: @on
// CHECK-NOT:     wrap_with_set_grad_enabled
// CHECK-NOT:     detach
// CHECK:         %e = torch.aten.exp.default(%a)
func.func @on(%p: tensor<i1>, %x: tensor<3xf32>) -> tensor<3xf32> {
  %c = torch.higher_order.cond(%p, @yes, @no, (%x,)) ({
  ^bb0(%a: tensor<3xf32>):
    %t = torch.higher_order.wrap_with_set_grad_enabled(true, @submod, %a) ({
    ^bb1(%b: tensor<3xf32>):
      %e = torch.aten.exp.default(%b) : (tensor<3xf32>) -> tensor<3xf32>
      fx.output((%e,)) : (tensor<3xf32>) -> ()
    }) : (tensor<3xf32>) -> tuple<tensor<3xf32>>
    %y = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<3xf32>>) -> tensor<3xf32>
    fx.output((%y,)) : (tensor<3xf32>) -> ()
  }, {
  ^bb2(%a: tensor<3xf32>):
    fx.output((%a,)) : (tensor<3xf32>) -> ()
  }) : (tensor<i1>, tensor<3xf32>) -> tuple<tensor<3xf32>>
  %r = fx.call_function @operator.getitem(%c, 0) : (tuple<tensor<3xf32>>) -> tensor<3xf32>
  func.return %r : tensor<3xf32>
}

// -----

/// Gradients that are on within a region that is off: both stay.
// CHECK-LABEL: @nested
// CHECK:         wrap_with_set_grad_enabled(false
// CHECK:           wrap_with_set_grad_enabled(true
// CHECK-NOT:     detach
func.func @nested(%x: tensor<3xf32>) -> tuple<tensor<3xf32>> {
  %t = torch.higher_order.wrap_with_set_grad_enabled(false, @outer, %x) ({
  ^bb0(%a: tensor<3xf32>):
    %i = torch.higher_order.wrap_with_set_grad_enabled(true, @inner, %a) ({
    ^bb1(%b: tensor<3xf32>):
      %e = torch.aten.exp.default(%b) : (tensor<3xf32>) -> tensor<3xf32>
      fx.output((%e,)) : (tensor<3xf32>) -> ()
    }) : (tensor<3xf32>) -> tuple<tensor<3xf32>>
    %y = fx.call_function @operator.getitem(%i, 0) : (tuple<tensor<3xf32>>) -> tensor<3xf32>
    fx.output((%y,)) : (tensor<3xf32>) -> ()
  }) : (tensor<3xf32>) -> tuple<tensor<3xf32>>
  func.return %t : tuple<tensor<3xf32>>
}

// -----

/// Between calls that switch: a tensor from outside is detached once, an element of a tuple where it is read; what was written
/// is the tensor from outside again, and what was computed stays detached.
// CHECK-LABEL: @calls
// CHECK-NEXT:    %a = torch.aten.exp.default(%x)
// CHECK-NEXT:    %v, %i = torch.aten.max.dim(%x, 0)
// CHECK-NEXT:    [[A:%.+]] = torch.aten.detach.default(%a)
// CHECK-NEXT:    [[X:%.+]] = torch.aten.detach.default(%x)
// CHECK-NEXT:    %b = torch.aten.mul.Tensor([[A]], [[X]])
// CHECK-NEXT:    %w = torch.aten.add_.Tensor([[A]], %b)
// CHECK-NEXT:    [[V:%.+]] = torch.aten.detach.default(%v)
// CHECK-NEXT:    %c = torch.aten.mul.Tensor(%w, [[V]])
// CHECK-NEXT:    %d = torch.aten.mul.Tensor(%a, %b)
// CHECK-NEXT:    [[D:%.+]] = torch.aten.detach.default(%d)
// CHECK-NEXT:    %e = torch.aten.mul.Tensor([[D]], %c)
// CHECK-NEXT:    fx.output((%e, %a, %d))
func.func @calls(%x: tensor<3xf32>) {
  %a = torch.aten.exp.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %v, %i = torch.aten.max.dim(%x, 0) : (tensor<3xf32>) -> (tensor<f32>, tensor<i64>)
  %off = fx.call_function @torch._C._set_grad_enabled(false) : () -> !torch.none
  %b = torch.aten.mul.Tensor(%a, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %w = torch.aten.add_.Tensor(%a, %b) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %c = torch.aten.mul.Tensor(%w, %v) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %on = fx.call_function @torch._C._set_grad_enabled(true) : () -> !torch.none
  %d = torch.aten.mul.Tensor(%w, %b) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %off_1 = fx.call_function @torch.set_grad_enabled(false) : () -> !torch.none
  %e = torch.aten.mul.Tensor(%d, %c) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  fx.output((%e, %w, %d)) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> ()
}

// -----

/// A switch that is not known: all of the block stays.
// CHECK-LABEL: @unknown
// CHECK:         _set_grad_enabled(false)
// CHECK-NEXT:    torch.aten.exp.default(%x)
// CHECK-NEXT:    _set_grad_enabled(%p)
func.func @unknown(%x: tensor<3xf32>, %p: !torch.bool) {
  %off = fx.call_function @torch._C._set_grad_enabled(false) : () -> !torch.none
  %e = torch.aten.exp.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %on = fx.call_function @torch._C._set_grad_enabled(%p) : (!torch.bool) -> !torch.none
  fx.output((%e,)) : (tensor<3xf32>) -> ()
}

// -----

/// By keyword, and as an operator.
// CHECK-LABEL: @other_calls
// CHECK-NEXT:    [[X:%.+]] = torch.aten.detach.default(%x)
// CHECK-NEXT:    %e = torch.aten.exp.default([[X]])
// CHECK-NEXT:    %f = torch.aten.exp.default(%x)
// CHECK-NEXT:    fx.output((%e, %f))
func.func @other_calls(%x: tensor<3xf32>) {
  %off = fx.call_function @torch.set_grad_enabled(mode = false) : () -> !torch.none
  %e = torch.aten.exp.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
  torch.aten.set_grad_enabled.default(true) : () -> ()
  %f = torch.aten.exp.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
  fx.output((%e, %f)) : (tensor<3xf32>, tensor<3xf32>) -> ()
}

// -----

/// An operator may return its operand itself: that is not detached, here where it converts to the dtype that it has.
// CHECK-LABEL: @itself
// CHECK:         %d = torch.aten.to.dtype({{%.+}}, torch.float64)
// CHECK:         torch.aten.cos.default(%x)
// CHECK:         torch.aten.cos.default(%d)
func.func @itself(%x: tensor<3xf32>) {
  %off = fx.call_function @torch.set_grad_enabled(false) : () -> !torch.none
  %s = torch.aten.to.dtype(%x, torch.float32) : (tensor<3xf32>) -> tensor<3xf32>
  %d = torch.aten.to.dtype(%x, torch.float64) : (tensor<3xf32>) -> tensor<3xf64>
  %on = fx.call_function @torch.set_grad_enabled(true) : () -> !torch.none
  %e = torch.aten.cos.default(%s) : (tensor<3xf32>) -> tensor<3xf32>
  %f = torch.aten.cos.default(%d) : (tensor<3xf64>) -> tensor<3xf64>
  fx.output((%e, %f)) : (tensor<3xf32>, tensor<3xf64>) -> ()
}
