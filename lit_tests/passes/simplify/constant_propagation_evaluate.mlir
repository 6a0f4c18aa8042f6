// RUN: fxc-opt %s --split-input-file --pass-pipeline=constant-propagation | filecheck %s

/// What depends on constants only is computed as PyTorch computes it: dtypes, signed zeros and infinities too.
// CHECK-LABEL: func.func @tensors
// CHECK-NEXT:    [[c:%.*]] = torch.constant([0.0, 2.0, 4.0]) : tensor<3xf32>
// CHECK-NEXT:    [[z:%.*]] = torch.constant([-0.0, 1.5, -inf]) : tensor<3xf32>
// CHECK-NEXT:    [[y:%.*]] = torch.aten.add.Tensor(%x, [[c]])
// CHECK-NEXT:    torch.aten.mul.Tensor([[y]], [[z]])
func.func @tensors(%x: tensor<3xf32>) -> tensor<3xf32> {
  %a = torch.aten.arange.default(3) : () -> tensor<3xi64>
  %b = torch.constant([2.0, 2.0, 2.0]) : tensor<3xf32>
  %c = torch.aten.mul.Tensor(%a, %b) : (tensor<3xi64>, tensor<3xf32>) -> tensor<3xf32>
  %n = torch.constant([0.0, -1.5, inf]) : tensor<3xf32>
  %z = torch.aten.neg.default(%n) : (tensor<3xf32>) -> tensor<3xf32>
  %y = torch.aten.add.Tensor(%x, %c) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %w = torch.aten.mul.Tensor(%y, %z) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %w : tensor<3xf32>
}

// -----

/// Arithmetic on host numbers, and reading one from a tensor.
// CHECK-LABEL: func.func @numbers
// CHECK-NEXT:    [[y:%.*]] = torch.aten.add.Tensor(%x, %x, alpha = 7)
// CHECK-NEXT:    torch.aten.mul.Scalar([[y]], 0.5)
func.func @numbers(%x: tensor<3xf32>) -> tensor<3xf32> {
  %n = torch.aten.sym_size.int(%x, 0) : (tensor<3xf32>) -> !torch.int
  %m = fx.call_function @operator.mul(%n, 2) : (!torch.int) -> !torch.int
  %k = fx.call_function @operator.add(%m, 1) : (!torch.int) -> !torch.int
  %y = torch.aten.add.Tensor(%x, %x, alpha = %k) : (tensor<3xf32>, tensor<3xf32>, !torch.int) -> tensor<3xf32>
  %h = torch.aten.scalar_tensor.default(0.5) : () -> tensor<f32>
  %i = torch.aten.item.default(%h) : (tensor<f32>) -> !torch.float
  %z = torch.aten.mul.Scalar(%y, %i) : (tensor<3xf32>, !torch.float) -> tensor<3xf32>
  func.return %z : tensor<3xf32>
}

// -----

/// What raises is left to run time.
// CHECK-LABEL: func.func @raises
// CHECK-NEXT:    [[n:%.*]] = fx.call_function @operator.floordiv(3, 0)
// CHECK-NEXT:    torch.aten.add.Scalar(%x, [[n]])
func.func @raises(%x: tensor<3xf32>) -> tensor<3xf32> {
  %n = torch.aten.sym_size.int(%x, 0) : (tensor<3xf32>) -> !torch.int
  %d = fx.call_function @operator.floordiv(%n, 0) : (!torch.int) -> !torch.int
  %y = torch.aten.add.Scalar(%x, %d) : (tensor<3xf32>, !torch.int) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

/// A tensor that is returned, itself or in a view, is made anew by each execution.
// CHECK-LABEL: func.func @returned
// CHECK-NEXT:    [[a:%.*]] = torch.aten.full.default([2], 1.0)
// CHECK-NEXT:    [[v:%.*]] = torch.aten.view.default([[a]], [1, 2])
// CHECK-NEXT:    func.return [[v]]
func.func @returned() -> tensor<1x2xf32> {
  %a = torch.aten.full.default([2], 1.0) : () -> tensor<2xf32>
  %v = torch.aten.view.default(%a, [1, 2]) : (tensor<2xf32>) -> tensor<1x2xf32>
  func.return %v : tensor<1x2xf32>
}

// -----

/// A tensor that is written is no constant.
// CHECK-LABEL: func.func @written
// CHECK-NEXT:    torch.aten.full.default
// CHECK-NEXT:    torch.aten.add_.Tensor
// CHECK-NEXT:    torch.aten.neg.default
func.func @written(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = torch.aten.full.default([2], 1.0) : () -> tensor<2xf32>
  %w = torch.aten.add_.Tensor(%a, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %b = torch.aten.neg.default(%a) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %b : tensor<2xf32>
}

// -----

/// The constant that a random call reads is computed; the draw is not.
// CHECK-LABEL: func.func @random
// CHECK-NEXT:    [[c:%.*]] = torch.constant([0.5, 0.5]) : tensor<2xf32>
// CHECK-NEXT:    torch.aten.bernoulli.default([[c]])
func.func @random() -> tensor<2xf32> {
  %a = torch.aten.full.default([2], 0.5) : () -> tensor<2xf32>
  %b = torch.aten.bernoulli.default(%a) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %b : tensor<2xf32>
}

// -----

/// A result with several returns.
// CHECK-LABEL: func.func @several
// CHECK-DAG:     [[v:%.*]] = torch.constant([3.0]) : tensor<f32>
// CHECK-DAG:     [[i:%.*]] = torch.constant([1]) : tensor<i64>
func.func @several(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = torch.constant([1.0, 3.0]) : tensor<2xf32>
  %v, %i = torch.aten.max.dim(%a, 0) : (tensor<2xf32>) -> (tensor<f32>, tensor<i64>)
  %y = torch.aten.add.Tensor(%x, %v) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %z = torch.aten.add.Tensor(%y, %i) : (tensor<2xf32>, tensor<i64>) -> tensor<2xf32>
  func.return %z : tensor<2xf32>
}

// -----

/// A loop whose condition PyTorch finds false.
// CHECK-LABEL: func.func @loop
// CHECK-NEXT:    [[y:%.*]] = torch.aten.neg.default(%x)
// CHECK-NEXT:    func.return [[y]]
func.func @loop(%x: tensor<2xf32>) -> tensor<2xf32> {
  %i = torch.constant([5]) : tensor<1xi64>
  %r, %s = torch.higher_order.while_loop(@cond_fn, @body_fn, (%i, %x), ()) ({
  ^bb0(%j: tensor<1xi64>, %y: tensor<2xf32>):
    %c = torch.aten.lt.Scalar(%j, 3) : (tensor<1xi64>) -> tensor<1xi1>
    fx.output(%c) : (tensor<1xi1>) -> ()
  }, {
  ^bb0(%j: tensor<1xi64>, %y: tensor<2xf32>):
    %k = torch.aten.add.Scalar(%j, 1) : (tensor<1xi64>) -> tensor<1xi64>
    %z = torch.aten.add.Tensor(%y, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    fx.output((%k, %z)) : (tensor<1xi64>, tensor<2xf32>) -> ()
  }) : (tensor<1xi64>, tensor<2xf32>) -> (tensor<1xi64>, tensor<2xf32>)
  %t = torch.aten.neg.default(%s) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %t : tensor<2xf32>
}
