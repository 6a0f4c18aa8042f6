// RUN: fxc-opt %s --split-input-file --pass-pipeline=lower-scans | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=lower-scans,lower-scans | filecheck %s

/// Lanes along the row: what came before is combined with a scanned vector, on a CPU in float64.
// CHECK-LABEL: func.func @rows
// CHECK-NEXT:    %y = tile.launch @scan_0(%x) : (tensor<2x20xf32>) -> tensor<2x20xf32>
// CHECK:       tile.kernel @scan_0
// CHECK-SAME:    grid = array<i64: 1>, tile.source = ["y = aten.cumsum.default"]
// CHECK:         arith.extf %{{.*}} : vector<4xf32> to vector<4xf64>
// CHECK:         tile.scan "add" %{{.*}} {dim = 0} : vector<4xf64> -> vector<4xf64>
// CHECK:         arith.truncf %{{.*}} : vector<4xf64> to vector<4xf32>
builtin.module attributes {fxc.target = #target.cpu<vector_bits = 256>} {
  func.func @rows(%x: tensor<2x20xf32>) {
    %y = torch.aten.cumsum.default(%x, 1) : (tensor<2x20xf32>) -> tensor<2x20xf32>
    fx.output(%y) : (tensor<2x20xf32>) -> ()
  }
}

// -----

/// Lanes across rows, which lie side by side: no vector is scanned. Of equal maxima, as zeros of either sign are, the last counts.
// CHECK-LABEL: func.func @columns
// CHECK:       tile.kernel @scan_0
// CHECK-NOT:     tile.scan
// CHECK:         [[x:%.*]] = tile.load
// CHECK-NEXT:    [[nan:%.*]] = tile.compare "uno" [[old:%.*]], [[old]] : vector<4xf32>
// CHECK-NEXT:    [[new:%.*]] = tile.select [[nan]], [[old]], [[x]] : vector<4xf32>
// CHECK-NEXT:    [[larger:%.*]] = tile.compare "ogt" [[old]], [[new]] : vector<4xf32>
// CHECK-NEXT:    [[max:%.*]] = tile.select [[larger]], [[old]], [[new]] : vector<4xf32>
// CHECK-NEXT:    tile.store [[max]]
// CHECK-NOT:     tile.scan
builtin.module attributes {fxc.target = #target.cpu<vector_bits = 256>} {
  func.func @columns(%x: tensor<20x8xf32>) {
    %y, %i = torch.aten.cummax.default(%x, 0) : (tensor<20x8xf32>) -> (tensor<20x8xf32>, tensor<20x8xi64>)
    fx.output((%y, %i)) : (tensor<20x8xf32>, tensor<20x8xi64>) -> ()
  }
}

// -----

/// On a GPU a row is one block where it is not too long, and half precision is combined in float32.
// CHECK-LABEL: func.func @gpu
// CHECK:       tile.kernel @scan_0
// CHECK-SAME:    grid = array<i64: 3>
// CHECK:         tile.scan "mul" %{{.*}} {dim = 0} : vector<128xf32> -> vector<128xf32>
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @gpu(%x: tensor<3x100xf16, #torch.meta<device = "cuda:0">>) {
    %y = torch.aten.cumprod.default(%x, -1) : (tensor<3x100xf16, #torch.meta<device = "cuda:0">>) -> tensor<3x100xf16, #torch.meta<device = "cuda:0">>
    fx.output(%y) : (tensor<3x100xf16, #torch.meta<device = "cuda:0">>) -> ()
  }
}

// -----

/// Left alone: no element, no dimension, sizes that are not known, a GPU that is not the target, floats as integers, complex
/// numbers, a dimension that is a value, pairs, and what autograd looks into.
// CHECK-LABEL: func.func @left
// CHECK-NOT:     tile.launch
// CHECK:         fx.output
func.func @left(%a: tensor<0x3xf32>, %b: tensor<f32>, %c: tensor<?xf32>, %d: tensor<3xf32, #torch.meta<device = "cuda:0">>, %e: tensor<3xf32>, %f: tensor<3xcomplex<f32>>, %n: !torch.int) {
  %0 = torch.aten.cumsum.default(%a, 1) : (tensor<0x3xf32>) -> tensor<0x3xf32>
  %1 = torch.aten.cumsum.default(%b, 0) : (tensor<f32>) -> tensor<f32>
  %2 = torch.aten.cumsum.default(%c, 0) : (tensor<?xf32>) -> tensor<?xf32>
  %3 = torch.aten.cumsum.default(%d, 0) : (tensor<3xf32, #torch.meta<device = "cuda:0">>) -> tensor<3xf32, #torch.meta<device = "cuda:0">>
  %4 = torch.aten.cumsum.default(%e, 0, dtype = torch.int64) : (tensor<3xf32>) -> tensor<3xi64>
  %5 = torch.aten.cumsum.default(%f, 0) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
  %6 = torch.aten.cumsum.default(%e, %n) : (tensor<3xf32>, !torch.int) -> tensor<3xf32>
  %7 = torch.aten.logcumsumexp.default(%e, 0) : (tensor<3xf32>) -> tensor<3xf32>
  %8 = torch.aten.cumsum.default(%e, 0) {requires_grad = [true]} : (tensor<3xf32>) -> tensor<3xf32>
  fx.output((%0, %1, %2, %3, %4, %5, %6, %7, %8)) : (tensor<0x3xf32>, tensor<f32>, tensor<?xf32>, tensor<3xf32, #torch.meta<device = "cuda:0">>, tensor<3xi64>, tensor<3xcomplex<f32>>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> ()
}
