// RUN: fxc-opt %s --split-input-file --pass-pipeline='unroll-loops{max_trips=3 max_body=3 factor=2}' | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline='unroll-loops{max_trips=3 max_body=3 factor=2},unroll-loops{max_trips=3 max_body=3 factor=2}' | filecheck %s

/// A counter that the body reads is a number in each copy; after the loop it is the first number that does not hold.
// CHECK-LABEL: func.func @counter_read
// CHECK-NEXT:    [[a:%.*]] = torch.constant(1) : !torch.int<"1">
// CHECK-NEXT:    [[b:%.*]] = torch.aten.add.Scalar(%x, [[a]])
// CHECK-NEXT:    [[c:%.*]] = torch.constant(3) : !torch.int<"3">
// CHECK-NEXT:    [[d:%.*]] = torch.aten.add.Scalar([[b]], [[c]])
// CHECK-NEXT:    [[e:%.*]] = torch.constant(5) : !torch.int<"u1">
// CHECK-NEXT:    fx.output(([[e]], [[d]]))
func.func @counter_read(%x: tensor<4xf32>) {
  %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (1, %x), ()) ({
  ^bb0(%i: !torch.int<"u0">, %a: tensor<4xf32>):
    %c = fx.call_function @operator.le(%i, 4) : (!torch.int<"u0">) -> !torch.bool<"u0 <= 4">
    fx.output(%c) : (!torch.bool<"u0 <= 4">) -> ()
  }, {
  ^bb0(%i: !torch.int<"u0">, %a: tensor<4xf32>):
    %b = torch.aten.add.Scalar(%a, %i) : (tensor<4xf32>, !torch.int<"u0">) -> tensor<4xf32>
    %j = fx.call_function @operator.add(2, %i) : (!torch.int<"u0">) -> !torch.int<"u0 + 2">
    fx.output((%j, %b)) : (!torch.int<"u0 + 2">, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> tuple<!torch.int<"u1">, tensor<4xf32>>
  %n = fx.call_function @operator.getitem(%r, 0) : (tuple<!torch.int<"u1">, tensor<4xf32>>) -> !torch.int<"u1">
  %s = fx.call_function @operator.getitem(%r, 1) : (tuple<!torch.int<"u1">, tensor<4xf32>>) -> tensor<4xf32>
  fx.output((%n, %s)) : (!torch.int<"u1">, tensor<4xf32>) -> ()
}

// -----

/// A tensor may count, downwards too, and its start may be computed. One run.
// CHECK-LABEL: func.func @tensor_counts_down
// CHECK-NEXT:    %f = torch.aten.full.default([], 7
// CHECK-NEXT:    %s = torch.aten.clone.default(%f)
// CHECK-NEXT:    [[j:%.*]] = torch.aten.sub.Tensor(%s, 3) : (tensor<i64>) -> tensor<i64>
// CHECK-NEXT:    [[b:%.*]] = torch.aten.tanh.default(%x)
// CHECK-NEXT:    fx.output(([[j]], [[b]]))
func.func @tensor_counts_down(%x: tensor<4xf32>) {
  %f = torch.aten.full.default([], 7, dtype = torch.int64) : () -> tensor<i64>
  %s = torch.aten.clone.default(%f) : (tensor<i64>) -> tensor<i64>
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (%s, %x), ()) ({
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>):
    %k = torch.constant([4]) : tensor<i64>
    %c = torch.aten.lt.Tensor(%k, %i) : (tensor<i64>, tensor<i64>) -> tensor<i1>
    fx.output(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>):
    %j = torch.aten.sub.Tensor(%i, 3) : (tensor<i64>) -> tensor<i64>
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (tensor<i64>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>)
  fx.output((%n, %r)) : (tensor<i64>, tensor<4xf32>) -> ()
}

// -----

/// A loop that does not run copies what it returns; a bound that lies below the start is no huge number of runs.
// CHECK-LABEL: func.func @no_run
// CHECK-NEXT:    [[c:%.*]] = torch.aten.clone.default(%x)
// CHECK-NEXT:    [[n:%.*]] = torch.constant(5) : !torch.int
// CHECK-NEXT:    fx.output(([[n]], [[c]]))
func.func @no_run(%x: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (5, %x), ()) ({
  ^bb0(%i: !torch.int, %a: tensor<4xf32>):
    %c = fx.call_function @operator.lt(%i, -3) : (!torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %a: tensor<4xf32>):
    %j = fx.call_function @operator.add(%i, 1) : (!torch.int) -> !torch.int
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (!torch.int, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
  fx.output((%n, %r)) : (!torch.int, tensor<4xf32>) -> ()
}

// -----

/// Too many runs to copy: two at a time, then the rest; both loops share the counter. The draws stay in order.
// CHECK-LABEL: func.func @split
// CHECK-NEXT:    [[m:%.*]], [[n:%.*]] = torch.higher_order.while_loop(@cond_fn_by_2, @body_fn_by_2, (0, %x), ()) ({
// CHECK-NEXT:    ^bb0([[i:%.*]]: !torch.int<"u0">, [[a:%.*]]: tensor<4xf32>):
// CHECK-NEXT:      [[k:%.*]] = fx.call_function @operator.add([[i]], 1) : (!torch.int<"u0">) -> !torch.int
// CHECK-NEXT:      [[c:%.*]] = fx.call_function @operator.lt([[k]], 4) : (!torch.int) -> !torch.bool
// CHECK-NEXT:      fx.output([[c]])
// CHECK-NEXT:    }, {
// CHECK-NEXT:    ^bb0([[i:%.*]]: !torch.int<"u0">, [[a:%.*]]: tensor<4xf32>):
// CHECK-NEXT:      [[j:%.*]] = fx.call_function @operator.add([[i]], 1) : (!torch.int<"u0">) -> !torch.int
// CHECK-NEXT:      [[b:%.*]] = torch.aten.rand_like.default([[a]])
// CHECK-NEXT:      [[l:%.*]] = fx.call_function @operator.add([[j]], 1) : (!torch.int) -> !torch.int
// CHECK-NEXT:      [[d:%.*]] = torch.aten.rand_like.default([[b]])
// CHECK-NEXT:      fx.output(([[l]], [[d]]))
// CHECK-NEXT:    }) {fx.unrolled} : (tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
// CHECK-NEXT:    [[p:%.*]], [[q:%.*]] = torch.higher_order.while_loop(@cond_fn, @body_fn, ([[m]], [[n]]), ())
// CHECK:         }) {fx.unrolled} : (!torch.int, tensor<4xf32>) -> (!torch.int<"u1">, tensor<4xf32>)
// CHECK-NEXT:    fx.output([[q]])
func.func @split(%x: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), ()) ({
  ^bb0(%i: !torch.int<"u0">, %a: tensor<4xf32>):
    %c = fx.call_function @operator.lt(%i, 4) : (!torch.int<"u0">) -> !torch.bool<"u0 < 4">
    fx.output(%c) : (!torch.bool<"u0 < 4">) -> ()
  }, {
  ^bb0(%i: !torch.int<"u0">, %a: tensor<4xf32>):
    %j = fx.call_function @operator.add(%i, 1) : (!torch.int<"u0">) -> !torch.int<"u0 + 1">
    %b = torch.aten.rand_like.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (!torch.int<"u0 + 1">, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> (!torch.int<"u1">, tensor<4xf32>)
  fx.output(%r) : (tensor<4xf32>) -> ()
}

// -----

/// A bound that is not known: the same. A tensor that counts must not wrap around on the way.
// CHECK-LABEL: func.func @dynamic
// CHECK:         torch.higher_order.while_loop(@cond_fn_by_2, @body_fn_by_2, (%s, %x), (%k,)) ({
// CHECK:           [[k:%.*]] = torch.aten.add.Tensor([[i:%.*]], 1) : (tensor<i64>) -> tensor<i64>
// CHECK-NEXT:      [[c:%.*]] = torch.aten.lt.Tensor([[k]], [[q:%.*]]) :
// CHECK-NEXT:      [[m:%.*]] = torch.aten.gt.Tensor([[k]], [[i]]) :
// CHECK-NEXT:      [[b:%.*]] = torch.aten.logical_and.default([[c]], [[m]]) :
// CHECK-NEXT:      fx.output([[b]])
// CHECK:         torch.higher_order.while_loop(@cond_fn, @body_fn,
func.func @dynamic(%s: tensor<i64>, %k: tensor<i64>, %x: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (%s, %x), (%k,)) ({
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>, %q: tensor<i64>):
    %c = torch.aten.lt.Tensor(%i, %q) : (tensor<i64>, tensor<i64>) -> tensor<i1>
    fx.output(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>, %q: tensor<i64>):
    %j = torch.aten.add.Tensor(%i, 1) : (tensor<i64>) -> tensor<i64>
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (tensor<i64>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<4xf32>, tensor<i64>) -> (tensor<i64>, tensor<4xf32>)
  fx.output(%r) : (tensor<4xf32>) -> ()
}

// -----

/// Inner loops first: what they leave is small enough for the outer one.
// CHECK-LABEL: func.func @nested
// CHECK-NOT:     while_loop
// CHECK:         torch.aten.tanh.default
// CHECK-NEXT:    torch.aten.tanh.default
// CHECK-NEXT:    torch.aten.tanh.default
// CHECK-NEXT:    torch.aten.tanh.default
// CHECK-NEXT:    fx.output
func.func @nested(%x: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), ()) ({
  ^bb0(%i: !torch.int, %a: tensor<4xf32>):
    %c = fx.call_function @operator.lt(%i, 2) : (!torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %a: tensor<4xf32>):
    %m, %q = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %a), ()) ({
    ^bb0(%k: !torch.int, %b: tensor<4xf32>):
      %c = fx.call_function @operator.lt(%k, 2) : (!torch.int) -> !torch.bool
      fx.output(%c) : (!torch.bool) -> ()
    }, {
    ^bb0(%k: !torch.int, %b: tensor<4xf32>):
      %l = fx.call_function @operator.add(%k, 1) : (!torch.int) -> !torch.int
      %d = torch.aten.tanh.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output((%l, %d)) : (!torch.int, tensor<4xf32>) -> ()
    }) : (tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
    %j = fx.call_function @operator.add(%i, 1) : (!torch.int) -> !torch.int
    fx.output((%j, %q)) : (!torch.int, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
  fx.output(%r) : (tensor<4xf32>) -> ()
}

// -----

/// Comparing for equality foresees nothing.
// CHECK-LABEL: func.func @not_equal
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @not_equal(%s: !torch.int, %k: !torch.int, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), (%k, %y)) ({
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %c = fx.call_function @operator.ne(%i, 2) : (!torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %j = fx.call_function @operator.add(%i, 1) : (!torch.int) -> !torch.int
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (!torch.int, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>, !torch.int, tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
  fx.output((%n, %r)) : (!torch.int, tensor<4xf32>) -> ()
}

// -----

/// A counter that moves away from its bound.
// CHECK-LABEL: func.func @away
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @away(%s: !torch.int, %k: !torch.int, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), (%k, %y)) ({
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %c = fx.call_function @operator.lt(%i, 2) : (!torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %j = fx.call_function @operator.sub(%i, 1) : (!torch.int) -> !torch.int
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (!torch.int, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>, !torch.int, tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
  fx.output((%n, %r)) : (!torch.int, tensor<4xf32>) -> ()
}

// -----

/// A step that is no constant.
// CHECK-LABEL: func.func @other_step
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @other_step(%s: !torch.int, %k: !torch.int, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), (%k, %y)) ({
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %c = fx.call_function @operator.lt(%i, 2) : (!torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %j = fx.call_function @operator.add(%i, %q) : (!torch.int, !torch.int) -> !torch.int
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (!torch.int, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>, !torch.int, tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
  fx.output((%n, %r)) : (!torch.int, tensor<4xf32>) -> ()
}

// -----

/// A step of zero.
// CHECK-LABEL: func.func @zero_step
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @zero_step(%s: !torch.int, %k: !torch.int, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), (%k, %y)) ({
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %c = fx.call_function @operator.lt(%i, 2) : (!torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %j = fx.call_function @operator.add(%i, 0) : (!torch.int) -> !torch.int
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (!torch.int, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>, !torch.int, tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
  fx.output((%n, %r)) : (!torch.int, tensor<4xf32>) -> ()
}

// -----

/// A counter that is multiplied.
// CHECK-LABEL: func.func @doubled
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @doubled(%s: !torch.int, %k: !torch.int, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (1, %x), (%k, %y)) ({
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %c = fx.call_function @operator.lt(%i, 2) : (!torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %j = fx.call_function @operator.mul(%i, 2) : (!torch.int) -> !torch.int
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (!torch.int, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>, !torch.int, tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
  fx.output((%n, %r)) : (!torch.int, tensor<4xf32>) -> ()
}

// -----

/// A bound that is no integer.
// CHECK-LABEL: func.func @float_bound
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @float_bound(%s: !torch.int, %k: !torch.int, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), (%k, %y)) ({
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %c = fx.call_function @operator.lt(%i, 2.5) : (!torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %j = fx.call_function @operator.add(%i, 1) : (!torch.int) -> !torch.int
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (!torch.int, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>, !torch.int, tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
  fx.output((%n, %r)) : (!torch.int, tensor<4xf32>) -> ()
}

// -----

/// A condition that reads data, a while-loop in the proper sense.
// CHECK-LABEL: func.func @reads_more
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @reads_more(%s: tensor<i64>, %k: tensor<i64>, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (%s, %x), (%k, %y)) ({
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>, %q: tensor<i64>, %z: tensor<4xf32>):
    %d = torch.aten.any.default(%z) : (tensor<4xf32>) -> tensor<i1>
    %e = torch.aten.lt.Scalar(%i, 2) : (tensor<i64>) -> tensor<i1>
    %c = torch.aten.logical_and.default(%d, %e) : (tensor<i1>, tensor<i1>) -> tensor<i1>
    fx.output(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>, %q: tensor<i64>, %z: tensor<4xf32>):
    %j = torch.aten.add.Tensor(%i, 1) : (tensor<i64>) -> tensor<i64>
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (tensor<i64>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<4xf32>, tensor<i64>, tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>)
  fx.output((%n, %r)) : (tensor<i64>, tensor<4xf32>) -> ()
}

// -----

/// The step is alpha times what is added.
// CHECK-LABEL: func.func @scaled_step
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @scaled_step(%s: tensor<i64>, %k: tensor<i64>, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (%s, %x), (%k, %y)) ({
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>, %q: tensor<i64>, %z: tensor<4xf32>):
    %c = torch.aten.lt.Scalar(%i, 2) : (tensor<i64>) -> tensor<i1>
    fx.output(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>, %q: tensor<i64>, %z: tensor<4xf32>):
    %j = torch.aten.add.Tensor(%i, 1, alpha = 2) : (tensor<i64>) -> tensor<i64>
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (tensor<i64>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<4xf32>, tensor<i64>, tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>)
  fx.output((%n, %r)) : (tensor<i64>, tensor<4xf32>) -> ()
}

// -----

/// Eight bits wrap around too soon.
// CHECK-LABEL: func.func @narrow
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @narrow(%s: tensor<i8>, %k: tensor<i8>, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (%s, %x), (%k, %y)) ({
  ^bb0(%i: tensor<i8>, %a: tensor<4xf32>, %q: tensor<i8>, %z: tensor<4xf32>):
    %c = torch.aten.lt.Scalar(%i, 2) : (tensor<i8>) -> tensor<i1>
    fx.output(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i8>, %a: tensor<4xf32>, %q: tensor<i8>, %z: tensor<4xf32>):
    %j = torch.aten.add.Tensor(%i, 1) : (tensor<i8>) -> tensor<i8>
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (tensor<i8>, tensor<4xf32>) -> ()
  }) : (tensor<i8>, tensor<4xf32>, tensor<i8>, tensor<4xf32>) -> (tensor<i8>, tensor<4xf32>)
  fx.output((%n, %r)) : (tensor<i8>, tensor<4xf32>) -> ()
}

// -----

/// A tensor with sizes is no counter.
// CHECK-LABEL: func.func @not_a_scalar
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @not_a_scalar(%s: tensor<1xi64>, %k: tensor<1xi64>, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (%s, %x), (%k, %y)) ({
  ^bb0(%i: tensor<1xi64>, %a: tensor<4xf32>, %q: tensor<1xi64>, %z: tensor<4xf32>):
    %c = torch.aten.lt.Scalar(%i, 2) : (tensor<1xi64>) -> tensor<1xi1>
    fx.output(%c) : (tensor<1xi1>) -> ()
  }, {
  ^bb0(%i: tensor<1xi64>, %a: tensor<4xf32>, %q: tensor<1xi64>, %z: tensor<4xf32>):
    %j = torch.aten.add.Tensor(%i, 1) : (tensor<1xi64>) -> tensor<1xi64>
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (tensor<1xi64>, tensor<4xf32>) -> ()
  }) : (tensor<1xi64>, tensor<4xf32>, tensor<1xi64>, tensor<4xf32>) -> (tensor<1xi64>, tensor<4xf32>)
  fx.output((%n, %r)) : (tensor<1xi64>, tensor<4xf32>) -> ()
}

// -----

/// A body that writes to memory.
// CHECK-LABEL: func.func @writes
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @writes(%s: !torch.int, %k: !torch.int, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), (%k, %y)) ({
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %c = fx.call_function @operator.lt(%i, 2) : (!torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %j = fx.call_function @operator.add(%i, 1) : (!torch.int) -> !torch.int
    %w = torch.aten.add_.Tensor(%z, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (!torch.int, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>, !torch.int, tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
  fx.output((%n, %r)) : (!torch.int, tensor<4xf32>) -> ()
}

// -----

/// A condition that draws.
// CHECK-LABEL: func.func @random_condition
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @random_condition(%s: !torch.int, %k: !torch.int, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), (%k, %y)) ({
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %d = torch.aten.rand_like.default(%z) : (tensor<4xf32>) -> tensor<4xf32>
    %c = fx.call_function @operator.lt(%i, 2) : (!torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %j = fx.call_function @operator.add(%i, 1) : (!torch.int) -> !torch.int
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (!torch.int, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>, !torch.int, tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
  fx.output((%n, %r)) : (!torch.int, tensor<4xf32>) -> ()
}

// -----

/// A body of more ops than max_body.
// CHECK-LABEL: func.func @large
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @large(%s: !torch.int, %k: !torch.int, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), (%k, %y)) ({
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %c = fx.call_function @operator.lt(%i, 2) : (!torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %j = fx.call_function @operator.add(%i, 1) : (!torch.int) -> !torch.int
    %d = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %e = torch.aten.tanh.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
    %b = torch.aten.tanh.default(%e) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %b)) : (!torch.int, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>, !torch.int, tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
  fx.output((%n, %r)) : (!torch.int, tensor<4xf32>) -> ()
}

// -----

/// What is carried changes its type.
// CHECK-LABEL: func.func @other_types
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @other_types(%s: !torch.int, %k: !torch.int, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), (%k, %y)) ({
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %c = fx.call_function @operator.lt(%i, 2) : (!torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %a: tensor<4xf32>, %q: !torch.int, %z: tensor<4xf32>):
    %j = fx.call_function @operator.add(%i, 1) : (!torch.int) -> !torch.int
    %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<?xf32>
    fx.output((%j, %b)) : (!torch.int, tensor<?xf32>) -> ()
  }) : (tensor<4xf32>, !torch.int, tensor<4xf32>) -> (!torch.int, tensor<4xf32>)
  fx.output((%n, %r)) : (!torch.int, tensor<4xf32>) -> ()
}

// -----

/// A bound that the body moves.
// CHECK-LABEL: func.func @moving_bound
// CHECK:         while_loop(@cond_fn, @body_fn,
// CHECK-NOT:     while_loop
func.func @moving_bound(%x: tensor<4xf32>) {
  %n, %m = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, 2), ()) ({
  ^bb0(%i: !torch.int, %k: !torch.int):
    %c = fx.call_function @operator.lt(%i, %k) : (!torch.int, !torch.int) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int, %k: !torch.int):
    %j = fx.call_function @operator.add(%i, 1) : (!torch.int) -> !torch.int
    fx.output((%j, %i)) : (!torch.int, !torch.int) -> ()
  }) : () -> (!torch.int, !torch.int)
  fx.output((%n, %m)) : (!torch.int, !torch.int) -> ()
}

// -----

/// A tensor that would wrap around: no runs are foreseen, and the loop that looks ahead stops before it.
// CHECK-LABEL: func.func @wraps
// CHECK:         while_loop(@cond_fn_by_2,
// CHECK:           torch.aten.logical_and.default
func.func @wraps(%x: tensor<4xf32>) {
  %s = torch.constant([2147483646]) : tensor<i32>
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (%s, %x), ()) ({
  ^bb0(%i: tensor<i32>, %a: tensor<4xf32>):
    %c = torch.aten.le.Scalar(%i, 2147483647) : (tensor<i32>) -> tensor<i1>
    fx.output(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %a: tensor<4xf32>):
    %j = torch.aten.add.Tensor(%i, 1) : (tensor<i32>) -> tensor<i32>
    fx.output((%j, %a)) : (tensor<i32>, tensor<4xf32>) -> ()
  }) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
  fx.output((%n, %r)) : (tensor<i32>, tensor<4xf32>) -> ()
}

// -----

/// A tensor whose size is the counter has another type in each run.
// CHECK-LABEL: func.func @sized_by_counter
// CHECK:         while_loop(@cond_fn, @body_fn,
func.func @sized_by_counter(%x: tensor<4xf32>) {
  %n, %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), ()) ({
  ^bb0(%i: !torch.int<"u0">, %a: tensor<?xf32, #torch.meta<sizes = ["u0"]>>):
    %c = fx.call_function @operator.lt(%i, 2) : (!torch.int<"u0">) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int<"u0">, %a: tensor<?xf32, #torch.meta<sizes = ["u0"]>>):
    %j = fx.call_function @operator.add(%i, 1) : (!torch.int<"u0">) -> !torch.int<"u0 + 1">
    fx.output((%j, %a)) : (!torch.int<"u0 + 1">, tensor<?xf32, #torch.meta<sizes = ["u0"]>>) -> ()
  }) : (tensor<4xf32>) -> (!torch.int, tensor<?xf32>)
  fx.output((%n, %r)) : (!torch.int, tensor<?xf32>) -> ()
}
