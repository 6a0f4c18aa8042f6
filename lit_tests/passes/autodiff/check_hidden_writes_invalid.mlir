// RUN: fxc-opt %s --split-input-file --verify-diagnostics --pass-pipeline='check-hidden-writes{gradients=true}'

func.func @detached(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.detach.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{autograd does not see that it is written}}
  %w = torch.aten.mul_.Tensor(%d, 2) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

/// By a view of a detach, and read by a view.
func.func @views(%x: tensor<4xf32>) -> tensor<2xf32> {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.detach.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.slice.Tensor(%d, 0, 0, 2) : (tensor<4xf32>) -> tensor<2xf32>
  // expected-error@+1 {{autograd does not see that it is written}}
  %w = torch.aten.mul_.Tensor(%s, 2) : (tensor<2xf32>) -> tensor<2xf32>
  %t = torch.aten.slice.Tensor(%y, 0, 0, 2) : (tensor<4xf32>) -> tensor<2xf32>
  %r = torch.aten.neg.default(%t) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// -----

func.func @chunk(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %p, %q = torch.aten.unsafe_chunk.default(%y, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  // expected-error@+1 {{autograd does not see that it is written}}
  %w = torch.aten.mul_.Tensor(%p, 2) : (tensor<2xf32>) -> tensor<2xf32>
  %r = torch.aten.mul.Tensor(%y, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

/// The whole is written, and a half read.
func.func @whole(%x: tensor<4xf32>) -> tensor<2xf32> {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %p, %q = torch.aten.unsafe_chunk.default(%y, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  // expected-error@+1 {{autograd does not see that it is written}}
  %w = torch.aten.mul_.Tensor(%y, 2) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %p : tensor<2xf32>
}

// -----

/// What is written gets a gradient that the tensor itself does not have.
func.func @gains(%x: tensor<4xf32> {fx.requires_grad}, %b: tensor<4xf32>) -> tensor<4xf32> {
  %d = torch.aten.detach.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{autograd does not see that it is written}}
  %w = torch.aten.mul_.Tensor(%d, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = torch.aten.neg.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

/// Results that may be views of %a and of %y, or of %a and of %d, do not make %y and %d one tensor.
func.func @either(%x: tensor<4xf32>, %a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %h = torch.aten.einsum.default("a,a->a", [%y, %a]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.detach.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten.einsum.default("a,a->a", [%a, %d]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{autograd does not see that it is written}}
  %w = torch.aten.mul_.Tensor(%d, 2) : (tensor<4xf32>) -> tensor<4xf32>
  %r = torch.aten.neg.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %h, %v, %r : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

/// What is written to a tensor that is detached from another has a gradient, which functionalization would detach, too.
func.func @detached(%x: tensor<4xf32> {fx.requires_grad}) -> tensor<2x2xf32> {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.detach.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten.view.default(%d, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  // expected-error@+1 {{the gradient of what was written would be lost}}
  %w = torch.aten.mul_.Tensor(%d, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = torch.aten.neg.default(%v) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %r : tensor<2x2xf32>
}

// -----

/// The caller reads %x, of which its gradient is that of the old elements.
func.func @caller(%x: tensor<4xf32> {fx.requires_grad}) -> tensor<4xf32> {
  %r = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.detach.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{autograd does not see that it is written}}
  %w = torch.aten.mul_.Tensor(%d, 2) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
