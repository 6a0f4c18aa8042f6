// RUN: fxc-opt %s --pass-pipeline='check-hidden-writes{gradients=true}' | filecheck %s

/// What autograd sees: a view is written, and what it is a view of read; and a tensor of which a detach is read.
// CHECK-LABEL: @seen
// CHECK:         torch.aten.mul_.Tensor(%v, 2)
func.func @seen(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.detach.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten.slice.Tensor(%y, 0, 0, 2) : (tensor<4xf32>) -> tensor<2xf32>
  %w = torch.aten.mul_.Tensor(%v, 2) : (tensor<2xf32>) -> tensor<2xf32>
  %r = torch.aten.mul.Tensor(%y, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

/// Nothing reads the other name, or only what has no gradient.
// CHECK-LABEL: @unread
// CHECK:         torch.aten.mul_.Tensor(%d, 2)
func.func @unread(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>) {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.sin.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.detach.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.mul_.Tensor(%d, 2) : (tensor<4xf32>) -> tensor<4xf32>
  %i = torch.aten.argmax.default(%y) : (tensor<4xf32>) -> tensor<i64>
  func.return %z, %i : tensor<4xf32>, tensor<i64>
}

/// Neither has a gradient.
// CHECK-LABEL: @buffer
// CHECK:         torch.aten.mul_.Tensor(%d, 2)
func.func @buffer(%x: tensor<4xf32> {fx.requires_grad}, %b: tensor<4xf32>) -> tensor<4xf32> {
  %d = torch.aten.detach.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.mul_.Tensor(%d, 2) : (tensor<4xf32>) -> tensor<4xf32>
  %r = torch.aten.mul.Tensor(%x, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}

/// The results of one operator lie side by side.
// CHECK-LABEL: @halves
// CHECK:         torch.aten.mul_.Tensor(%p, 2)
func.func @halves(%x: tensor<4xf32>) -> tensor<2xf32> {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %p, %q = torch.aten.unsafe_chunk.default(%y, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  %w = torch.aten.mul_.Tensor(%p, 2) : (tensor<2xf32>) -> tensor<2xf32>
  %r = torch.aten.mul.Tensor(%p, %q) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

/// A result that may be a view of two tensors does not make them one: %y and %d are of one memory, and different tensors.
// CHECK-LABEL: @either
// CHECK:         torch.aten.mul_.Tensor(%w, 2)
func.func @either(%x: tensor<4xf32>, %a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %h = torch.aten.einsum.default("a,a->a", [%y, %a]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.detach.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten.einsum.default("a,a->a", [%a, %d]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.exp.default(%v) : (tensor<4xf32>) -> tensor<4xf32>
  %u = torch.aten.mul_.Tensor(%w, 2) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %h, %w : tensor<4xf32>, tensor<4xf32>
}

/// A dropout that drops nothing does not write.
// CHECK-LABEL: @idle
// CHECK:         torch.aten.dropout_.default
func.func @idle(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %d = torch.aten.detach.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch.aten.dropout_.default(%d, 0.0, true) : (tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y, %z : tensor<4xf32>, tensor<4xf32>
}
