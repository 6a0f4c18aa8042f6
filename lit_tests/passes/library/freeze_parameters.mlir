// RUN: fxc-opt %s --split-input-file -p freeze-parameters | filecheck %s
// RUN: fxc-opt %s --split-input-file -p freeze-parameters,inline,symbol-dce,freeze-parameters | filecheck %s

/// A chain of two, and what others read of it.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %e, %n = func.call @frozen(%w) {fx.once} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
// CHECK:         %y = torch.aten.mm.default(%x, %n)
// CHECK-NEXT:    %z = torch.aten.mm.default(%x, %e)
// CHECK:       func.func private @frozen(%w: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) attributes {no_inline}
// CHECK-NEXT:    %two = torch.constant(2) : !torch.int
// CHECK-NEXT:    %e = torch.aten.mul.Tensor(%w, %two)
// CHECK-NEXT:    %n = torch.aten.neg.default(%e)
// CHECK-NEXT:    func.return %e, %n
func.func @main(%x: tensor<2x4xf32> {fx.kind = "input"}, %w: tensor<4x3xf32> {fx.kind = "parameter", fx.name = "w"}) {
  %two = torch.constant(2) : !torch.int
  %e = torch.aten.mul.Tensor(%w, %two) : (tensor<4x3xf32>, !torch.int) -> tensor<4x3xf32>
  %n = torch.aten.neg.default(%e) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %y = torch.aten.mm.default(%x, %n) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %z = torch.aten.mm.default(%x, %e) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  fx.output(%y, %z) : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}

// -----

/// A buffer that the entry returns a new value of changes with every call; one that it does not is frozen.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %k = func.call @frozen(%c)
// CHECK-NEXT:    %n = torch.aten.neg.default(%b)
func.func @main(%b: tensor<4xf32> {fx.kind = "buffer", fx.name = "b"}, %c: tensor<4xf32> {fx.kind = "constant", fx.name = "c"}) -> (tensor<4xf32> {fx.mutates = 0}, tensor<4xf32>) {
  %n = torch.aten.neg.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %k = torch.aten.neg.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.add.Tensor(%n, %k) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%n, %s) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Not: a draw, what reads one, what reads an input, and what reads no tensor.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     func.call
func.func @main(%x: tensor<4xf32> {fx.kind = "input"}, %w: tensor<4xf32> {fx.kind = "parameter", fx.name = "w"}) {
  %a = torch.aten.bernoulli.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.add.Tensor(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.arange.default(4) : () -> tensor<4xi64>
  fx.output(%b, %c, %d) : (tensor<4xf32>, tensor<4xf32>, tensor<4xi64>) -> ()
}

// -----

/// Not where something is written in place: run functionalize first.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     func.call
func.func @main(%w: tensor<4xf32> {fx.kind = "parameter", fx.name = "w"}) {
  %a = torch.aten.neg.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.add_.Tensor(%a, 1) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%b) : (tensor<4xf32>) -> ()
}

// -----

/// Which of two functions is the entry is not known.
// CHECK-LABEL: func.func @one
// CHECK-NOT:     func.call
func.func @one(%w: tensor<4xf32> {fx.kind = "parameter", fx.name = "w"}) {
  %a = torch.aten.neg.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%a) : (tensor<4xf32>) -> ()
}
func.func @two(%w: tensor<4xf32> {fx.kind = "parameter", fx.name = "w"}) {
  %a = torch.aten.neg.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%a) : (tensor<4xf32>) -> ()
}

// -----

/// What the entry returns, also as a view of a view, is the caller's, who may write it; what reads it is not frozen either.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %k = func.call @frozen(%w) {fx.once}
// CHECK-NEXT:    %e = torch.aten.exp.default(%k)
// CHECK-NEXT:    %c = torch.aten._conj.default(%e)
// CHECK-NEXT:    %t = torch.aten.t.default(%c)
// CHECK-NEXT:    %n = torch.aten.neg.default(%c)
// CHECK-NEXT:    %y = torch.aten.mul.Tensor(%n, %x)
// CHECK-NEXT:    fx.output(%t, %y)
// CHECK:       func.func private @frozen
// CHECK-NEXT:    %k = torch.aten.sin.default(%w)
// CHECK-NEXT:    func.return %k
func.func @main(%x: tensor<4x3xcomplex<f32>> {fx.kind = "input"}, %w: tensor<4x3xcomplex<f32>> {fx.kind = "parameter", fx.name = "w"}) {
  %k = torch.aten.sin.default(%w) : (tensor<4x3xcomplex<f32>>) -> tensor<4x3xcomplex<f32>>
  %e = torch.aten.exp.default(%k) : (tensor<4x3xcomplex<f32>>) -> tensor<4x3xcomplex<f32>>
  %c = torch.aten._conj.default(%e) : (tensor<4x3xcomplex<f32>>) -> tensor<4x3xcomplex<f32>>
  %t = torch.aten.t.default(%c) : (tensor<4x3xcomplex<f32>>) -> tensor<3x4xcomplex<f32>>
  %n = torch.aten.neg.default(%c) : (tensor<4x3xcomplex<f32>>) -> tensor<4x3xcomplex<f32>>
  %y = torch.aten.mul.Tensor(%n, %x) : (tensor<4x3xcomplex<f32>>, tensor<4x3xcomplex<f32>>) -> tensor<4x3xcomplex<f32>>
  fx.output(%t, %y) : (tensor<3x4xcomplex<f32>>, tensor<4x3xcomplex<f32>>) -> ()
}
