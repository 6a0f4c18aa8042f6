// RUN: fxc-opt %s --split-input-file -p outline-repeated | filecheck %s
// RUN: fxc-opt %s --split-input-file -p outline-repeated,outline-repeated,inline,symbol-dce | filecheck %s
// RUN: fxc-opt %s --split-input-file -p outline-repeated{shortest=6} | filecheck %s --check-prefix=SIX
// RUN: fxc-opt %s --split-input-file -p outline-repeated{least=4} | filecheck %s --check-prefix=FOUR

/// Three runs: the first product to the last addition; weights and what comes from the run before are arguments.
// CHECK-LABEL: func.func @layers
// CHECK-NEXT:    %c = func.call @repeated(%x, %u) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT:    %f = func.call @repeated(%c, %v) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT:    %i = func.call @repeated(%f, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT:    fx.output(%i)
// CHECK:       func.func private @repeated(%x: tensor<4x4xf32>, %u: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {no_inline} {
// CHECK-NEXT:    %a = torch.aten.mm.default(%x, %u)
// CHECK-NEXT:    %b = torch.aten.relu.default(%a)
// CHECK-NEXT:    %t = torch.aten.tanh.default(%b)
// CHECK-NEXT:    %c = torch.aten.add.Tensor(%t, %x)
// CHECK-NEXT:    func.return %c : tensor<4x4xf32>
// FOUR-LABEL:  func.func @layers
// FOUR-NOT:      func.call
// FOUR:          func.func @constants
// SIX-LABEL:   func.func @layers
// SIX-NOT:       func.call
// SIX:           func.func @constants
func.func @layers(%x: tensor<4x4xf32>, %u: tensor<4x4xf32>, %v: tensor<4x4xf32>, %w: tensor<4x4xf32>) {
  %a = torch.aten.mm.default(%x, %u) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = torch.aten.relu.default(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = torch.aten.tanh.default(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = torch.aten.add.Tensor(%t, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %d = torch.aten.mm.default(%c, %v) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = torch.aten.relu.default(%d) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = torch.aten.tanh.default(%e) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %f = torch.aten.add.Tensor(%y, %c) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = torch.aten.mm.default(%f, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %h = torch.aten.relu.default(%g) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = torch.aten.tanh.default(%h) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %i = torch.aten.add.Tensor(%z, %f) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  fx.output(%i) : (tensor<4x4xf32>) -> ()
}

// -----

/// A host constant is copied into the function; two that differ make two kinds of runs.
// CHECK-LABEL: func.func @constants
// CHECK-COUNT-2: func.call @repeated
// CHECK-NOT:     func.call
// CHECK:       func.func private @repeated
// CHECK-NEXT:    %two = torch.constant(2) : !torch.int
// CHECK-NEXT:    torch.aten.mul.Tensor(%{{.*}}, %two)
func.func @constants(%x: tensor<4xf32>) {
  %two = torch.constant(2) : !torch.int
  %three = torch.constant(3) : !torch.int
  %a = torch.aten.mul.Tensor(%x, %two) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
  %b = torch.aten.relu.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.tanh.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.cumsum.default(%c, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.mul.Tensor(%d, %two) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
  %f = torch.aten.relu.default(%e) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.tanh.default(%f) : (tensor<4xf32>) -> tensor<4xf32>
  %h = torch.aten.cumsum.default(%g, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %i = torch.aten.mul.Tensor(%h, %three) : (tensor<4xf32>, !torch.int) -> tensor<4xf32>
  %j = torch.aten.relu.default(%i) : (tensor<4xf32>) -> tensor<4xf32>
  %k = torch.aten.tanh.default(%j) : (tensor<4xf32>) -> tensor<4xf32>
  %l = torch.aten.cumsum.default(%k, 0) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%l) : (tensor<4xf32>) -> ()
}

// -----

/// Regions count, and what they read is an argument.
// CHECK-LABEL: func.func @groups
// CHECK-NEXT:    func.call @repeated(%x, %y)
// CHECK-NEXT:    func.call @repeated(%{{.*}}, %x)
// CHECK-NEXT:    fx.output
func.func @groups(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %a = fusion.group ({
    %i = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %j = torch.aten.mul.Tensor(%i, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %j : tensor<4xf32>
  }) -> tensor<4xf32>
  %b = torch.aten.sort.default(%a) : (tensor<4xf32>) -> tuple<tensor<4xf32>, tensor<4xi64>>
  %c = fx.call_function @operator.getitem(%b, 0) : (tuple<tensor<4xf32>, tensor<4xi64>>) -> tensor<4xf32>
  %d = torch.aten.cumsum.default(%c, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = fusion.group ({
    %i = torch.aten.relu.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
    %j = torch.aten.mul.Tensor(%i, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %j : tensor<4xf32>
  }) -> tensor<4xf32>
  %f = torch.aten.sort.default(%e) : (tensor<4xf32>) -> tuple<tensor<4xf32>, tensor<4xi64>>
  %g = fx.call_function @operator.getitem(%f, 0) : (tuple<tensor<4xf32>, tensor<4xi64>>) -> tensor<4xf32>
  %h = torch.aten.cumsum.default(%g, 0) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%h) : (tensor<4xf32>) -> ()
}

// -----

/// A random number is drawn in each run: no run has it.
// CHECK-LABEL: func.func @random
// CHECK-NOT:     func.call
func.func @random(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.bernoulli.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.tanh.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.cumsum.default(%c, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.relu.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  %f = torch.aten.bernoulli.default(%e) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.tanh.default(%f) : (tensor<4xf32>) -> tensor<4xf32>
  %h = torch.aten.cumsum.default(%g, 0) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%h) : (tensor<4xf32>) -> ()
}

// -----

/// Nor across a write.
// CHECK-LABEL: func.func @write
// CHECK-NOT:     func.call
func.func @write(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.add_.Tensor(%a, 1) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.tanh.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.cumsum.default(%c, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.relu.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  %f = torch.aten.add_.Tensor(%e, 1) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.tanh.default(%f) : (tensor<4xf32>) -> tensor<4xf32>
  %h = torch.aten.cumsum.default(%g, 0) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%h) : (tensor<4xf32>) -> ()
}

// -----

/// An attribute differs; who reads whom differs; another reads what is inside of one run only.
// CHECK-LABEL: func.func @attribute
// CHECK-NOT:     func.call
func.func @attribute(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.mul.Tensor(%a, 2) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.tanh.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.cumsum.default(%c, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.relu.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  %f = torch.aten.mul.Tensor(%e, 2.0) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.tanh.default(%f) : (tensor<4xf32>) -> tensor<4xf32>
  %h = torch.aten.cumsum.default(%g, 0) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%h) : (tensor<4xf32>) -> ()
}
// CHECK-LABEL: func.func @links
// CHECK-NOT:     func.call
func.func @links(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.mul.Tensor(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.tanh.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.cumsum.default(%c, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.relu.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  %f = torch.aten.mul.Tensor(%e, %d) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.tanh.default(%f) : (tensor<4xf32>) -> tensor<4xf32>
  %h = torch.aten.cumsum.default(%g, 0) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%h) : (tensor<4xf32>) -> ()
}
// CHECK-LABEL: func.func @readers
// CHECK-NOT:     func.call
func.func @readers(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.cos.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.tanh.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.cumsum.default(%c, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.relu.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  %f = torch.aten.cos.default(%e) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.tanh.default(%f) : (tensor<4xf32>) -> tensor<4xf32>
  %h = torch.aten.cumsum.default(%g, 0) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%h, %f) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A type differs.
// CHECK-LABEL: func.func @types
// CHECK-NOT:     func.call
func.func @types(%x: tensor<4xf32>, %y: tensor<5xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.cos.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.tanh.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.cumsum.default(%c, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.relu.default(%y) : (tensor<5xf32>) -> tensor<5xf32>
  %f = torch.aten.cos.default(%e) : (tensor<5xf32>) -> tensor<5xf32>
  %g = torch.aten.tanh.default(%f) : (tensor<5xf32>) -> tensor<5xf32>
  %h = torch.aten.cumsum.default(%g, 0) : (tensor<5xf32>) -> tensor<5xf32>
  fx.output(%d, %h) : (tensor<4xf32>, tensor<5xf32>) -> ()
}

// -----

/// The name is new.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: func.call @repeated_1
func.func @main(%x: tensor<4xf32>) {
  %r = func.call @repeated(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %a = torch.aten.relu.default(%r) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.cos.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.tanh.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.cumsum.default(%c, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.relu.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  %f = torch.aten.cos.default(%e) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.tanh.default(%f) : (tensor<4xf32>) -> tensor<4xf32>
  %h = torch.aten.cumsum.default(%g, 0) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%h) : (tensor<4xf32>) -> ()
}
func.func private @repeated(%x: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline} {
  func.return %x : tensor<4xf32>
}

// -----

/// What could be fused as a whole is left to kernels.
// CHECK-LABEL: func.func @pointwise
// CHECK-NOT:     func.call
func.func @pointwise(%x: tensor<4xf32>) {
  %a = torch.aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.sin.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.exp.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.relu.default(%d) : (tensor<4xf32>) -> tensor<4xf32>
  %f = torch.aten.tanh.default(%e) : (tensor<4xf32>) -> tensor<4xf32>
  %g = torch.aten.sin.default(%f) : (tensor<4xf32>) -> tensor<4xf32>
  %h = torch.aten.exp.default(%g) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%h) : (tensor<4xf32>) -> ()
}
