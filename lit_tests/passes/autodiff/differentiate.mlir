// RUN: fxc-opt %s --split-input-file --pass-pipeline=differentiate | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=differentiate,differentiate | filecheck %s

/// Two ways to one input: their gradients are added. What df needs of the forward f returns, with a gradient of its own.
// CHECK-LABEL: func.func private @diamond
// CHECK:         func.return %c, %a, %b
// CHECK-LABEL: func.func private @diamond_df(%d_c: {{.*}}, %d_a: {{.*}}, %d_b: {{.*}}, %x: {{.*}}, %a: {{.*}}, %b: {{.*}})
// CHECK-NEXT:    %d_a_1, %d_b_1 = autodiff.grad_of "aten.mul.Tensor"(%d_c) ({
// CHECK:         %0 = autodiff.add(%d_a, %d_a_1)
// CHECK-NEXT:    %1 = autodiff.add(%d_b, %d_b_1)
// CHECK-NEXT:    %d_x = autodiff.grad_of "aten.sin.default"(%1) ({
// CHECK:         %d_x_1 = autodiff.grad_of "aten.exp.default"(%0) ({
// CHECK:         %2 = autodiff.add(%d_x, %d_x_1)
// CHECK-NEXT:    func.return %2
// CHECK-LABEL: func.func @main
// CHECK:         gradient = #autodiff.gradient<@diamond_df, real_outputs = 1, input_vjps = [0, 1, 2], captured_inputs = [0], captured_outputs = [1, 2], output_vjps = [0]>
func.func private @diamond(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = torch.aten.sin.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %c = torch.aten.mul.Tensor(%a, %b) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %c : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) {
  %c = autodiff.subgraph @diamond(%x) : (tensor<2xf32>) -> tensor<2xf32>
  fx.output(%c) : (tensor<2xf32>) -> ()
}

// -----

/// Each position of an output has a gradient; what df reads is captured as the first.
// CHECK-LABEL: func.func private @twice_df(%d_u: {{.*}}, %d_u_1: {{.*}}, %u: {{.*}})
// CHECK-NEXT:    %0 = autodiff.add(%d_u, %d_u_1)
// CHECK:         input_vjps = [0, 1], captured_inputs = [], captured_outputs = [0], output_vjps = [0]
func.func private @twice(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %u = torch.aten.tanh.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
  func.return %u, %u : tensor<3xf32>, tensor<3xf32>
}
func.func @main(%x: tensor<3xf32>) {
  %c, %d = autodiff.subgraph @twice(%x) : (tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  fx.output((%c, %d)) : (tensor<3xf32>, tensor<3xf32>) -> ()
}

// -----

/// A value that is both input and output is captured as output.
// CHECK-LABEL: func.func private @f(
// CHECK:         func.return %v, %x, %u
// CHECK:         real_outputs = 2, input_vjps = [0, 1, 2], captured_inputs = [], captured_outputs = [1, 2], output_vjps = [0]
func.func private @f(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %u = torch.aten.exp.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %v = torch.aten.mul.Tensor(%u, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %v, %x : tensor<3xf32>, tensor<3xf32>
}
func.func @main(%x: tensor<3xf32>) {
  %c, %d = autodiff.subgraph @f(%x) : (tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  fx.output((%c, %d)) : (tensor<3xf32>, tensor<3xf32>) -> ()
}

// -----

/// The gradient of what was broadcast is summed; of a tensor whose size alone is needed the size is captured.
// CHECK-LABEL: func.func private @broadcast(
// CHECK:         %sym_size_int = torch.aten.sym_size.int(%s, 0)
// CHECK:         func.return %u, %sym_size_int
// CHECK-LABEL: func.func private @broadcast_df(%d_u: tensor<f32>, %sym_size_int: !torch.int<"s0">)
// CHECK:         torch.aten.sum.dim_IntList({{.*}}, [0], true)
// CHECK:         captured_inputs = [], captured_outputs = [1], output_vjps = [0, 1]
builtin.module attributes {torch.symbols = {s0 = {hint = 4, min = 2}}} {
func.func private @broadcast(%x: tensor<?x3xf32, #torch.meta<sizes=["s0", 3]>>, %y: tensor<3xf32>) -> tensor<f32> {
  %s = torch.aten.add.Tensor(%x, %y) : (tensor<?x3xf32, #torch.meta<sizes=["s0", 3]>>, tensor<3xf32>) -> tensor<?x3xf32, #torch.meta<sizes=["s0", 3]>>
  %u = torch.aten.sum.default(%s) : (tensor<?x3xf32, #torch.meta<sizes=["s0", 3]>>) -> tensor<f32>
  func.return %u : tensor<f32>
}
func.func @main(%x: tensor<?x3xf32, #torch.meta<sizes=["s0", 3]>>, %y: tensor<3xf32>) {
  %c = autodiff.subgraph @broadcast(%x, %y) : (tensor<?x3xf32, #torch.meta<sizes=["s0", 3]>>, tensor<3xf32>) -> tensor<f32>
  fx.output((%c,)) : (tensor<f32>) -> ()
}
}

// -----

/// Constants are not captured, but copied. An input that nothing differentiable reads has no gradient; integers have none.
// CHECK-LABEL: func.func private @f_df(%d_r: tensor<2xf32>)
// CHECK-NEXT:    %k = torch.constant([2.0, 3.0]) : tensor<2xf32>
// CHECK:         captured_inputs = [], captured_outputs = [], output_vjps = [0]
func.func private @f(%x: tensor<2xf32>, %unused: tensor<2xf32>, %compared: tensor<2xf32>, %i: tensor<2xi64>) -> (tensor<2xf32>, tensor<2xi1>) {
  %k = torch.constant([2.0, 3.0]) : tensor<2xf32>
  %r = torch.aten.mul.Tensor(%x, %k) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %m = torch.aten.gt.Tensor(%compared, %i) : (tensor<2xf32>, tensor<2xi64>) -> tensor<2xi1>
  func.return %r, %m : tensor<2xf32>, tensor<2xi1>
}
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>, %z: tensor<2xf32>, %i: tensor<2xi64>) {
  %c, %m = autodiff.subgraph @f(%x, %y, %z, %i) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xi64>) -> (tensor<2xf32>, tensor<2xi1>)
  fx.output((%c, %m)) : (tensor<2xf32>, tensor<2xi1>) -> ()
}

// -----

/// The mask of a dropout is drawn once, in f, and saved.
// CHECK-LABEL: func.func private @dropout(
// CHECK-NEXT:    %empty_like = torch.aten.empty_like.default(%x)
// CHECK-NEXT:    %bernoulli = torch.aten.bernoulli.p(%empty_like, 0.5)
// CHECK-NEXT:    %div = torch.aten.div.Scalar(%bernoulli, 0.5)
// CHECK-NEXT:    %y = torch.aten.mul.Tensor(%x, %div)
// CHECK-NEXT:    func.return %y, %div
// CHECK-LABEL: func.func private @dropout_df(%d_y: tensor<4xf32>, %div: tensor<4xf32> {fx.frozen})
// CHECK-NOT:     bernoulli
// CHECK:         real_outputs = 1, input_vjps = [0], captured_inputs = [], captured_outputs = [1]
func.func private @dropout(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.dropout.default(%x, 0.5, true) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) {
  %y = autodiff.subgraph @dropout(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%y,)) : (tensor<4xf32>) -> ()
}

// -----

/// A list of tensors: one backward for all results; one of the gradients may be undefined where it runs.
// CHECK-LABEL: func.func private @split_df
// CHECK-NEXT:    %d_x = autodiff.grad_of "aten.split.Tensor"(%d_a, %d_b) ({
// CHECK-NEXT:      %0 = autodiff.materialize(%d_a, [2])
// CHECK-NEXT:      %1 = autodiff.materialize(%d_b, [2])
// CHECK-NEXT:      %cat = torch.aten.cat.default([%0, %1])
func.func private @split(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %a, %b = torch.aten.split.Tensor(%x, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  func.return %a, %b : tensor<2xf32>, tensor<2xf32>
}
func.func @main(%x: tensor<4xf32>) {
  %a, %b = autodiff.subgraph @split(%x) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  fx.output((%a, %b)) : (tensor<2xf32>, tensor<2xf32>) -> ()
}

// -----

/// What is marked not to need a gradient gets none: arguments of f, and results of ops.
// CHECK-LABEL: func.func private @flags_df(%d_z: tensor<2xf32>, %y: tensor<2xf32> {fx.frozen})
// CHECK:         output_vjps = [0]
func.func private @flags(%x: tensor<2xf32> {fx.requires_grad}, %w: tensor<2xf32>) -> tensor<2xf32> {
  %y = torch.aten.sin.default(%x) {requires_grad = [false]} : (tensor<2xf32>) -> tensor<2xf32>
  %v = torch.aten.mul.Tensor(%y, %w) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %z = torch.aten.mul.Tensor(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %z : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>, %w: tensor<2xf32>) {
  %z = autodiff.subgraph @flags(%x, %w) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  fx.output((%z,)) : (tensor<2xf32>) -> ()
}

// -----

/// A function that others use too is copied first; equal subgraphs share one derivative.
// CHECK-LABEL: func.func private @shared(
// CHECK-NEXT:    %y = torch.aten.exp.default(%x)
// CHECK-LABEL: func.func private @shared_1(
// CHECK-LABEL: func.func private @shared_1_df(
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %a = autodiff.subgraph @shared_1(%x) {gradient = #autodiff.gradient<@shared_1_df
// CHECK-NEXT:    %b = autodiff.subgraph @shared_1(%a) {gradient = #autodiff.gradient<@shared_1_df
// CHECK-NEXT:    %c = func.call @shared(%b)
func.func private @shared(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = torch.aten.exp.default(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = autodiff.subgraph @shared(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = autodiff.subgraph @shared(%a) : (tensor<2xf32>) -> tensor<2xf32>
  %c = func.call @shared(%b) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %c : tensor<2xf32>
}

// -----

/// A gradient that is summed in another layout than it was first made in: what is done with it is done with the sum.
// CHECK-LABEL: func.func private @layouts_df
// CHECK:         autodiff.grad_of "aten.t.default"(%{{[0-9]+}}) ({
// CHECK-NEXT:      {{.*}} = torch.aten.t.default(%{{[0-9]+}}) : (tensor<2x3xf32>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
func.func private @layouts(%x: tensor<3x2xf32>, %w: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %e = torch.aten.exp.default(%x) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %v = torch.aten.t.default(%e) : (tensor<3x2xf32>) -> tensor<2x3xf32, #torch.meta<strides = [1, 2]>>
  %c = torch.aten.clone.default(%v, memory_format = torch.contiguous_format) : (tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) -> tensor<2x3xf32>
  %s = torch.aten.sum.default(%c) : (tensor<2x3xf32>) -> tensor<f32>
  %m = torch.aten.mm.default(%v, %w) : (tensor<2x3xf32, #torch.meta<strides = [1, 2]>>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %r = torch.aten.mul.Tensor(%m, %s) : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  func.return %r : tensor<2x4xf32>
}
func.func @main(%x: tensor<3x2xf32>, %w: tensor<3x4xf32>) {
  %y = autodiff.subgraph @layouts(%x, %w) : (tensor<3x2xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  fx.output((%y,)) : (tensor<2x4xf32>) -> ()
}
