// RUN: fxc-opt %s --split-input-file --pass-pipeline=constant-propagation | filecheck %s

/// Sizes, strides, rank and element count that a type states are numbers in the calls that use them.
// CHECK-LABEL: func.func @queries
// CHECK-NEXT:    torch.aten.full.default([3, 4, 1, 3], 0.5)
// CHECK-NEXT:    torch.aten.full.default([2, 12], 0.5)
func.func @queries(%x: tensor<3x4xf32>) -> (tensor<3x4x1x3xf32>, tensor<2x12xf32>) {
  %a = torch.aten.sym_size.int(%x, 0) : (tensor<3x4xf32>) -> !torch.int
  %b = torch.aten.sym_stride.int(%x, 0) : (tensor<3x4xf32>) -> !torch.int
  %c = torch.aten.sym_stride.int(%x, -1) : (tensor<3x4xf32>) -> !torch.int
  %d = torch.aten.sym_size.int(%x, -2) : (tensor<3x4xf32>) -> !torch.int
  %y = torch.aten.full.default([%a, %b, %c, %d], 0.5) : (!torch.int, !torch.int, !torch.int, !torch.int) -> tensor<3x4x1x3xf32>
  %e = torch.aten.dim.default(%x) : (tensor<3x4xf32>) -> !torch.int
  %f = torch.aten.sym_numel.default(%x) : (tensor<3x4xf32>) -> !torch.int
  %z = torch.aten.full.default([%e, %f], 0.5) : (!torch.int, !torch.int) -> tensor<2x12xf32>
  func.return %y, %z : tensor<3x4x1x3xf32>, tensor<2x12xf32>
}

// -----

/// A size that the type does not state stays a question, and so does one out of range.
// CHECK-LABEL: func.func @symbolic_size
// CHECK-NEXT:    torch.aten.sym_size.int(%x, 0)
// CHECK-NEXT:    torch.aten.sym_stride.int(%x, 0)
// CHECK-NEXT:    torch.aten.sym_size.int(%x, 2)
// CHECK-NEXT:    func.return
func.func @symbolic_size(%x: tensor<?x?xf32>) -> (!torch.int, !torch.int, !torch.int) {
  %a = torch.aten.sym_size.int(%x, 0) : (tensor<?x?xf32>) -> !torch.int
  %b = torch.aten.sym_stride.int(%x, 0) : (tensor<?x?xf32>) -> !torch.int
  %c = torch.aten.sym_size.int(%x, 2) : (tensor<?x?xf32>) -> !torch.int
  func.return %a, %b, %c : !torch.int, !torch.int, !torch.int
}

// -----

/// Strides are those of the type.
// CHECK-LABEL: func.func @strides
// CHECK-NEXT:    [[a:%.*]] = torch.constant(7) : !torch.int
// CHECK-NEXT:    func.return [[a]]
func.func @strides(%x: tensor<2x3xf32, #torch.meta<strides = [1, 7]>>) -> !torch.int {
  %a = torch.aten.sym_stride.int(%x, 1) : (tensor<2x3xf32, #torch.meta<strides = [1, 7]>>) -> !torch.int
  func.return %a : !torch.int
}

// -----

/// The type of a number may state it.
// CHECK-LABEL: func.func @stated
// CHECK-NEXT:    torch.aten.full.default([6, %b], 0.5)
func.func @stated(%a: !torch.int<"s0">, %b: !torch.int<"s1">) -> tensor<?x?xf32> {
  %c = fx.call_function @operator.mul(%a, 3) : (!torch.int<"s0">) -> !torch.int<"6">
  %y = torch.aten.full.default([%c, %b], 0.5) : (!torch.int<"6">, !torch.int<"s1">) -> tensor<?x?xf32>
  func.return %y : tensor<?x?xf32>
}

// -----

/// The size of a tensor that is written may have changed.
// CHECK-LABEL: func.func @resized
// CHECK:         torch.aten.sym_size.int(%y, 0)
func.func @resized(%x: tensor<3xf32>) -> !torch.int {
  %y = torch.aten.clone.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %w = torch.aten.resize_.default(%y, [4]) : (tensor<3xf32>) -> tensor<4xf32>
  %a = torch.aten.sym_size.int(%y, 0) : (tensor<3xf32>) -> !torch.int
  func.return %a : !torch.int
}

// -----

/// Host constants go into arguments wherever they are nested, and keywords stay keywords; an output keeps its value.
// CHECK-LABEL: func.func @into_arguments
// CHECK-NEXT:    [[n:%.*]] = torch.constant(2) : !torch.int
// CHECK-NEXT:    [[y:%.*]] = torch.aten.add.Tensor(%x, %x, alpha = 2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    [[z:%.*]] = fx.call_function @operator.getitem([[y]], (slice(none, 2, none),))
// CHECK-NEXT:    fx.output(([[z]], [[n]]))
func.func @into_arguments(%x: tensor<4xf32>) {
  %n = torch.constant(2) : !torch.int
  %none = torch.constant(none) : !torch.none
  %y = torch.aten.add.Tensor(%x, %x, alpha = %n) : (tensor<4xf32>, tensor<4xf32>, !torch.int) -> tensor<4xf32>
  %z = fx.call_function @operator.getitem(%y, (slice(%none, %n, none),)) : (tensor<4xf32>, !torch.none, !torch.int) -> tensor<2xf32>
  fx.output((%z, %n)) : (tensor<2xf32>, !torch.int) -> ()
}

// -----

/// A cond of constant predicate is the region taken; what the other one would have done is gone.
// CHECK-LABEL: func.func @cond_true
// CHECK-NEXT:    %y = torch.aten.add.Tensor(%a, %a, alpha = 3)
// CHECK-NEXT:    func.return %y
func.func @cond_true(%a: tensor<4xf32>) -> tensor<4xf32> {
  %p = torch.constant(true) : !torch.bool
  %r = torch.higher_order.cond(%p, @true_graph, @false_graph, (%a, 3)) ({
  ^bb0(%x: tensor<4xf32>, %k: !torch.int):
    %y = torch.aten.add.Tensor(%x, %x, alpha = %k) : (tensor<4xf32>, tensor<4xf32>, !torch.int) -> tensor<4xf32>
    fx.output((%y,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%x: tensor<4xf32>, %k: !torch.int):
    %w = torch.aten.add_.Tensor(%x, %x, alpha = %k) : (tensor<4xf32>, tensor<4xf32>, !torch.int) -> tensor<4xf32>
    fx.output((%w,)) : (tensor<4xf32>) -> ()
  }) : (!torch.bool, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

/// A tensor may be the predicate.
// CHECK-LABEL: func.func @cond_false
// CHECK-NEXT:    [[z:%.*]] = torch.aten.neg.default(%a)
// CHECK-NEXT:    func.return [[z]]
func.func @cond_false(%a: tensor<4xf32>) -> tensor<4xf32> {
  %p = torch.constant([false]) : tensor<i1>
  %r = torch.higher_order.cond(%p, @true_graph, @false_graph, (%a,)) ({
  ^bb0(%x: tensor<4xf32>):
    fx.output((%x,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%x: tensor<4xf32>):
    %y = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%y,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

/// Effects of the region taken stay.
// CHECK-LABEL: func.func @cond_effects
// CHECK-NEXT:    [[w:%.*]] = torch.aten.relu_.default(%a)
// CHECK-NEXT:    func.return [[w]]
func.func @cond_effects(%a: tensor<4xf32>) -> tensor<4xf32> {
  %s = torch.higher_order.cond(true, @true_graph, @false_graph, (%a,)) ({
  ^bb0(%x: tensor<4xf32>):
    %w = torch.aten.relu_.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%w,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%x: tensor<4xf32>):
    fx.output((%x,)) : (tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %s : tensor<4xf32>
}

// -----

/// A predicate that is written is not known.
// CHECK-LABEL: func.func @cond_written
// CHECK:         torch.higher_order.cond
func.func @cond_written(%a: tensor<4xf32>, %q: tensor<i1>) -> tensor<4xf32> {
  %p = torch.constant([false]) : tensor<i1>
  %w = torch.aten.logical_or_.default(%p, %q) : (tensor<i1>, tensor<i1>) -> tensor<i1>
  %r = torch.higher_order.cond(%p, @true_graph, @false_graph, (%a,)) ({
  ^bb0(%x: tensor<4xf32>):
    fx.output((%x,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%x: tensor<4xf32>):
    %y = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%y,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

/// A packed result is read through selections; one region inside another goes too.
// CHECK-LABEL: func.func @cond_packed
// CHECK-NEXT:    %n = torch.aten.neg.default(%a)
// CHECK-NEXT:    func.return %a, %n
func.func @cond_packed(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %p = torch.constant(true) : !torch.bool
  %t = torch.higher_order.cond(%p, @true_graph, @false_graph, (%a,)) ({
  ^bb0(%x: tensor<4xf32>):
    %i = torch.higher_order.cond(false, @true_graph, @false_graph, (%x,)) ({
    ^bb0(%y: tensor<4xf32>):
      fx.output((%y,)) : (tensor<4xf32>) -> ()
    }, {
    ^bb0(%y: tensor<4xf32>):
      %n = torch.aten.neg.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
      fx.output((%n,)) : (tensor<4xf32>) -> ()
    }) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%i, %x)) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }, {
  ^bb0(%x: tensor<4xf32>):
    fx.output((%x, %x)) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }) : (!torch.bool, tensor<4xf32>) -> tuple<tensor<4xf32>, tensor<4xf32>>
  %u = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
  %v = fx.call_function @operator.getitem(%t, 1) : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
  func.return %v, %u : tensor<4xf32>, tensor<4xf32>
}

// -----

/// A packed result that is read as a whole keeps its cond.
// CHECK-LABEL: func.func @cond_packed_whole
// CHECK:         torch.higher_order.cond(true
func.func @cond_packed_whole(%a: tensor<4xf32>) -> tuple<tensor<4xf32>> {
  %t = torch.higher_order.cond(true, @true_graph, @false_graph, (%a,)) ({
  ^bb0(%x: tensor<4xf32>):
    fx.output((%x,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%x: tensor<4xf32>):
    fx.output((%x,)) : (tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> tuple<tensor<4xf32>>
  func.return %t : tuple<tensor<4xf32>>
}

// -----

/// What both regions give stands in the place of the result: an operand, a number, a constant tensor.
// CHECK-LABEL: func.func @regions_agree
// CHECK-NEXT:    [[c:%.*]] = torch.constant([1.0, 2.0]) : tensor<2xf32>
// CHECK-NEXT:    torch.aten.add.Tensor(%b, [[c]], alpha = 3)
func.func @regions_agree(%p: tensor<i1>, %a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %r, %s, %t = torch.higher_order.cond(%p, @true_graph, @false_graph, (%a, %b, 3)) ({
  ^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>, %k: !torch.int):
    %c = torch.constant([1.0, 2.0]) : tensor<2xf32>
    fx.output((%y, %c, 3)) : (tensor<2xf32>, tensor<2xf32>) -> ()
  }, {
  ^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>, %k: !torch.int):
    %d = torch.constant([1.0, 2.0]) : tensor<2xf32>
    fx.output((%y, %d, %k)) : (tensor<2xf32>, tensor<2xf32>, !torch.int) -> ()
  }) : (tensor<i1>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, !torch.int)
  %u = torch.aten.add.Tensor(%r, %s, alpha = %t) : (tensor<2xf32>, tensor<2xf32>, !torch.int) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}

// -----

/// Other operands, other numbers, and constants of equal bytes and other types do not agree.
// CHECK-LABEL: func.func @regions_differ
// CHECK-NEXT:    %r, %s, %t = torch.higher_order.cond
// CHECK:         torch.aten.add.Tensor(%r, %s, alpha = %t)
func.func @regions_differ(%p: tensor<i1>, %a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %r, %s, %t = torch.higher_order.cond(%p, @true_graph, @false_graph, (%a, %b)) ({
  ^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>):
    %c = torch.constant([0.0, 0.0]) : tensor<2xf32>
    fx.output((%y, %c, 3)) : (tensor<2xf32>, tensor<2xf32>) -> ()
  }, {
  ^bb0(%x: tensor<2xf32>, %y: tensor<2xf32>):
    %d = torch.constant([0, 0]) : tensor<2xi32>
    fx.output((%x, %d, 4)) : (tensor<2xf32>, tensor<2xi32>) -> ()
  }) : (tensor<i1>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, !torch.int)
  %u = torch.aten.add.Tensor(%r, %s, alpha = %t) : (tensor<2xf32>, tensor<2xf32>, !torch.int) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}

// -----

/// A cond with effects stays where its results are known.
// CHECK-LABEL: func.func @effects_stay
// CHECK-NEXT:    torch.higher_order.cond
// CHECK:         torch.aten.rand.default
// CHECK:         func.return %a
func.func @effects_stay(%p: tensor<i1>, %a: tensor<2xf32>) -> tensor<2xf32> {
  %r = torch.higher_order.cond(%p, @true_graph, @false_graph, (%a,)) ({
  ^bb0(%x: tensor<2xf32>):
    %c = torch.aten.rand.default([2]) : () -> tensor<2xf32>
    fx.output((%x,)) : (tensor<2xf32>) -> ()
  }, {
  ^bb0(%x: tensor<2xf32>):
    fx.output((%x,)) : (tensor<2xf32>) -> ()
  }) : (tensor<i1>, tensor<2xf32>) -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// -----

/// Constants that are passed to a cond are known in its regions.
// CHECK-LABEL: func.func @bound
// CHECK:         torch.aten.add.Tensor(%x, %x, alpha = 5)
func.func @bound(%p: tensor<i1>, %a: tensor<2xf32>) -> tensor<2xf32> {
  %n = torch.constant(5) : !torch.int
  %r = torch.higher_order.cond(%p, @true_graph, @false_graph, (%a, %n)) ({
  ^bb0(%x: tensor<2xf32>, %k: !torch.int):
    %y = torch.aten.add.Tensor(%x, %x, alpha = %k) : (tensor<2xf32>, tensor<2xf32>, !torch.int) -> tensor<2xf32>
    fx.output((%y,)) : (tensor<2xf32>) -> ()
  }, {
  ^bb0(%x: tensor<2xf32>, %k: !torch.int):
    fx.output((%x,)) : (tensor<2xf32>) -> ()
  }) : (tensor<i1>, tensor<2xf32>, !torch.int) -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// -----

/// A loop that does not run gives its initial values.
// CHECK-LABEL: func.func @loop_never_runs
// CHECK-NEXT:    [[y:%.*]] = torch.aten.exp.default(%a)
// CHECK-NEXT:    func.return [[y]]
func.func @loop_never_runs(%a: tensor<2xf32>) -> tensor<2xf32> {
  %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (%a,), ()) ({
  ^bb0(%x: tensor<2xf32>):
    %n = torch.constant([false]) : tensor<i1>
    fx.output(%n) : (tensor<i1>) -> ()
  }, {
  ^bb0(%x: tensor<2xf32>):
    %z = torch.aten.neg.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    fx.output((%z,)) : (tensor<2xf32>) -> ()
  }) : (tensor<2xf32>) -> tensor<2xf32>
  %t = torch.aten.exp.default(%r) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %t : tensor<2xf32>
}

// -----

/// A loop copies them, which the caller can tell where they are returned.
// CHECK-LABEL: func.func @loop_returned
// CHECK-NEXT:    [[c:%.*]] = torch.aten.clone.default(%a)
// CHECK-NEXT:    func.return [[c]]
func.func @loop_returned(%a: tensor<2xf32>) -> tensor<2xf32> {
  %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (%a,), ()) ({
  ^bb0(%x: tensor<2xf32>):
    %n = torch.constant([false]) : tensor<i1>
    fx.output(%n) : (tensor<i1>) -> ()
  }, {
  ^bb0(%x: tensor<2xf32>):
    %z = torch.aten.neg.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
    fx.output((%z,)) : (tensor<2xf32>) -> ()
  }) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// -----

/// A loop whose condition is not known, or holds, stays.
// CHECK-LABEL: func.func @loop_may_run
// CHECK:         torch.higher_order.while_loop
// CHECK:         torch.higher_order.while_loop
func.func @loop_may_run(%a: tensor<2xf32>, %q: tensor<i1>) -> tensor<2xf32> {
  %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (%a,), (%q,)) ({
  ^bb0(%x: tensor<2xf32>, %y: tensor<i1>):
    fx.output(%y) : (tensor<i1>) -> ()
  }, {
  ^bb0(%x: tensor<2xf32>, %y: tensor<i1>):
    fx.output((%x,)) : (tensor<2xf32>) -> ()
  }) : (tensor<2xf32>, tensor<i1>) -> tensor<2xf32>
  %s = torch.higher_order.while_loop(@cond_fn, @body_fn, (%r,), ()) ({
  ^bb0(%x: tensor<2xf32>):
    fx.output(true) : () -> ()
  }, {
  ^bb0(%x: tensor<2xf32>):
    fx.output((%x,)) : (tensor<2xf32>) -> ()
  }) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}

// -----

/// The constants of a loop's first run are not those of the next.
// CHECK-LABEL: func.func @carried
// CHECK:         torch.aten.add.Tensor(%x, %x, alpha = %k)
func.func @carried(%a: tensor<2xf32>, %q: tensor<i1>) -> tensor<2xf32> {
  %n = torch.constant(5) : !torch.int
  %r, %s = torch.higher_order.while_loop(@cond_fn, @body_fn, (%a, %n), (%q,)) ({
  ^bb0(%x: tensor<2xf32>, %k: !torch.int, %y: tensor<i1>):
    fx.output(%y) : (tensor<i1>) -> ()
  }, {
  ^bb0(%x: tensor<2xf32>, %k: !torch.int, %y: tensor<i1>):
    %z = torch.aten.add.Tensor(%x, %x, alpha = %k) : (tensor<2xf32>, tensor<2xf32>, !torch.int) -> tensor<2xf32>
    %l = torch.aten.item.default(%y) : (tensor<i1>) -> !torch.int
    fx.output((%z, %l)) : (tensor<2xf32>, !torch.int) -> ()
  }) : (tensor<2xf32>, !torch.int, tensor<i1>) -> (tensor<2xf32>, !torch.int)
  func.return %r : tensor<2xf32>
}

// -----

/// Nothing here is computed: random, uninitialised, written, returned, large, on another device.
// CHECK-LABEL: func.func @kept
// CHECK-NEXT:    torch.aten.rand.default([2])
// CHECK-NEXT:    torch.aten.empty.memory_format([2])
// CHECK-NEXT:    %w = torch.aten.ones.default([2])
// CHECK-NEXT:    torch.aten.add_.Tensor(%w, %a)
// CHECK-NEXT:    %v = torch.aten.view.default
// CHECK-NEXT:    torch.aten.ones.default([65])
// CHECK-NEXT:    torch.aten.ones.default([2], device = device("cuda:0"))
func.func @kept(%a: tensor<2xf32>) {
  %r = torch.aten.rand.default([2]) : () -> tensor<2xf32>
  %e = torch.aten.empty.memory_format([2]) : () -> tensor<2xf32>
  %w = torch.aten.ones.default([2]) : () -> tensor<2xf32>
  %m = torch.aten.add_.Tensor(%w, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %v = torch.aten.view.default(%w, [2]) : (tensor<2xf32>) -> tensor<2xf32>
  %l = torch.aten.ones.default([65]) : () -> tensor<65xf32>
  %d = torch.aten.ones.default([2], device = device("cuda:0")) : () -> tensor<2xf32, #torch.meta<device = "cuda:0">>
  fx.output((%r, %e, %v, %l, %d)) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<65xf32>, tensor<2xf32, #torch.meta<device = "cuda:0">>) -> ()
}
