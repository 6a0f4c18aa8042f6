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
