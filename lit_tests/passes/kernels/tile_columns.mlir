// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg,schedule,tile | filecheck %s

/// Vectors of a row side by side, in one loop over the rows: what they share is loaded once, and the last one has a mask.
// CHECK-LABEL: func.func @side_by_side
// CHECK:         tile.kernel
// CHECK:           [[M:%.+]] = tile.mask
// CHECK:           [[T:%.+]], [[U:%.+]], [[V:%.+]] = scf.for {{.*}} -> (vector<4xf32>, vector<4xf32>, vector<4xf32>)
// CHECK:             tile.load %x{{.*}} strides [1] : !tile.ptr<f32> -> vector<4xf32>
// CHECK-NEXT:        tile.load %y{{.*}} -> f32
// CHECK-NOT:         tile.load %y
// CHECK:             tile.load %x{{.*}} strides [1] : !tile.ptr<f32> -> vector<4xf32>
// CHECK:             tile.load %x{{.*}} strides [1], [[M]]
// CHECK:             scf.yield
// CHECK:           tile.store [[T]], %s{{.*}} strides [1] : vector<4xf32>
// CHECK:           tile.store [[U]], %s{{.*}} strides [1] : vector<4xf32>
// CHECK:           tile.store [[V]], %s{{.*}} strides [1], [[M]]
// CHECK-NOT:       scf.for
func.func @side_by_side(%x: tensor<9x10xf32>, %y: tensor<9x1xf32>) {
  %s = fusion.group ({
    %p = torch.aten.mul.Tensor(%x, %y) : (tensor<9x10xf32>, tensor<9x1xf32>) -> tensor<9x10xf32>
    %s = torch.aten.sum.dim_IntList(%p, [0]) : (tensor<9x10xf32>) -> tensor<10xf32>
    fusion.yield %s : tensor<10xf32>
  }) {tile.schedule = [#tile.schedule<"outer", stages = [0], lanes = 4, unroll = 3, block = 12>]} -> tensor<10xf32>
  fx.output(%s) : (tensor<10xf32>) -> ()
}
