// RUN: fxc-opt %s --split-input-file --reorder-for-memory | filecheck %s
// RUN: fxc-opt %s --split-input-file --reorder-for-memory --reorder-for-memory | filecheck %s

/// Each large value is used up before the next is made.
// CHECK-LABEL: func.func @sums
// CHECK-NEXT:    %a = torch.aten.exp.default
// CHECK-NEXT:    %p = torch.aten.sum.default(%a)
// CHECK-NEXT:    %b = torch.aten.sin.default
// CHECK-NEXT:    %q = torch.aten.sum.default(%b)
func.func @sums(%x: tensor<64xf32>) -> tensor<f32> {
  %a = torch.aten.exp.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %b = torch.aten.sin.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %p = torch.aten.sum.default(%a) : (tensor<64xf32>) -> tensor<f32>
  %q = torch.aten.sum.default(%b) : (tensor<64xf32>) -> tensor<f32>
  %s = torch.aten.add.Tensor(%p, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return %s : tensor<f32>
}

// -----

/// No order is better: the given one stays.
// CHECK-LABEL: func.func @returned
// CHECK-NEXT:    %a = torch.aten.exp.default
// CHECK-NEXT:    %b = torch.aten.sin.default
// CHECK-NEXT:    %p = torch.aten.sum.default(%a)
func.func @returned(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<f32>) {
  %a = torch.aten.exp.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %b = torch.aten.sin.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %p = torch.aten.sum.default(%a) : (tensor<64xf32>) -> tensor<f32>
  fx.output((%a, %b, %p)) : (tensor<64xf32>, tensor<64xf32>, tensor<f32>) -> ()
}

// -----

/// A view holds its storage: it is not the view that is released.
// CHECK-LABEL: func.func @views
// CHECK-NEXT:    %a = torch.aten.exp.default
// CHECK-NEXT:    %v = torch.aten.view.default(%a
// CHECK-NEXT:    %p = torch.aten.sum.default(%v)
// CHECK-NEXT:    %b = torch.aten.sin.default
func.func @views(%x: tensor<8x8xf32>) -> (tensor<f32>, tensor<f32>) {
  %a = torch.aten.exp.default(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = torch.aten.sin.default(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %v = torch.aten.view.default(%a, [64]) : (tensor<8x8xf32>) -> tensor<64xf32>
  %p = torch.aten.sum.default(%v) : (tensor<64xf32>) -> tensor<f32>
  %q = torch.aten.sum.default(%b) : (tensor<8x8xf32>) -> tensor<f32>
  fx.output((%p, %q)) : (tensor<f32>, tensor<f32>) -> ()
}

// -----

/// Random operators keep their order, though another one would need less memory.
// CHECK-LABEL: func.func @random
// CHECK-NEXT:    %a = torch.aten.bernoulli.p(%x, 0.5)
// CHECK-NEXT:    %b = torch.aten.bernoulli.p(%x, 0.5)
// CHECK-NEXT:    %p = torch.aten.sum.default(%b)
// CHECK-NEXT:    %e = torch.aten.expand.default(%p
// CHECK-NEXT:    %d = torch.aten.dot.default(%a, %e)
func.func @random(%x: tensor<64xf32>) -> tensor<f32> {
  %a = torch.aten.bernoulli.p(%x, 0.5) : (tensor<64xf32>) -> tensor<64xf32>
  %b = torch.aten.bernoulli.p(%x, 0.5) : (tensor<64xf32>) -> tensor<64xf32>
  %p = torch.aten.sum.default(%b) : (tensor<64xf32>) -> tensor<f32>
  %e = torch.aten.expand.default(%p, [64]) : (tensor<f32>) -> tensor<64xf32, #torch.meta<strides = [0]>>
  %d = torch.aten.dot.default(%a, %e) : (tensor<64xf32>, tensor<64xf32, #torch.meta<strides = [0]>>) -> tensor<f32>
  func.return %d : tensor<f32>
}

// -----

/// Pure operators in the same places do not.
// CHECK-LABEL: func.func @pure
// CHECK-NEXT:    %b = torch.aten.sin.default(%x)
// CHECK-NEXT:    %p = torch.aten.sum.default(%b)
// CHECK-NEXT:    %e = torch.aten.expand.default(%p
// CHECK-NEXT:    %a = torch.aten.exp.default(%x)
// CHECK-NEXT:    %d = torch.aten.dot.default(%a, %e)
func.func @pure(%x: tensor<64xf32>) -> tensor<f32> {
  %a = torch.aten.exp.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %b = torch.aten.sin.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %p = torch.aten.sum.default(%b) : (tensor<64xf32>) -> tensor<f32>
  %e = torch.aten.expand.default(%p, [64]) : (tensor<f32>) -> tensor<64xf32, #torch.meta<strides = [0]>>
  %d = torch.aten.dot.default(%a, %e) : (tensor<64xf32>, tensor<64xf32, #torch.meta<strides = [0]>>) -> tensor<f32>
  func.return %d : tensor<f32>
}

// -----

/// Nothing passes a write, also what would be better before it.
// CHECK-LABEL: func.func @writes
// CHECK-NEXT:    %a = torch.aten.exp.default(%x)
// CHECK-NEXT:    %0 = torch.aten.copy_.default(%x
// CHECK-NEXT:    %p = torch.aten.sum.default(%a)
// CHECK-NEXT:    %b = torch.aten.sin.default(%x)
// CHECK-NEXT:    %q = torch.aten.sum.default(%b)
func.func @writes(%x: tensor<64xf32>, %y: tensor<64xf32>) -> (tensor<f32>, tensor<f32>) {
  %a = torch.aten.exp.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %0 = torch.aten.copy_.default(%x, %y) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %b = torch.aten.sin.default(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %q = torch.aten.sum.default(%b) : (tensor<64xf32>) -> tensor<f32>
  %p = torch.aten.sum.default(%a) : (tensor<64xf32>) -> tensor<f32>
  fx.output((%p, %q)) : (tensor<f32>, tensor<f32>) -> ()
}

// -----

/// The backward of a step releases tangents and saved tensors after their last use, but neither primals nor results.
// CHECK:       builtin.module @backward
// CHECK:         func.func @main(%w: tensor<64xf32>, %y: tensor<64xf32>, %t: tensor<64xf32>,
// CHECK-NEXT:      %q = torch.aten.dot.default(%t, %d)
// CHECK-NEXT:      %a = torch.aten.exp.default(%w)
// CHECK-NEXT:      %p = torch.aten.dot.default(%w, %y)
builtin.module @forward {
  func.func @main(%w: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
    %y = torch.aten.sin.default(%w) : (tensor<64xf32>) -> tensor<64xf32>
    %t = torch.aten.tanh.default(%w) : (tensor<64xf32>) -> tensor<64xf32>
    fx.output((%y, %w, %y, %t)) : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) -> ()
  }
}
builtin.module @backward {
  func.func @main(%w: tensor<64xf32>, %y: tensor<64xf32>, %t: tensor<64xf32>, %d: tensor<64xf32> {autodiff.tangent}) -> (tensor<64xf32>, tensor<f32>, tensor<f32>) {
    %a = torch.aten.exp.default(%w) : (tensor<64xf32>) -> tensor<64xf32>
    %p = torch.aten.dot.default(%w, %y) : (tensor<64xf32>, tensor<64xf32>) -> tensor<f32>
    %q = torch.aten.dot.default(%t, %d) : (tensor<64xf32>, tensor<64xf32>) -> tensor<f32>
    fx.output((%a, %p, %q)) : (tensor<64xf32>, tensor<f32>, tensor<f32>) -> ()
  }
}

// -----

/// A module of that name without another is no step: nothing says which arguments are released.
// CHECK:       builtin.module @backward
// CHECK:           %a = torch.aten.exp.default(%w)
// CHECK-NEXT:      %q = torch.aten.dot.default(%t, %d)
builtin.module @backward {
  func.func @main(%w: tensor<64xf32>, %t: tensor<64xf32>, %d: tensor<64xf32> {autodiff.tangent}) -> (tensor<64xf32>, tensor<f32>) {
    %a = torch.aten.exp.default(%w) : (tensor<64xf32>) -> tensor<64xf32>
    %q = torch.aten.dot.default(%t, %d) : (tensor<64xf32>, tensor<64xf32>) -> tensor<f32>
    fx.output((%a, %q)) : (tensor<64xf32>, tensor<f32>) -> ()
  }
}

// -----

/// Symbolic sizes have their hints.
// CHECK:       func.func @symbols
// CHECK-NEXT:    %a = torch.aten.exp.default
// CHECK-NEXT:    %p = torch.aten.sum.default(%a)
builtin.module attributes {torch.symbols = {s0 = {hint = 10, min = 2, max = 100}}} {
  func.func @symbols(%x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> (tensor<f32>, tensor<f32>) {
    %a = torch.aten.exp.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
    %b = torch.aten.sin.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
    %p = torch.aten.sum.default(%a) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<f32>
    %q = torch.aten.sum.default(%b) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<f32>
    fx.output((%p, %q)) : (tensor<f32>, tensor<f32>) -> ()
  }
}
