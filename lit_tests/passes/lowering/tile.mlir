// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg,schedule,tile | filecheck %s

/// Loops that go through memory in even steps are one; full vectors have no mask.
// CHECK-LABEL: func.func @even
// CHECK-NEXT:    %s = tile.launch @kernel_0(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK:         tile.kernel @kernel_0(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 32 : i64}, %a: !tile.ptr<f32> {tile.access = "write", tile.elements = 32 : i64}) attributes {grid = array<i64: 1>, schedule = #tile.schedule<{{.*}}>, tile.source = ["a = aten.neg.default"]}
// CHECK:           [[STOP:%.+]] = arith.constant 32 : index
// CHECK:           scf.for [[I:%.+]] = {{.*}} to [[STOP]] step
// CHECK-NEXT:        [[A:%.+]] = tile.load %x{{.}}[[I]]{{.}} strides [1] : !tile.ptr<f32> -> vector<16xf32>
// CHECK-NEXT:        [[B:%.+]] = arith.negf [[A]] : vector<16xf32>
// CHECK-NEXT:        tile.store [[B]], %a{{.}}[[I]]{{.}} strides [1] : vector<16xf32>
// CHECK-NOT:       tile.mask
func.func @even(%x: tensor<4x8xf32>) {
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fusion.yield %a : tensor<4x8xf32>
  }) -> tensor<4x8xf32>
  fx.output(%s) : (tensor<4x8xf32>) -> ()
}

// -----

/// What is left of a row has a mask. What is the same in every lane is loaded once a row.
// CHECK-LABEL: func.func @broadcast
// CHECK:         tile.kernel
// CHECK:           scf.for
// CHECK:             [[Y:%.+]] = tile.load %y{{.*}} : !tile.ptr<f32> -> f32
// CHECK:             tile.splat [[Y]] : f32 to vector<4xf32>
// CHECK:             [[M:%.+]] = tile.mask
// CHECK:             tile.load %x{{.*}} strides [1], [[M]], {{.*}} -> vector<4xf32>
// CHECK:             tile.store {{.*}} strides [1], [[M]]
func.func @broadcast(%x: tensor<4x5xf32>, %y: tensor<4x1xf32>) {
  %s = fusion.group ({
    %a = torch.aten.add.Tensor(%x, %y) : (tensor<4x5xf32>, tensor<4x1xf32>) -> tensor<4x5xf32>
    fusion.yield %a : tensor<4x5xf32>
  }) -> tensor<4x5xf32>
  fx.output(%s) : (tensor<4x5xf32>) -> ()
}

// -----

/// Loops follow the memory of what is written; the operand is read in steps.
// CHECK-LABEL: func.func @transposed
// CHECK:         tile.kernel
// CHECK-DAG:       tile.load %x{{.*}} strides [6]
// CHECK-DAG:       tile.load %y{{.*}} strides [1]
// CHECK:           tile.store {{.*}} strides [1]
func.func @transposed(%x: tensor<8x6xf32>, %y: tensor<6x8xf32>) {
  %s = fusion.group ({
    %t = torch.aten.t.default(%x) : (tensor<8x6xf32>) -> tensor<6x8xf32, #torch.meta<strides = [1, 6]>>
    %a = torch.aten.add.Tensor(%y, %t) : (tensor<6x8xf32>, tensor<6x8xf32, #torch.meta<strides = [1, 6]>>) -> tensor<6x8xf32>
    fusion.yield %a : tensor<6x8xf32>
  }) -> tensor<6x8xf32>
  fx.output(%s) : (tensor<6x8xf32>) -> ()
}

// -----

/// Dimensions that a view cuts and joins again are one loop: no quotient is left.
// CHECK-LABEL: func.func @reshaped
// CHECK:         tile.kernel
// CHECK-NOT:       tile.gather
// CHECK-NOT:       arith.divui
// CHECK:           tile.return
func.func @reshaped(%x: tensor<4x6xf32>, %y: tensor<24xf32>) {
  %s = fusion.group ({
    %v = torch.aten.view.default(%x, [24]) : (tensor<4x6xf32>) -> tensor<24xf32>
    %a = torch.aten.add.Tensor(%y, %v) : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
    fusion.yield %a : tensor<24xf32>
  }) -> tensor<24xf32>
  fx.output(%s) : (tensor<24xf32>) -> ()
}

// -----

/// Where memory is not in even steps along the lanes, each lane has its place.
// CHECK-LABEL: func.func @gathered
// CHECK:         tile.kernel
// CHECK:           arith.divsi {{.*}} : vector<16xi64>
// CHECK:           tile.gather %x
func.func @gathered(%x: tensor<4x6xf32, #torch.meta<strides = [1, 4]>>, %y: tensor<24xf32>) {
  %s = fusion.group ({
    %v = torch.aten.reshape.default(%x, [24]) : (tensor<4x6xf32, #torch.meta<strides = [1, 4]>>) -> tensor<24xf32>
    %a = torch.aten.add.Tensor(%y, %v) : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
    fusion.yield %a : tensor<24xf32>
  }) -> tensor<24xf32>
  fx.output(%s) : (tensor<24xf32>) -> ()
}

// -----

/// A reduction along the lanes: several accumulators, one number at the end, which is not stored.
// CHECK-LABEL: func.func @rows
// CHECK:         tile.kernel
// CHECK:           [[A:%.+]], [[B:%.+]], [[C:%.+]], [[D:%.+]] = scf.for {{.*}} iter_args
// CHECK:           [[T:%.+]] = tile.reduce "add" {{.*}} {dims = [0]} : vector<4xf32> -> f32
// CHECK-NOT:       tile.store
// CHECK:           [[S:%.+]] = tile.splat [[T]]
// CHECK:           scf.for
// CHECK:             arith.divf {{.*}}, [[S]] : vector<4xf32>
// CHECK:             tile.store
func.func @rows(%x: tensor<8x32xf32>) {
  %s = fusion.group ({
    %m = torch.aten.sum.dim_IntList(%x, [1], true) : (tensor<8x32xf32>) -> tensor<8x1xf32>
    %d = torch.aten.div.Tensor(%x, %m) : (tensor<8x32xf32>, tensor<8x1xf32>) -> tensor<8x32xf32>
    fusion.yield %d : tensor<8x32xf32>
  }) -> tensor<8x32xf32>
  fx.output(%s) : (tensor<8x32xf32>) -> ()
}

// -----

/// Lanes that do not count are what changes nothing.
// CHECK-LABEL: func.func @tail
// CHECK:         tile.kernel
// CHECK:           [[LOW:%.+]] = arith.constant 0xff800000 : f32
// CHECK:           [[NONE:%.+]] = tile.splat [[LOW]]
// CHECK:           [[M:%.+]] = tile.mask
// CHECK:           [[V:%.+]] = tile.select [[M]], {{.*}}, [[NONE]]
// CHECK:           arith.maximumf {{.*}}, [[V]]
// CHECK:           tile.reduce "max"
func.func @tail(%x: tensor<8x6xf32>) {
  %s = fusion.group ({
    %m = torch.aten.amax.default(%x, [1]) : (tensor<8x6xf32>) -> tensor<8xf32>
    fusion.yield %m : tensor<8xf32>
  }) -> tensor<8xf32>
  fx.output(%s) : (tensor<8xf32>) -> ()
}

// -----

/// A reduction of another loop: each lane has its own accumulator.
// CHECK-LABEL: func.func @columns
// CHECK:         tile.kernel
// CHECK:           [[T:%.+]] = scf.for {{.*}} iter_args({{.*}}) -> (vector<4xf32>)
// CHECK:           tile.store [[T]], %s
// CHECK-NOT:       tile.reduce
func.func @columns(%x: tensor<8x4xf32>) {
  %s = fusion.group ({
    %s = torch.aten.sum.dim_IntList(%x, [0]) : (tensor<8x4xf32>) -> tensor<4xf32>
    fusion.yield %s : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// Pieces of a concatenation are stored where they belong; those of different sizes by programs of their own.
// CHECK-LABEL: func.func @pieces
// CHECK-NEXT:    tile.launch @kernel_0(%x, %y) : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<2x12xf32>
// CHECK:         tile.kernel {{.*}}grid = array<i64: 2>
// CHECK:           scf.if
// CHECK:             tile.store {{.*}} : vector<4xf32>
// CHECK:           scf.if
// CHECK:             tile.store {{.*}} : vector<4xf32>
func.func @pieces(%x: tensor<2x4xf32>, %y: tensor<2x8xf32>) {
  %s = fusion.group ({
    %n = torch.aten.neg.default(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %c = torch.aten.cat.default([%n, %y], 1) : (tensor<2x4xf32>, tensor<2x8xf32>) -> tensor<2x12xf32>
    fusion.yield %c : tensor<2x12xf32>
  }) -> tensor<2x12xf32>
  fx.output(%s) : (tensor<2x12xf32>) -> ()
}

// -----

/// A kernel has a name of its own.
// CHECK-LABEL: func.func @kernel_0
// CHECK-NEXT:    tile.launch @kernel_1
// CHECK:         tile.kernel @kernel_1
func.func @kernel_0(%x: tensor<4xf32>) {
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %a : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// A group without a schedule.
// CHECK-LABEL: func.func @torch
// CHECK:         fusion.group
// CHECK-NOT:     tile.kernel
func.func @torch(%x: tensor<4xf32>) {
  %s = fusion.group ({
    %a = torch.aten.cumsum.default(%x, 0) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %a : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}
