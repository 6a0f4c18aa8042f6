// RUN: fxc-opt %s --split-input-file -p grow-softmax | filecheck %s

/// Groups, views and operations between two products move; what has another reader stays.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %s = torch.aten.bmm.default
// CHECK-NEXT:    %x = torch.aten.cos.default(%b)
// CHECK-NEXT:    %p = fusion.group ({
// CHECK-DAG:       %n = torch.aten.neg.default(%x)
// CHECK-DAG:       %f = torch.aten.exp.default(%n)
// CHECK-DAG:       %r = torch.aten.view.default(%s, [2, 3, 16, 16])
// CHECK-DAG:       %h = torch.aten.tanh.default(%r)
// CHECK:           %z = torch.aten.add.Tensor(%h, %f)
// CHECK:           fusion.yield %e : tensor<2x3x16x16xf32>
// CHECK-NEXT:    }) -> tensor<2x3x16x16xf32>
// CHECK-NEXT:    torch.aten.view.default
// CHECK-NEXT:    torch.aten.bmm.default
func.func @main(%q: tensor<6x16x8xf32>, %k: tensor<6x8x16xf32>, %v: tensor<6x16x8xf32>, %b: tensor<16xf32>) {
  %s = torch.aten.bmm.default(%q, %k) : (tensor<6x16x8xf32>, tensor<6x8x16xf32>) -> tensor<6x16x16xf32>
  %x = torch.aten.cos.default(%b) : (tensor<16xf32>) -> tensor<16xf32>
  %g = fusion.group ({
    %n = torch.aten.neg.default(%x) : (tensor<16xf32>) -> tensor<16xf32>
    %f = torch.aten.exp.default(%n) : (tensor<16xf32>) -> tensor<16xf32>
    fusion.yield %f : tensor<16xf32>
  }) -> tensor<16xf32>
  %r = torch.aten.view.default(%s, [2, 3, 16, 16]) : (tensor<6x16x16xf32>) -> tensor<2x3x16x16xf32>
  %h = torch.aten.tanh.default(%r) : (tensor<2x3x16x16xf32>) -> tensor<2x3x16x16xf32>
  %p = fusion.group ({
    %z = torch.aten.add.Tensor(%h, %g) : (tensor<2x3x16x16xf32>, tensor<16xf32>) -> tensor<2x3x16x16xf32>
    %e = torch.aten.exp.default(%z) : (tensor<2x3x16x16xf32>) -> tensor<2x3x16x16xf32>
    fusion.yield %e : tensor<2x3x16x16xf32>
  }) -> tensor<2x3x16x16xf32>
  %w = torch.aten.view.default(%p, [6, 16, 16]) : (tensor<2x3x16x16xf32>) -> tensor<6x16x16xf32>
  %o = torch.aten.bmm.default(%w, %v) : (tensor<6x16x16xf32>, tensor<6x16x8xf32>) -> tensor<6x16x8xf32>
  fx.output((%o, %x)) : (tensor<6x16x8xf32>, tensor<16xf32>) -> ()
}

// -----

/// No product of scores; none of the same rows and keys; no exponential; a reduction before; a product after that is not plain.
// CHECK-LABEL: func.func @no_scores
// CHECK-NEXT:    torch.aten.tanh.default
// CHECK-NEXT:    fusion.group
func.func @no_scores(%s: tensor<16x16xf32>, %v: tensor<16x8xf32>) {
  %h = torch.aten.tanh.default(%s) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %p = fusion.group ({
    %e = torch.aten.exp.default(%h) : (tensor<16x16xf32>) -> tensor<16x16xf32>
    fusion.yield %e : tensor<16x16xf32>
  }) -> tensor<16x16xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  fx.output(%o) : (tensor<16x8xf32>) -> ()
}

// CHECK-LABEL: func.func @few_rows
// CHECK:         torch.aten.tanh.default
// CHECK-NEXT:    fusion.group
func.func @few_rows(%q: tensor<4x8xf32>, %k: tensor<8x16xf32>, %v: tensor<16x8xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %h = torch.aten.tanh.default(%s) : (tensor<4x16xf32>) -> tensor<4x16xf32>
  %p = fusion.group ({
    %e = torch.aten.exp.default(%h) : (tensor<4x16xf32>) -> tensor<4x16xf32>
    fusion.yield %e : tensor<4x16xf32>
  }) -> tensor<4x16xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<4x16xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  fx.output(%o) : (tensor<4x8xf32>) -> ()
}

// CHECK-LABEL: func.func @no_exponential
// CHECK:         torch.aten.tanh.default
// CHECK-NEXT:    fusion.group
func.func @no_exponential(%q: tensor<16x8xf32>, %k: tensor<8x16xf32>, %v: tensor<16x8xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  %h = torch.aten.tanh.default(%s) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %p = fusion.group ({
    %e = torch.aten.cos.default(%h) : (tensor<16x16xf32>) -> tensor<16x16xf32>
    fusion.yield %e : tensor<16x16xf32>
  }) -> tensor<16x16xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  fx.output(%o) : (tensor<16x8xf32>) -> ()
}

// CHECK-LABEL: func.func @reduction
// CHECK:         torch.aten.amax.default
// CHECK-NEXT:    fusion.group
func.func @reduction(%q: tensor<16x8xf32>, %k: tensor<8x16xf32>, %v: tensor<16x8xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  %h = torch.aten.amax.default(%s, [1], true) : (tensor<16x16xf32>) -> tensor<16x1xf32>
  %p = fusion.group ({
    %d = torch.aten.sub.Tensor(%s, %h) : (tensor<16x16xf32>, tensor<16x1xf32>) -> tensor<16x16xf32>
    %e = torch.aten.exp.default(%d) : (tensor<16x16xf32>) -> tensor<16x16xf32>
    fusion.yield %e : tensor<16x16xf32>
  }) -> tensor<16x16xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  fx.output(%o) : (tensor<16x8xf32>) -> ()
}

// CHECK-LABEL: func.func @gradient
// CHECK:         torch.aten.tanh.default
// CHECK-NEXT:    fusion.group
func.func @gradient(%q: tensor<16x8xf32>, %k: tensor<8x16xf32>, %v: tensor<16x8xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  %h = torch.aten.tanh.default(%s) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %p = fusion.group ({
    %e = torch.aten.exp.default(%h) : (tensor<16x16xf32>) -> tensor<16x16xf32>
    fusion.yield %e : tensor<16x16xf32>
  }) -> tensor<16x16xf32>
  %o = torch.aten.mm.default(%p, %v) {requires_grad = [true]} : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  fx.output(%o) : (tensor<16x8xf32>) -> ()
}
