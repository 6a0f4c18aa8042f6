// RUN: fxc-opt %s --split-input-file --pass-pipeline=constant-pooling | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=constant-pooling,constant-pooling | filecheck %s

/// Equal constants are one, at the top, in the order of their first appearance.
// CHECK-LABEL: func.func @merged
// CHECK-NEXT:    %b = torch.constant(2) : !torch.int
// CHECK-NEXT:    %a = torch.constant(1) : !torch.int
// CHECK-NEXT:    torch.aten.add.Scalar(%x, %b)
// CHECK-NEXT:    torch.aten.add.Scalar({{.*}}, %a)
// CHECK-NEXT:    torch.aten.add.Scalar({{.*}}, %b)
func.func @merged(%x: tensor<4xf32>) -> tensor<4xf32> {
  %b = torch.constant(2) : !torch.int
  %y = torch.aten.add.Scalar(%x, %b) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
  %a = torch.constant(1) : !torch.int
  %z = torch.aten.add.Scalar(%y, %a) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
  %c = torch.constant(2) : !torch.int
  %w = torch.aten.add.Scalar(%z, %c) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
  func.return %w : tensor<4xf32>
}

// -----

/// Constants in both branches become one at the top.
// CHECK-LABEL: func.func @in_branches
// CHECK-NEXT:    %one = torch.constant(1) : !torch.int
// CHECK-NEXT:    scf.if
// CHECK-NEXT:      torch.aten.add.Scalar(%x, %one)
// CHECK:           torch.aten.sub.Scalar(%x, %one)
func.func @in_branches(%p: i1, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = scf.if %p -> (tensor<4xf32>) {
    %one = torch.constant(1) : !torch.int
    %y = torch.aten.add.Scalar(%x, %one) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  } else {
    %uno = torch.constant(1) : !torch.int
    %y = torch.aten.sub.Scalar(%x, %uno) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}

// -----

/// A constant does not leave a region that sees nothing of its surroundings.
// CHECK-LABEL: func.func @isolated
// CHECK-NEXT:    torch.higher_order.cond
// CHECK-NEXT:    ^bb0(%x: tensor<4xf32>):
// CHECK-NEXT:      %b = torch.constant(1) : !torch.int
// CHECK-NEXT:      torch.aten.neg.default
// CHECK-NEXT:      torch.aten.add.Scalar({{.*}}, %b)
// CHECK-NEXT:      torch.aten.add.Scalar({{.*}}, %b)
// CHECK:           %d = torch.constant(1) : !torch.int
func.func @isolated(%p: tensor<i1>, %a: tensor<4xf32>) -> tensor<4xf32> {
  %r = torch.higher_order.cond(%p, @true_graph, @false_graph, (%a,)) ({
  ^bb0(%x: tensor<4xf32>):
    %n = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %b = torch.constant(1) : !torch.int
    %y = torch.aten.add.Scalar(%n, %b) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
    %c = torch.constant(1) : !torch.int
    %z = torch.aten.add.Scalar(%y, %c) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
    fx.output((%z,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%x: tensor<4xf32>):
    %d = torch.constant(1) : !torch.int
    %y = torch.aten.add.Scalar(%x, %d) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
    fx.output((%y,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

/// Numbers that print alike, or that compare equal, are different constants.
// CHECK-LABEL: func.func @different
// CHECK-COUNT-8: torch.constant
// CHECK:         fx.output
func.func @different() {
  %a = torch.constant(1) : !torch.int
  %b = torch.constant(1.0) : !torch.float
  %c = torch.constant(true) : !torch.bool
  %d = torch.constant(0.0) : !torch.float
  %e = torch.constant(-0.0) : !torch.float
  %f = torch.constant([0.0]) : tensor<1xf32>
  %g = torch.constant([-0.0]) : tensor<1xf32>
  %h = torch.constant([0]) : tensor<1xi32>
  fx.output((%a, %b, %c, %d, %e, %f, %g, %h)) : (!torch.int, !torch.float, !torch.bool, !torch.float, !torch.float, tensor<1xf32>, tensor<1xf32>, tensor<1xi32>) -> ()
}

// -----

/// NaNs of equal bits are equal; of other bits they are not.
// CHECK-LABEL: func.func @nan
// CHECK-NEXT:    %a = torch.constant([nan]) : tensor<1xf32>
// CHECK-NEXT:    %c = torch.constant(#torch.literal<"0100c07f">) : tensor<1xf32>
// CHECK-NEXT:    [[s:%.*]] = torch.aten.add.Tensor(%a, %a)
// CHECK-NEXT:    torch.aten.add.Tensor([[s]], %c)
func.func @nan() -> tensor<1xf32> {
  %a = torch.constant([nan]) : tensor<1xf32>
  %b = torch.constant([nan]) : tensor<1xf32>
  %c = torch.constant(#torch.literal<"0100c07f">) : tensor<1xf32>
  %s = torch.aten.add.Tensor(%a, %b) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %t = torch.aten.add.Tensor(%s, %c) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  func.return %t : tensor<1xf32>
}

// -----

/// Attributes count.
// CHECK-LABEL: func.func @attributes
// CHECK-COUNT-2: torch.constant
// CHECK:         torch.aten.add.Scalar
func.func @attributes(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = torch.constant(1) {mark} : !torch.int
  %y = torch.aten.add.Scalar(%x, %a) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
  %b = torch.constant(1) : !torch.int
  %z = torch.aten.add.Scalar(%y, %b) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}

// -----

/// Constant tensors that are only read are one.
// CHECK-LABEL: func.func @tensors
// CHECK-COUNT-1: torch.constant
// CHECK-NOT:     torch.constant
// CHECK:         func.return
func.func @tensors(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = torch.constant([1.0, 2.0]) : tensor<2xf32>
  %y = torch.aten.add.Tensor(%x, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %b = torch.constant([1.0, 2.0]) : tensor<2xf32>
  %z = torch.aten.add.Tensor(%y, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %z : tensor<2xf32>
}

// -----

/// One that is written, through a view too, stays alone and in its place.
// CHECK-LABEL: func.func @written
// CHECK-NEXT:    %a = torch.constant
// CHECK-NEXT:    torch.aten.add.Tensor(%x, %a)
// CHECK-NEXT:    %b = torch.constant
// CHECK-NEXT:    [[v:%.*]] = torch.aten.view.default(%b, [2])
// CHECK-NEXT:    torch.aten.relu_.default([[v]])
func.func @written(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = torch.constant([1.0, 2.0]) : tensor<2xf32>
  %y = torch.aten.add.Tensor(%x, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %b = torch.constant([1.0, 2.0]) : tensor<2xf32>
  %v = torch.aten.view.default(%b, [2]) : (tensor<2xf32>) -> tensor<2xf32>
  %w = torch.aten.relu_.default(%v) : (tensor<2xf32>) -> tensor<2xf32>
  %z = torch.aten.add.Tensor(%y, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %z : tensor<2xf32>
}

// -----

/// Two that are returned stay two: the caller may write one of them.
// CHECK-LABEL: func.func @both_returned
// CHECK-COUNT-2: torch.constant
func.func @both_returned() -> (tensor<2xf32>, tensor<2xf32>) {
  %a = torch.constant([1.0, 2.0]) : tensor<2xf32>
  %b = torch.constant([1.0, 2.0]) : tensor<2xf32>
  func.return %a, %b : tensor<2xf32>, tensor<2xf32>
}

// -----

/// Where one is returned and the other is only read, they are one; a third that is returned stays.
// CHECK-LABEL: func.func @one_returned
// CHECK-NEXT:    %a = torch.constant
// CHECK-NEXT:    %c = torch.constant
// CHECK-NEXT:    torch.aten.add.Tensor(%x, %a)
// CHECK-NEXT:    func.return %a, {{.*}}, %c
func.func @one_returned(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %a = torch.constant([1.0, 2.0]) : tensor<2xf32>
  %b = torch.constant([1.0, 2.0]) : tensor<2xf32>
  %y = torch.aten.add.Tensor(%x, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %c = torch.constant([1.0, 2.0]) : tensor<2xf32>
  func.return %a, %y, %c : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

/// A loop makes anew what it writes.
// CHECK-LABEL: func.func @loop
// CHECK:         scf.for
// CHECK-NEXT:      torch.constant
// CHECK-NEXT:      torch.aten.add_.Tensor
func.func @loop(%n: index, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %r = scf.for %i = %0 to %n step %1 iter_args(%s = %x) -> (tensor<2xf32>) {
    %a = torch.constant([1.0, 2.0]) : tensor<2xf32>
    %w = torch.aten.add_.Tensor(%a, %s) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    scf.yield %w : tensor<2xf32>
  }
  func.return %r : tensor<2xf32>
}

// -----

/// The constants of a group remain in it, because it yields only what it makes.
// CHECK-LABEL: func.func @group
// CHECK-NEXT:    %a = torch.constant([1.0, 2.0])
// CHECK:         fusion.group
// CHECK-NEXT:      torch.constant([1.0, 2.0])
func.func @group(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %a = torch.constant([1.0, 2.0]) : tensor<2xf32>
  %y = torch.aten.add.Tensor(%x, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %g = fusion.group ({
    %b = torch.constant([1.0, 2.0]) : tensor<2xf32>
    fusion.yield %b : tensor<2xf32>
  }) -> tensor<2xf32>
  %z = torch.aten.mul.Tensor(%y, %g) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %y, %z : tensor<2xf32>, tensor<2xf32>
}
