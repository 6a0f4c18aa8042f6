// RUN: fxc-opt %s --split-input-file | filecheck %s
// RUN: fxc-opt %s --split-input-file | fxc-opt --split-input-file | filecheck %s
// RUN: fxc-opt %s --split-input-file --print-op-generic | fxc-opt --split-input-file | filecheck %s

/// A subgraph without a derivative is a call.
// CHECK-LABEL: func.func @call
// CHECK-NEXT:    %u, %t = autodiff.subgraph @f(%x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %u = torch.aten.tanh.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u, %t : tensor<2xf32>, tensor<2xf32>
}
func.func @call(%x: tensor<2xf32>) {
  %u, %t = autodiff.subgraph @f(%x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  fx.output((%u, %t)) : (tensor<2xf32>, tensor<2xf32>) -> ()
}

// -----

/// With one, the outputs behind the real ones are not its results.
// CHECK-LABEL: func.func @gradient
// CHECK-NEXT:    %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@df, real_outputs = 1, input_vjps = [0, 1], captured_inputs = [], captured_outputs = [1, 0], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
func.func private @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %t = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %u = torch.aten.tanh.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %u, %t : tensor<2xf32>, tensor<2xf32>
}
func.func private @df(%du: tensor<2xf32>, %dt: tensor<2xf32>, %t: tensor<2xf32>, %u: tensor<2xf32>) -> tensor<2xf32> {
  func.return %du : tensor<2xf32>
}
func.func @gradient(%x: tensor<2xf32>) {
  %u = autodiff.subgraph @f(%x) {gradient = #autodiff.gradient<@df, real_outputs = 1, input_vjps = [0, 1], captured_inputs = [], captured_outputs = [1, 0], output_vjps = [0]>} : (tensor<2xf32>) -> tensor<2xf32>
  fx.output((%u,)) : (tensor<2xf32>) -> ()
}

// -----

/// The ops of gradients. The body of grad_of reads what is around it.
// CHECK-LABEL: func.func @gradients
// CHECK-NEXT:    %p, %q = autodiff.grad_of "mul"(%g) ({
// CHECK-NEXT:      %a = torch.aten.mul.Tensor(%g, %x)
// CHECK-NEXT:      autodiff.yield %a, %g : tensor<2x3xf32>, tensor<2x3xf32>
// CHECK-NEXT:    }) : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK-NEXT:    %there = autodiff.any_nonzero(%p, %q) : (tensor<2x3xf32>, tensor<2x3xf32>) -> i1
// CHECK-NEXT:    %z = autodiff.zero : tensor<2x3xf32>
// CHECK-NEXT:    %s = autodiff.add(%p, %z) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:    %r = autodiff.sum_to_size(%s, [1, 3]) : (tensor<2x3xf32>) -> tensor<1x3xf32>
// CHECK-NEXT:    %k = autodiff.sum_to_size(%s, none) : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:    %m = autodiff.materialize(%r, [1, 3]) : (tensor<1x3xf32>) -> tensor<1x3xf32>
func.func @gradients(%g: tensor<2x3xf32>, %x: tensor<2x3xf32>) {
  %p, %q = autodiff.grad_of "mul"(%g) ({
    %a = torch.aten.mul.Tensor(%g, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    autodiff.yield %a, %g : tensor<2x3xf32>, tensor<2x3xf32>
  }) : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  %there = autodiff.any_nonzero(%p, %q) : (tensor<2x3xf32>, tensor<2x3xf32>) -> i1
  %z = autodiff.zero : tensor<2x3xf32>
  %s = autodiff.add(%p, %z) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %r = autodiff.sum_to_size(%s, [1, 3]) : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %k = autodiff.sum_to_size(%s, none) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %m = autodiff.materialize(%r, [1, 3]) : (tensor<1x3xf32>) -> tensor<1x3xf32>
  fx.output((%m, %k, %q)) : (tensor<1x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}
