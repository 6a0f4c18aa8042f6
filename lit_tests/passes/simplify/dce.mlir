// RUN: fxc-opt %s --split-input-file --pass-pipeline=dce | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=dce,dce | filecheck %s

/// Pure ops that nothing reads go, and what only they read.
// CHECK-LABEL: func.func @pure
// CHECK-NEXT:    %c = torch.aten.relu.default(%x)
// CHECK-NEXT:    fx.output(%c)
func.func @pure(%x: tensor<4xf32>, %unused: tensor<4xf32>) {
  %a = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%c) : (tensor<4xf32>) -> ()
}

// -----

/// A write to memory that is read later stays; a write to memory that nobody reads goes, with the memory.
// CHECK-LABEL: func.func @writes
// CHECK-NEXT:    %a = torch.aten.clone.default(%x)
// CHECK-NEXT:    torch.aten.relu_.default(%a)
// CHECK-NEXT:    fx.output(%a)
func.func @writes(%x: tensor<4xf32>) {
  %a = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu_.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.relu_.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%a) : (tensor<4xf32>) -> ()
}

// -----

/// A write through a view of what is live.
// CHECK-LABEL: func.func @write_through_view
// CHECK:         torch.aten.select.int
// CHECK-NEXT:    torch.aten.zero_.default
func.func @write_through_view(%x: tensor<4xf32>) {
  %a = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten.select.int(%a, 0, 1) : (tensor<4xf32>) -> tensor<f32>
  %w = torch.aten.zero_.default(%v) : (tensor<f32>) -> tensor<f32>
  fx.output(%a) : (tensor<4xf32>) -> ()
}

// -----

/// Writes to arguments and to the user's tensors are seen by the caller.
// CHECK-LABEL: func.func @write_to_input
// CHECK-NEXT:    %v = torch.aten.view.default
// CHECK-NEXT:    torch.aten.zero_.default(%v)
// CHECK-NEXT:    %b = fx.get_attr @buffer()
// CHECK-NEXT:    torch.aten.zero_.default(%b)
// CHECK-NEXT:    fx.output(none)
func.func @write_to_input(%x: tensor<4xf32>) {
  %v = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %w = torch.aten.zero_.default(%v) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %b = fx.get_attr @buffer() : () -> tensor<4xf32>
  %u = torch.aten.zero_.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(none) : () -> ()
}

// -----

/// Batch normalisation writes its running statistics while training; in evaluation nothing is left of it.
// CHECK-LABEL: func.func @hidden_write
// CHECK-NEXT:    torch.aten.batch_norm.default(%x, none, none, %m, %v, true
// CHECK-NEXT:    fx.output(%x)
func.func @hidden_write(%x: tensor<2x4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) {
  %a = torch.aten.batch_norm.default(%x, none, none, %m, %v, true, 0.1, 0.001, false) : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %b = torch.aten.batch_norm.default(%x, none, none, %m, %v, false, 0.1, 0.001, false) : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  fx.output(%x) : (tensor<2x4xf32>) -> ()
}

// -----

/// Asserts, random draws and collectives stay; a dropout that is switched off is no draw.
// CHECK-LABEL: func.func @effects
// CHECK-NEXT:    torch.aten._assert_async.default
// CHECK-NEXT:    torch.aten.rand_like.default
// CHECK-NEXT:    torch._c10d_functional.all_reduce.default
// CHECK-NEXT:    fx.output
func.func @effects(%p: tensor<i1>, %x: tensor<4xf32>) {
  torch.aten._assert_async.default(%p) : (tensor<i1>) -> ()
  %r = torch.aten.rand_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch._c10d_functional.all_reduce.default(%x, "sum", "0") : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.dropout.default(%x, 0.5, false) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(none) : () -> ()
}

// -----

/// A module may do anything; a Python operator may not.
// CHECK-LABEL: func.func @fx_level
// CHECK-NEXT:    fx.call_module @layer(%x)
// CHECK-NEXT:    fx.output
func.func @fx_level(%x: !fx.value) {
  %w = fx.get_attr @weight() : () -> !fx.value
  %a = fx.call_module @layer(%x) : (!fx.value) -> !fx.value
  %b = fx.call_function @operator.add(%a, %w) : (!fx.value, !fx.value) -> !fx.value
  fx.output(%x) : (!fx.value) -> ()
}

// -----

/// Results of a branch that nothing reads go, with what computed them.
// CHECK-LABEL: func.func @branches
// CHECK-NEXT:    %r = scf.if %p -> (tensor<4xf32>) {
// CHECK-NEXT:      %a = torch.aten.exp.default(%x)
// CHECK-NEXT:      scf.yield %a : tensor<4xf32>
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.yield %x : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    fx.output(%r)
func.func @branches(%p: i1, %x: tensor<4xf32>) {
  %r, %dead = scf.if %p -> (tensor<4xf32>, tensor<4xf32>) {
    %a = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %b = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %a, %b : tensor<4xf32>, tensor<4xf32>
  } else {
    %c = torch.aten.sin.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %x, %c : tensor<4xf32>, tensor<4xf32>
  }
  fx.output(%r) : (tensor<4xf32>) -> ()
}

// -----

/// A branch without effects goes whole; one with an effect deep inside stays, without the rest.
// CHECK-LABEL: func.func @nested_effect
// CHECK-NEXT:    scf.if %p {
// CHECK-NEXT:      scf.if %p {
// CHECK-NEXT:        torch.aten._assert_async.default(%q)
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    fx.output
func.func @nested_effect(%p: i1, %q: tensor<i1>, %x: tensor<4xf32>) {
  scf.if %p {
    scf.if %p {
      %a = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
      torch.aten._assert_async.default(%q) : (tensor<i1>) -> ()
    }
  }
  %r = scf.if %p -> (tensor<4xf32>) {
    %b = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %b : tensor<4xf32>
  } else {
    scf.yield %x : tensor<4xf32>
  }
  fx.output(none) : () -> ()
}

// -----

/// A write in a branch to what is read after it.
// CHECK-LABEL: func.func @write_in_branch
// CHECK:         scf.if %p {
// CHECK-NEXT:      torch.aten.zero_.default(%a)
func.func @write_in_branch(%p: i1, %x: tensor<4xf32>) {
  %a = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  scf.if %p {
    %w = torch.aten.zero_.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  }
  fx.output(%a) : (tensor<4xf32>) -> ()
}

// -----

/// A write late in a loop is read early in its next round.
// CHECK-LABEL: func.func @write_in_loop
// CHECK:         scf.for
// CHECK-NEXT:      torch.aten.add.Tensor
// CHECK-NEXT:      torch.aten.exp_.default(%b)
func.func @write_in_loop(%n: index, %x: tensor<4xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %b = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %s = scf.for %i = %zero to %n step %one iter_args(%acc = %x) -> (tensor<4xf32>) {
    %next = torch.aten.add.Tensor(%acc, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %w = torch.aten.exp_.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %next : tensor<4xf32>
  }
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// A result of cond that nothing reads goes from both graphs, and what computed it.
// CHECK-LABEL: func.func @cond
// CHECK:         %r = torch.higher_order.cond
// CHECK-NEXT:    ^{{.*}}(%y: tensor<4xf32>):
// CHECK-NEXT:      %a = torch.aten.exp.default(%y)
// CHECK-NEXT:      fx.output((%a,)) : (tensor<4xf32>) -> ()
// CHECK:           %c = torch.aten.sin.default(%y)
// CHECK-NEXT:      fx.output((%c,)) : (tensor<4xf32>) -> ()
// CHECK-NEXT:    }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
func.func @cond(%p: tensor<i1>, %x: tensor<4xf32>) {
  %r, %dead = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%y: tensor<4xf32>):
    %a = torch.aten.exp.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    %b = torch.aten.neg.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%a, %b)) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }, {
  ^bb0(%y: tensor<4xf32>):
    %c = torch.aten.sin.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%c, %y)) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  fx.output(%r) : (tensor<4xf32>) -> ()
}

// -----

/// A cond that nothing reads goes whole, unless it draws.
// CHECK-LABEL: func.func @dead_cond
// CHECK-COUNT-1: torch.higher_order.cond
// CHECK:           torch.aten.rand_like.default
// CHECK-NOT:     torch.higher_order.cond
func.func @dead_cond(%p: tensor<i1>, %x: tensor<4xf32>) {
  %a = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%y: tensor<4xf32>):
    fx.output((%y,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%y: tensor<4xf32>):
    fx.output((%y,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  %b = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%y: tensor<4xf32>):
    %r = torch.aten.rand_like.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%r,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%y: tensor<4xf32>):
    fx.output((%y,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(none) : () -> ()
}

// -----

/// What a type states need not be asserted.
// CHECK-LABEL: func.func @metadata
// CHECK-NEXT:    torch.aten._assert_tensor_metadata.default(%x, dtype = torch.float64)
// CHECK-NEXT:    torch.aten._assert_tensor_metadata.default(%x, [2], dtype = torch.float32)
// CHECK-NEXT:    torch.aten._assert_tensor_metadata.default(%x, device = device("cuda"))
// CHECK-NEXT:    fx.output(%x)
func.func @metadata(%x: tensor<2xf32>) {
  torch.aten._assert_tensor_metadata.default(%x, dtype = torch.float32, device = device("cpu"), layout = torch.strided) : (tensor<2xf32>) -> ()
  torch.aten._assert_tensor_metadata.default(%x, none, none, torch.float32) : (tensor<2xf32>) -> ()
  torch.aten._assert_tensor_metadata.default(%x, dtype = torch.float64) : (tensor<2xf32>) -> ()
  torch.aten._assert_tensor_metadata.default(%x, [2], dtype = torch.float32) : (tensor<2xf32>) -> ()
  torch.aten._assert_tensor_metadata.default(%x, device = device("cuda")) : (tensor<2xf32>) -> ()
  fx.output(%x) : (tensor<2xf32>) -> ()
}

// -----

/// An unused result of a group goes, with what computes it.
// CHECK-LABEL: func.func @group
// CHECK-NEXT:    %g = fusion.group ({
// CHECK-NEXT:      %a = torch.aten.sin.default(%x)
// CHECK-NEXT:      fusion.yield %a : tensor<4xf32>
func.func @group(%x: tensor<4xf32>) {
  %g, %h = fusion.group ({
    %a = torch.aten.sin.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %b = torch.aten.cos.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %a, %b : tensor<4xf32>, tensor<4xf32>
  }) -> (tensor<4xf32>, tensor<4xf32>)
  fx.output(%g) : (tensor<4xf32>) -> ()
}

// -----

/// What shared memory with live values only by a dead op goes with it, and the writes to it.
// CHECK-LABEL: func.func @aliases_of_a_dead_cond
// CHECK-NEXT:    %a = torch.aten.clone.default(%x)
// CHECK-NEXT:    fx.output(%a)
func.func @aliases_of_a_dead_cond(%p: tensor<i1>, %x: tensor<4xf32>) {
  %a = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.clone.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.relu_.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %r = torch.higher_order.cond(%p, @then, @else, (%a, %c)) ({
  ^bb0(%t: tensor<4xf32>, %u: tensor<4xf32>):
    %s = torch.aten.sin.default(%t) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%s,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb1(%t: tensor<4xf32>, %u: tensor<4xf32>):
    %s = torch.aten.cos.default(%t) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%s,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%a) : (tensor<4xf32>) -> ()
}
