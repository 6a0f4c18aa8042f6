// RUN: fxc-opt %s --split-input-file --pass-pipeline=symbol-dce | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=symbol-dce,symbol-dce | filecheck %s

/// A private function that nothing uses goes, and a declaration too; a public one stays.
// CHECK-LABEL: builtin.module
// CHECK-NOT:     @unused
// CHECK-NOT:     @declared
// CHECK:         func.func @public_unused
func.func private @unused() {
  func.return
}
func.func private @declared()
func.func @public_unused() {
  func.return
}

// -----

/// What only a dead function uses is dead; functions that only use each other are dead.
// CHECK-LABEL: builtin.module
// CHECK-NOT:     func.func private
func.func private @dead() {
  func.call @only_from_dead() : () -> ()
  func.return
}
func.func private @only_from_dead() {
  func.return
}
func.func private @ping() {
  func.call @pong() : () -> ()
  func.return
}
func.func private @pong() {
  func.call @ping() : () -> ()
  func.return
}
func.func @main() {
  func.return
}

// -----

/// What a live function uses stays, through any number of calls, and declarations too.
// CHECK-LABEL: builtin.module
// CHECK:         func.func private @one
// CHECK:         func.func private @two
// CHECK:         func.func private @declared
func.func private @one() {
  func.call @two() : () -> ()
  func.return
}
func.func private @two() {
  func.call @declared() : () -> ()
  func.return
}
func.func private @declared()
func.func @main() {
  func.call @one() : () -> ()
  func.return
}

// -----

/// A use in a region counts.
// CHECK-LABEL: builtin.module
// CHECK:         func.func private @used
func.func private @used(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @in_region(%p: tensor<i1>, %a: tensor<4xf32>) -> tensor<4xf32> {
  %r = torch.higher_order.cond(%p, @true_graph, @false_graph, (%a,)) ({
  ^bb0(%x: tensor<4xf32>):
    %y = func.call @used(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%y,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%x: tensor<4xf32>):
    fx.output((%x,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

/// A reference in an attribute counts, however deep, on the module too.
// CHECK-LABEL: builtin.module
// CHECK:         func.func private @in_array
// CHECK:         func.func private @in_dictionary
// CHECK:         func.func private @on_module
// CHECK-NOT:     func.func private @unused
builtin.module attributes {entry = @on_module} {
  func.func private @in_array() {
    func.return
  }
  func.func private @in_dictionary() {
    func.return
  }
  func.func private @on_module() {
    func.return
  }
  func.func private @unused() {
    func.return
  }
  func.func @main() attributes {uses = [[@in_array]], more = {a = @in_dictionary}} {
    func.return
  }
}

// -----

/// A private module goes with all that is in it; a reference into one keeps it and the function.
// CHECK-LABEL: func.func @nested_modules
// CHECK-NOT:     @dead_module
// CHECK:         @live_module
// CHECK:         func.func private @inner
// CHECK-NOT:     @not_used
// CHECK:         fx.tensor @after
func.func @nested_modules() attributes {uses = @live_module::@inner} {
  func.return
}
builtin.module @dead_module attributes {sym_visibility = "private"} {
  func.func @f() {
    func.return
  }
}
builtin.module @live_module attributes {sym_visibility = "private"} {
  func.func private @inner() {
    func.return
  }
  func.func private @not_used() {
    func.return
  }
}
fx.tensor @after : tensor<4xf32> {kind = "parameter"}

// -----

/// Declarations of the user's model are no symbols.
// CHECK-LABEL: fx.tensor @weight
// CHECK:         fx.module @relu
// CHECK:         torch.operator @mylib.scale.default
fx.tensor @weight : tensor<4xf32> {kind = "parameter"}
fx.module @relu @torch.nn.modules.activation.ReLU(inplace = false)
torch.operator @mylib.scale.default "(Tensor x, float by) -> Tensor" flags ""
func.func @main() {
  func.return
}
