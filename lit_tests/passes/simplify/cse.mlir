// RUN: fxc-opt %s --split-input-file --pass-pipeline=cse | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=cse,cse | filecheck %s

/// Equal calls are one call, which keeps the name of the first.
// CHECK-LABEL: func.func @merge
// CHECK-NEXT:    %a = torch.aten.relu.default(%x)
// CHECK-NEXT:    %c = torch.aten.add.Tensor(%a, %a)
// CHECK-NEXT:    fx.output(%c)
func.func @merge(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%c) : (tensor<4xf32>) -> ()
}

// -----

/// What becomes equal by a merge is merged too.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %a = torch.aten.relu.default(%x)
// CHECK-NEXT:    %c = torch.aten.exp.default(%a)
// CHECK-NEXT:    %e = torch.aten.add.Tensor(%c, %c)
func.func @chain(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.exp.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.add.Tensor(%c, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%e) : (tensor<4xf32>) -> ()
}

// -----

/// A write to what both read lies in between.
// CHECK-LABEL: func.func @write_between
// CHECK:         torch.aten.relu.default
// CHECK:         torch.aten.add_.Tensor
// CHECK:         torch.aten.relu.default
func.func @write_between(%y: tensor<4xf32>) {
  %x = torch.aten.exp.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.add_.Tensor(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%c) : (tensor<4xf32>) -> ()
}

// -----

/// The write goes through a view.
// CHECK-LABEL: func.func @write_through_view
// CHECK:         %a = torch.aten.relu.default
// CHECK:         %b = torch.aten.relu.default
func.func @write_through_view(%y: tensor<4xf32>) {
  %x = torch.aten.exp.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.zero_.default(%v) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%c) : (tensor<4xf32>) -> ()
}

// -----

/// A write to other memory, or before and after, is no barrier.
// CHECK-LABEL: func.func @write_elsewhere
// CHECK:         %a = torch.aten.relu.default(%x)
// CHECK-NEXT:    torch.aten.zero_.default(%z)
// CHECK-NEXT:    torch.aten.add.Tensor(%a, %a)
func.func @write_elsewhere(%y: tensor<4xf32>) {
  %x = torch.aten.exp.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.clone.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten.zero_.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.zero_.default(%z) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %u = torch.aten.zero_.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%c) : (tensor<4xf32>) -> ()
}

// -----

/// One of the two results is written: they must stay two tensors.
// CHECK-LABEL: func.func @written_result
// CHECK:         %a = torch.aten.relu.default
// CHECK:         %b = torch.aten.relu.default
func.func @written_result(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.zero_.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%c) : (tensor<4xf32>) -> ()
}

// -----

/// Two views of one tensor share memory anyway: a later write through one is seen by both.
// CHECK-LABEL: func.func @equal_views
// CHECK:         %a = torch.aten.view.default(%x, [2, 2])
// CHECK-NOT:     torch.aten.view.default
// CHECK:         torch.aten.add.Tensor(%a, %a)
func.func @equal_views(%y: tensor<4xf32>) {
  %x = torch.aten.exp.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %a = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %b = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %w = torch.aten.zero_.default(%b) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output(%c) : (tensor<2x2xf32>) -> ()
}

// -----

/// reshape may copy: with a write somewhere, two reshapes stay two.
// CHECK-LABEL: func.func @maybe_copies
// CHECK-COUNT-2: torch.aten.reshape.default
func.func @maybe_copies(%y: tensor<4xf32>) {
  %x = torch.aten.exp.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %a = torch.aten.reshape.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %b = torch.aten.reshape.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %w = torch.aten.zero_.default(%b) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output(%c) : (tensor<2x2xf32>) -> ()
}

// -----

/// Both are returned: the caller may write one of them.
// CHECK-LABEL: func.func @both_returned
// CHECK-COUNT-2: torch.aten.relu.default
func.func @both_returned(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Both are returned, one of them in a view.
// CHECK-LABEL: func.func @both_returned_through_view
// CHECK-COUNT-2: torch.aten.relu.default
func.func @both_returned_through_view(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten.view.default(%b, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  fx.output((%a, %v)) : (tensor<4xf32>, tensor<2x2xf32>) -> ()
}

// -----

/// Of three, the one that is not returned is merged, and the two that are stay two.
// CHECK-LABEL: func.func @third_is_internal
// CHECK-NEXT:    %a = torch.aten.relu.default(%x)
// CHECK-NEXT:    %c = torch.aten.relu.default(%x)
// CHECK-NEXT:    %d = torch.aten.exp.default(%a)
func.func @third_is_internal(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.exp.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%a, %c, %d)) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Merging through an internal op must not tie two returned ones together either.
// CHECK-LABEL: func.func @internal_first
// CHECK-NEXT:    %a = torch.aten.relu.default(%x)
// CHECK-NEXT:    %c = torch.aten.relu.default(%x)
// CHECK-NEXT:    %d = torch.aten.exp.default(%a)
// CHECK-NEXT:    fx.output((%a, %c, %d))
func.func @internal_first(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%b, %c, %d)) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Samplers: in their in-place, like and functional forms; and dropout while training.
// CHECK-LABEL: func.func @random
// CHECK-COUNT-2: torch.aten.rand_like.default
// CHECK-COUNT-2: torch.aten.exponential.default
// CHECK-COUNT-2: torch.aten.randn.default
// CHECK-COUNT-2: torch.aten.native_dropout.default
// CHECK-COUNT-2: torch.aten.dropout.default(%x, 0.5, true)
func.func @random(%x: tensor<4xf32>) {
  %a = torch.aten.rand_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.rand_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.exponential.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.exponential.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.randn.default([4]) : () -> tensor<4xf32>
  %f = torch.aten.randn.default([4]) : () -> tensor<4xf32>
  %g, %m = torch.aten.native_dropout.default(%x, 0.5, true) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  %h, %n = torch.aten.native_dropout.default(%x, 0.5, true) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  %i = torch.aten.dropout.default(%x, 0.5, true) : (tensor<4xf32>) -> tensor<4xf32>
  %j = torch.aten.dropout.default(%x, 0.5, true) : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.stack.default([%a, %b, %c, %d, %e, %f, %g, %h, %i, %j]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<10x4xf32>
  fx.output(%s) : (tensor<10x4xf32>) -> ()
}

// -----

/// Attention without dropout draws nothing, whether its probability is left out or zero.
// CHECK-LABEL: func.func @inert_random
// CHECK-NEXT:    %a = torch.aten.scaled_dot_product_attention.default(%q, %q, %q)
// CHECK-NEXT:    %c = torch.aten.scaled_dot_product_attention.default(%q, %q, %q, none, 0.0)
// CHECK-NEXT:    %e = torch.aten.scaled_dot_product_attention.default(%q, %q, %q, none, 0.1)
// CHECK-NEXT:    %f = torch.aten.scaled_dot_product_attention.default(%q, %q, %q, none, 0.1)
// CHECK-NEXT:    torch.aten.stack.default([%a, %a, %c, %c, %e, %f])
func.func @inert_random(%q: tensor<1x2x4xf32>) {
  %a = torch.aten.scaled_dot_product_attention.default(%q, %q, %q) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %b = torch.aten.scaled_dot_product_attention.default(%q, %q, %q) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %c = torch.aten.scaled_dot_product_attention.default(%q, %q, %q, none, 0.0) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %d = torch.aten.scaled_dot_product_attention.default(%q, %q, %q, none, 0.0) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %e = torch.aten.scaled_dot_product_attention.default(%q, %q, %q, none, 0.1) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %f = torch.aten.scaled_dot_product_attention.default(%q, %q, %q, none, 0.1) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  %s = torch.aten.stack.default([%a, %b, %c, %d, %e, %f]) : (tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<6x1x2x4xf32>
  fx.output(%s) : (tensor<6x1x2x4xf32>) -> ()
}

// -----

/// Constants that compare equal in Python and are not: 1, 1.0 and true; 0.0 and -0.0. NaN equals itself here.
// CHECK-LABEL: func.func @near_equal
// CHECK:         %a = torch.aten.mul.Scalar(%x, 1)
// CHECK:         %b = torch.aten.mul.Scalar(%x, 1.0)
// CHECK:         %c = torch.aten.mul.Scalar(%x, true)
// CHECK:         %d = torch.aten.full_like.default(%x, 0.0)
// CHECK:         %e = torch.aten.full_like.default(%x, -0.0)
// CHECK:         %f = torch.aten.full_like.default(%x, nan)
// CHECK-NEXT:    torch.aten.stack.default([%a, %b, %c, %d, %e, %f, %f])
func.func @near_equal(%x: tensor<4xf32>) {
  %a = torch.aten.mul.Scalar(%x, 1) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.mul.Scalar(%x, 1.0) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.mul.Scalar(%x, true) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.full_like.default(%x, 0.0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.full_like.default(%x, -0.0) : (tensor<4xf32>) -> tensor<4xf32>
  %f = torch.aten.full_like.default(%x, nan) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.full_like.default(%x, nan) : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.stack.default([%a, %b, %c, %d, %e, %f, %g]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<7x4xf32>
  fx.output(%s) : (tensor<7x4xf32>) -> ()
}

// -----

/// The same call with other keywords, another result type, or commuted operands is another call.
// CHECK-LABEL: func.func @different_calls
// CHECK-COUNT-4: torch.aten.add.Tensor
func.func @different_calls(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %a = torch.aten.add.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.add.Tensor(%x, %y, alpha = 2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.add.Tensor(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.add.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32, #torch.meta<strides = [2]>>
  %s = torch.aten.stack.default([%a, %b, %c, %d]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32, #torch.meta<strides = [2]>>) -> tensor<4x4xf32>
  fx.output(%s) : (tensor<4x4xf32>) -> ()
}

// -----

/// Sizes that come out of data have symbols of their own.
// CHECK-LABEL: func.func @unbacked
// CHECK-COUNT-2: torch.aten.nonzero.default
func.func @unbacked(%x: tensor<4xf32>) {
  %a = torch.aten.nonzero.default(%x) : (tensor<4xf32>) -> tensor<?x1xi64, #torch.meta<sizes = ["u0", 1]>>
  %b = torch.aten.nonzero.default(%x) : (tensor<4xf32>) -> tensor<?x1xi64, #torch.meta<sizes = ["u1", 1]>>
  %c = torch.aten.cat.default([%a, %b]) : (tensor<?x1xi64, #torch.meta<sizes = ["u0", 1]>>, tensor<?x1xi64, #torch.meta<sizes = ["u1", 1]>>) -> tensor<?x1xi64, #torch.meta<sizes = ["u0 + u1", 1]>>
  fx.output(%c) : (tensor<?x1xi64, #torch.meta<sizes = ["u0 + u1", 1]>>) -> ()
}

// -----

/// A branch may use what was computed before it (pytorch#61364); two branches do not share.
// CHECK-LABEL: func.func @regions
// CHECK-NEXT:    %a = torch.aten.relu.default(%x)
// CHECK-NEXT:    scf.if
// CHECK-NEXT:      %d = torch.aten.exp.default(%a)
// CHECK-NEXT:      scf.yield
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %f = torch.aten.exp.default(%x)
// CHECK-NEXT:      scf.yield
func.func @regions(%p: i1, %x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %r = scf.if %p -> (tensor<4xf32>) {
    %c = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %d = torch.aten.exp.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %d : tensor<4xf32>
  } else {
    %f = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %f : tensor<4xf32>
  }
  %s = torch.aten.add.Tensor(%a, %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// A branch that writes what it reads sees its own writes, and so does what follows.
// CHECK-LABEL: func.func @write_in_region
// CHECK-COUNT-3: torch.aten.relu.default
func.func @write_in_region(%p: i1, %y: tensor<4xf32>) {
  %x = torch.aten.exp.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %r = scf.if %p -> (tensor<4xf32>) {
    %w = torch.aten.zero_.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %c = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %c : tensor<4xf32>
  } else {
    scf.yield %a : tensor<4xf32>
  }
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.stack.default([%a, %r, %b]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  fx.output(%s) : (tensor<3x4xf32>) -> ()
}

// -----

/// The regions of a higher-order operator are searched each by itself.
// CHECK-LABEL: func.func @isolated
// CHECK-NEXT:    %a = torch.aten.relu.default(%x)
// CHECK-NEXT:    torch.higher_order.cond
// CHECK:           %b = torch.aten.relu.default(%y)
// CHECK-NEXT:      %d = torch.aten.add.Tensor(%b, %b)
// CHECK:           %e = torch.aten.relu.default(%y)
func.func @isolated(%p: tensor<i1>, %x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %h = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%y: tensor<4xf32>):
    %b = torch.aten.relu.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    %c = torch.aten.relu.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    %d = torch.aten.add.Tensor(%b, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fx.output((%d,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%y: tensor<4xf32>):
    %e = torch.aten.relu.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%e,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.add.Tensor(%a, %h) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// A call that may do anything is a barrier for what it can reach, and is not merged.
// CHECK-LABEL: func.func @unknown_call
// CHECK-NEXT:    %a = torch.aten.relu.default(%x)
// CHECK-NEXT:    %t = torch.aten.exp.default(%x)
// CHECK-NEXT:    %m = torch.aten.neg.default(%t)
// CHECK-NEXT:    fx.call_module @layer(%x)
// CHECK-NEXT:    fx.call_module @layer(%x)
// CHECK-NEXT:    %b = torch.aten.relu.default(%x)
// CHECK-NEXT:    torch.aten.stack.default([%a, %b, %m, %m])
func.func @unknown_call(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %t = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %m = torch.aten.neg.default(%t) : (tensor<4xf32>) -> tensor<4xf32>
  %c = fx.call_module @layer(%x) : (tensor<4xf32>) -> !fx.value
  %d = fx.call_module @layer(%x) : (tensor<4xf32>) -> !fx.value
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %n = torch.aten.neg.default(%t) : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.stack.default([%a, %b, %m, %n]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  fx.output(%s) : (tensor<4x4xf32>) -> ()
}

// -----

/// Batch normalisation writes its running statistics while training; its schema does not declare that.
// CHECK-LABEL: func.func @hidden_write
// CHECK:         %a = torch.aten.neg.default(%m)
// CHECK:         torch.aten.batch_norm.default
// CHECK:         %b = torch.aten.neg.default(%m)
func.func @hidden_write(%x: tensor<2x4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) {
  %a = torch.aten.neg.default(%m) : (tensor<4xf32>) -> tensor<4xf32>
  %n = torch.aten.batch_norm.default(%x, none, none, %m, %v, true, 0.1, 0.001, false) : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %b = torch.aten.neg.default(%m) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%n, %c)) : (tensor<2x4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Asserts and collectives run as often as they are written.
// CHECK-LABEL: func.func @effects
// CHECK-COUNT-2: torch.aten._assert_async.default
// CHECK-COUNT-2: torch._c10d_functional.all_reduce.default
func.func @effects(%p: tensor<i1>, %x: tensor<4xf32>) {
  torch.aten._assert_async.default(%p) : (tensor<i1>) -> ()
  torch.aten._assert_async.default(%p) : (tensor<i1>) -> ()
  %a = torch._c10d_functional.all_reduce.default(%x, "sum", "0") : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch._c10d_functional.all_reduce.default(%x, "sum", "0") : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%c) : (tensor<4xf32>) -> ()
}

// -----

/// Two getitems of one tuple are the same object, returned or not.
// CHECK-LABEL: func.func @getitem
// CHECK:         %a = fx.call_function @operator.getitem(%t, 0)
// CHECK-NEXT:    %c = torch.aten.add.Tensor(%a, %a)
func.func @getitem(%x: tensor<4xf32>) {
  %t = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %a = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xf32>
  %b = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xf32>
  %c = torch.aten.add.Tensor(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  fx.output((%a, %c)) : (tensor<2xf32>, tensor<2xf32>) -> ()
}

// -----

/// A write late in a loop is read early in its next round; what the loop does not write it may reuse.
// CHECK-LABEL: func.func @loop
// CHECK:         %a = torch.aten.relu.default(%b)
// CHECK-NEXT:    %k = torch.aten.neg.default(%x)
// CHECK:         scf.for
// CHECK-NEXT:      %c = torch.aten.relu.default(%b)
// CHECK-NEXT:      torch.aten.stack.default([%acc, %c, %k])
// CHECK:           torch.aten.exp_.default(%b)
func.func @loop(%n: index, %x: tensor<4xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %b = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %a = torch.aten.relu.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %k = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %s = scf.for %i = %zero to %n step %one iter_args(%acc = %a) -> (tensor<4xf32>) {
    %c = torch.aten.relu.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
    %l = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %t = torch.aten.stack.default([%acc, %c, %l]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
    %next = torch.aten.sum.dim_IntList(%t, [0]) : (tensor<3x4xf32>) -> tensor<4xf32>
    %w = torch.aten.exp_.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %next : tensor<4xf32>
  }
  %u = torch.aten.mul.Tensor(%s, %k) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%u) : (tensor<4xf32>) -> ()
}

// -----

/// Of three, one is written: the other two are one.
// CHECK-LABEL: func.func @written_twin
// CHECK-NEXT:    %a = torch.aten.relu.default(%x)
// CHECK-NEXT:    %b = torch.aten.relu.default(%x)
// CHECK-NEXT:    torch.aten.zero_.default(%a)
// CHECK-NEXT:    torch.aten.stack.default([%a, %b, %b])
func.func @written_twin(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.zero_.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.stack.default([%a, %b, %c]) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  fx.output(%s) : (tensor<3x4xf32>) -> ()
}

// -----

/// Of three calls with two results, only two return the same one.
// CHECK-LABEL: func.func @returned_in_part
// CHECK-NEXT:    %a, %b = torch.aten.topk.default(%x, 2)
// CHECK-NEXT:    %c, %d = torch.aten.topk.default(%x, 2)
// CHECK-NEXT:    fx.output((%a, %b, %c, %d))
func.func @returned_in_part(%x: tensor<4xf32>) {
  %a, %b = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  %c, %d = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  %e, %f = torch.aten.topk.default(%x, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  fx.output((%a, %b, %c, %f)) : (tensor<2xf32>, tensor<2xi64>, tensor<2xf32>, tensor<2xi64>) -> ()
}

// -----

/// A group computes what it yields, also where an operation around it computes the same; inside, equal operations are merged.
// CHECK-LABEL: func.func @group
// CHECK-NEXT:    %a = torch.aten.relu.default(%x)
// CHECK-NEXT:    %g, %h = fusion.group ({
// CHECK-NEXT:      %b = torch.aten.relu.default(%x)
// CHECK-NEXT:      %d = torch.aten.add.Tensor(%b, %b)
func.func @group(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %g, %h = fusion.group ({
    %b = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %c = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %d = torch.aten.add.Tensor(%b, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %b, %d : tensor<4xf32>, tensor<4xf32>
  }) -> (tensor<4xf32>, tensor<4xf32>)
  fx.output((%a, %g, %h)) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}
