// RUN: fxc-opt %s --split-input-file --pass-pipeline=functionalize | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=functionalize --print-debuginfo | filecheck %s --check-prefix=LOC

/// A write through a view changes what is read from its base, and comes back as a result.
// CHECK-LABEL: func.func @through_view
// CHECK-SAME: -> (tensor<4xf32> {fx.mutates = 0 : i64}, tensor<4xf32>)
// CHECK-NOT: add_
// CHECK: %[[SUM:.*]] = torch.aten.add.Tensor(%{{.*}}, 1)
// CHECK: %[[NEW:.*]] = torch.aten.view.default(%[[SUM]], [4])
// CHECK: %[[NEG:.*]] = torch.aten.neg.default(%[[NEW]])
// CHECK: func.return %[[NEW]], %[[NEG]]
func.func @through_view(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.view.default(%x, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %z = torch.aten.add_.Tensor(%y, 1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %w = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %w : tensor<4xf32>
}

// -----

/// A write to a fresh tensor needs no extra result.
// CHECK-LABEL: func.func @fresh
// CHECK-SAME: -> tensor<4xf32> {
// CHECK: torch.aten.relu.default
func.func @fresh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = torch.aten.relu_.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

/// Batch norm writes its statistics, which its schema does not declare.
// CHECK-LABEL: func.func @batch_norm
// CHECK-SAME: {fx.mutates = 1 : i64}
// CHECK-SAME: {fx.mutates = 2 : i64}
// CHECK: torch.aten._native_batch_norm_legit_functional.default
func.func @batch_norm(%x: tensor<4x3xf32>, %mean: tensor<3xf32>, %var: tensor<3xf32>) -> tensor<4x3xf32> {
  %y = torch.aten.batch_norm.default(%x, none, none, %mean, %var, true, 0.1, 1.0e-05, false) : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  func.return %y : tensor<4x3xf32>
}

// -----

/// In eval mode it does not: the function stays as it is.
// CHECK-LABEL: func.func @batch_norm_eval
// CHECK: torch.aten.batch_norm.default
func.func @batch_norm_eval(%x: tensor<4x3xf32>, %mean: tensor<3xf32>, %var: tensor<3xf32>) -> tensor<4x3xf32> {
  %y = torch.aten.batch_norm.default(%x, none, none, %mean, %var, false, 0.1, 1.0e-05, false) : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  func.return %y : tensor<4x3xf32>
}

// -----

/// Random operators are drawn as often as before, read or not.
// CHECK-LABEL: func.func @random
// CHECK-COUNT-2: torch.aten.rand
func.func @random(%x: tensor<4xf32>) -> tensor<4xf32> {
  %dead = torch.aten.rand.default([4]) : () -> tensor<4xf32>
  %noise = torch.aten.rand.default([4]) : () -> tensor<4xf32>
  %y = torch.aten.add_.Tensor(%x, %noise) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

/// The nesting of an output is kept beside the flat results.
// CHECK-LABEL: func.func @nested
// CHECK-SAME: attributes {fx.outputs = #fx.nesting<({"y" = _}, _)>}
func.func @nested(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.relu_.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(({"y" = %y}, none)) : (tensor<4xf32>) -> ()
}

// -----

/// A constant that is written is a tensor of the graph.
// CHECK-LABEL: func.func @constant
// CHECK: torch.constant([1.0]) : tensor<1xf32>
// CHECK: torch.aten.add.Tensor
func.func @constant(%x: tensor<1xf32>) -> tensor<1xf32> {
  %c = torch.constant([1.0]) : tensor<1xf32>
  %e = torch.aten.add_.Tensor(%c, %x) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  func.return %e : tensor<1xf32>
}

// -----

/// The result of a composite operator may be written, and a view of it sees that.
// CHECK-LABEL: func.func @composite
// CHECK: torch.aten.native_dropout.default
// CHECK: torch.aten.add.Tensor
// CHECK: torch.aten.view.default
func.func @composite(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<1x3xf32> {
  %d = torch.aten.dropout.default(%x, 0.5, true) : (tensor<3xf32>) -> tensor<3xf32>
  %v = torch.aten.view.default(%d, [1, 3]) : (tensor<3xf32>) -> tensor<1x3xf32>
  %e = torch.aten.add_.Tensor(%d, %y) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %v : tensor<1x3xf32>
}

// -----

/// A dropout that drops nothing gives back its argument, which is what is written.
// CHECK-LABEL: func.func @idle_dropouts
// CHECK-SAME: -> (tensor<3xf32> {fx.mutates = 0 : i64}, tensor<3xf32>)
// CHECK-NEXT:   %add = torch.aten.add.Tensor(%x, %y)
// CHECK-NEXT:   %mul = torch.aten.mul.Tensor(%add, %y)
// CHECK-NEXT:   func.return %mul, %mul
func.func @idle_dropouts(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %d = torch.aten.dropout.default(%x, 0.5, false) : (tensor<3xf32>) -> tensor<3xf32>
  %e = torch.aten.add_.Tensor(%d, %y) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %f = torch.aten.feature_dropout.default(%x, 0.0, true) : (tensor<3xf32>) -> tensor<3xf32>
  %g = torch.aten.mul_.Tensor(%f, %y) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %x : tensor<3xf32>
}

// -----

/// What no other value shares is written without a trace: what was read before stays, what is read later is new.
// CHECK-LABEL: func.func @own
// CHECK-NEXT:    %a = torch.aten.exp.default(%x)
// CHECK-NEXT:    %n = torch.aten.neg.default(%a)
// CHECK-NEXT:    %r = torch.aten.relu.default(%a)
// CHECK-NEXT:    %s = torch.aten.add.Tensor(%r, %n)
// CHECK-NEXT:    %m = torch.aten.mul.Tensor(%s, %s)
// CHECK-NEXT:    func.return %m, %s, %s
func.func @own(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %a = torch.aten.exp.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %n = torch.aten.neg.default(%a) : (tensor<3xf32>) -> tensor<3xf32>
  %r = torch.aten.relu_.default(%a) : (tensor<3xf32>) -> tensor<3xf32>
  %s = torch.aten.add_.Tensor(%a, %n) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %m = torch.aten.mul.Tensor(%r, %s) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %m, %a, %r : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

/// aten.copy has no derivative: a copy of a whole tensor becomes operators that have one.
// CHECK-LABEL: func.func @own_copy
// CHECK-NOT: torch.aten.copy
// CHECK: torch.aten.clone.default
// CHECK-NOT: torch.aten.copy
// CHECK: func.return
func.func @own_copy(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = torch.aten.neg.default(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %z = torch.aten.copy_.default(%y, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}

// -----

/// A sum in place is cast back to what it is written to.
// CHECK-LABEL: func.func @cast_back
// CHECK: torch.aten.add.Tensor{{.*}} -> tensor<3xf32>
// CHECK: func.return %{{.*}} : tensor<3xf16>
func.func @cast_back(%x: tensor<3xf16>, %y: tensor<3xf32>) -> tensor<3xf16> {
  %a = torch.aten.exp.default(%x) : (tensor<3xf16>) -> tensor<3xf16>
  %s = torch.aten.add_.Tensor(%a, %y) : (tensor<3xf16>, tensor<3xf32>) -> tensor<3xf16>
  func.return %a : tensor<3xf16>
}

// -----

/// A write to a value of a branch stays in the branch.
// CHECK-LABEL: func.func @branch
// CHECK: torch.higher_order.cond
// CHECK: torch.aten.relu.default
// CHECK-NOT: relu_
func.func @branch(%p: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %r = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%a: tensor<2xf32>):
    %b = torch.aten.exp.default(%a) : (tensor<2xf32>) -> tensor<2xf32>
    %c = torch.aten.relu_.default(%b) : (tensor<2xf32>) -> tensor<2xf32>
    fx.output((%b,)) : (tensor<2xf32>) -> ()
  }, {
  ^bb0(%a: tensor<2xf32>):
    %n = torch.aten.neg.default(%a) : (tensor<2xf32>) -> tensor<2xf32>
    fx.output((%n,)) : (tensor<2xf32>) -> ()
  }) : (tensor<i1>, tensor<2xf32>) -> (tensor<2xf32>)
  func.return %r : tensor<2xf32>
}

// -----

/// Copies into arguments at the end are new values of these; nothing is traced. What is returned as well is not the argument.
// CHECK-LABEL: func.func @last_writes
// CHECK-SAME: -> (tensor<4xf32> {fx.mutates = 1 : i64}, tensor<4xf32> {fx.mutates = 0 : i64}, tensor<4xf32>)
// CHECK-NEXT:   %a = torch.aten.neg.default(%x)
// CHECK-NEXT:   %b = torch.aten.mul.Tensor(%x, %y)
// CHECK-NEXT:   %d = torch.aten.copy_.default(%x, %a)
// CHECK-NEXT:   fx.output((%b, %d, %a))
func.func @last_writes(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.mul.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.copy_.default(%y, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.copy_.default(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%a,)) : (tensor<4xf32>) -> ()
}

// -----

/// A written argument that is returned is its new value; where two have the same, each result is that of its copy.
// CHECK-LABEL: func.func @returned_arguments
// CHECK-SAME: -> (tensor<4xf32> {fx.mutates = 0 : i64}, tensor<4xf32> {fx.mutates = 1 : i64}, tensor<4xf32> {fx.mutates = 2 : i64}, tensor<4xf32>, tensor<4xf32>)
// CHECK-NEXT:   %a = torch.aten.neg.default(%x)
// CHECK-NEXT:   %b = torch.aten.exp.default(%x)
// CHECK-NEXT:   %d = torch.aten.copy_.default(%y, %a)
// CHECK-NEXT:   fx.output((%a, %d, %b, %d, %b))
func.func @returned_arguments(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.copy_.default(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.copy_.default(%y, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.copy_.default(%z, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%y, %z)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// What is computed after a copy may read other values only; the operations of a joint graph keep their marks.
// CHECK-LABEL: func.func @read_later
// CHECK-SAME: -> (tensor<4xf32> {fx.mutates = 0 : i64}, tensor<2x2xf32>)
// CHECK-NEXT:   %a = torch.aten.neg.default(%x) {autodiff.recomputed}
// CHECK-NEXT:   %v = torch.aten._unsafe_view.default(%y, [2, 2])
// CHECK-NEXT:   fx.output((%a, %v))
func.func @read_later(%x: tensor<4xf32>, %y: tensor<4xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %a = torch.aten.neg.default(%x) {autodiff.recomputed} : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.copy_.default(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %v = torch.aten._unsafe_view.default(%y, [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  fx.output([%v]) : (tensor<2x2xf32>) -> ()
}

// -----

/// The second copy reads what the first one wrote.
// CHECK-LABEL: func.func @chained_writes
// CHECK-SAME: -> (tensor<4xf32> {fx.mutates = 0 : i64}, tensor<4xf32> {fx.mutates = 1 : i64})
// CHECK-NOT:    %x)
// CHECK:        fx.output
func.func @chained_writes(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.copy_.default(%x, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.copy_.default(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(()) : () -> ()
}

// -----

/// Views of what was written are views of the argument, into which its new value is copied last of all.
// CHECK-LABEL: func.func @returned_views
// CHECK-SAME: -> (tensor<2x3xf32> {fx.mutates = 0 : i64}, tensor<3x2xf32, #torch.meta<strides = [1, 3]>>, tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK:        %[[NEW:.*]] = torch.aten.mul.Tensor(%x, 2)
// CHECK:        %[[EXP:.*]] = torch.aten.exp.default(%[[NEW]])
// CHECK:        %[[X:.*]] = torch.aten.copy_.default(%x, %[[NEW]])
// CHECK-NEXT:   %[[VIEW:.*]] = torch.aten.t.default(%[[X]])
// CHECK-NEXT:   fx.output((%[[X]], %[[VIEW]], %[[X]], %[[EXP]]))
func.func @returned_views(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %v = torch.aten.t.default(%x) : (tensor<2x3xf32>) -> tensor<3x2xf32, #torch.meta<strides = [1, 3]>>
  %a = torch.aten.mul_.Tensor(%x, 2) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %e = torch.aten.exp.default(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output((%v, %x, %e)) : (tensor<3x2xf32, #torch.meta<strides = [1, 3]>>, tensor<2x3xf32>, tensor<2x3xf32>) -> ()
}

// -----

/// Of an argument that is returned as it is, its new value is.
// CHECK-LABEL: func.func @returned_argument
// CHECK:        %[[NEW:.*]] = torch.aten.mul.Tensor(%x, 2)
// CHECK-NEXT:   fx.output((%[[NEW]], %[[NEW]]))
func.func @returned_argument(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = torch.aten.mul_.Tensor(%x, 2) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  fx.output((%x,)) : (tensor<2x3xf32>) -> ()
}

// -----

/// The operations of the trace have the source lines and modules of those that they replace.
// LOC-LABEL: func.func @lines
// LOC:      %exp = torch.aten.exp.default(%x) {{.*}} loc("exp"(fused["in forward: y = x.exp()"("model.py":3:0), "module"("k"("l"("mine.Layer")))]))
// LOC:      %add = torch.aten.add.Tensor({{.*}} loc("add"("in forward: y[:2] += 1"("model.py":4:0)))
func.func @lines(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("y"(fused["in forward: y = x.exp()"("model.py":3:0), "module"("k"("l"("mine.Layer")))]))
  %v = torch.aten.slice.Tensor(%y, 0, 0, 2) : (tensor<4xf32>) -> tensor<2xf32> loc("v"(fused["in forward: y[:2] += 1"("model.py":4:0)]))
  %z = torch.aten.add_.Tensor(%v, 1) : (tensor<2xf32>) -> tensor<2xf32> loc("z"(fused["in forward: y[:2] += 1"("model.py":4:0)]))
  func.return %y : tensor<4xf32>
}

// -----

/// A constant of Python is on the CPU; what is written has the device of the tensor that it is written to.
// CHECK-LABEL: func.func @constant_on_the_cpu
// CHECK:        %[[MOVED:.*]] = torch.aten.to.dtype_layout(%c, dtype = torch.float32, layout = torch.strided, device = device("cuda:0"))
// CHECK:        torch.aten.add.Tensor(%{{.*}}, 1) : (tensor<f32, #torch.meta<device = "cuda:0">>)
func.func @constant_on_the_cpu(%c: tensor<f32>, %x: tensor<f32, #torch.meta<device = "cuda:0">>) -> tensor<f32, #torch.meta<device = "cuda:0">> {
  %a = torch.aten.copy_.default(%x, %c) : (tensor<f32, #torch.meta<device = "cuda:0">>, tensor<f32>) -> tensor<f32, #torch.meta<device = "cuda:0">>
  %b = torch.aten.add.Tensor(%a, 1) : (tensor<f32, #torch.meta<device = "cuda:0">>) -> tensor<f32, #torch.meta<device = "cuda:0">>
  func.return %b : tensor<f32, #torch.meta<device = "cuda:0">>
}
