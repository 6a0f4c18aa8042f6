// RUN: fxc-opt %s --split-input-file --pass-pipeline=propagate-shapes | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=propagate-shapes,propagate-shapes | filecheck %s

/// Stale types are brought up to date, through packed results and Python calls too, and the function says what it returns.
// CHECK-LABEL: func.func @stale
// CHECK-SAME:    -> (tensor<4x6xf32>, tensor<4x6xi64>)
// CHECK-NEXT:    %a = torch.aten.cat.default([%x, %x]) : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
// CHECK-NEXT:    %t = torch.aten.sort.default(%a) : (tensor<4x6xf32>) -> tuple<tensor<4x6xf32>, tensor<4x6xi64>>
func.func @stale(%x: tensor<2x6xf32>) -> (tensor<5x6xf32>, tensor<?x?xi64>) {
  %a = torch.aten.cat.default([%x, %x]) : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<5x6xf32>
  %t = torch.aten.sort.default(%a) : (tensor<5x6xf32>) -> tuple<tensor<5x6xf32>, tensor<?x?xi64>>
  %v = fx.call_function @operator.getitem(%t, 0) : (tuple<tensor<5x6xf32>, tensor<?x?xi64>>) -> tensor<5x6xf32>
  %i = fx.call_function @operator.getitem(%t, 1) : (tuple<tensor<5x6xf32>, tensor<?x?xi64>>) -> tensor<?x?xi64>
  fx.output((%v, %i)) : (tensor<5x6xf32>, tensor<?x?xi64>) -> ()
}

// -----

/// Sizes are expressions in the module's symbols; a size that has no name gives none.
// CHECK-LABEL: func.func @symbolic
// CHECK:         torch.aten.cat.default({{.*}} -> tensor<?x4xf32, #torch.meta<sizes = ["2*s0", 4]>>
// CHECK-NEXT:    torch.aten.sym_size.int({{.*}} -> !torch.int<"2*s0">
// CHECK-NEXT:    fx.call_function @operator.add({{.*}} -> !torch.int<"2*s0 + 1">
// CHECK-NEXT:    torch.aten.relu.default(%y) : (tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK-NEXT:    torch.aten.sym_size.int(%y, 0) : (tensor<?x4xf32>) -> !torch.int
builtin.module attributes {torch.symbols = {s0 = {hint = 4, min = 2}}} {
  func.func @symbolic(%x: tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>, %y: tensor<?x4xf32>) {
    %a = torch.aten.cat.default([%x, %x]) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>, tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<?x?xf32>
    %n = torch.aten.sym_size.int(%a, 0) : (tensor<?x?xf32>) -> !torch.int
    %m = fx.call_function @operator.add(%n, 1) : (!torch.int) -> !torch.int
    %b = torch.aten.relu.default(%y) : (tensor<?x4xf32>) -> tensor<?x?xf32>
    %k = torch.aten.sym_size.int(%y, 0) : (tensor<?x4xf32>) -> !torch.int
    fx.output((%m, %b, %k)) : (!torch.int, tensor<?x?xf32>, !torch.int) -> ()
  }
}

// -----

/// What holds only at the hints of the symbols is not claimed: 3 here is not always the smaller one.
// CHECK-LABEL: func.func @hints
// CHECK:         fx.call_function @builtins.min({{.*}} -> !torch.int<"u9">
builtin.module attributes {torch.symbols = {s0 = {hint = 4, min = 2}, u9 = {}}} {
  func.func @hints(%n: !torch.int<"s0">) -> !torch.int<"u9"> {
    %m = fx.call_function @builtins.min(%n, 3) : (!torch.int<"s0">) -> !torch.int<"u9">
    func.return %m : !torch.int<"u9">
  }
}

// -----

/// A number that is not known is not the one that was tried, and a switch that is not known leaves the type.
// CHECK-LABEL: func.func @unknown_numbers
// CHECK:         @operator.mul(%f, 2) : (!torch.float) -> !torch.float
// CHECK-NEXT:    @operator.not_(%p) : (!torch.bool) -> !torch.bool
// CHECK-NEXT:    torch.aten.sum.dim_IntList(%x, [1], %p) : (tensor<2x3xf32>, !torch.bool) -> tensor<?xf32>
// CHECK-NEXT:    torch.aten.mul.Tensor(%x, %f) : (tensor<2x3xf32>, !torch.float) -> tensor<2x3xf32>
func.func @unknown_numbers(%x: tensor<2x3xf32>, %f: !torch.float, %p: !torch.bool) {
  %g = fx.call_function @operator.mul(%f, 2) : (!torch.float) -> !fx.value
  %q = fx.call_function @operator.not_(%p) : (!torch.bool) -> !fx.value
  %s = torch.aten.sum.dim_IntList(%x, [1], %p) : (tensor<2x3xf32>, !torch.bool) -> tensor<?xf32>
  %m = torch.aten.mul.Tensor(%x, %f) : (tensor<2x3xf32>, !torch.float) -> tensor<?x?xf32>
  fx.output((%g, %q, %s, %m)) : (!fx.value, !fx.value, tensor<?xf32>, tensor<?x?xf32>) -> ()
}

// -----

/// The size that only data tells keeps its name.
// CHECK-LABEL: func.func @data_dependent
// CHECK:         -> tensor<?x2xi64, #torch.meta<sizes = ["u0", 2], strides = [1, "u0"]>>
// CHECK-NEXT:    torch.aten.select.int({{.*}} -> tensor<?xi64, #torch.meta<sizes = ["u0"]>>
// CHECK-NEXT:    torch.aten.nonzero.default({{.*}} -> tensor<?x2xi64, #torch.meta<strides
func.func @data_dependent(%x: tensor<2x3xf32>) {
  %a = torch.aten.nonzero.default(%x) : (tensor<2x3xf32>) -> tensor<?x2xi64, #torch.meta<sizes = ["u0", 2], strides = [1, "u0"]>>
  %b = torch.aten.select.int(%a, 1, 0) : (tensor<?x2xi64, #torch.meta<sizes = ["u0", 2], strides = [1, "u0"]>>) -> tensor<?xi64>
  %c = torch.aten.nonzero.default(%x) : (tensor<2x3xf32>) -> tensor<7x2xi64>
  fx.output((%a, %b, %c)) : (tensor<?x2xi64, #torch.meta<sizes = ["u0", 2], strides = [1, "u0"]>>, tensor<?xi64>, tensor<7x2xi64>) -> ()
}

// -----

/// What PyTorch refuses at types that did not change will raise when it runs: the type stays.
// CHECK-LABEL: func.func @refused
// CHECK:         torch.aten.mm.default(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @refused(%x: tensor<2x3xf32>) {
  %a = torch.aten.mm.default(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output(%a) : (tensor<2x3xf32>) -> ()
}

// -----

/// Operands without a type say too little.
// CHECK-LABEL: func.func @untyped
// CHECK:         torch.aten.relu.default(%x) : (!fx.value) -> tensor<3xf32>
func.func @untyped(%x: !fx.value) {
  %a = torch.aten.relu.default(%x) : (!fx.value) -> tensor<3xf32>
  fx.output(%a) : (tensor<3xf32>) -> ()
}

// -----

/// A cond gives what both regions agree on: rank and one size here; contiguous where both are.
// CHECK-LABEL: func.func @cond
// CHECK:         tensor<4x2xf32>) -> ()
// CHECK:         tensor<4x3xf32>) -> ()
// CHECK:         (tensor<i1>, tensor<2x2xf32>, tensor<4x3xf32>) -> (tensor<4x?xf32>, !torch.int)
// CHECK-NEXT:    torch.aten.relu.default({{.*}} -> tensor<4x?xf32>
func.func @cond(%p: tensor<i1>, %x: tensor<2x2xf32>, %y: tensor<4x3xf32>) {
  %r, %n = torch.higher_order.cond(%p, @true_graph, @false_graph, (%x, %y)) ({
  ^bb0(%a: tensor<9x9xf32>, %b: tensor<4x3xf32>):
    %c = torch.aten.cat.default([%a, %a]) : (tensor<9x9xf32>, tensor<9x9xf32>) -> tensor<18x9xf32>
    fx.output((%c, 1)) : (tensor<18x9xf32>) -> ()
  }, {
  ^bb0(%a: tensor<9x9xf32>, %b: tensor<4x3xf32>):
    fx.output((%b, 2)) : (tensor<4x3xf32>) -> ()
  }) : (tensor<i1>, tensor<2x2xf32>, tensor<4x3xf32>) -> (tensor<4x3xf32>, !torch.int)
  %z = torch.aten.relu.default(%r) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  fx.output(%z) : (tensor<4x3xf32>) -> ()
}

// -----

/// Regions that return tensors of other rank, dtype or device agree on nothing.
// CHECK-LABEL: func.func @cond_other_rank
// CHECK:         (tensor<i1>, tensor<2x2xf32>) -> (!fx.value, !fx.value)
func.func @cond_other_rank(%p: tensor<i1>, %x: tensor<2x2xf32>) {
  %r, %s = torch.higher_order.cond(%p, @true_graph, @false_graph, (%x,)) ({
  ^bb0(%a: tensor<2x2xf32>):
    %c = torch.aten.view.default(%a, [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
    fx.output((%c, %a)) : (tensor<4xf32>, tensor<2x2xf32>) -> ()
  }, {
  ^bb0(%a: tensor<2x2xf32>):
    %c = torch.aten.ne.Scalar(%a, 0) : (tensor<2x2xf32>) -> tensor<2x2xi1>
    fx.output((%a, %c)) : (tensor<2x2xf32>, tensor<2x2xi1>) -> ()
  }) : (tensor<i1>, tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
  fx.output(%r) : (tensor<2x2xf32>) -> ()
}

// -----

/// A symbol of a region means nothing outside; the name that the result had stays.
// CHECK-LABEL: func.func @cond_symbols
// CHECK:         (tensor<i1>, tensor<4xf32>) -> (tensor<?x1xi64, #torch.meta<strides = [1, ""]>>, tensor<?xf32, #torch.meta<sizes = ["u5"]>>)
func.func @cond_symbols(%p: tensor<i1>, %x: tensor<4xf32>) {
  %r, %s = torch.higher_order.cond(%p, @true_graph, @false_graph, (%x,)) ({
  ^bb0(%a: tensor<4xf32>):
    %c = torch.aten.argwhere.default(%a) : (tensor<4xf32>) -> tensor<?x1xi64, #torch.meta<sizes = ["u0", 1]>>
    fx.output((%c, %a)) : (tensor<?x1xi64, #torch.meta<sizes = ["u0", 1]>>, tensor<4xf32>) -> ()
  }, {
  ^bb0(%a: tensor<4xf32>):
    %c = torch.aten.argwhere.default(%a) : (tensor<4xf32>) -> tensor<?x1xi64, #torch.meta<sizes = ["u0", 1]>>
    %d = torch.aten.cat.default([%a, %a]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
    fx.output((%c, %d)) : (tensor<?x1xi64, #torch.meta<sizes = ["u0", 1]>>, tensor<8xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> (tensor<?x1xi64, #torch.meta<sizes = ["u0 + 1", 1]>>, tensor<?xf32, #torch.meta<sizes = ["u5"]>>)
  fx.output((%r, %s)) : (tensor<?x1xi64, #torch.meta<sizes = ["u0 + 1", 1]>>, tensor<?xf32, #torch.meta<sizes = ["u5"]>>) -> ()
}

// -----

/// A loop that grows what it carries: the size that changes has no name, in the loop and after it; the other stays. The
/// number that it carries keeps the symbol that names its value in a run.
// CHECK-LABEL: func.func @loop_grows
// CHECK:         ^bb0(%i: !torch.int<"u0">, %a: tensor<?x3xf32>, %q: tensor<5xf32>):
// CHECK:           fx.output(%c) : (!torch.bool<"u0 < 5">) -> ()
// CHECK:         ^bb0(%i: !torch.int<"u0">, %a: tensor<?x3xf32>, %q: tensor<5xf32>):
// CHECK:           fx.output((%j, %b)) : (!torch.int<"u0 + 1">, tensor<?x3xf32>) -> ()
// CHECK:         (tensor<2x3xf32>, tensor<5xf32>) -> tuple<!torch.int<"u1">, tensor<?x3xf32>>
// CHECK-NEXT:    operator.getitem({{.*}} -> tensor<?x3xf32>
func.func @loop_grows(%x: tensor<2x3xf32>, %y: tensor<5xf32>) {
  %r = torch.higher_order.while_loop(@cond_fn, @body_fn, (0, %x), (%y,)) ({
  ^bb0(%i: !torch.int<"u0">, %a: tensor<2x3xf32>, %q: tensor<6xf32>):
    %c = fx.call_function @operator.lt(%i, 5) : (!torch.int<"u0">) -> !torch.bool
    fx.output(%c) : (!torch.bool) -> ()
  }, {
  ^bb0(%i: !torch.int<"u0">, %a: tensor<2x3xf32>, %q: tensor<6xf32>):
    %j = fx.call_function @operator.add(%i, 1) : (!torch.int<"u0">) -> !torch.int
    %b = torch.aten.cat.default([%a, %a]) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
    fx.output((%j, %b)) : (!torch.int, tensor<4x3xf32>) -> ()
  }) : (tensor<2x3xf32>, tensor<5xf32>) -> tuple<!torch.int<"u1">, tensor<2x3xf32>>
  %z = fx.call_function @operator.getitem(%r, 1) : (tuple<!torch.int<"u1">, tensor<2x3xf32>>) -> tensor<2x3xf32>
  fx.output(%z) : (tensor<2x3xf32>) -> ()
}

// -----

/// A loop that keeps its sizes keeps them.
// CHECK-LABEL: func.func @loop_stable
// CHECK:         ^bb0(%i: tensor<i64>, %a: tensor<4x3xf32>):
// CHECK:         -> (tensor<i64>, tensor<4x3xf32>)
func.func @loop_stable(%n: tensor<i64>, %x: tensor<4x3xf32>) {
  %r, %s = torch.higher_order.while_loop(@cond_fn, @body_fn, (%n, %x), ()) ({
  ^bb0(%i: tensor<i64>, %a: tensor<?x?xf32>):
    %c = torch.aten.lt.Scalar(%i, 5) : (tensor<i64>) -> tensor<i1>
    fx.output(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i64>, %a: tensor<?x?xf32>):
    %j = torch.aten.add.Scalar(%i, 1) : (tensor<i64>) -> tensor<i64>
    %b = torch.aten.relu.default(%a) : (tensor<?x?xf32>) -> tensor<?x?xf32>
    fx.output((%j, %b)) : (tensor<i64>, tensor<?x?xf32>) -> ()
  }) : (tensor<i64>, tensor<4x3xf32>) -> (tensor<i64>, tensor<?x?xf32>)
  fx.output((%r, %s)) : (tensor<i64>, tensor<?x?xf32>) -> ()
}

// -----

/// What is resized has no sizes, before and after; nor has what may share its memory, of whatever rank.
// CHECK-LABEL: func.func @resized
// CHECK-NEXT:    %y = torch.aten.clone.default(%x) : (tensor<2x3xf32>) -> tensor<?x?xf32, #torch.meta<strides = ["", ""]>>
// CHECK-NEXT:    %w = torch.aten.resize_.default({{.*}} -> tensor<?x?xf32, #torch.meta<strides = ["", ""]>>
// CHECK-NEXT:    %z = torch.aten.neg.default(%w) : {{.*}} -> tensor<?x?xf32
// CHECK-NEXT:    %v = torch.aten.neg.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
func.func @resized(%x: tensor<2x3xf32>) {
  %y = torch.aten.clone.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %w = torch.aten.resize_.default(%y, [4, 4]) : (tensor<2x3xf32>) -> tensor<4x4xf32>
  %z = torch.aten.neg.default(%w) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = torch.aten.neg.default(%x) : (tensor<2x3xf32>) -> tensor<?x?xf32>
  fx.output((%z, %v)) : (tensor<4x4xf32>, tensor<?x?xf32>) -> ()
}

// -----

/// Of another rank: nothing is left. ``out`` may be resized too. An argument keeps what its caller passes.
// CHECK-LABEL: func.func @resized_rank(%a: tensor<2xf32>
// CHECK-NEXT:    %y = torch.aten.clone.default(%x) : (tensor<6xf32>) -> !fx.value
// CHECK-NEXT:    %v = torch.aten.view.default(%y, [2, 3]) : (!fx.value) -> !fx.value
// CHECK-NEXT:    %w = torch.aten.resize_.default(%y, [4, 4]) : (!fx.value) -> !fx.value
// CHECK-NEXT:    %o = torch.aten.neg.out(%x, out = %a) : (tensor<6xf32>, tensor<2xf32>) -> tensor<?xf32, #torch.meta<strides = [""]>>
// CHECK-NEXT:    torch.aten.relu.default(%a) : (tensor<2xf32>) -> tensor<6xf32>
func.func @resized_rank(%a: tensor<2xf32>, %x: tensor<6xf32>) {
  %y = torch.aten.clone.default(%x) : (tensor<6xf32>) -> tensor<6xf32>
  %v = torch.aten.view.default(%y, [2, 3]) : (tensor<6xf32>) -> tensor<2x3xf32>
  %w = torch.aten.resize_.default(%y, [4, 4]) : (tensor<6xf32>) -> tensor<4x4xf32>
  %o = torch.aten.neg.out(%x, out = %a) : (tensor<6xf32>, tensor<2xf32>) -> tensor<6xf32>
  %r = torch.aten.relu.default(%a) : (tensor<2xf32>) -> tensor<6xf32>
  fx.output((%v, %w, %r)) : (tensor<2x3xf32>, tensor<4x4xf32>, tensor<6xf32>) -> ()
}

// -----

/// Calls: a private function takes what its callers pass, and callers get what it returns.
// CHECK-LABEL: func.func private @f(%x: tensor<4xf32>) -> tensor<8xf32>
// CHECK-LABEL: func.func @main
// CHECK:         func.call @f(%a) : (tensor<4xf32>) -> tensor<8xf32>
// CHECK-NEXT:    torch.aten.relu.default(%b) : (tensor<8xf32>) -> tensor<8xf32>
func.func private @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = torch.aten.cat.default([%x, %x]) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  func.return %y : tensor<?xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<?xf32> {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<?xf32>
  %b = func.call @f(%a) : (tensor<?xf32>) -> tensor<?xf32>
  %c = torch.aten.relu.default(%b) : (tensor<?xf32>) -> tensor<?xf32>
  func.return %c : tensor<?xf32>
}

// -----

/// Subgraphs: so do what they call, and their derivatives what these return to them.
// CHECK-LABEL: func.func @subgraph(
// CHECK:         autodiff.subgraph @square(%x)
// CHECK-SAME:      : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: func.func private @square(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
// CHECK-LABEL: func.func private @square_df
// CHECK-SAME:      (%g: tensor<4xf32>, %h: tensor<4xf32>, %t: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    torch.aten.mul.Tensor(%g, %t) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
func.func @subgraph(%x: tensor<4xf32>) -> tensor<?xf32> {
  %y = autodiff.subgraph @square(%x) {gradient = #autodiff.gradient<@square_df, real_outputs = 1, input_vjps = [0, 1], captured_inputs = [], captured_outputs = [1], output_vjps = [0]>} : (tensor<4xf32>) -> tensor<?xf32>
  func.return %y : tensor<?xf32>
}
func.func private @square(%x: tensor<4xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %t = torch.aten.mul.Scalar(%x, 2) : (tensor<4xf32>) -> tensor<?xf32>
  %y = torch.aten.mul.Tensor(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<?xf32>
  func.return %y, %t : tensor<?xf32>, tensor<?xf32>
}
func.func private @square_df(%g: tensor<?xf32>, %h: tensor<?xf32>, %t: tensor<?xf32>) -> tensor<4xf32> {
  %d = torch.aten.mul.Tensor(%g, %t) : (tensor<?xf32>, tensor<?xf32>) -> tensor<4xf32>
  func.return %d : tensor<4xf32>
}

// -----

/// Regions of other operators are brought up to date from their own arguments; what the operator returns stays.
// CHECK-LABEL: func.func @other
// CHECK:         torch.aten.relu.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK:         (tensor<4xf32>) -> tensor<?xf32>
func.func @other(%x: tensor<4xf32>) {
  %r = torch.higher_order.wrap_with_set_grad_enabled(false, @sub, %x) ({
  ^bb0(%a: tensor<4xf32>):
    %b = torch.aten.relu.default(%a) : (tensor<4xf32>) -> tensor<?xf32>
    fx.output(%b) : (tensor<?xf32>) -> ()
  }) : (tensor<4xf32>) -> tensor<?xf32>
  fx.output(%r) : (tensor<?xf32>) -> ()
}

// -----

/// A stale type hid that the view is none: it is one of a copy.
// CHECK-LABEL: func.func @view
// CHECK:         %r = torch.aten.roll.default(%x, [1], [1])
// CHECK-SAME:      -> tensor<2x3x4x5xf32, #torch.meta<strides = [60, 1, 15, 3]>>
// CHECK:         %[[COPY:.*]] = torch.aten.clone.default(%r, memory_format = torch.contiguous_format)
// CHECK-SAME:      -> tensor<2x3x4x5xf32>
// CHECK:         torch.aten.view.default(%[[COPY]], [2, 60]) : (tensor<2x3x4x5xf32>) -> tensor<2x60xf32>
func.func @view(%x: tensor<2x3x4x5xf32, #torch.meta<strides = [60, 1, 15, 3]>>) {
  %r = torch.aten.roll.default(%x, [1], [1]) : (tensor<2x3x4x5xf32, #torch.meta<strides = [60, 1, 15, 3]>>) -> tensor<2x3x4x5xf32>
  %v = torch.aten.view.default(%r, [2, 60]) : (tensor<2x3x4x5xf32>) -> tensor<2x60xf32>
  fx.output(%v) : (tensor<2x60xf32>) -> ()
}

// -----

/// Each call passes what the call before it returned: the type that the first one passes is that of all.
// CHECK-LABEL: func.func private @block
// CHECK-SAME:    (%x: tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: func.func @chain
// CHECK-COUNT-3: func.call @block({{.*}}) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NOT:     func.func
func.func private @block(%x: tensor<?xf32>) -> tensor<?xf32> {
  %r = torch.aten.relu.default(%x) : (tensor<?xf32>) -> tensor<?xf32>
  func.return %r : tensor<?xf32>
}
func.func @chain(%x: tensor<4xf32>) {
  %a = torch.aten.sin.default(%x) : (tensor<4xf32>) -> tensor<?xf32>
  %b = func.call @block(%a) : (tensor<?xf32>) -> tensor<?xf32>
  %c = func.call @block(%b) : (tensor<?xf32>) -> tensor<?xf32>
  %d = func.call @block(%c) : (tensor<?xf32>) -> tensor<?xf32>
  fx.output(%d) : (tensor<?xf32>) -> ()
}

// -----

/// Calls that pass other types call a copy of the function, and what that calls is called with other types, too.
// CHECK-LABEL: func.func private @inner(
// CHECK-SAME:    tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: func.func private @inner_1(
// CHECK-SAME:    tensor<?xf32>) -> tensor<?xf32>
// CHECK-LABEL: func.func private @outer(
// CHECK-SAME:    tensor<4xf32>) -> tensor<4xf32>
// CHECK:         func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-LABEL: func.func private @outer_1(
// CHECK-SAME:    tensor<?xf32>) -> tensor<?xf32>
// CHECK:         func.call @inner_1(%x) : (tensor<?xf32>) -> tensor<?xf32>
// CHECK-LABEL: func.func @others
// CHECK:         func.call @outer(%a) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK:         func.call @outer_1(%y) : (tensor<?xf32>) -> tensor<?xf32>
// CHECK:         func.call @outer(%b) : (tensor<4xf32>) -> tensor<4xf32>
func.func private @inner(%x: tensor<?xf32>) -> tensor<?xf32> {
  %r = torch.aten.relu.default(%x) : (tensor<?xf32>) -> tensor<?xf32>
  func.return %r : tensor<?xf32>
}
func.func private @outer(%x: tensor<?xf32>) -> tensor<?xf32> {
  %r = func.call @inner(%x) : (tensor<?xf32>) -> tensor<?xf32>
  func.return %r : tensor<?xf32>
}
func.func @others(%x: tensor<4xf32>, %y: tensor<?xf32>) {
  %a = torch.aten.sin.default(%x) : (tensor<4xf32>) -> tensor<?xf32>
  %b = func.call @outer(%a) : (tensor<?xf32>) -> tensor<?xf32>
  %c = func.call @outer(%y) : (tensor<?xf32>) -> tensor<?xf32>
  %d = func.call @outer(%b) : (tensor<?xf32>) -> tensor<?xf32>
  fx.output((%c, %d)) : (tensor<?xf32>, tensor<?xf32>) -> ()
}
