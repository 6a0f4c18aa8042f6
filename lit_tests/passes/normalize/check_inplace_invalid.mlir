// RUN: fxc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=check-inplace

/// An operator that the module declares, whose schema has a written argument.
torch.operator @mylib.scale_.default "(Tensor(a!) x, float by) -> Tensor(a!)" flags ""
func.func @declared(%x: tensor<4xf32>) {
  // expected-error@+1 {{mylib.scale_.default writes its arguments in place, and the compiler cannot look into it}}
  %a = torch.mylib.scale_.default(%x, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%a) : (tensor<4xf32>) -> ()
}

// -----

/// In a region, at any depth.
func.func @in_a_region(%p: tensor<i1>, %x: tensor<4xf32>) {
  %h = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%y: tensor<4xf32>):
    // expected-error@+1 {{operator.iadd writes its arguments in place}}
    %e = fx.call_function @operator.iadd(%y, 1) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%e,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%y: tensor<4xf32>):
    fx.output((%y,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%h) : (tensor<4xf32>) -> ()
}

// -----

/// By the name of a method, of a function; in a function that nothing calls.
func.func private @method(%x: tensor<4xf32>) {
  // expected-error@+1 {{mul_ writes its arguments in place}}
  %a = fx.call_method @mul_(%x, 2) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%a) : (tensor<4xf32>) -> ()
}

// -----

func.func @function(%x: tensor<4xf32>) {
  // expected-error@+1 {{torch.relu_ writes its arguments in place}}
  %a = fx.call_function @torch.relu_(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%a) : (tensor<4xf32>) -> ()
}

// -----

/// By what is passed.
func.func @keyword(%x: tensor<4xf32>) {
  // expected-error@+1 {{torch.nn.functional.relu writes its arguments in place}}
  %a = fx.call_function @torch.nn.functional.relu(%x, inplace = true) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%a) : (tensor<4xf32>) -> ()
}

// -----

func.func @out(%x: tensor<4xf32>, %o: tensor<4xf32>) {
  // expected-error@+1 {{torch.exp writes its arguments in place}}
  %a = fx.call_function @torch.exp(%x, out = %o) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%a) : (tensor<4xf32>) -> ()
}

// -----

/// By how a module, or one in it, was built.
fx.module @block @torch.nn.modules.container.Sequential(training = false)
fx.module @block.0 @torch.nn.modules.activation.ReLU(training = false, inplace = true)
func.func @module(%x: tensor<4xf32>) {
  // expected-error@+1 {{block writes its arguments in place}}
  %a = fx.call_module @block(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%a) : (tensor<4xf32>) -> ()
}
