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


// -----

// expected-error @below {{the argument %x cannot be marked: remove autodiff.saved, as a primal that the backward reads is always saved}}
func.func @argument(%x: tensor<4xf32> {autodiff.saved = array<i64: 0>}, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  fx.output([%x, %d]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

// expected-error @below {{autodiff.tangent has no value, but here it is false}}
func.func @tangent(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent = false})
attributes {autodiff.forward_results = 1 : i64} {
  fx.output([%x, %d]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

// expected-error @below {{autodiff.forward_results is "1", but an integer is expected}}
func.func @no_number(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = "1"} {
  fx.output([%x, %d]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

func.func @no_indices(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  // expected-error @below {{autodiff.saved is array<f32: 5.000000e-01>, but an array<i64> of indices of the 1 results is expected}}
  %y = torch.aten.exp.default(%x) {autodiff.saved = array<f32: 0.5>} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %d]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

func.func @value_of_a_mark(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  // expected-error @below {{autodiff.recomputed has no value, but here it is false; remove the value, or the mark}}
  %y = torch.aten.exp.default(%x) {autodiff.recomputed = false} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %d]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

func.func @misspelled(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  // expected-error @below {{autodiff.save is no mark of an operation; autodiff.saved, autodiff.recomputed, autodiff.part, autodiff.offloaded are}}
  %y = torch.aten.exp.default(%x) {autodiff.save = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %d]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

func.func @no_part(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  // expected-error @below {{autodiff.part is "middle", but "forward" or "backward" is expected}}
  %y = torch.aten.exp.default(%x) {autodiff.part = "middle"} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %d]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

func.func @saved_and_backward(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  // expected-error @below {{it is marked autodiff.part, so the forward can neither run it nor save its results}}
  %y = torch.aten.exp.default(%x) {autodiff.saved = array<i64: 0>, autodiff.part = "backward"} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output([%x, %y]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

func.func @region(%p: tensor<i1>, %x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  %r = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%y: tensor<4xf32>):
    // expected-error @below {{autodiff.recomputed is in a region; mark the operation around it}}
    %a = torch.aten.exp.default(%y) {autodiff.recomputed} : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%a,)) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%y: tensor<4xf32>):
    %c = torch.aten.sin.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%c,)) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  fx.output([%r, %d]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

func.func @not_saved(%x: tensor<4xf32>, %d: tensor<4xf32> {autodiff.tangent})
attributes {autodiff.forward_results = 1 : i64} {
  // expected-error @below {{autodiff.offloaded is array<i64: 0>, but not all of these results are marked autodiff.saved}}
  %y = torch.aten.exp.default(%x) {autodiff.offloaded = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output([%y, %d]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

!g = tensor<4xf32, #torch.meta<strides = [2]>>
func.func @gaps(%x: !g, %d: tensor<4xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  // expected-error @below {{%y of type tensor<4xf32, #torch.meta<strides = [2]>> is marked autodiff.offloaded, but its elements have gaps; remove the mark}}
  %y = torch.aten.exp.default(%x) {autodiff.saved = array<i64: 0>, autodiff.offloaded = array<i64: 0>} : (!g) -> !g
  %z = torch.aten.sin.default(%y) : (!g) -> tensor<4xf32>
  %e = torch.aten.mul.Tensor(%d, %y) : (tensor<4xf32>, !g) -> tensor<4xf32>
  fx.output([%z, %e]) : (tensor<4xf32>, tensor<4xf32>) -> ()
}
