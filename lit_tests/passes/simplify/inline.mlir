// RUN: fxc-opt %s --split-input-file --pass-pipeline=inline | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=inline,inline | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=inline --print-debuginfo | filecheck %s --check-prefix=LOC

/// A call becomes a copy of the body under the names of the body; the callee is erased, since nothing else uses it.
// CHECK-NOT:   @callee
// CHECK-LABEL: func.func @one_call
// CHECK-NEXT:    %y_1 = torch.aten.gelu.default(%a)
// CHECK-NEXT:    func.return %y_1
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y_1 = torch.aten.gelu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y_1 : tensor<4xf32>
}
func.func @one_call(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

/// Two calls give two copies: calls are not merged.
// CHECK-LABEL: func.func @two_calls
// CHECK:         [[a:%.*]] = torch.aten.gelu.default(%a)
// CHECK:         [[b:%.*]] = torch.aten.gelu.default([[a]])
// CHECK:         func.return [[b]]
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.gelu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @two_calls(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = func.call @callee(%b) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}

// -----

/// A chain of calls is gone in one run, though callers stand before their callees.
// CHECK-LABEL: func.func @caller_first
// CHECK-NOT:     func.call
// CHECK:         torch.aten.neg.default(%a)
// CHECK:         torch.aten.exp.default
// CHECK-NOT:     @middle
func.func @caller_first(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = func.call @middle(%a) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}
func.func private @middle(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @leaf(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.exp.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}
func.func private @leaf(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

/// Several results; one of them is an argument, which maps to the operand.
// CHECK-LABEL: func.func @several_results
// CHECK:         [[y:%.*]] = torch.aten.neg.default(%a)
// CHECK:         func.return %a, [[y]]
func.func private @callee(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %x, %y : tensor<4xf32>, tensor<4xf32>
}
func.func @several_results(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %b, %c = func.call @callee(%a) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  func.return %b, %c : tensor<4xf32>, tensor<4xf32>
}

// -----

/// A body that ends in a tree of values returns its leaves, constants among them.
// CHECK-LABEL: func.func @tree
// CHECK-NEXT:    [[n:%.*]] = torch.constant(3) : !torch.int
// CHECK-NEXT:    func.return %b, [[n]], %a
func.func private @callee(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, !torch.int, tensor<4xf32>) {
  fx.output((%y, [3, %x])) : (tensor<4xf32>, tensor<4xf32>) -> ()
}
func.func @tree(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, !torch.int, tensor<4xf32>) {
  %c, %d, %e = func.call @callee(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, !torch.int, tensor<4xf32>)
  func.return %c, %d, %e : tensor<4xf32>, !torch.int, tensor<4xf32>
}

// -----

/// Without results for the constants, the results are the values of the tree.
// CHECK-LABEL: func.func @tree_of_values
// CHECK-NEXT:    func.return %b, %a
func.func private @callee(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  fx.output((%y, [3, %x])) : (tensor<4xf32>, tensor<4xf32>) -> ()
}
func.func @tree_of_values(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c, %d = func.call @callee(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  func.return %c, %d : tensor<4xf32>, tensor<4xf32>
}

// -----

/// Calls in regions, isolated ones and others.
// CHECK-LABEL: func.func @in_regions
// CHECK:         torch.higher_order.cond(%p, @true_graph, @false_graph, (%a,)) ({
// CHECK-NEXT:    ^bb0(%x: tensor<4xf32>):
// CHECK-NEXT:      [[y:%.*]] = torch.aten.neg.default(%x)
// CHECK-NEXT:      fx.output(([[y]],))
// CHECK:         scf.if %q
// CHECK-NEXT:      [[z:%.*]] = torch.aten.neg.default(%a)
// CHECK-NEXT:      scf.yield [[z]]
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @in_regions(%p: tensor<i1>, %q: i1, %a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r = torch.higher_order.cond(%p, @true_graph, @false_graph, (%a,)) ({
  ^bb0(%x: tensor<4xf32>):
    %y = func.call @callee(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%y,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%x: tensor<4xf32>):
    fx.output((%x,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  %s = scf.if %q -> (tensor<4xf32>) {
    %y = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  } else {
    scf.yield %a : tensor<4xf32>
  }
  func.return %r, %s : tensor<4xf32>, tensor<4xf32>
}

// -----

/// A body with regions is copied with them.
// CHECK-LABEL: func.func @copied_regions
// CHECK:         torch.higher_order.cond(%p, @true_graph, @false_graph, (%a,)) ({
// CHECK-NEXT:    ^bb0(%x: tensor<4xf32>):
// CHECK-NEXT:      %y_1 = torch.aten.neg.default(%x)
func.func private @callee(%p: tensor<i1>, %v: tensor<4xf32>) -> tensor<4xf32> {
  %r = torch.higher_order.cond(%p, @true_graph, @false_graph, (%v,)) ({
  ^bb0(%x: tensor<4xf32>):
    %y_1 = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%y_1,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%x: tensor<4xf32>):
    fx.output((%x,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
func.func @copied_regions(%p: tensor<i1>, %a: tensor<4xf32>) -> tensor<4xf32> {
  %r = func.call @callee(%p, %a) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

/// Writes stay in order, and a random callee draws once for each call.
// CHECK-LABEL: func.func @effects
// CHECK:         torch.aten.relu_.default(%a)
// CHECK:         torch.aten.rand_like.default(%a)
// CHECK:         torch.aten.relu_.default(%a)
// CHECK:         torch.aten.rand_like.default(%a)
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = torch.aten.relu_.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch.aten.rand_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @effects(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %b = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b, %c : tensor<4xf32>, tensor<4xf32>
}

// -----

/// A callee that calls itself keeps its calls; what else it calls is inlined.
// CHECK-LABEL: func.func private @recursive
// CHECK:         func.call @recursive
// CHECK-NOT:     func.call @leaf
// CHECK-LABEL: func.func @calls_recursive
// CHECK:         func.call @recursive
func.func private @leaf(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func private @recursive(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @recursive(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = func.call @leaf(%y) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %z : tensor<4xf32>
}
func.func @calls_recursive(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = func.call @recursive(%a) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

/// Functions that call each other keep their calls, a function that merely lies between two calls of them does not.
// CHECK-LABEL: func.func private @ping
// CHECK:         func.call @pong
// CHECK-LABEL: func.func private @pong
// CHECK:         func.call @ping
// CHECK-NOT:     @between
// CHECK-LABEL: func.func @mutual
// CHECK-NEXT:    func.call @ping
func.func private @ping(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @pong(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func private @pong(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @ping(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func private @between(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @ping(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @mutual(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = func.call @between(%a) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

/// A declaration has nothing to inline.
// CHECK-LABEL: func.func @declaration
// CHECK:         func.call @outside(%a)
func.func private @outside(tensor<4xf32>) -> tensor<4xf32>
func.func @declaration(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = func.call @outside(%a) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

/// A function with several blocks stays a call.
// CHECK-LABEL: func.func @several_blocks
// CHECK:         func.call @callee(%a)
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^bb1
^bb1:
  func.return %x : tensor<4xf32>
}
func.func @several_blocks(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

/// A tree whose values are not those of the call stays a call.
// CHECK-LABEL: func.func @other_types
// CHECK:         func.call @callee(%a)
func.func private @callee(%x: tensor<4xf32>) -> tensor<?xf32> {
  fx.output((%x,)) : (tensor<4xf32>) -> ()
}
func.func @other_types(%a: tensor<4xf32>) -> tensor<?xf32> {
  %b = func.call @callee(%a) : (tensor<4xf32>) -> tensor<?xf32>
  func.return %b : tensor<?xf32>
}

// -----

/// A function marked so stays a function, and so does a call, and what it calls.
// CHECK:       func.func private @other
// CHECK-LABEL: func.func @marked
// CHECK-NEXT:    func.call @callee(%a)
// CHECK-NEXT:    func.call @other
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline} {
  func.return %x : tensor<4xf32>
}
func.func private @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @marked(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = func.call @other(%b) {no_inline} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}

// -----

/// A module in the module has symbols of its own.
// CHECK-LABEL: func.func @nested_module
// CHECK-NEXT:    torch.aten.exp.default
// CHECK:         func.func @inner
// CHECK-NEXT:    torch.aten.neg.default
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @nested_module(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}
builtin.module {
  func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    func.return %y : tensor<4xf32>
  }
  func.func @inner(%a: tensor<4xf32>) -> tensor<4xf32> {
    %b = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
    func.return %b : tensor<4xf32>
  }
}

// -----

/// An inlined op lies where it was written, called from where the call was written.
// LOC-LABEL: func.func @places
// LOC:         torch.aten.neg.default(%a) {{.*}} loc(callsite("neg" at "call"))
// LOC-NEXT:    torch.aten.exp.default({{.*}} loc(callsite("exp" at "call"))
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("neg")
  %z = torch.aten.exp.default(%y) : (tensor<4xf32>) -> tensor<4xf32> loc("exp")
  func.return %z : tensor<4xf32>
}
func.func @places(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32> loc("call")
  func.return %b : tensor<4xf32>
}
