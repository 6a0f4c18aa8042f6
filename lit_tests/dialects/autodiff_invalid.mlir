// RUN: fxc-opt %s --split-input-file --verify-diagnostics

/// The callee is a function of these types.
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  func.return %x : tensor<2xf32>
}
func.func @operands(%x: tensor<3xf32>) {
  // expected-error@+1 {{the operand types of @f are (tensor<2xf32>), not (tensor<3xf32>)}}
  %u = autodiff.subgraph @f(%x) : (tensor<3xf32>) -> tensor<2xf32>
  fx.output(%u) : (tensor<2xf32>) -> ()
}

// -----

func.func @no_callee(%x: tensor<3xf32>) {
  // expected-error@+1 {{autodiff.subgraph: callee names @nowhere, which does not exist}}
  %u = autodiff.subgraph @nowhere(%x) : (tensor<3xf32>) -> tensor<2xf32>
  fx.output(%u) : (tensor<2xf32>) -> ()
}

// -----

/// Outputs that are there for the derivative are not results.
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  func.return %x, %x : tensor<2xf32>, tensor<2xf32>
}
func.func private @df(%g: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  func.return %g : tensor<2xf32>
}
func.func @results(%x: tensor<2xf32>) {
  // expected-error@+1 {{the result types of @f are (tensor<2xf32>), not (tensor<2xf32>, tensor<2xf32>)}}
  %u, %t = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@df, real_outputs = 1, input_vjps = [0], captured_inputs = [], captured_outputs = [1], output_vjps = [0]>} : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  fx.output(%u) : (tensor<2xf32>) -> ()
}

// -----

/// Each output behind the real ones is captured.
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  func.return %x, %x : tensor<2xf32>, tensor<2xf32>
}
func.func private @df(%g: tensor<2xf32>) -> tensor<2xf32> {
  func.return %g : tensor<2xf32>
}
func.func @not_captured(%x: tensor<2xf32>) {
  // expected-error@+1 {{output 1 is none of the real outputs, and captured_outputs does not name it}}
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@df, real_outputs = 1, input_vjps = [0], captured_inputs = [], captured_outputs = [], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  fx.output(%u) : (tensor<2xf32>) -> ()
}

// -----

/// Indices are in range, and each stands once.
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  func.return %x : tensor<2xf32>
}
func.func private @df(%g: tensor<2xf32>) -> tensor<2xf32> {
  func.return %g : tensor<2xf32>
}
func.func @range(%x: tensor<2xf32>) {
  // expected-error@+1 {{captured_inputs names 1, but there are only 1}}
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@df, real_outputs = 1, input_vjps = [0], captured_inputs = [1], captured_outputs = [], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  fx.output(%u) : (tensor<2xf32>) -> ()
}

// -----

/// The signature of df is what the indices say: gradients, captured inputs, captured outputs.
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  func.return %x : tensor<2xf32>
}
func.func private @df(%g: tensor<2xf32>) -> tensor<2xf32> {
  func.return %g : tensor<2xf32>
}
func.func @signature(%x: tensor<2xf32>) {
  // expected-error@+1 {{@df is (tensor<2xf32>) -> tensor<2xf32>, but its gradient attribute has (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>}}
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@df, real_outputs = 1, input_vjps = [0], captured_inputs = [0], captured_outputs = [], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  fx.output(%u) : (tensor<2xf32>) -> ()
}

// -----

/// Integers have no gradient.
func.func private @f(%x: tensor<2xi64>) -> tensor<2xi64> {
  func.return %x : tensor<2xi64>
}
func.func private @df(%g: tensor<2xi64>) -> tensor<2xi64> {
  func.return %g : tensor<2xi64>
}
func.func @integer(%x: tensor<2xi64>) {
  // expected-error@+1 {{a value of type tensor<2xi64> has no gradient}}
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@df, real_outputs = 1, input_vjps = [0], captured_inputs = [], captured_outputs = [], output_vjps = [0]>} : (tensor<2xi64>) -> tensor<2xi64>
  fx.output(%u) : (tensor<2xi64>) -> ()
}

// -----

func.func @yield(%g: tensor<2xf32>) {
  // expected-error@+1 {{the body must end in an autodiff.yield of the result types}}
  %p = autodiff.grad_of "mul"(%g) ({
    autodiff.yield %g, %g : tensor<2xf32>, tensor<2xf32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  fx.output(%p) : (tensor<2xf32>) -> ()
}

// -----

/// Gradients are not broadcast.
func.func @add(%g: tensor<2xf32>, %h: tensor<1xf32>) {
  // expected-error@+1 {{autodiff.add is a call with two gradients of one shape and dtype, and a result like them}}
  %p = autodiff.add(%g, %h) : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  fx.output(%p) : (tensor<2xf32>) -> ()
}

// -----

func.func @any(%g: tensor<2xf32>) {
  // expected-error@+1 {{autodiff.any_nonzero is a call with gradients, at least one, whose result is i1}}
  %p = autodiff.any_nonzero() : () -> i1
  fx.output(%g) : (tensor<2xf32>) -> ()
}
