// RUN: fxc-opt %s --split-input-file --pass-pipeline=propagate-requires-grad | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=propagate-requires-grad,propagate-requires-grad | filecheck %s

/// What PyTorch gives no gradient: comparisons, detach, integers, an operand that only lends its dtype, and no operand with one.
// CHECK-LABEL: func.func @broken_chains
// CHECK:         torch.aten.gt.Scalar(%w, 0) {requires_grad = [false]}
// CHECK-NEXT:    torch.aten.detach.default(%w) {requires_grad = [false]}
// CHECK-NEXT:    torch.aten.argmax.default(%w) {requires_grad = [false]}
// CHECK-NEXT:    torch.aten.type_as.default(%x, %w) {requires_grad = [false]}
// CHECK-NEXT:    torch.aten.type_as.default(%w, %x) {requires_grad = [true]}
// CHECK-NEXT:    torch.aten.zeros_like.default(%w) {requires_grad = [false]}
// CHECK-NEXT:    torch.aten.where.self(%m, %x, %d) {requires_grad = [false]}
// CHECK-NEXT:    torch.aten.where.self(%m, %x, %w) {requires_grad = [true]}
// CHECK-NEXT:    torch.aten.sum.default(%i) {requires_grad = [false]}
// CHECK-NEXT:    torch.aten.item.default(%w0) {requires_grad = [false]}
// CHECK-NEXT:    torch.aten.round.default(%w) {requires_grad = [true]}
func.func @broken_chains(%w: tensor<4xf32> {fx.requires_grad}, %w0: tensor<f32> {fx.requires_grad}, %x: tensor<4xf32>, %i: tensor<4xi64> {fx.requires_grad}) {
  %m = torch.aten.gt.Scalar(%w, 0) : (tensor<4xf32>) -> tensor<4xi1>
  %d = torch.aten.detach.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %a = torch.aten.argmax.default(%w) : (tensor<4xf32>) -> tensor<i64>
  %t = torch.aten.type_as.default(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %u = torch.aten.type_as.default(%w, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.zeros_like.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch.aten.where.self(%m, %x, %d) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten.where.self(%m, %x, %w) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.sum.default(%i) : (tensor<4xi64>) -> tensor<i64>
  %n = torch.aten.item.default(%w0) : (tensor<f32>) -> !torch.float
  %r = torch.aten.round.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%r) : (tensor<4xf32>) -> ()
}

// -----

/// One answer for each result; packed results are one value. Old answers are replaced.
// CHECK-LABEL: func.func @several_results
// CHECK:         torch.aten.topk.default(%w, 2) {requires_grad = [true, false]}
// CHECK-NEXT:    torch.aten.topk.default(%w, 2) {requires_grad = [true]}
// CHECK-NEXT:    operator.getitem(%p, 0) {requires_grad = [true]}
// CHECK-NEXT:    operator.getitem(%p, 1) {requires_grad = [false]}
// CHECK-NEXT:    torch.aten.exp.default(%x) {requires_grad = [false]}
// CHECK-NEXT:    torch.constant([1.0]) {requires_grad = [false]}
func.func @several_results(%w: tensor<4xf32> {fx.requires_grad}, %x: tensor<4xf32>) {
  %v, %i = torch.aten.topk.default(%w, 2) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi64>)
  %p = torch.aten.topk.default(%w, 2) : (tensor<4xf32>) -> tuple<tensor<2xf32>, tensor<2xi64>>
  %a = fx.call_function @operator.getitem(%p, 0) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xf32>
  %b = fx.call_function @operator.getitem(%p, 1) : (tuple<tensor<2xf32>, tensor<2xi64>>) -> tensor<2xi64>
  %c = torch.aten.exp.default(%x) {requires_grad = [true]} : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.constant([1.0]) : tensor<1xf32>
  fx.output((%v, %a, %c)) : (tensor<2xf32>, tensor<2xf32>, tensor<4xf32>) -> ()
}

// -----

/// A cond requires what either region does, result by result.
// CHECK-LABEL: func.func @cond
// CHECK:         torch.aten.exp.default(%a) {requires_grad = [true]}
// CHECK:         torch.aten.exp.default(%b) {requires_grad = [false]}
// CHECK:         {requires_grad = [true, false]} : (tensor<i1>
func.func @cond(%p: tensor<i1>, %w: tensor<4xf32> {fx.requires_grad}, %x: tensor<4xf32>) {
  %r, %s = torch.higher_order.cond(%p, @true_graph, @false_graph, (%w, %x)) ({
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %c = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%c, %b)) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }, {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %c = torch.aten.exp.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%c, %c)) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }) : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  fx.output((%r, %s)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A loop that hands its values round: the last one requires grad only in the third run.
// CHECK-LABEL: func.func @loop
// CHECK:         torch.aten.neg.default(%c) {requires_grad = [true]}
// CHECK:         {requires_grad = [false, true, true, true]}
// CHECK-NEXT:    torch.aten.exp.default(%t) {requires_grad = [true]}
func.func @loop(%n: tensor<i64>, %w: tensor<4xf32> {fx.requires_grad}, %x: tensor<4xf32>) {
  %m, %r, %s, %t = torch.higher_order.while_loop(@cond_fn, @body_fn, (%n, %w, %x, %x), ()) ({
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>):
    %q = torch.aten.lt.Scalar(%i, 5) : (tensor<i64>) -> tensor<i1>
    fx.output(%q) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>):
    %j = torch.aten.add.Scalar(%i, 1) : (tensor<i64>) -> tensor<i64>
    %d = torch.aten.neg.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output((%j, %d, %a, %b)) : (tensor<i64>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<i64>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %e = torch.aten.exp.default(%t) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%r, %s, %e)) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Without grad mode nothing that is computed requires grad; what is handed on does, and so does what is written in place.
// CHECK-LABEL: func.func @no_grad
// CHECK:           torch.aten.exp.default(%a) {requires_grad = [false]}
// CHECK:           torch.aten.add_.Tensor(%a, %b) {requires_grad = [true]}
// CHECK:         {requires_grad = [false, true]} : (tensor<4xf32>) -> (
// CHECK-NEXT:    torch.aten.exp.default(%w) {requires_grad = [true]}
// CHECK:         torch.aten.exp.default(%w) {requires_grad = [false]}
// CHECK:         torch.aten.exp.default(%w) {requires_grad = [true]}
func.func @no_grad(%w: tensor<4xf32> {fx.requires_grad}) {
  %r, %s = torch.higher_order.wrap_with_set_grad_enabled(false, @sub, %w) ({
  ^bb0(%a: tensor<4xf32>):
    %b = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %c = torch.aten.add_.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fx.output((%b, %c)) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %e = torch.aten.exp.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %off = fx.call_function @torch._C._set_grad_enabled(false) : () -> !torch.none
  %f = torch.aten.exp.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %on = fx.call_function @torch._C._set_grad_enabled(true) : () -> !torch.none
  %g = torch.aten.exp.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%e, %f, %g)) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A write of what requires grad: the tensor and its views do, wherever they are read.
// CHECK-LABEL: func.func @written
// CHECK:         torch.aten.zeros_like.default(%x) {requires_grad = [true]}
// CHECK-NEXT:    torch.aten.view.default(%y, [2, 2]) {requires_grad = [true]}
// CHECK-NEXT:    torch.aten.zeros_like.default(%x) {requires_grad = [false]}
// CHECK:         torch.aten.copy_.default(%y, %w) {requires_grad = [true]}
// CHECK-NEXT:    torch.aten.exp.default(%v) {requires_grad = [true]}
func.func @written(%w: tensor<4xf32> {fx.requires_grad}, %x: tensor<4xf32>) {
  %y = torch.aten.zeros_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten.view.default(%y, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %z = torch.aten.zeros_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %o = torch.aten.copy_.default(%z, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.copy_.default(%y, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.exp.default(%v) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output((%e, %z)) : (tensor<2x2xf32>, tensor<4xf32>) -> ()
}

// -----

/// Of what is not known, nothing is said; what it gives counts as requiring grad.
// CHECK-LABEL: func.func @unknown
// CHECK:         fx.call_method @frobnicate(%x) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    torch.aten.exp.default(%y) {requires_grad = [true]}
// CHECK-NEXT:    torch.aten.tensor.float(0.5, requires_grad = true) : () -> tensor<f32>
// CHECK-NEXT:    torch.aten.exp.default(%t) {requires_grad = [true]}
func.func @unknown(%x: tensor<4xf32>) {
  %y = fx.call_method @frobnicate(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.exp.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %t = torch.aten.tensor.float(0.5, requires_grad = true) : () -> tensor<f32>
  %u = torch.aten.exp.default(%t) : (tensor<f32>) -> tensor<f32>
  fx.output((%z, %u)) : (tensor<4xf32>, tensor<f32>) -> ()
}

// -----

/// Calls: a private function takes what any of its calls passes.
// CHECK-LABEL: func.func private @f
// CHECK:         torch.aten.exp.default(%x) {requires_grad = [true]}
// CHECK:         func.call @f(%x) {requires_grad = [true]}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
func.func @main(%w: tensor<4xf32> {fx.requires_grad}, %x: tensor<4xf32>) {
  %a = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = func.call @f(%w) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Where nothing is marked, as when a graph comes from torch.export, parameters require grad.
// CHECK-LABEL: func.func @unmarked
// CHECK:         torch.aten.exp.default(%w) {requires_grad = [true]}
// CHECK-NEXT:    torch.aten.exp.default(%b) {requires_grad = [false]}
func.func @unmarked(%w: tensor<4xf32> {fx.kind = "parameter"}, %b: tensor<4xf32> {fx.kind = "buffer"}) {
  %y = torch.aten.exp.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.exp.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%y, %z)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A mark says that the others do not.
// CHECK-LABEL: func.func @frozen
// CHECK:         torch.aten.exp.default(%w) {requires_grad = [false]}
func.func @frozen(%w: tensor<4xf32> {fx.kind = "parameter"}, %b: tensor<4xf32> {fx.kind = "parameter", fx.requires_grad}) {
  %y = torch.aten.exp.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%y) : (tensor<4xf32>) -> ()
}

// -----

/// On a device that this PyTorch may not have, too, where autograd cannot be asked: a result of an operand with a gradient has one.
// CHECK-LABEL: func.func @elsewhere
// CHECK:         torch.aten.sin.default(%w) {requires_grad = [true]}
// CHECK-NEXT:    torch.aten.sin.default(%x) {requires_grad = [false]}
func.func @elsewhere(%w: tensor<4xf32, #torch.meta<device = "cuda:0">> {fx.requires_grad}, %x: tensor<4xf32, #torch.meta<device = "cuda:0">>) {
  %y = torch.aten.sin.default(%w) : (tensor<4xf32, #torch.meta<device = "cuda:0">>) -> tensor<4xf32, #torch.meta<device = "cuda:0">>
  %z = torch.aten.sin.default(%x) : (tensor<4xf32, #torch.meta<device = "cuda:0">>) -> tensor<4xf32, #torch.meta<device = "cuda:0">>
  fx.output((%y, %z)) : (tensor<4xf32, #torch.meta<device = "cuda:0">>, tensor<4xf32, #torch.meta<device = "cuda:0">>) -> ()
}
