// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=canonicalize,canonicalize | filecheck %s

/// Host numbers go into the calls, in lists, slices and keywords too; then other patterns see them.
// CHECK-LABEL: func.func @host_numbers
// CHECK-NEXT:    %a = torch.aten.view.default(%x, [2, %n])
// CHECK-NEXT:    %b = torch.aten.add.Tensor(%a, %a, alpha = 2)
// CHECK-NEXT:    %c = fx.call_function @operator.getitem(%b, (slice(none, 2, none), 2))
// CHECK-NEXT:    %e = torch.aten.sin.default(%x)
func.func @host_numbers(%n: !torch.int<"s0">, %x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>) {
  %two = torch.constant(2) : !torch.int
  %one = torch.constant(1.0) : !torch.float
  %a = torch.aten.view.default(%x, [%two, %n]) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, !torch.int, !torch.int<"s0">) -> tensor<2x?xf32>
  %b = torch.aten.add.Tensor(%a, %a, alpha = %two) : (tensor<2x?xf32>, tensor<2x?xf32>, !torch.int) -> tensor<2x?xf32>
  %c = fx.call_function @operator.getitem(%b, (slice(none, %two, none), %two)) : (tensor<2x?xf32>, !torch.int, !torch.int) -> tensor<?xf32>
  %d = torch.aten.mul.Tensor(%x, %one) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, !torch.float) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %e = torch.aten.sin.default(%d) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  fx.output((%c, %e)) : (tensor<?xf32>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> ()
}

// -----

/// What a graph returns, and what a graph is given, keep the operand; so do tensors.
// CHECK-LABEL: func.func @operands_that_stay
// CHECK-NEXT:    %c = torch.constant(2) : !torch.int
// CHECK-NEXT:    %t = torch.constant([1.0, 2.0]) : tensor<2xf32>
// CHECK-NEXT:    %a = torch.aten.add.Tensor(%x, %t)
// CHECK-NEXT:    torch.higher_order.cond(%p, @then, @else, (%a, %c))
// CHECK:         fx.output((%h, %c))
func.func @operands_that_stay(%p: tensor<i1>, %x: tensor<2xf32>) {
  %c = torch.constant(2) : !torch.int
  %t = torch.constant([1.0, 2.0]) : tensor<2xf32>
  %a = torch.aten.add.Tensor(%x, %t) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %h = torch.higher_order.cond(%p, @then, @else, (%a, %c)) ({
  ^bb0(%y: tensor<2xf32>, %n: !torch.int):
    %e = torch.aten.mul.Tensor(%y, %n) : (tensor<2xf32>, !torch.int) -> tensor<2xf32>
    fx.output((%e,)) : (tensor<2xf32>) -> ()
  }, {
  ^bb0(%y: tensor<2xf32>, %n: !torch.int):
    %e = torch.aten.neg.default(%y) : (tensor<2xf32>) -> tensor<2xf32>
    fx.output((%e,)) : (tensor<2xf32>) -> ()
  }) : (tensor<i1>, tensor<2xf32>, !torch.int) -> tensor<2xf32>
  fx.output((%h, %c)) : (tensor<2xf32>, !torch.int) -> ()
}

// -----

/// An in-place call takes the number too, and stays what it is.
// CHECK-LABEL: func.func @in_place
// CHECK-NEXT:    %a = torch.aten.add_.Tensor(%x, 2, alpha = 3)
func.func @in_place(%x: tensor<2xf32>) {
  %c = torch.constant(2) : !torch.int
  %d = torch.constant(3) : !torch.int
  %a = torch.aten.add_.Tensor(%x, %c, alpha = %d) : (tensor<2xf32>, !torch.int, !torch.int) -> tensor<2xf32>
  fx.output(%a) : (tensor<2xf32>) -> ()
}
