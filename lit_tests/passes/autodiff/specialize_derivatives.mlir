// RUN: fxc-opt %s --split-input-file --pass-pipeline=specialize-derivatives | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=specialize-derivatives,specialize-derivatives | filecheck %s

/// The gradient of the real output is there, that of the temporary is not. f, df and the subgraph stay.
// CHECK:       builtin.module attributes {fxc.test}
// CHECK:         func.func private @f(
// CHECK:         func.func private @f_df(%d_u: tensor<2xf32>, %d_t: tensor<2xf32>, %t: tensor<2xf32>)
// CHECK:         %u = autodiff.subgraph @f(%x)
// CHECK:         builtin.module @f_df_10 attributes {fxc.test, autodiff.implements = @f_df} {
// CHECK-NEXT:      func.func @main(%d_u: tensor<2xf32> {autodiff.defined}, %d_t: tensor<2xf32> {autodiff.undefined}, %t: tensor<2xf32> {autodiff.defined}) -> tensor<2xf32> attributes {plan.boxed}
// CHECK-NEXT:        %a = autodiff.add(%d_u, %d_t)
// CHECK-NOT:       func.func
builtin.module attributes {fxc.test} {
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %u = torch.aten.neg.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u, %t : tensor<2xf32>, tensor<2xf32>
}
func.func private @f_df(%d_u: tensor<2xf32>, %d_t: tensor<2xf32>, %t: tensor<2xf32>) -> tensor<2xf32> {
  %a = autodiff.add(%d_u, %d_t) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %a : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0, 1], captured_inputs = [], captured_outputs = [1], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}
}

// -----

/// What df calls is copied with it, and so are declarations; other functions and modules are not.
// CHECK-LABEL: // -----
// CHECK:       builtin.module @f_df_10
// CHECK-NEXT:    torch.operator @mine.op.default
// CHECK-NEXT:    func.func @main(
// CHECK:           func.call @twice(%d_u)
// CHECK:         func.func private @twice(
// CHECK-NOT:     func.func private @f(
torch.operator @mine.op.default "(Tensor x) -> Tensor" flags "p"
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %u = torch.aten.neg.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u, %t : tensor<2xf32>, tensor<2xf32>
}
func.func private @f_df(%d_u: tensor<2xf32>, %d_t: tensor<2xf32>, %t: tensor<2xf32>) -> tensor<2xf32> {
  %a = func.call @twice(%d_u) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %a : tensor<2xf32>
}
func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = torch.aten.add.Tensor(%x, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0, 1], captured_inputs = [], captured_outputs = [1], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}

// -----

/// Two subgraphs of one f have one module.
// CHECK-LABEL: // -----
// CHECK:       func.func @main
// CHECK:         builtin.module @f_df_10
// CHECK-NOT:     builtin.module
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %u = torch.aten.neg.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u, %t : tensor<2xf32>, tensor<2xf32>
}
func.func private @f_df(%d_u: tensor<2xf32>, %d_t: tensor<2xf32>, %t: tensor<2xf32>) -> tensor<2xf32> {
  %a = autodiff.add(%d_u, %d_t) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %a : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0, 1], captured_inputs = [], captured_outputs = [1], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  %v = autodiff.subgraph @f(%u) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0, 1], captured_inputs = [], captured_outputs = [1], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %v : tensor<2xf32>
}

// -----

/// The name is taken.
// CHECK-LABEL: // -----
// CHECK:       func.func private @f_df_10
// CHECK:         builtin.module @f_df_10_1 attributes {autodiff.implements = @f_df}
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %u = torch.aten.neg.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u, %t : tensor<2xf32>, tensor<2xf32>
}
func.func private @f_df(%d_u: tensor<2xf32>, %d_t: tensor<2xf32>, %t: tensor<2xf32>) -> tensor<2xf32> {
  %a = autodiff.add(%d_u, %d_t) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %a : tensor<2xf32>
}
func.func private @f_df_10() {
  func.return
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0, 1], captured_inputs = [], captured_outputs = [1], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}

// -----

/// A module for another set of gradients is not the one that is wanted.
// CHECK-LABEL: // -----
// CHECK:       builtin.module @other
// CHECK:         builtin.module @f_df_10
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %u = torch.aten.neg.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u, %t : tensor<2xf32>, tensor<2xf32>
}
func.func private @f_df(%d_u: tensor<2xf32>, %d_t: tensor<2xf32>, %t: tensor<2xf32>) -> tensor<2xf32> {
  %a = autodiff.add(%d_u, %d_t) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %a : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0, 1], captured_inputs = [], captured_outputs = [1], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}
builtin.module @other attributes {autodiff.implements = @f_df} {
  func.func @main(%d_u: tensor<2xf32> {autodiff.undefined}, %d_t: tensor<2xf32> {autodiff.defined}, %t: tensor<2xf32> {autodiff.defined}) -> tensor<2xf32> {
    func.return %d_t : tensor<2xf32>
  }
}

// -----

/// A subgraph without a gradient has no derivative.
// CHECK-LABEL: // -----
// CHECK:       func.func @main
// CHECK-NOT:     builtin.module
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %t : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}

// -----

/// A df without a body cannot be copied.
// CHECK-LABEL: // -----
// CHECK:       func.func @main
// CHECK-NOT:     builtin.module
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %u = torch.aten.neg.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u, %t : tensor<2xf32>, tensor<2xf32>
}
func.func private @f_df(tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0, 1], captured_inputs = [], captured_outputs = [1], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}

// -----

/// A subgraph in a module inside this one has symbols of its own.
// CHECK-LABEL: // -----
// CHECK:       builtin.module @inside
// CHECK-NOT:     autodiff.implements
builtin.module @inside {
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %u = torch.aten.neg.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u, %t : tensor<2xf32>, tensor<2xf32>
}
func.func private @f_df(%d_u: tensor<2xf32>, %d_t: tensor<2xf32>, %t: tensor<2xf32>) -> tensor<2xf32> {
  %a = autodiff.add(%d_u, %d_t) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %a : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@f_df, real_outputs = 1, input_vjps = [0, 1], captured_inputs = [], captured_outputs = [1], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u : tensor<2xf32>
}
}
func.func private @other()
