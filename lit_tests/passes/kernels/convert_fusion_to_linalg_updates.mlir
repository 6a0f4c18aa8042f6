// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg,schedule,tile | filecheck %s --check-prefix=TILE

/// Updates and their places are loops of their own; what computes an update is in them.
// CHECK-LABEL: func.func @embedding
// CHECK:             arith.mulf
// CHECK:           } -> tensor<64x16xf32>
// CHECK:             cf.assert
// CHECK:             [[PLACE:%.+]] = affine.apply affine_map<(d0)[s0] -> (((s0 * 16) + d0))>
// CHECK:             arith.cmpi eq
// CHECK:             arith.select
// CHECK:           } -> tensor<64x16xi64>
// CHECK:           [[ZEROS:%.+]] = linalg.fill
// CHECK-NEXT:      [[SUM:%.+]] = tile.accumulate "add" {{.*}} into [[ZEROS]]
// CHECK-NEXT:      fusion.yield [[SUM]]
// TILE-LABEL:  tile.kernel @kernel_0
// TILE-SAME:   tile.access = "readwrite", {{.*}}tile.init = 0.000000e+00 : f32
// TILE:          [[SOME:%.+]] = tile.compare "sge"
// TILE:          tile.atomic_add
// TILE-NOT:    tile.kernel
func.func @embedding(%g: tensor<64x16xf32>, %i: tensor<64xi64>) {
  %s = fusion.group ({
    %m = torch.aten.mul.Tensor(%g, 2.0) : (tensor<64x16xf32>) -> tensor<64x16xf32>
    %e = torch.aten.embedding_dense_backward.default(%m, %i, 50, 3, false) : (tensor<64x16xf32>, tensor<64xi64>) -> tensor<50x16xf32>
    fusion.yield %e : tensor<50x16xf32>
  }) -> tensor<50x16xf32>
  fx.output(%s) : (tensor<50x16xf32>) -> ()
}

// -----

/// Half precision is added up in float32; what was there before comes last, in a kernel of its own.
// CHECK-LABEL: func.func @half
// CHECK:           tile.accumulate "add" {{.*}} : tensor<20xf32>, tensor<20xi64>, tensor<9xf32> -> tensor<9xf32>
// CHECK:             arith.addf
// CHECK-NEXT:        arith.truncf
// TILE-LABEL:  tile.kernel @kernel_0
// TILE:          tile.atomic_add {{.*}} !tile.ptr<f32>
// TILE-LABEL:  tile.kernel @kernel_1
// TILE:          arith.truncf
func.func @half(%x: tensor<9xf16>, %i: tensor<20xi64>, %y: tensor<20xf16>) {
  %s = fusion.group ({
    %a = torch.aten.index_add.default(%x, 0, %i, %y) : (tensor<9xf16>, tensor<20xi64>, tensor<20xf16>) -> tensor<9xf16>
    fusion.yield %a : tensor<9xf16>
  }) -> tensor<9xf16>
  fx.output(%s) : (tensor<9xf16>) -> ()
}

// -----

/// Floats are compared as integers that are ordered as they are: memory compares no floats.
// CHECK-LABEL: func.func @largest
// CHECK:             arith.bitcast {{.*}} : f32 to i32
// CHECK:           } -> tensor<20xi32>
// CHECK:           arith.constant -2139095041 : i32
// CHECK:           tile.accumulate "max"
// CHECK:             arith.bitcast {{.*}} : i32 to f32
// CHECK:             arith.maximumf
// TILE-LABEL:  tile.kernel @kernel_0
// TILE:          tile.atomic_max
func.func @largest(%x: tensor<9xf32>, %i: tensor<20xi64>, %y: tensor<20xf32>) {
  %s = fusion.group ({
    %a = torch.aten.scatter_reduce.two(%x, 0, %i, %y, "amax") : (tensor<9xf32>, tensor<20xi64>, tensor<20xf32>) -> tensor<9xf32>
    fusion.yield %a : tensor<9xf32>
  }) -> tensor<9xf32>
  fx.output(%s) : (tensor<9xf32>) -> ()
}

// -----

/// Products are combined by no memory.
// CHECK-LABEL: func.func @product
// CHECK:           torch.aten.scatter_reduce.two
// TILE-LABEL:  func.func @product
// TILE:          fusion.group
func.func @product(%x: tensor<9xf32>, %i: tensor<20xi64>, %y: tensor<20xf32>) {
  %s = fusion.group ({
    %a = torch.aten.scatter_reduce.two(%x, 0, %i, %y, "prod") : (tensor<9xf32>, tensor<20xi64>, tensor<20xf32>) -> tensor<9xf32>
    fusion.yield %a : tensor<9xf32>
  }) -> tensor<9xf32>
  fx.output(%s) : (tensor<9xf32>) -> ()
}
