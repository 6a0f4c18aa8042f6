// RUN: fxc-opt %s --split-input-file -p convert-fusion-to-linalg,tile-attention | filecheck %s
// RUN: fxc-opt %s --split-input-file --target=cuda:sm_90 -p convert-fusion-to-linalg,tile-attention | filecheck %s --check-prefix=GPU

/// Rows of scores are columns of blocks on a CPU. 20 rows and 40 keys do not fill their blocks: lanes beyond are masked.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %o = tile.launch @attention_0(%q, %k, %v) : (tensor<20x8xf32>, tensor<8x40xf32>, tensor<40x24xf32>) -> tensor<20x24xf32>
// CHECK-NEXT:    fx.output
// CHECK:       tile.kernel @attention_0
// CHECK-SAME:    grid = array<i64: 5>, tile.source = ["s = aten.mm.default", "m = aten.amax.default"
// CHECK:         tile.load %q
// CHECK:         scf.for %key
// CHECK:           tile.mask %key
// CHECK:           tile.load %k
// CHECK:           tile.dot {{.*}} : vector<32x8xf32>, vector<8x4xf32> -> vector<32x4xf32>
// CHECK:           tile.select
// CHECK:           tile.reduce "max" {{.*}} {dims = [0]}
// CHECK:           math.exp
// CHECK:           tile.expand {{.*}} {dim = 0}
// CHECK:           math.exp
// CHECK:           tile.reduce "add"
// CHECK:           tile.load %v
// CHECK:           tile.dot {{.*}} : vector<24x32xf32>, vector<32x4xf32> -> vector<24x4xf32>
// CHECK:         arith.divf
// CHECK:         tile.store
/// A GPU has blocks of rows, with sides that are powers of two.
// GPU-LABEL:   tile.kernel @attention_0
// GPU:           tile.dot {{.*}} : vector<32x16xf32>, vector<16x64xf32> -> vector<32x64xf32>
// GPU:           tile.reduce "max" {{.*}} {dims = [1]}
// GPU:           tile.dot {{.*}} : vector<32x64xf32>, vector<64x32xf32> -> vector<32x32xf32>
func.func @main(%q: tensor<20x8xf32>, %k: tensor<8x40xf32>, %v: tensor<40x24xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<20x8xf32>, tensor<8x40xf32>) -> tensor<20x40xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [1], true) : (tensor<20x40xf32>) -> tensor<20x1xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<20x40xf32>, tensor<20x1xf32>) -> tensor<20x40xf32>
    %e = torch.aten.exp.default(%d) : (tensor<20x40xf32>) -> tensor<20x40xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<20x40xf32>) -> tensor<20x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<20x40xf32>, tensor<20x1xf32>) -> tensor<20x40xf32>
    fusion.yield %w : tensor<20x40xf32>
  }) -> tensor<20x40xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<20x40xf32>, tensor<40x24xf32>) -> tensor<20x24xf32>
  fx.output(%o) : (tensor<20x24xf32>) -> ()
}

// -----

/// Scores are changed once in a step, and the logarithm of the total is a second result.
// CHECK-LABEL: func.func @changed
// CHECK-NEXT:    {{.*}} = tile.launch @attention_0(%q, %k, %v, %mask)
// CHECK:       tile.kernel @attention_0
// CHECK:         scf.for %key
// CHECK:           tile.load %mask
// CHECK:           math.tanh
// CHECK-NOT:       math.tanh
// CHECK:         scf.yield
// CHECK:         math.log
// CHECK:         tile.store {{.*}} %z
// CHECK:         tile.store {{.*}} %o
func.func @changed(%q: tensor<32x8xf32>, %k: tensor<8x32xf32>, %v: tensor<32x8xf32>, %mask: tensor<32x32xi1>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<32x8xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
  %p, %y = fusion.group ({
    %c = torch.aten.tanh.default(%s) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %b = torch.aten.where.ScalarOther(%mask, %c, -inf) : (tensor<32x32xi1>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %m = torch.aten.amax.default(%b, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %d = torch.aten.sub.Tensor(%b, %m) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    %e = torch.aten.exp.default(%d) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    %l = torch.aten.log.default(%t) : (tensor<32x1xf32>) -> tensor<32x1xf32>
    %z = torch.aten.add.Tensor(%l, %m) : (tensor<32x1xf32>, tensor<32x1xf32>) -> tensor<32x1xf32>
    fusion.yield %w, %z : tensor<32x32xf32>, tensor<32x1xf32>
  }) -> (tensor<32x32xf32>, tensor<32x1xf32>)
  %o = torch.aten.mm.default(%p, %v) : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  fx.output((%o, %y)) : (tensor<32x8xf32>, tensor<32x1xf32>) -> ()
}

// -----

/// Another operation reads the scores.
// CHECK-LABEL: func.func @scores_are_read
// CHECK:         torch.aten.mm.default
// CHECK-NOT:     tile.launch
func.func @scores_are_read(%q: tensor<32x8xf32>, %k: tensor<8x32xf32>, %v: tensor<32x8xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<32x8xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    %e = torch.aten.exp.default(%d) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    fusion.yield %w : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  fx.output((%o, %s)) : (tensor<32x8xf32>, tensor<32x32xf32>) -> ()
}

// -----

/// Another operation reads the probabilities.
// CHECK-LABEL: func.func @probabilities_are_read
// CHECK:         torch.aten.mm.default
// CHECK-NOT:     tile.launch
func.func @probabilities_are_read(%q: tensor<32x8xf32>, %k: tensor<8x32xf32>, %v: tensor<32x8xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<32x8xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    %e = torch.aten.exp.default(%d) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    fusion.yield %w : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  fx.output((%o, %p)) : (tensor<32x8xf32>, tensor<32x32xf32>) -> ()
}

// -----

/// Values need a gradient.
// CHECK-LABEL: func.func @gradient
// CHECK:         torch.aten.mm.default
// CHECK-NOT:     tile.launch
func.func @gradient(%q: tensor<32x8xf32>, %k: tensor<8x32xf32>, %v: tensor<32x8xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<32x8xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    %e = torch.aten.exp.default(%d) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    fusion.yield %w : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  %o = torch.aten.mm.default(%p, %v) {requires_grad = [true]} : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  fx.output(%o) : (tensor<32x8xf32>) -> ()
}

// -----

/// A product that is scaled and has a bias.
// CHECK-LABEL: func.func @scaled
// CHECK:         torch.aten.addmm.default
// CHECK-NOT:     tile.launch
func.func @scaled(%q: tensor<32x8xf32>, %k: tensor<8x32xf32>, %v: tensor<32x8xf32>, %b: tensor<32x32xf32>) {
  %s = torch.aten.addmm.default(%b, %q, %k, alpha = 2) : (tensor<32x32xf32>, tensor<32x8xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    %e = torch.aten.exp.default(%d) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    fusion.yield %w : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  fx.output(%o) : (tensor<32x8xf32>) -> ()
}

// -----

/// Few rows.
// CHECK-LABEL: func.func @few_rows
// CHECK:         torch.aten.mm.default
// CHECK-NOT:     tile.launch
func.func @few_rows(%q: tensor<8x8xf32>, %k: tensor<8x32xf32>, %v: tensor<32x8xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<8x8xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [1], true) : (tensor<8x32xf32>) -> tensor<8x1xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<8x32xf32>, tensor<8x1xf32>) -> tensor<8x32xf32>
    %e = torch.aten.exp.default(%d) : (tensor<8x32xf32>) -> tensor<8x32xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<8x32xf32>) -> tensor<8x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<8x32xf32>, tensor<8x1xf32>) -> tensor<8x32xf32>
    fusion.yield %w : tensor<8x32xf32>
  }) -> tensor<8x32xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<8x32xf32>, tensor<32x8xf32>) -> tensor<8x8xf32>
  fx.output(%o) : (tensor<8x8xf32>) -> ()
}

// -----

/// Few keys.
// CHECK-LABEL: func.func @few_keys
// CHECK:         torch.aten.mm.default
// CHECK-NOT:     tile.launch
func.func @few_keys(%q: tensor<32x8xf32>, %k: tensor<8x8xf32>, %v: tensor<8x8xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<32x8xf32>, tensor<8x8xf32>) -> tensor<32x8xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [1], true) : (tensor<32x8xf32>) -> tensor<32x1xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<32x8xf32>, tensor<32x1xf32>) -> tensor<32x8xf32>
    %e = torch.aten.exp.default(%d) : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<32x8xf32>) -> tensor<32x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<32x8xf32>, tensor<32x1xf32>) -> tensor<32x8xf32>
    fusion.yield %w : tensor<32x8xf32>
  }) -> tensor<32x8xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<32x8xf32>, tensor<8x8xf32>) -> tensor<32x8xf32>
  fx.output(%o) : (tensor<32x8xf32>) -> ()
}

// -----

/// Many columns of values.
// CHECK-LABEL: func.func @many_columns
// CHECK:         torch.aten.mm.default
// CHECK-NOT:     tile.launch
func.func @many_columns(%q: tensor<32x8xf32>, %k: tensor<8x32xf32>, %v: tensor<32x512xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<32x8xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    %e = torch.aten.exp.default(%d) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    fusion.yield %w : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<32x32xf32>, tensor<32x512xf32>) -> tensor<32x512xf32>
  fx.output(%o) : (tensor<32x512xf32>) -> ()
}

// -----

/// Probabilities are masked after the division: rows are not scaled alike.
// CHECK-LABEL: func.func @masked_after
// CHECK:         torch.aten.mm.default
// CHECK-NOT:     tile.launch
func.func @masked_after(%q: tensor<32x8xf32>, %k: tensor<8x32xf32>, %v: tensor<32x8xf32>, %x: tensor<32x32xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<32x8xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    %e = torch.aten.exp.default(%d) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    %h = torch.aten.mul.Tensor(%w, %x) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    fusion.yield %h : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  fx.output(%o) : (tensor<32x8xf32>) -> ()
}

// -----

/// The probabilities are the right factor.
// CHECK-LABEL: func.func @right
// CHECK:         torch.aten.mm.default
// CHECK-NOT:     tile.launch
func.func @right(%q: tensor<32x32xf32>, %k: tensor<32x32xf32>, %v: tensor<32x32xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    %e = torch.aten.exp.default(%d) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    fusion.yield %w : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  %o = torch.aten.mm.default(%v, %p) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  fx.output(%o) : (tensor<32x32xf32>) -> ()
}

// -----

/// Exponentials of other distances.
// CHECK-LABEL: func.func @other_centre
// CHECK:         torch.aten.mm.default
// CHECK-NOT:     tile.launch
func.func @other_centre(%q: tensor<32x8xf32>, %k: tensor<8x32xf32>, %v: tensor<32x8xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<32x8xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    %g = torch.aten.mul.Tensor(%d, 2.0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %e = torch.aten.exp.default(%g) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    fusion.yield %w : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  fx.output(%o) : (tensor<32x8xf32>) -> ()
}

// -----

/// A softmax over the rows.
// CHECK-LABEL: func.func @other_dimension
// CHECK:         torch.aten.mm.default
// CHECK-NOT:     tile.launch
func.func @other_dimension(%q: tensor<32x8xf32>, %k: tensor<8x32xf32>, %v: tensor<32x8xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<32x8xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [0], true) : (tensor<32x32xf32>) -> tensor<1x32xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<32x32xf32>, tensor<1x32xf32>) -> tensor<32x32xf32>
    %e = torch.aten.exp.default(%d) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %t = torch.aten.sum.dim_IntList(%e, [0], true) : (tensor<32x32xf32>) -> tensor<1x32xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<32x32xf32>, tensor<1x32xf32>) -> tensor<32x32xf32>
    fusion.yield %w : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  fx.output(%o) : (tensor<32x8xf32>) -> ()
}

// -----

/// The queries are written after the scores are computed from them.
// CHECK-LABEL: func.func @written
// CHECK:         torch.aten.mm.default
// CHECK-NOT:     tile.launch
func.func @written(%q: tensor<32x8xf32>, %k: tensor<8x32xf32>, %v: tensor<32x8xf32>) {
  %s = torch.aten.mm.default(%q, %k) : (tensor<32x8xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
  %z = torch.aten.zero_.default(%q) : (tensor<32x8xf32>) -> tensor<32x8xf32>
  %p = fusion.group ({
    %m = torch.aten.amax.default(%s, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %d = torch.aten.sub.Tensor(%s, %m) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    %e = torch.aten.exp.default(%d) : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<32x32xf32>) -> tensor<32x1xf32>
    %w = torch.aten.div.Tensor(%e, %t) : (tensor<32x32xf32>, tensor<32x1xf32>) -> tensor<32x32xf32>
    fusion.yield %w : tensor<32x32xf32>
  }) -> tensor<32x32xf32>
  %o = torch.aten.mm.default(%p, %v) : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  fx.output(%o) : (tensor<32x8xf32>) -> ()
}
