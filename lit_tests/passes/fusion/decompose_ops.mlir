// RUN: fxc-opt %s --split-input-file --pass-pipeline=decompose-ops | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=decompose-ops,decompose-ops | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=decompose-ops{cpu=true} | filecheck %s --check-prefix=ALL
// RUN: fxc-opt %s --split-input-file --pass-pipeline=decompose-ops{reductions=true} | filecheck %s --check-prefix=ROWS

/// Both factors are one, in whatever way that is said. The result keeps its type.
// CHECK-LABEL: func.func @addmm
// CHECK-NEXT:    %[[M:.*]] = torch.aten.mm.default(%x, %w)
// CHECK-NEXT:    %a = torch.aten.add.Tensor(%b, %[[M]]) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:    %[[N:.*]] = torch.aten.mm.default(%x, %w)
// CHECK-NEXT:    %c = torch.aten.add.Tensor(%v, %[[N]]) : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:    fx.output
func.func @addmm(%b: tensor<2x4xf32>, %v: tensor<4xf32>, %x: tensor<2x3xf32>, %w: tensor<3x4xf32>) {
  %a = torch.aten.addmm.default(%b, %x, %w, beta = 1, alpha = 1.0) : (tensor<2x4xf32>, tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %c = torch.aten.addmm.default(%v, %x, %w) : (tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  fx.output((%a, %c)) : (tensor<2x4xf32>, tensor<2x4xf32>) -> ()
}

// -----

/// Another factor, a factor that is a value, half precision, and a bias that would give the sum its strides.
// CHECK-LABEL: func.func @other_addmm
// CHECK-COUNT-5: torch.aten.addmm.default
// CHECK-NEXT:    fx.output
func.func @other_addmm(%b: tensor<4xf32>, %x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %k: !torch.float, %h: tensor<4xf16>, %y: tensor<2x3xf16>, %u: tensor<3x4xf16>, %t: tensor<2x4xf32, #torch.meta<strides = [1, 2]>>) {
  %a = torch.aten.addmm.default(%b, %x, %w, alpha = 2) : (tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %c = torch.aten.addmm.default(%b, %x, %w, beta = 0) : (tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %d = torch.aten.addmm.default(%b, %x, %w, beta = %k) : (tensor<4xf32>, tensor<2x3xf32>, tensor<3x4xf32>, !torch.float) -> tensor<2x4xf32>
  %e = torch.aten.addmm.default(%h, %y, %u) : (tensor<4xf16>, tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf16>
  %f = torch.aten.addmm.default(%t, %x, %w) : (tensor<2x4xf32, #torch.meta<strides = [1, 2]>>, tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  fx.output((%a, %c, %d, %e, %f)) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf16>, tensor<2x4xf32>) -> ()
}

// -----

/// In the graphs of a higher-order operator too.
// CHECK-LABEL: func.func @in_regions
// CHECK:         torch.aten.mm.default(%y, %y)
// CHECK-NEXT:    %a = torch.aten.add.Tensor(%y
func.func @in_regions(%p: tensor<i1>, %x: tensor<3x3xf32>) {
  %h = torch.higher_order.cond(%p, @then, @else, (%x,)) ({
  ^bb0(%y: tensor<3x3xf32>):
    %a = torch.aten.addmm.default(%y, %y, %y) : (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    fx.output((%a,)) : (tensor<3x3xf32>) -> ()
  }, {
  ^bb0(%y: tensor<3x3xf32>):
    fx.output((%y,)) : (tensor<3x3xf32>) -> ()
  }) : (tensor<i1>, tensor<3x3xf32>) -> tensor<3x3xf32>
  fx.output(%h) : (tensor<3x3xf32>) -> ()
}

// -----

/// A layer with and without bias; of a single vector too, whose parts write what they made.
// CHECK-LABEL: func.func @linear
// CHECK-NEXT:    %[[T:.*]] = torch.aten.t.default(%w)
// CHECK-NEXT:    %[[M:.*]] = torch.aten.mm.default(%x, %[[T]])
// CHECK-NEXT:    %a = torch.aten.add.Tensor(%b, %[[M]])
// CHECK-NEXT:    torch.aten.view.default(%y, [6, 3])
// CHECK-NEXT:    torch.aten.t.default(%w)
// CHECK-NEXT:    torch.aten.mm.default
// CHECK-NEXT:    torch.aten.add.Tensor(%b,
// CHECK-NEXT:    %c = torch.aten.view.default(%{{.*}}, [2, 3, 4])
// CHECK-NEXT:    torch.aten.t.default(%w)
// CHECK-NEXT:    %d = torch.aten.mm.default(%x,
// CHECK-NOT:     torch.aten.linear
// CHECK:         fx.output((%a, %c, %d, %e))
func.func @linear(%x: tensor<2x3xf32>, %y: tensor<2x3x3xf32>, %z: tensor<3xf32>, %w: tensor<4x3xf32>, %b: tensor<4xf32>) {
  %a = torch.aten.linear.default(%x, %w, %b) : (tensor<2x3xf32>, tensor<4x3xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %c = torch.aten.linear.default(%y, %w, %b) : (tensor<2x3x3xf32>, tensor<4x3xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %d = torch.aten.linear.default(%x, %w) : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %e = torch.aten.linear.default(%z, %w) : (tensor<3xf32>, tensor<4x3xf32>) -> tensor<4xf32>
  fx.output((%a, %c, %d, %e)) : (tensor<2x4xf32>, tensor<2x3x4xf32>, tensor<2x4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Norms stay on the CPU unless that is asked for. Without a bias they add zeros, as PyTorch does there: -0.0 becomes 0.0.
// CHECK-LABEL: func.func @norms_on_the_cpu
// CHECK-NEXT:    torch.aten.layer_norm.default
// CHECK-NEXT:    torch.aten.batch_norm.default
// CHECK-NEXT:    torch.aten.group_norm.default
// ALL-LABEL: func.func @norms_on_the_cpu
// ALL-NOT:       norm
// ALL:           %a = torch.aten.add.Tensor
// ALL-NOT:       norm
// ALL:           [[z:%.*]] = torch.aten.zeros_like.default(%v)
// ALL-NOT:       norm
// ALL:           [[bias:%.*]] = torch.aten.unsqueeze.default([[z]], -1)
// ALL-NEXT:      %b = torch.aten.add.Tensor(%{{.*}}, [[bias]])
// ALL-NOT:       norm
// ALL:           %c = torch.aten.add.Tensor
// ALL-NOT:       norm
// ALL:           fx.output
func.func @norms_on_the_cpu(%x: tensor<2x4x5xf32>, %w: tensor<5xf32>, %v: tensor<4xf32>) {
  %a = torch.aten.layer_norm.default(%x, [5], %w, %w) : (tensor<2x4x5xf32>, tensor<5xf32>, tensor<5xf32>) -> tensor<2x4x5xf32>
  %b = torch.aten.batch_norm.default(%x, %v, none, %v, %v, false, 0.1, 1.0e-05, true) : (tensor<2x4x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x5xf32>
  %c = torch.aten.group_norm.default(%x, 2, %v, %v) : (tensor<2x4x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x5xf32>
  fx.output((%a, %b, %c)) : (tensor<2x4x5xf32>, tensor<2x4x5xf32>, tensor<2x4x5xf32>) -> ()
}

// -----

/// Elsewhere they are statistics and pointwise operators.
// CHECK-LABEL: func.func @norms_elsewhere
// CHECK-NEXT:    %{{.*}}, %{{.*}} = torch.aten.var_mean.{{.*}}(%x, [2]
// CHECK-NOT:     norm
// CHECK:         %a = torch.aten.add.Tensor
// CHECK-NOT:     norm
// CHECK:         fx.output
func.func @norms_elsewhere(%x: tensor<2x4x5xf32, #torch.meta<device = "meta">>, %w: tensor<5xf32, #torch.meta<device = "meta">>, %v: tensor<4xf32, #torch.meta<device = "meta">>) {
  %a = torch.aten.layer_norm.default(%x, [5], %w, %w) : (tensor<2x4x5xf32, #torch.meta<device = "meta">>, tensor<5xf32, #torch.meta<device = "meta">>, tensor<5xf32, #torch.meta<device = "meta">>) -> tensor<2x4x5xf32, #torch.meta<device = "meta">>
  %b = torch.aten.batch_norm.default(%x, %v, none, %v, %v, false, 0.1, 1.0e-05, true) : (tensor<2x4x5xf32, #torch.meta<device = "meta">>, tensor<4xf32, #torch.meta<device = "meta">>, tensor<4xf32, #torch.meta<device = "meta">>, tensor<4xf32, #torch.meta<device = "meta">>) -> tensor<2x4x5xf32, #torch.meta<device = "meta">>
  fx.output((%a, %b)) : (tensor<2x4x5xf32, #torch.meta<device = "meta">>, tensor<2x4x5xf32, #torch.meta<device = "meta">>) -> ()
}

// -----

/// A norm in training writes its statistics.
// ALL-LABEL: func.func @training
// ALL-NEXT:      torch.aten.batch_norm.default(%x, none, none, %v, %v, true, 0.1, 1.0e-05, true)
// ALL-NEXT:      fx.output
func.func @training(%x: tensor<2x4x5xf32>, %v: tensor<4xf32>) {
  %b = torch.aten.batch_norm.default(%x, none, none, %v, %v, true, 0.1, 1.0e-05, true) : (tensor<2x4x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x5xf32>
  fx.output(%b) : (tensor<2x4x5xf32>) -> ()
}

// -----

/// Named sizes stay named.
// CHECK-LABEL: func.func @symbolic
// CHECK-NEXT:    %[[T:.*]] = torch.aten.t.default(%w)
// CHECK-NEXT:    %[[M:.*]] = torch.aten.mm.default(%x, %[[T]]) : ({{.*}}) -> tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>
// CHECK-NEXT:    %a = torch.aten.add.Tensor(%b, %[[M]])
func.func @symbolic(%x: tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, %w: tensor<4x3xf32>, %b: tensor<4xf32>) {
  %a = torch.aten.linear.default(%x, %w, %b) : (tensor<?x3xf32, #torch.meta<sizes = ["s0", 3]>>, tensor<4x3xf32>, tensor<4xf32>) -> tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>
  fx.output(%a) : (tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> ()
}

// -----

/// An operator that is decomposed into one that may write, but does not: its parts in turn.
// ALL-LABEL: func.func @inference
// ALL-NOT:       norm
// ALL:           %a = torch.aten.add.Tensor
// ALL-NEXT:      fx.output
func.func @inference(%x: tensor<2x4x5xf32>, %v: tensor<4xf32>) {
  %a, %m, %r = torch.aten._native_batch_norm_legit_no_training.default(%x, %v, %v, %v, %v, 0.1, 1.0e-05) : (tensor<2x4x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x5xf32>, tensor<0xf32>, tensor<0xf32>)
  fx.output(%a) : (tensor<2x4x5xf32>) -> ()
}

// -----

/// One that gives a tuple waits for lower-simple-tuples.
// CHECK-LABEL: func.func @packed
// CHECK-NEXT:    torch.aten.native_layer_norm.default
func.func @packed(%x: tensor<2x4xf32, #torch.meta<device = "meta">>, %v: tensor<4xf32, #torch.meta<device = "meta">>) {
  %t = torch.aten.native_layer_norm.default(%x, [4], %v, %v, 1.0e-05) : (tensor<2x4xf32, #torch.meta<device = "meta">>, tensor<4xf32, #torch.meta<device = "meta">>, tensor<4xf32, #torch.meta<device = "meta">>) -> tuple<tensor<2x4xf32, #torch.meta<device = "meta">>, tensor<2x1xf32, #torch.meta<device = "meta">>, tensor<2x1xf32, #torch.meta<device = "meta">>>
  fx.output(%t) : (tuple<tensor<2x4xf32, #torch.meta<device = "meta">>, tensor<2x1xf32, #torch.meta<device = "meta">>, tensor<2x1xf32, #torch.meta<device = "meta">>>) -> ()
}

// -----

/// Reductions and pointwise work stay in one operator unless they are asked for, on every device.
// CHECK-LABEL: func.func @reductions
// CHECK-NEXT:    torch.aten.softmax.int
// CHECK-NEXT:    torch.aten.rms_norm.default
// CHECK-NEXT:    torch.aten._softmax_backward_data.default
// ROWS-LABEL:  func.func @reductions
// ROWS-NEXT:     torch.aten.amax.default(%x, [1], true)
// ROWS-NEXT:     torch.aten.sub.Tensor
// ROWS-NEXT:     torch.aten.exp.default
// ROWS-NEXT:     torch.aten.sum.dim_IntList
// ROWS-NEXT:     %a = torch.aten.div.Tensor
// ROWS-NEXT:     torch.aten.pow.Tensor_Scalar
// ROWS-NEXT:     torch.aten.mean.dim
// ROWS-NEXT:     torch.aten.add.Scalar
// ROWS-NEXT:     torch.aten.rsqrt.default
// ROWS-NEXT:     torch.aten.mul.Tensor
// ROWS-NEXT:     %b = torch.aten.mul.Tensor
// ROWS-NOT:      _softmax_backward_data
// ROWS:          fx.output
func.func @reductions(%x: tensor<4x5xf32>, %w: tensor<5xf32>) {
  %a = torch.aten.softmax.int(%x, 1) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %b = torch.aten.rms_norm.default(%x, [5], %w, 1.0e-05) : (tensor<4x5xf32>, tensor<5xf32>) -> tensor<4x5xf32>
  %c = torch.aten._softmax_backward_data.default(%a, %b, 1, torch.float32) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  fx.output((%a, %b, %c)) : (tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>) -> ()
}

// -----

/// A dropout that draws is the draw that PyTorch makes, and pointwise work, where a kernel reads or makes its operands; not one
/// that stands alone, that draws nothing, or that is on another device. The draw waits for no kernel.
// CHECK-LABEL: func.func @dropout
// CHECK-COUNT-4: torch.aten.dropout.default
// ROWS-LABEL:  func.func @dropout
// ROWS-NEXT:     %e = torch.aten.exp.default(%x)
// ROWS-NEXT:     %[[D:.*]] = torch.aten.bernoulli.p(%x, 0.75)
// ROWS-NEXT:     %[[N:.*]] = torch.aten.div.Tensor(%[[D]], 0.75)
// ROWS-NEXT:     %a = torch.aten.mul.Tensor(%e, %[[N]])
// ROWS-NEXT:     %b = torch.aten.dropout.default
// ROWS-NEXT:     %c = torch.aten.dropout.default
// ROWS-NEXT:     %d = torch.aten.dropout.default
func.func @dropout(%x: tensor<4xf32>, %y: tensor<4xf32, #torch.meta<device = "cuda:0">>) {
  %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %a = torch.aten.dropout.default(%e, 0.25, true) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.dropout.default(%x, 0.25, false) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.dropout.default(%y, 0.25, true) : (tensor<4xf32, #torch.meta<device = "cuda:0">>) -> tensor<4xf32, #torch.meta<device = "cuda:0">>
  %d = torch.aten.dropout.default(%x, 0.25, true) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%a, %b, %c, %d)) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32, #torch.meta<device = "cuda:0">>, tensor<4xf32>) -> ()
}

// -----

/// As AOTAutograd has it: with the mask of what was kept.
// CHECK-LABEL: func.func @native_dropout
// CHECK-NEXT:    torch.aten.native_dropout.default
// ROWS-LABEL:  func.func @native_dropout
// ROWS-NEXT:     %[[D:.*]] = torch.aten.bernoulli.p(%x, 0.75)
// ROWS-NEXT:     %[[P:.*]] = torch.aten.mul.Tensor(%x, %[[D]])
// ROWS-NEXT:     %a = torch.aten.mul.Tensor(%[[P]], 1.33333
// ROWS-NEXT:     %m = torch.aten.ne.Scalar(%[[D]], 0) : (tensor<4xf32>) -> tensor<4xi1>
// ROWS-NEXT:     %b = torch.aten.add.Tensor(%a, %x)
func.func @native_dropout(%x: tensor<4xf32>) {
  %a, %m = torch.aten.native_dropout.default(%x, 0.25, true) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  %b = torch.aten.add.Tensor(%a, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%b, %m)) : (tensor<4xf32>, tensor<4xi1>) -> ()
}

// -----

/// Pieces that a kernel reads are slices; others are not.
// CHECK-LABEL: func.func @pieces
// CHECK-COUNT-2: torch.aten.split.Tensor
// ROWS-LABEL:  func.func @pieces
// ROWS-NEXT:     %a = torch.aten.slice.Tensor(%x, 0, 0, 3) : (tensor<5xf32>) -> tensor<3xf32>
// ROWS-NEXT:     %b = torch.aten.slice.Tensor(%x, 0, 3, 5) : (tensor<5xf32>) -> tensor<2xf32>
// ROWS-NEXT:     %c = torch.aten.neg.default(%b)
// ROWS-NEXT:     %d, %e = torch.aten.split.Tensor(%x, 3)
func.func @pieces(%x: tensor<5xf32>) {
  %a, %b = torch.aten.split.Tensor(%x, 3) : (tensor<5xf32>) -> (tensor<3xf32>, tensor<2xf32>)
  %c = torch.aten.neg.default(%b) : (tensor<2xf32>) -> tensor<2xf32>
  %d, %e = torch.aten.split.Tensor(%x, 3) : (tensor<5xf32>) -> (tensor<3xf32>, tensor<2xf32>)
  fx.output((%a, %c, %d, %e)) : (tensor<3xf32>, tensor<2xf32>, tensor<3xf32>, tensor<2xf32>) -> ()
}

// -----

/// What is cut at indices may come twice, and none of it is a slice that begins where the one before ends.
// CHECK-LABEL: func.func @pieces_that_meet
// CHECK-NEXT: torch.aten.tensor_split.indices
// ROWS-LABEL: func.func @pieces_that_meet
// ROWS-NEXT: torch.aten.tensor_split.indices
func.func @pieces_that_meet(%x: tensor<8xf32>) {
  %a, %b, %c = torch.aten.tensor_split.indices(%x, [3, 2]) : (tensor<8xf32>) -> (tensor<3xf32>, tensor<0xf32>, tensor<6xf32>)
  %r = torch.aten.relu.default(%c) : (tensor<6xf32>) -> tensor<6xf32>
  fx.output(%r) : (tensor<6xf32>) -> ()
}

// -----

/// The view of a layer's result that a kernel reads comes before the bias.
// ROWS-LABEL:  func.func @view_of_layer
// ROWS-NEXT:     %[[M:.*]] = torch.aten.mm.default(%x, %w)
// ROWS-NEXT:     %[[V:[a-z0-9_]+]] = torch.aten.view.default(%[[M]], [2, 3, 4])
// ROWS-NEXT:     %[[A:.*]] = torch.aten.add.Tensor(%b, %[[V]]) : (tensor<4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
// ROWS-NEXT:     torch.aten.relu.default(%[[A]])
func.func @view_of_layer(%b: tensor<4xf32>, %x: tensor<6x3xf32>, %w: tensor<3x4xf32>) {
  %a = torch.aten.addmm.default(%b, %x, %w) : (tensor<4xf32>, tensor<6x3xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
  %v = torch.aten.view.default(%a, [2, 3, 4]) : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %r = torch.aten.relu.default(%v) : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  fx.output((%r,)) : (tensor<2x3x4xf32>) -> ()
}

// -----

/// What autograd looks into stays whole; what it does not is taken apart.
// ROWS-LABEL:  func.func @autograd
// ROWS-NEXT:     %a = torch.aten.softmax.int
// ROWS-NEXT:     torch.aten.amax.default(%y
func.func @autograd(%x: tensor<4x5xf32>, %y: tensor<4x5xf32>) {
  %a = torch.aten.softmax.int(%x, 1) {requires_grad = [true]} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %b = torch.aten.softmax.int(%y, 1) {requires_grad = [false]} : (tensor<4x5xf32>) -> tensor<4x5xf32>
  fx.output((%a, %b)) : (tensor<4x5xf32>, tensor<4x5xf32>) -> ()
}

// -----

/// A sum of single elements adds nothing to them but zero, which makes 0.0 of -0.0; one that gives another dtype is a sum.
// CHECK-LABEL: func.func @single
// CHECK-COUNT-3: torch.aten.sum.dim_IntList
// ROWS-LABEL:  func.func @single
// ROWS-NEXT:     %a = torch.aten.add.Scalar(%x, 0) : (tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
// ROWS-NEXT:     %[[S:.*]] = torch.aten.add.Scalar(%x, 0)
// ROWS-NEXT:     %b = torch.aten.view.default(%[[S]], [4]) : (tensor<1x4x1xf32>) -> tensor<4xf32>
// ROWS-NEXT:     %c = torch.aten.sum.dim_IntList(%x, [0]
// ROWS-NEXT:     fx.output
func.func @single(%x: tensor<1x4x1xf32>) {
  %a = torch.aten.sum.dim_IntList(%x, [0], true) : (tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
  %b = torch.aten.sum.dim_IntList(%x, [0, -1]) : (tensor<1x4x1xf32>) -> tensor<4xf32>
  %c = torch.aten.sum.dim_IntList(%x, [0], dtype = torch.float64) : (tensor<1x4x1xf32>) -> tensor<4x1xf64>
  fx.output((%a, %b, %c)) : (tensor<1x4x1xf32>, tensor<4xf32>, tensor<4x1xf64>) -> ()
}

// -----

/// What a kernel computes is reduced before a view joins or divides its dimensions: its loops are then those of the sum.
// CHECK-LABEL: func.func @joined
// CHECK-COUNT-3: torch.aten.view.default
// ROWS-LABEL:  func.func @joined
// ROWS:          %[[S:.*]] = torch.aten.sum.dim_IntList(%n, [0, 1], false, dtype = torch.float64) : (tensor<3x10x4x6xf32>) -> tensor<4x6xf64>
// ROWS-NEXT:     %[[A:.*]] = torch.aten.view.default(%[[S]], [1, 24]) : (tensor<4x6xf64>) -> tensor<1x24xf64>
// ROWS:          %[[M:.*]] = torch.aten.amax.default(%n, [2, 3], false) : (tensor<3x10x4x6xf32>) -> tensor<3x10xf32>
// ROWS-NEXT:     %[[B:.*]] = torch.aten.view.default(%[[M]], [30]) : (tensor<3x10xf32>) -> tensor<30xf32>
// ROWS:          %c = torch.aten.mean.dim(%m, [0], false) : (tensor<30x24xf32>) -> tensor<24xf32>
// ROWS-NEXT:     fx.output((%[[A]], %[[B]], %c))
func.func @joined(%x: tensor<3x10x4x6xf32>, %y: tensor<30x24xf32>) {
  %n = torch.aten.neg.default(%x) : (tensor<3x10x4x6xf32>) -> tensor<3x10x4x6xf32>
  %v = torch.aten.view.default(%n, [30, 24]) : (tensor<3x10x4x6xf32>) -> tensor<30x24xf32>
  %a = torch.aten.sum.dim_IntList(%v, [0], true, dtype = torch.float64) : (tensor<30x24xf32>) -> tensor<1x24xf64>
  %w = torch.aten.view.default(%n, [30, 1, 24]) : (tensor<3x10x4x6xf32>) -> tensor<30x1x24xf32>
  %b = torch.aten.amax.default(%w, [1, -1]) : (tensor<30x1x24xf32>) -> tensor<30xf32>
  %m = torch.aten.exp.default(%y) : (tensor<30x24xf32>) -> tensor<30x24xf32>
  %u = torch.aten.view.default(%m, [3, 10, 24]) : (tensor<30x24xf32>) -> tensor<3x10x24xf32>
  %c = torch.aten.mean.dim(%u, [0, 1]) : (tensor<3x10x24xf32>) -> tensor<24xf32>
  fx.output((%a, %b, %c)) : (tensor<1x24xf64>, tensor<30xf32>, tensor<24xf32>) -> ()
}

// -----

/// Not where a part of a dimension stays, where the view has a copy's or other strides, where all dimensions are reduced and
/// none is named, nor of what no kernel computes.
// CHECK-LABEL: func.func @parts
// ROWS-LABEL:  func.func @parts
// ROWS:          torch.aten.sum.dim_IntList(%v, [0])
// ROWS:          torch.aten.sum.dim_IntList(%w, [0])
// ROWS:          torch.aten.sum.default(%v)
// ROWS:          torch.aten.sum.dim_IntList(%u, [0])
// ROWS-NEXT:     fx.output
func.func @parts(%x: tensor<6x4xf32>, %y: tensor<2x3x4xf32>, %z: tensor<4x6xf32, #torch.meta<strides = [1, 4]>>) {
  %n = torch.aten.neg.default(%x) : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %v = torch.aten.view.default(%n, [2, 3, 4]) : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %a = torch.aten.sum.dim_IntList(%v, [0]) : (tensor<2x3x4xf32>) -> tensor<3x4xf32>
  %m = torch.aten.neg.default(%z) : (tensor<4x6xf32, #torch.meta<strides = [1, 4]>>) -> tensor<4x6xf32, #torch.meta<strides = [1, 4]>>
  %w = torch.aten.reshape.default(%m, [24]) : (tensor<4x6xf32, #torch.meta<strides = [1, 4]>>) -> tensor<24xf32>
  %b = torch.aten.sum.dim_IntList(%w, [0]) : (tensor<24xf32>) -> tensor<f32>
  %c = torch.aten.sum.default(%v) : (tensor<2x3x4xf32>) -> tensor<f32>
  %u = torch.aten.view.default(%y, [6, 4]) : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %d = torch.aten.sum.dim_IntList(%u, [0]) : (tensor<6x4xf32>) -> tensor<4xf32>
  fx.output((%a, %b, %c, %d)) : (tensor<3x4xf32>, tensor<f32>, tensor<f32>, tensor<4xf32>) -> ()
}

// -----

/// An operator on lists is one for each tensor, where kernels are made.
// CHECK-LABEL: func.func @lists
// CHECK-NEXT:    torch.aten._foreach_mul.Scalar
// ROWS-LABEL:  func.func @lists
// ROWS-NEXT:     %a = torch.aten.mul.{{.*}}(%x, 2
// ROWS-NEXT:     %b = torch.aten.mul.{{.*}}(%y, 2
func.func @lists(%x: tensor<4xf32>, %y: tensor<3x2xf32>) {
  %a, %b = torch.aten._foreach_mul.Scalar([%x, %y], 2) : (tensor<4xf32>, tensor<3x2xf32>) -> (tensor<4xf32>, tensor<3x2xf32>)
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<3x2xf32>) -> ()
}

// -----

/// A small product of one row is sums where kernels are made: of numbers as they lie, with or without a bias.
// CHECK-LABEL: func.func @one_row
// CHECK-COUNT-3: torch.aten.mm.default
// ROWS-LABEL:  func.func @one_row
// ROWS-NEXT:     torch.aten.t.default(%w)
// ROWS-NEXT:     %[[W:.*]] = torch.aten.unsqueeze.default(%w, 0)
// ROWS-NEXT:     %[[P:.*]] = torch.aten.mul.Tensor(%x, %[[W]]) : {{.*}} -> tensor<1x4x3xf32>
// ROWS-NEXT:     %a = torch.aten.sum.dim_IntList(%[[P]], [2], false)
// ROWS-NEXT:     %[[X:.*]] = torch.aten.t.default(%x)
// ROWS-NEXT:     %[[Q:.*]] = torch.aten.mul.Tensor(%[[X]], %v) : {{.*}} -> tensor<3x5xf32>
// ROWS-NEXT:     %[[S:.*]] = torch.aten.sum.dim_IntList(%[[Q]], [0], true)
// ROWS-NEXT:     %b = torch.aten.add.Tensor(%c, %[[S]])
// ROWS-NEXT:     torch.aten.t.default(%u)
// ROWS-NEXT:     torch.aten.unsqueeze.default
// ROWS-NEXT:     torch.aten.mul.Tensor
// ROWS-NEXT:     %d = torch.aten.sum.dim_IntList
// ROWS-NOT:      torch.aten.mm
func.func @one_row(%x: tensor<1x3xf32>, %w: tensor<4x3xf32>, %v: tensor<3x5xf32>, %c: tensor<5xf32>, %u: tensor<3x4xf32, #torch.meta<strides = [1, 6]>>) {
  %t = torch.aten.t.default(%w) : (tensor<4x3xf32>) -> tensor<3x4xf32, #torch.meta<strides = [1, 3]>>
  %a = torch.aten.mm.default(%x, %t) : (tensor<1x3xf32>, tensor<3x4xf32, #torch.meta<strides = [1, 3]>>) -> tensor<1x4xf32>
  %b = torch.aten.addmm.default(%c, %x, %v) : (tensor<5xf32>, tensor<1x3xf32>, tensor<3x5xf32>) -> tensor<1x5xf32>
  %d = torch.aten.mm.default(%x, %u) : (tensor<1x3xf32>, tensor<3x4xf32, #torch.meta<strides = [1, 6]>>) -> tensor<1x4xf32>
  fx.output((%a, %b, %d)) : (tensor<1x4xf32>, tensor<1x5xf32>, tensor<1x4xf32>) -> ()
}

// -----

/// Not of several rows, large ones, many sums of numbers that lie together, none, in other types, of strides that are all
/// larger than one, of sizes that are not known, or on another device.
// CHECK-LABEL: func.func @other_products
// ROWS-LABEL:  func.func @other_products
// ROWS-COUNT-8: torch.aten.mm.default
// ROWS-NOT:      torch.aten.sum
func.func @other_products(
  %x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %l: tensor<1x128xf32>, %m: tensor<128x129xf32>,
  %y: tensor<1x3xf32>, %k: tensor<3x129xf32, #torch.meta<strides = [1, 3]>>, %z: tensor<1x0xf32>, %o: tensor<0x4xf32>,
  %h: tensor<1x3xbf16>, %g: tensor<3x4xbf16>, %s: tensor<3x4xf32, #torch.meta<strides = [8, 2]>>,
  %q: tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>, %p: tensor<1x?xf32, #torch.meta<sizes = [1, "s0"]>>,
  %d: tensor<1x3xf32, #torch.meta<device = "cuda:0">>, %f: tensor<3x4xf32, #torch.meta<device = "cuda:0">>
) {
  %0 = torch.aten.mm.default(%x, %w) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = torch.aten.mm.default(%l, %m) : (tensor<1x128xf32>, tensor<128x129xf32>) -> tensor<1x129xf32>
  %2 = torch.aten.mm.default(%y, %k) : (tensor<1x3xf32>, tensor<3x129xf32, #torch.meta<strides = [1, 3]>>) -> tensor<1x129xf32>
  %3 = torch.aten.mm.default(%z, %o) : (tensor<1x0xf32>, tensor<0x4xf32>) -> tensor<1x4xf32>
  %4 = torch.aten.mm.default(%h, %g) : (tensor<1x3xbf16>, tensor<3x4xbf16>) -> tensor<1x4xbf16>
  %5 = torch.aten.mm.default(%y, %s) : (tensor<1x3xf32>, tensor<3x4xf32, #torch.meta<strides = [8, 2]>>) -> tensor<1x4xf32>
  %6 = torch.aten.mm.default(%p, %q) : (tensor<1x?xf32, #torch.meta<sizes = [1, "s0"]>>, tensor<?x4xf32, #torch.meta<sizes = ["s0", 4]>>) -> tensor<1x4xf32>
  %7 = torch.aten.mm.default(%d, %f) : (tensor<1x3xf32, #torch.meta<device = "cuda:0">>, tensor<3x4xf32, #torch.meta<device = "cuda:0">>) -> tensor<1x4xf32, #torch.meta<device = "cuda:0">>
  fx.output((%0, %1, %2, %3, %4, %5, %6, %7)) : (tensor<2x4xf32>, tensor<1x129xf32>, tensor<1x129xf32>, tensor<1x4xf32>, tensor<1x4xbf16>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32, #torch.meta<device = "cuda:0">>) -> ()
}

// -----

/// The gradient of an embedding is added row by row to what it is summed with, from either side.
// ROWS-LABEL: func.func @rows
// ROWS:         %[[I:.*]] = torch.aten.view.default(%i, [6])
// ROWS-NEXT:    %[[G:.*]] = torch.aten.view.default(%g, [6, 3])
// ROWS-NEXT:    %s = torch.aten.index_add.default(%x, 0, %[[I]], %[[G]])
// ROWS:         %t = torch.aten.index_add.default(%s, 0,
// CHECK-LABEL: func.func @rows
// CHECK:         torch.aten.embedding_dense_backward.default
func.func @rows(%x: tensor<7x3xf32>, %g: tensor<2x3x3xf32>, %i: tensor<2x3xi64>) {
  %d = torch.aten.embedding_dense_backward.default(%g, %i, 7, -1, false) : (tensor<2x3x3xf32>, tensor<2x3xi64>) -> tensor<7x3xf32>
  %s = torch.aten.add.Tensor(%x, %d) : (tensor<7x3xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  %e = torch.aten.embedding_dense_backward.default(%g, %i, 7, -1, false) : (tensor<2x3x3xf32>, tensor<2x3xi64>) -> tensor<7x3xf32>
  %t = torch.aten.add.Tensor(%e, %s) : (tensor<7x3xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  fx.output(%t) : (tensor<7x3xf32>) -> ()
}

// -----

/// Not with rows that count for nothing, rows that are divided by how many there are, a factor, in half precision, on a GPU, nor
/// where others read the gradient.
// ROWS-LABEL: func.func @not_rows
// ROWS-NOT:     index_add
// ROWS:         fx.output
func.func @not_rows(%x: tensor<7x3xf32>, %g: tensor<6x3xf32>, %i: tensor<6xi64>, %h: tensor<6x3xf16>, %xh: tensor<7x3xf16>, %gc: tensor<6x3xf32, #torch.meta<device = "cuda">>, %ic: tensor<6xi64, #torch.meta<device = "cuda">>, %xc: tensor<7x3xf32, #torch.meta<device = "cuda">>) {
  %a = torch.aten.embedding_dense_backward.default(%g, %i, 7, 2, false) : (tensor<6x3xf32>, tensor<6xi64>) -> tensor<7x3xf32>
  %b = torch.aten.add.Tensor(%x, %a) : (tensor<7x3xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  %c = torch.aten.embedding_dense_backward.default(%g, %i, 7, -1, true) : (tensor<6x3xf32>, tensor<6xi64>) -> tensor<7x3xf32>
  %d = torch.aten.add.Tensor(%b, %c) : (tensor<7x3xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  %e = torch.aten.embedding_dense_backward.default(%g, %i, 7, -1, false) : (tensor<6x3xf32>, tensor<6xi64>) -> tensor<7x3xf32>
  %f = torch.aten.add.Tensor(%d, %e, alpha = 2) : (tensor<7x3xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  %j = torch.aten.embedding_dense_backward.default(%h, %i, 7, -1, false) : (tensor<6x3xf16>, tensor<6xi64>) -> tensor<7x3xf16>
  %k = torch.aten.add.Tensor(%xh, %j) : (tensor<7x3xf16>, tensor<7x3xf16>) -> tensor<7x3xf16>
  %l = torch.aten.embedding_dense_backward.default(%gc, %ic, 7, -1, false) : (tensor<6x3xf32, #torch.meta<device = "cuda">>, tensor<6xi64, #torch.meta<device = "cuda">>) -> tensor<7x3xf32, #torch.meta<device = "cuda">>
  %m = torch.aten.add.Tensor(%xc, %l) : (tensor<7x3xf32, #torch.meta<device = "cuda">>, tensor<7x3xf32, #torch.meta<device = "cuda">>) -> tensor<7x3xf32, #torch.meta<device = "cuda">>
  %n = torch.aten.embedding_dense_backward.default(%g, %i, 7, -1, false) : (tensor<6x3xf32>, tensor<6xi64>) -> tensor<7x3xf32>
  %o = torch.aten.add.Tensor(%f, %n) : (tensor<7x3xf32>, tensor<7x3xf32>) -> tensor<7x3xf32>
  fx.output((%o, %k, %m, %n)) : (tensor<7x3xf32>, tensor<7x3xf16>, tensor<7x3xf32, #torch.meta<device = "cuda">>, tensor<7x3xf32>) -> ()
}

// -----

/// The largest of a window of a padded image: along its rows, then along columns; of equal ones the first, which is the second
/// operand. Indices that nothing reads are no matter.
// ROWS-LABEL: func.func @pools
// ROWS-NEXT:    %[[P:.*]] = torch.aten.constant_pad_nd.default(%x, [1, 0, 1, 0], -inf)
// ROWS-NEXT:    %[[A:.*]] = torch.aten.slice.Tensor(%[[P]], -1, 0, 5, 2)
// ROWS-NEXT:    %[[B:.*]] = torch.aten.slice.Tensor(%[[P]], -1, 1, 6, 2)
// ROWS-NEXT:    %[[R:.*]] = torch.aten.maximum.default(%[[B]], %[[A]])
// ROWS-NEXT:    %[[C:.*]] = torch.aten.slice.Tensor(%[[R]], -2, 0, 5, 2)
// ROWS-NEXT:    %[[D:.*]] = torch.aten.slice.Tensor(%[[R]], -2, 1, 6, 2)
// ROWS-NEXT:    %m = torch.aten.maximum.default(%[[D]], %[[C]])
// ROWS-NOT:     max_pool
// ROWS:         fx.output
// CHECK-LABEL: func.func @pools
// CHECK-COUNT-2: torch.aten.max_pool2d
func.func @pools(%x: tensor<1x2x5x5xf32>) {
  %m = torch.aten.max_pool2d.default(%x, [2, 2], [2, 2], [1, 1]) : (tensor<1x2x5x5xf32>) -> tensor<1x2x3x3xf32>
  %n, %i = torch.aten.max_pool2d_with_indices.default(%x, [2, 2]) : (tensor<1x2x5x5xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xi64>)
  fx.output((%m, %n)) : (tensor<1x2x3x3xf32>, tensor<1x2x2x2xf32>) -> ()
}

// -----

/// Where the largest are: the column of each, then what is above it in another row, with its place.
// ROWS-LABEL: func.func @places
// ROWS:         %[[P:.*]] = torch.aten.arange.start_step(0, 4, 2, dtype = torch.int64, device = device("cpu"))
// ROWS-NEXT:    %[[Q:.*]] = torch.aten.arange.start_step(1, 5, 2, dtype = torch.int64, device = device("cpu"))
// ROWS-NEXT:    %[[G:.*]] = torch.aten.gt.Tensor(%[[B:.*]], %[[A:.*]]) :
// ROWS-NEXT:    %[[N:.*]] = torch.aten.ne.Tensor(%[[B]], %[[B]])
// ROWS-NEXT:    %[[T:.*]] = torch.aten.logical_or.default(%[[G]], %[[N]])
// ROWS-NEXT:    torch.aten.where.self(%[[T]], %[[B]], %[[A]])
// ROWS-NEXT:    torch.aten.where.self(%[[T]], %[[Q]], %[[P]])
// ROWS:         torch.aten.arange.start_step(5, 25, 10, dtype = torch.int64, device = device("cpu"))
// ROWS:         %m = torch.aten.where.self
// ROWS-NEXT:    %i = torch.aten.where.self
func.func @places(%x: tensor<1x2x5x5xf32>) {
  %m, %i = torch.aten.max_pool2d_with_indices.default(%x, [2, 2]) : (tensor<1x2x5x5xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xi64>)
  fx.output((%m, %i)) : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xi64>) -> ()
}

// -----

/// Means in half precision are of sums in float32.
// ROWS-LABEL: func.func @means
// ROWS-NEXT:    torch.aten._to_copy.default(%x, dtype = torch.float32)
// ROWS:         %[[S:.*]] = torch.aten.add.Tensor
// ROWS-NEXT:    %[[M:.*]] = torch.aten.div.Tensor(%[[S]], 2.0)
// ROWS-NEXT:    %m = torch.aten._to_copy.default(%[[M]], dtype = torch.float16)
func.func @means(%x: tensor<2x6xf16>) {
  %m = torch.aten.avg_pool1d.default(%x, [2]) : (tensor<2x6xf16>) -> tensor<2x3xf16>
  fx.output(%m) : (tensor<2x3xf16>) -> ()
}

// -----

/// Not with places in windows that have gaps and reach outside, in large windows, of integers, and where made-up elements do not count.
// ROWS-LABEL: func.func @not_pools
// ROWS-NOT:     torch.aten.slice
// ROWS:         fx.output
func.func @not_pools(%x: tensor<1x2x6x6xf32>, %y: tensor<1x2x6x6xi64>) {
  %a, %i = torch.aten.max_pool2d_with_indices.default(%x, [2, 2], [2, 2], [1, 1], [2, 2]) : (tensor<1x2x6x6xf32>) -> (tensor<1x2x3x3xf32>, tensor<1x2x3x3xi64>)
  %b = torch.aten.max_pool2d.default(%x, [6, 6]) : (tensor<1x2x6x6xf32>) -> tensor<1x2x1x1xf32>
  %c = torch.aten.max_pool2d.default(%y, [2, 2]) : (tensor<1x2x6x6xi64>) -> tensor<1x2x3x3xi64>
  %d = torch.aten.avg_pool2d.default(%x, [2, 2], [2, 2], [1, 1], false, false) : (tensor<1x2x6x6xf32>) -> tensor<1x2x4x4xf32>
  %e = torch.aten.avg_pool2d.default(%x, [4, 4], [4, 4], [0, 0], true) : (tensor<1x2x6x6xf32>) -> tensor<1x2x2x2xf32>
  fx.output((%a, %i, %b, %c, %d, %e)) : (tensor<1x2x3x3xf32>, tensor<1x2x3x3xi64>, tensor<1x2x1x1xf32>, tensor<1x2x3x3xi64>, tensor<1x2x4x4xf32>, tensor<1x2x2x2xf32>) -> ()
}

// -----

/// An image resized to its nearest elements is read at computed places; sums of several elements are PyTorch's, as weights of
/// zero give other results for what is infinite.
// ROWS-LABEL: func.func @resized
// ROWS:         %n = torch.aten._unsafe_index.Tensor(%x
// ROWS-NEXT:    %b = torch.aten.upsample_bilinear2d.vec
// CHECK-LABEL: func.func @resized
// CHECK-NEXT:    torch.aten.upsample_nearest2d.vec
func.func @resized(%x: tensor<1x2x3x3xf32>) {
  %n = torch.aten.upsample_nearest2d.vec(%x, none, [2.0, 2.0]) : (tensor<1x2x3x3xf32>) -> tensor<1x2x6x6xf32>
  %b = torch.aten.upsample_bilinear2d.vec(%x, none, false, [2.0, 2.0]) : (tensor<1x2x3x3xf32>) -> tensor<1x2x6x6xf32>
  fx.output((%n, %b)) : (tensor<1x2x6x6xf32>, tensor<1x2x6x6xf32>) -> ()
}

// -----

/// A product of stacks is one bmm, of views where matrices lie at even steps, else of copies in which each lies as it did.
// ROWS-LABEL: func.func @stacks
// ROWS-NEXT:    %[[C:.*]] = torch.aten.clone.default(%x, memory_format = torch.contiguous_format)
// ROWS-NEXT:    %[[X:.*]] = torch.aten.view.default(%[[C]], [6, 4, 5]) : (tensor<2x3x4x5xf32>) -> tensor<6x4x5xf32>
// ROWS-NEXT:    %[[Y:.*]] = torch.aten.view.default(%y, [6, 5, 7])
// ROWS-NEXT:    %[[P:.*]] = torch.aten.bmm.default(%[[X]], %[[Y]]) : (tensor<6x4x5xf32>, tensor<6x5x7xf32>) -> tensor<6x4x7xf32>
// ROWS-NEXT:    %a = torch.aten.view.default(%[[P]], [2, 3, 4, 7]) : (tensor<6x4x7xf32>) -> tensor<2x3x4x7xf32>
// ROWS-NEXT:    %[[A:.*]] = torch.aten.view.default(%a, [6, 4, 7])
// ROWS-NEXT:    %[[T:.*]] = torch.aten.transpose.int(%z, -1, -2)
// ROWS-NEXT:    %[[D:.*]] = torch.aten.clone.default(%[[T]], memory_format = torch.contiguous_format)
// ROWS-NEXT:    %[[U:.*]] = torch.aten.transpose.int(%[[D]], -1, -2)
// ROWS-NEXT:    %[[Z:.*]] = torch.aten.view.default(%[[U]], [6, 7, 5])
// ROWS-SAME:      -> tensor<6x7x5xf32, #torch.meta<strides = [35, 1, 7]>>
// ROWS:         torch.aten.bmm.default(%[[A]], %[[Z]])
// CHECK-LABEL: func.func @stacks
// CHECK-NEXT:    %a = torch.aten.matmul.default(%x, %y)
// CHECK-NEXT:    %b = torch.aten.matmul.default(%a, %z)
func.func @stacks(%x: tensor<2x3x4x5xf32, #torch.meta<strides = [60, 5, 15, 1]>>, %y: tensor<2x3x5x7xf32>, %z: tensor<2x3x7x5xf32, #torch.meta<strides = [105, 7, 1, 21]>>) {
  %a = torch.aten.matmul.default(%x, %y) : (tensor<2x3x4x5xf32, #torch.meta<strides = [60, 5, 15, 1]>>, tensor<2x3x5x7xf32>) -> tensor<2x3x4x7xf32>
  %b = torch.aten.matmul.default(%a, %z) : (tensor<2x3x4x7xf32>, tensor<2x3x7x5xf32, #torch.meta<strides = [105, 7, 1, 21]>>) -> tensor<2x3x4x5xf32>
  fx.output((%a, %b)) : (tensor<2x3x4x7xf32>, tensor<2x3x4x5xf32>) -> ()
}

// -----

/// Not of stacks of different sizes, nor without elements, nor of one matrix each; and what PyTorch's autograd looks into stays.
// ROWS-LABEL: func.func @not_stacks
// ROWS-NOT:     torch.aten.bmm
// ROWS:         fx.output
func.func @not_stacks(%x: tensor<2x3x4x5xf32>, %y: tensor<2x1x5x7xf32>, %e: tensor<2x3x0x4xf32>, %m: tensor<4x5xf32>, %w: tensor<2x3x5x4xf32> {fx.requires_grad}) {
  %a = torch.aten.matmul.default(%x, %y) : (tensor<2x3x4x5xf32>, tensor<2x1x5x7xf32>) -> tensor<2x3x4x7xf32>
  %b = torch.aten.matmul.default(%e, %x) : (tensor<2x3x0x4xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x0x5xf32>
  %c = torch.aten.matmul.default(%m, %w) {requires_grad = [true]} : (tensor<4x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x4x4xf32>
  %d = torch.aten.matmul.default(%x, %w) {requires_grad = [true]} : (tensor<2x3x4x5xf32>, tensor<2x3x5x4xf32>) -> tensor<2x3x4x4xf32>
  fx.output((%a, %b, %c, %d)) : (tensor<2x3x4x7xf32>, tensor<2x3x0x5xf32>, tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> ()
}

// -----

/// No kernel computes rows of which there are none, and their maximum would be an error where they have no elements.
// ROWS-LABEL:  func.func @nothing
// ROWS-NEXT:     %a = torch.aten.softmax.int
// ROWS-NEXT:     torch.aten.amax.default(%y
func.func @nothing(%x: tensor<0x?xf32>, %y: tensor<4x5xf32>) {
  %a = torch.aten.softmax.int(%x, 1) : (tensor<0x?xf32>) -> tensor<0x?xf32>
  %b = torch.aten.softmax.int(%y, 1) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  fx.output((%a, %b)) : (tensor<0x?xf32>, tensor<4x5xf32>) -> ()
}

// -----

/// One matrix in a batch, on a GPU; not on a CPU, of two, or of a symbolic number.
// CHECK-LABEL: func.func @lone_products
// CHECK-NEXT:    [[L:%[0-9a-z]+]] = torch.aten.squeeze.dim(%x, 0)
// CHECK-NEXT:    [[R:%[0-9a-z]+]] = torch.aten.squeeze.dim(%y, 0)
// CHECK-NEXT:    [[P:%[0-9a-z]+]] = torch.aten.mm.default([[L]], [[R]])
// CHECK-NEXT:    %a = torch.aten.unsqueeze.default([[P]], 0)
// CHECK-COUNT-3: torch.aten.bmm.default
func.func @lone_products(%x: tensor<1x2x3xf32, #torch.meta<device = "cuda:0">>, %y: tensor<1x3x4xf32, #torch.meta<device = "cuda:0">>, %u: tensor<1x2x3xf32>, %v: tensor<1x3x4xf32>, %s: tensor<2x2x3xf32, #torch.meta<device = "cuda:0">>, %t: tensor<2x3x4xf32, #torch.meta<device = "cuda:0">>, %m: tensor<?x2x3xf32, #torch.meta<sizes = ["s0", 2, 3], device = "cuda:0">>, %n: tensor<?x3x4xf32, #torch.meta<sizes = ["s0", 3, 4], device = "cuda:0">>) {
  %a = torch.aten.bmm.default(%x, %y) : (tensor<1x2x3xf32, #torch.meta<device = "cuda:0">>, tensor<1x3x4xf32, #torch.meta<device = "cuda:0">>) -> tensor<1x2x4xf32, #torch.meta<device = "cuda:0">>
  %b = torch.aten.bmm.default(%u, %v) : (tensor<1x2x3xf32>, tensor<1x3x4xf32>) -> tensor<1x2x4xf32>
  %c = torch.aten.bmm.default(%s, %t) : (tensor<2x2x3xf32, #torch.meta<device = "cuda:0">>, tensor<2x3x4xf32, #torch.meta<device = "cuda:0">>) -> tensor<2x2x4xf32, #torch.meta<device = "cuda:0">>
  %d = torch.aten.bmm.default(%m, %n) : (tensor<?x2x3xf32, #torch.meta<sizes = ["s0", 2, 3], device = "cuda:0">>, tensor<?x3x4xf32, #torch.meta<sizes = ["s0", 3, 4], device = "cuda:0">>) -> tensor<?x2x4xf32, #torch.meta<sizes = ["s0", 2, 4], device = "cuda:0">>
  fx.output((%a, %b, %c, %d)) : (tensor<1x2x4xf32, #torch.meta<device = "cuda:0">>, tensor<1x2x4xf32>, tensor<2x2x4xf32, #torch.meta<device = "cuda:0">>, tensor<?x2x4xf32, #torch.meta<sizes = ["s0", 2, 4], device = "cuda:0">>) -> ()
}

// -----

/// Weights of 25 or more elements a channel; the image's gradient stays a call.
// CHECK-LABEL:    func.func @depthwise_gradients
// CHECK-NEXT:       torch.aten.convolution_backward
// ROWS-LABEL:     func.func @depthwise_gradients
// ROWS:             torch.aten.constant_pad_nd.default(%x, [2, 2, 2, 2])
// ROWS:             %[[PRODUCT:.*]] = torch.aten.mul.Tensor
// ROWS:             torch.aten.where.ScalarOther({{.*}}, %[[PRODUCT]], 0.0)
// ROWS-NEXT:        torch.aten.sum.dim_IntList({{.*}}, [0, 4])
// ROWS:             %b = torch.aten.sum.dim_IntList
// ROWS-NEXT:        torch.aten.convolution_backward.default({{.*}}[true, false, false])
func.func @depthwise_gradients(%g: tensor<2x4x6x6xf32>, %x: tensor<2x4x6x6xf32>, %w: tensor<4x1x5x5xf32>) {
  %a, %v, %b = torch.aten.convolution_backward.default(%g, %x, %w, [4], [1, 1], [2, 2], [1, 1], false, [0, 0], 4, [true, true, true]) : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>, tensor<4x1x5x5xf32>) -> (tensor<2x4x6x6xf32>, tensor<4x1x5x5xf32>, tensor<4xf32>)
  fx.output((%a, %v, %b)) : (tensor<2x4x6x6xf32>, tensor<4x1x5x5xf32>, tensor<4xf32>) -> ()
}

// -----

/// Not where few elements are multiplied, the weight has no gradient, or a step, a distance, groups or the dtype are others.
// ROWS-LABEL:     func.func @other_gradients
// ROWS-NOT:         torch.aten.mul
func.func @other_gradients(%g: tensor<2x4x6x6xf32>, %h: tensor<2x4x3x3xf32>, %i: tensor<2x4x2x2xf32>, %x: tensor<2x4x6x6xf32>, %s: tensor<4x1x3x3xf32>, %w: tensor<4x1x5x5xf32>, %m: tensor<4x2x5x5xf32>, %d: tensor<2x4x6x6xf64>, %u: tensor<4x1x5x5xf64>) {
  %a, %av, %ab = torch.aten.convolution_backward.default(%g, %x, %s, [4], [1, 1], [1, 1], [1, 1], false, [0, 0], 4, [true, true, true]) : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>, tensor<4x1x3x3xf32>) -> (tensor<2x4x6x6xf32>, tensor<4x1x3x3xf32>, tensor<4xf32>)
  %b, %bv, %bb = torch.aten.convolution_backward.default(%g, %x, %w, [4], [1, 1], [2, 2], [1, 1], false, [0, 0], 4, [true, true, true]) : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>, tensor<4x1x5x5xf32>) -> (tensor<2x4x6x6xf32>, tensor<4x1x5x5xf32>, tensor<4xf32>)
  %c, %cv, %cb = torch.aten.convolution_backward.default(%h, %x, %w, [4], [2, 2], [2, 2], [1, 1], false, [0, 0], 4, [true, true, true]) : (tensor<2x4x3x3xf32>, tensor<2x4x6x6xf32>, tensor<4x1x5x5xf32>) -> (tensor<2x4x6x6xf32>, tensor<4x1x5x5xf32>, tensor<4xf32>)
  %e, %ev, %eb = torch.aten.convolution_backward.default(%i, %x, %w, [4], [1, 1], [2, 2], [2, 2], false, [0, 0], 4, [true, true, true]) : (tensor<2x4x2x2xf32>, tensor<2x4x6x6xf32>, tensor<4x1x5x5xf32>) -> (tensor<2x4x6x6xf32>, tensor<4x1x5x5xf32>, tensor<4xf32>)
  %f, %fv, %fb = torch.aten.convolution_backward.default(%g, %x, %m, [4], [1, 1], [2, 2], [1, 1], false, [0, 0], 2, [true, true, true]) : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>, tensor<4x2x5x5xf32>) -> (tensor<2x4x6x6xf32>, tensor<4x2x5x5xf32>, tensor<4xf32>)
  %k, %kv, %kb = torch.aten.convolution_backward.default(%d, %d, %u, [4], [1, 1], [2, 2], [1, 1], false, [0, 0], 4, [true, true, true]) : (tensor<2x4x6x6xf64>, tensor<2x4x6x6xf64>, tensor<4x1x5x5xf64>) -> (tensor<2x4x6x6xf64>, tensor<4x1x5x5xf64>, tensor<4xf64>)
  fx.output((%av, %b, %bb, %cv, %ev, %fv, %kv)) : (tensor<4x1x3x3xf32>, tensor<2x4x6x6xf32>, tensor<4xf32>, tensor<4x1x5x5xf32>, tensor<4x1x5x5xf32>, tensor<4x2x5x5xf32>, tensor<4x1x5x5xf64>) -> ()
}

// -----

/// A matrix that is unpacked from fewer bytes, for few rows, is computed in the sum; of two numbers in a byte both are
/// multiplied there, and of halves of columns those at the same position. Of columns per output each row is a sum.
// CHECK-LABEL: func.func @unpacked
// CHECK-COUNT-4: torch.aten.mm.default
// ROWS-LABEL:  func.func @unpacked
// ROWS:          %[[W:.*]] = torch.aten.unsqueeze.default({{.*}}, 0) : {{.*}} -> tensor<1x4x6xf32>
// ROWS-NEXT:     %[[P:.*]] = torch.aten.mul.Tensor({{.*}}, %[[W]]) : {{.*}} -> tensor<2x4x6xf32>
// ROWS-NEXT:     %a = torch.aten.sum.dim_IntList(%[[P]], [2])
// ROWS-COUNT-2:  torch.aten.slice.Tensor({{.*}}, 1, 0, 6, 2)
// ROWS-COUNT-2:  torch.aten.slice.Tensor({{.*}}, 1, 1, 6, 2)
// ROWS:          %b = torch.aten.sum.dim_IntList({{.*}}) : (tensor<2x4x3xf32>)
// ROWS-COUNT-2:  torch.aten.slice.Tensor({{.*}}, 1, 0, 3, 1)
// ROWS-COUNT-2:  torch.aten.slice.Tensor({{.*}}, 1, 3, 6, 1)
// ROWS:          %c = torch.aten.sum.dim_IntList({{.*}}) : (tensor<2x4x3xf32>)
// ROWS-COUNT-2:  torch.aten.sum.dim_IntList({{.*}}, [0]) : (tensor<6x4xf32>)
// ROWS-NEXT:     %d = torch.aten.stack.default
// ROWS-NOT:      torch.aten.mm
func.func @unpacked(%x: tensor<2x6xf32>, %w: tensor<4x6xi8>, %p: tensor<4x3xi8>, %k: tensor<6x4xi8>) {
  %f = torch.aten._to_copy.default(%w, dtype = torch.float32) : (tensor<4x6xi8>) -> tensor<4x6xf32>
  %t = torch.aten.t.default(%f) : (tensor<4x6xf32>) -> tensor<6x4xf32, #torch.meta<strides = [1, 6]>>
  %a = torch.aten.mm.default(%x, %t) : (tensor<2x6xf32>, tensor<6x4xf32, #torch.meta<strides = [1, 6]>>) -> tensor<2x4xf32>
  %low = torch.aten.bitwise_and.Scalar(%p, 15) : (tensor<4x3xi8>) -> tensor<4x3xi8>
  %high = torch.aten.bitwise_right_shift.Tensor_Scalar(%p, 4) : (tensor<4x3xi8>) -> tensor<4x3xi8>
  %s = torch.aten.stack.default([%low, %high], 2) : (tensor<4x3xi8>, tensor<4x3xi8>) -> tensor<4x3x2xi8>
  %v = torch.aten.view.default(%s, [4, 6]) : (tensor<4x3x2xi8>) -> tensor<4x6xi8>
  %g = torch.aten._to_copy.default(%v, dtype = torch.float32) : (tensor<4x6xi8>) -> tensor<4x6xf32>
  %u = torch.aten.t.default(%g) : (tensor<4x6xf32>) -> tensor<6x4xf32, #torch.meta<strides = [1, 6]>>
  %b = torch.aten.mm.default(%x, %u) : (tensor<2x6xf32>, tensor<6x4xf32, #torch.meta<strides = [1, 6]>>) -> tensor<2x4xf32>
  %j = torch.aten.cat.default([%p, %p], 1) : (tensor<4x3xi8>, tensor<4x3xi8>) -> tensor<4x6xi8>
  %h = torch.aten._to_copy.default(%j, dtype = torch.float32) : (tensor<4x6xi8>) -> tensor<4x6xf32>
  %y = torch.aten.t.default(%h) : (tensor<4x6xf32>) -> tensor<6x4xf32, #torch.meta<strides = [1, 6]>>
  %c = torch.aten.mm.default(%x, %y) : (tensor<2x6xf32>, tensor<6x4xf32, #torch.meta<strides = [1, 6]>>) -> tensor<2x4xf32>
  %m = torch.aten._to_copy.default(%k, dtype = torch.float32) : (tensor<6x4xi8>) -> tensor<6x4xf32>
  %d = torch.aten.mm.default(%x, %m) : (tensor<2x6xf32>, tensor<6x4xf32>) -> tensor<2x4xf32>
  fx.output((%a, %b, %c, %d)) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> ()
}

// -----

/// Not for many rows, of a matrix with one column per output for half as many, where another op reads the matrix, where it has
/// as many bytes, or where its columns are joined of parts of several lengths.
// ROWS-LABEL:  func.func @not_unpacked
// ROWS-COUNT-5: torch.aten.mm.default
// ROWS-NOT:      torch.aten.sum
func.func @not_unpacked(
  %x: tensor<2x6xf32>, %y: tensor<17x6xf32>, %z: tensor<9x6xf32>, %w: tensor<4x6xi8>, %k: tensor<6x4xi8>, %i: tensor<6x4xi32>,
  %h: tensor<4x2xi8>, %o: tensor<4x4xi8>
) {
  %f = torch.aten._to_copy.default(%w, dtype = torch.float32) : (tensor<4x6xi8>) -> tensor<4x6xf32>
  %t = torch.aten.t.default(%f) : (tensor<4x6xf32>) -> tensor<6x4xf32, #torch.meta<strides = [1, 6]>>
  %a = torch.aten.mm.default(%y, %t) : (tensor<17x6xf32>, tensor<6x4xf32, #torch.meta<strides = [1, 6]>>) -> tensor<17x4xf32>
  %g = torch.aten._to_copy.default(%k, dtype = torch.float32) : (tensor<6x4xi8>) -> tensor<6x4xf32>
  %b = torch.aten.mm.default(%z, %g) : (tensor<9x6xf32>, tensor<6x4xf32>) -> tensor<9x4xf32>
  %e = torch.aten._to_copy.default(%w, dtype = torch.float32) : (tensor<4x6xi8>) -> tensor<4x6xf32>
  %u = torch.aten.t.default(%e) : (tensor<4x6xf32>) -> tensor<6x4xf32, #torch.meta<strides = [1, 6]>>
  %c = torch.aten.mm.default(%x, %u) : (tensor<2x6xf32>, tensor<6x4xf32, #torch.meta<strides = [1, 6]>>) -> tensor<2x4xf32>
  %j = torch.aten._to_copy.default(%i, dtype = torch.float32) : (tensor<6x4xi32>) -> tensor<6x4xf32>
  %d = torch.aten.mm.default(%x, %j) : (tensor<2x6xf32>, tensor<6x4xf32>) -> tensor<2x4xf32>
  %l = torch.aten.cat.default([%h, %o], 1) : (tensor<4x2xi8>, tensor<4x4xi8>) -> tensor<4x6xi8>
  %m = torch.aten._to_copy.default(%l, dtype = torch.float32) : (tensor<4x6xi8>) -> tensor<4x6xf32>
  %v = torch.aten.t.default(%m) : (tensor<4x6xf32>) -> tensor<6x4xf32, #torch.meta<strides = [1, 6]>>
  %n = torch.aten.mm.default(%x, %v) : (tensor<2x6xf32>, tensor<6x4xf32, #torch.meta<strides = [1, 6]>>) -> tensor<2x4xf32>
  fx.output((%a, %b, %c, %d, %e, %n)) : (tensor<17x4xf32>, tensor<9x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<4x6xf32>, tensor<2x4xf32>) -> ()
}

// -----

/// The product with bytes of PyTorch is one with floats, except in half precision.
// ROWS-LABEL:  func.func @int8_product
// ROWS:          %[[S:.*]] = torch.aten.sum.dim_IntList
// ROWS-NEXT:     %a = torch.aten.mul.Tensor(%[[S]], %s)
// ROWS-NEXT:     %b = torch.aten._weight_int8pack_mm.default(%y, %w, %t)
func.func @int8_product(
  %x: tensor<2x16xf32>, %w: tensor<4x16xi8>, %s: tensor<4xf32>, %y: tensor<2x16xbf16>, %t: tensor<4xbf16>
) {
  %a = torch.aten._weight_int8pack_mm.default(%x, %w, %s) : (tensor<2x16xf32>, tensor<4x16xi8>, tensor<4xf32>) -> tensor<2x4xf32>
  %b = torch.aten._weight_int8pack_mm.default(%y, %w, %t)
     : (tensor<2x16xbf16>, tensor<4x16xi8>, tensor<4xbf16>) -> tensor<2x4xbf16>
  fx.output((%a, %b)) : (tensor<2x4xf32>, tensor<2x4xbf16>) -> ()
}

// -----

/// Numbers of 8 bits are made of their digits and exponent; other formats stay.
// ROWS-LABEL:  func.func @float8
// ROWS-NEXT:     torch.aten.view.dtype(%x, torch.uint8)
// ROWS:          %a = torch.aten.masked_fill.Scalar
// ROWS-NEXT:     %b = torch.aten._to_copy.default(%y
func.func @float8(%x: tensor<4xf8E4M3FN>, %y: tensor<4xf8E5M2>) {
  %a = torch.aten._to_copy.default(%x, dtype = torch.float32) : (tensor<4xf8E4M3FN>) -> tensor<4xf32>
  %b = torch.aten._to_copy.default(%y, dtype = torch.float32) : (tensor<4xf8E5M2>) -> tensor<4xf32>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A dimension that the tensor does not have: the call stays, and raises PyTorch's error.
// ROWS-LABEL:  func.func @no_dimension
// ROWS-NEXT:     torch.aten._softmax.default(%x, 7, false)
func.func @no_dimension(%x: tensor<4x3xf32>) {
  %a = torch.aten._softmax.default(%x, 7, false) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  fx.output(%a) : (tensor<4x3xf32>) -> ()
}

// -----

/// What PyTorch computes depends on the number, which is not known.
// ROWS-LABEL:  func.func @unknown_power
// ROWS-NEXT:     torch.aten.linalg_vector_norm.default(%x, %k)
func.func @unknown_power(%x: tensor<3xf32>, %k: !torch.float) {
  %a = torch.aten.linalg_vector_norm.default(%x, %k) : (tensor<3xf32>, !torch.float) -> tensor<f32>
  fx.output(%a) : (tensor<f32>) -> ()
}
