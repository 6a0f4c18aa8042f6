// RUN: fxc-opt %s --split-input-file --verify-diagnostics --pass-pipeline=split-joint | filecheck %s --allow-empty

// CHECK-NOT: builtin.module @forward

func.func @neither_saved_nor_recomputed(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  // expected-error @below {{the backward reads %y, which is not marked autodiff.saved, and the operation is not marked autodiff.recomputed}}
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.mul.Tensor(%d, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

func.func @effect(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  // expected-error @below {{the backward reads %y, which is not marked autodiff.saved, and the operation has an effect, so it runs once}}
  %y = torch._c10d_functional.all_reduce.default(%x, "sum", "0") {autodiff.recomputed} : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.mul.Tensor(%d, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

// expected-error @below {{the forward returns %g, which depends on a gradient; autodiff.forward_results is too large}}
func.func @too_many_results(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 2 : i64} {
  %g = torch.aten.mul.Tensor(%d, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%x, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

func.func @saved_gradient(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  // expected-error @below {{it depends on a gradient, so the forward can neither run it nor save its results}}
  %g = torch.aten.mul.Tensor(%d, %x) {autodiff.saved = array<i64: 0>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%x, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

func.func @no_such_result(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  // expected-error @below {{autodiff.saved is array<i64: 1>, but an array<i64> of indices of the 1 results is expected}}
  %y = torch.aten.exp.default(%x) {autodiff.saved = array<i64: 1>} : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.mul.Tensor(%d, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %g]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

// expected-error @below {{autodiff.forward_results is 3, but @too_few_values returns 2 values}}
func.func @too_few_values(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 3 : i64} {
  fx.output([%x, %d]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}
