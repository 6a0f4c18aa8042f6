// RUN: fxc-opt %s --split-input-file --pass-pipeline=create-autodiff-subgraphs | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=create-autodiff-subgraphs,create-autodiff-subgraphs | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline='create-autodiff-subgraphs{threshold=1}' | filecheck %s --check-prefix=ONE
// RUN: fxc-opt %s --split-input-file --pass-pipeline='create-autodiff-subgraphs{threshold=3}' | filecheck %s --check-prefix=THREE

/// A black box splits what it depends on from what depends on it.
// CHECK-LABEL: func.func @black_box
// CHECK-NEXT:    %a, %b = autodiff.subgraph @subgraph(%x, %y)
// CHECK-NEXT:    %n = fx.call_function @operator.neg(%b)
// CHECK-NEXT:    %c = torch.aten.tanh.default(%n)
// CHECK-NEXT:    func.return %c, %a
// ONE-LABEL:   func.func @black_box
// ONE-NEXT:      autodiff.subgraph
// ONE-NEXT:      fx.call_function
// ONE-NEXT:      autodiff.subgraph
// THREE-LABEL: func.func @black_box
// THREE-NEXT:    torch.aten.mul
func.func @black_box(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = torch.aten.mul.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.sigmoid.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %n = fx.call_function @operator.neg(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.tanh.default(%n) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %c, %a : tensor<4xf32>, tensor<4xf32>
}

// -----

/// A diamond with a black box on one side: the consumer may not take in the producer past it, only the other side.
// CHECK-LABEL: func.func @diamond
// CHECK-NEXT:    %a = torch.aten.exp.default(%x)
// CHECK-NEXT:    %n = fx.call_function @operator.neg(%a)
// CHECK-NEXT:    %c = autodiff.subgraph @subgraph(
// CHECK-NEXT:    func.return %c
func.func @diamond(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.sin.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %n = fx.call_function @operator.neg(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.mul.Tensor(%b, %n) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}

// -----

/// Nothing moves past a write or a print.
// CHECK-LABEL: func.func @writes
// CHECK-NEXT:    %a = torch.aten.exp.default(%x)
// CHECK-NEXT:    torch.aten.relu_.default(%y)
// CHECK-NEXT:    %b = torch.aten.mul.Tensor(%a, %y)
func.func @writes(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.relu_.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.mul.Tensor(%a, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

/// A view of an output of the slice is peeled off, with what depends on it.
// CHECK-LABEL: func.func @aliased_outputs
// CHECK-NEXT:    %b = autodiff.subgraph @subgraph(%x)
// CHECK-NEXT:    %p, %q = torch.aten.split.Tensor(%b, 2)
// CHECK-NEXT:    %e = torch.aten.exp.default(%p)
// CHECK-NEXT:    func.return %b, %p, %e
func.func @aliased_outputs(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>, tensor<2xf32>) {
  %a = torch.aten.sin.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.relu.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %p, %q = torch.aten.split.Tensor(%b, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %e = torch.aten.exp.default(%p) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %b, %p, %e : tensor<4xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

/// So is a view of an input; inside, views may stay.
// CHECK-LABEL: func.func @views
// CHECK-NEXT:    %v = torch.aten.t.default(%x)
// CHECK-NEXT:    func.return %v
// CHECK-LABEL: func.func @views_inside
// CHECK-NEXT:    %m = autodiff.subgraph @subgraph(%x)
// CHECK-NEXT:    func.return %m
func.func @views(%x: tensor<2x2xf32>) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>> {
  %v = torch.aten.t.default(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
  func.return %v : tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
}
func.func @views_inside(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %v = torch.aten.t.default(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
  %m = torch.aten.mm.default(%x, %v) : (tensor<2x2xf32>, tensor<2x2xf32, #torch.meta<strides = [1, 2]>>) -> tensor<2x2xf32>
  func.return %m : tensor<2x2xf32>
}

// -----

/// Without a gradient there is no slice.
// CHECK-LABEL: func.func @no_gradient
// CHECK-NOT:     autodiff.subgraph
func.func @no_gradient(%x: tensor<4xf32> {fx.requires_grad}, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = torch.aten.exp.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.sin.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.detach.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.tanh.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b, %c : tensor<4xf32>, tensor<4xf32>
}

// -----

/// Constants are copied in and do not count; each branch of an if has its own slices.
// CHECK-LABEL: func.func @branches
// CHECK:         scf.if %p -> (tensor<2xf32>) {
// CHECK-NEXT:      %b = autodiff.subgraph @subgraph(%x)
// CHECK-NEXT:      scf.yield %b
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %d = torch.aten.mul.Tensor(%x, %k)
// CHECK-LABEL: func.func private @subgraph(
// CHECK:         torch.constant
func.func @branches(%p: i1, %x: tensor<2xf32>) -> tensor<2xf32> {
  %k = torch.constant([1.0, 2.0]) : tensor<2xf32>
  %r = scf.if %p -> (tensor<2xf32>) {
    %a = torch.aten.mul.Tensor(%x, %k) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %b = torch.aten.sin.default(%a) : (tensor<2xf32>) -> tensor<2xf32>
    scf.yield %b : tensor<2xf32>
  } else {
    %d = torch.aten.mul.Tensor(%x, %k) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    scf.yield %d : tensor<2xf32>
  }
  func.return %r : tensor<2xf32>
}

// -----

/// Draws stay in their order: the slice of the second dropout takes in the first, which was drawn before.
// CHECK-LABEL: func.func @draws
// CHECK-NEXT:    %r = torch.aten.rand.default([4])
// CHECK-NEXT:    %b, %c = autodiff.subgraph
func.func @draws(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %r = torch.aten.rand.default([4]) : () -> tensor<4xf32>
  %b = torch.aten.dropout.default(%x, 0.5, true) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.dropout.default(%b, 0.5, true) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %r, %b, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

/// Whether an operator returns its argument, which its schema does not declare, is PyTorch's answer at these arguments.
// CHECK-LABEL: func.func @fresh
// CHECK-NEXT:    autodiff.subgraph
// CHECK-NEXT:    func.return
// CHECK-LABEL: func.func @same
// CHECK-NEXT:    autodiff.subgraph
// CHECK-NEXT:    torch.aten.dropout.default
func.func @fresh(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<f32>) {
  %a = torch.aten.exp.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = torch.aten.sin.default(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = torch.aten.linalg_norm.default(%b) : (tensor<2x3xf32>) -> tensor<f32>
  func.return %b, %c : tensor<2x3xf32>, tensor<f32>
}
func.func @same(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %a = torch.aten.exp.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = torch.aten.sin.default(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = torch.aten.dropout.default(%b, 0.5, false) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %b, %c : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

/// A recurrent layer stays one call: PyTorch's is faster than the operators of its steps.
// CHECK-LABEL: func.func @recurrent
// CHECK-NEXT:    autodiff.subgraph
// CHECK-NEXT:    torch.aten.gru.input
// CHECK-NEXT:    autodiff.subgraph
// CHECK-NEXT:    func.return
func.func @recurrent(%x: tensor<4x1x2xf32>, %h: tensor<1x1x3xf32>, %w: tensor<9x2xf32>, %u: tensor<9x3xf32>) -> tensor<4x1x3xf32> {
  %a = torch.aten.exp.default(%x) : (tensor<4x1x2xf32>) -> tensor<4x1x2xf32>
  %b = torch.aten.sin.default(%a) : (tensor<4x1x2xf32>) -> tensor<4x1x2xf32>
  %y, %last = torch.aten.gru.input(%b, %h, [%w, %u], false, 1, 0.0, true, false, false) : (tensor<4x1x2xf32>, tensor<1x1x3xf32>, tensor<9x2xf32>, tensor<9x3xf32>) -> (tensor<4x1x3xf32>, tensor<1x1x3xf32>)
  %c = torch.aten.exp.default(%y) : (tensor<4x1x3xf32>) -> tensor<4x1x3xf32>
  %d = torch.aten.sin.default(%c) : (tensor<4x1x3xf32>) -> tensor<4x1x3xf32>
  func.return %d : tensor<4x1x3xf32>
}
