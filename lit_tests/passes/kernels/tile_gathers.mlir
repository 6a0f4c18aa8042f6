// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg,schedule,tile | filecheck %s

/// An index that is the same for all lanes is part of the base; it is checked once a row.
// CHECK-LABEL: tile.kernel @kernel_0
// CHECK:         scf.for
// CHECK-NEXT:      [[I:%.+]] = tile.load %i[{{.*}}] : !tile.ptr<i64> -> i64
// CHECK-NEXT:      [[OK:%.+]] = arith.cmpi ult, [[I]]
// CHECK-NEXT:      tile.assert [[OK]], "index out of range: {{.*}}" : i1
// CHECK:           tile.load %w[{{.*}}] strides [1] : !tile.ptr<f32> -> vector<16xf32>
// CHECK-NOT:     tile.gather
func.func @embedding(%w: tensor<9x16xf32>, %i: tensor<5xi64>) {
  %s = fusion.group ({
    %e = torch.aten.embedding.default(%w, %i) : (tensor<9x16xf32>, tensor<5xi64>) -> tensor<5x16xf32>
    %n = torch.aten.neg.default(%e) : (tensor<5x16xf32>) -> tensor<5x16xf32>
    fusion.yield %n : tensor<5x16xf32>
  }) -> tensor<5x16xf32>
  fx.output(%s) : (tensor<5x16xf32>) -> ()
}

// -----

/// Indices that differ from lane to lane gather, half as many lanes at once as there would be without these wide numbers.
// CHECK-LABEL: tile.kernel @kernel_0
// CHECK:         tile.assert {{.*}} : vector<8xi1>
// CHECK:         [[AT:%.+]] = tile.select {{.*}} : vector<8xi64>
// CHECK-NEXT:    tile.gather %x{{\[}}[[AT]]] : !tile.ptr<f32> -> vector<8xf32>
func.func @gather(%x: tensor<9xf32>, %i: tensor<16xi64>) {
  %s = fusion.group ({
    %e = torch.aten.gather.default(%x, 0, %i) : (tensor<9xf32>, tensor<16xi64>) -> tensor<16xf32>
    %n = torch.aten.neg.default(%e) : (tensor<16xf32>) -> tensor<16xf32>
    fusion.yield %n : tensor<16xf32>
  }) -> tensor<16xf32>
  fx.output(%s) : (tensor<16xf32>) -> ()
}

// -----

/// Lanes that do not count assert nothing and gather nothing.
// CHECK-LABEL: tile.kernel @kernel_0
// CHECK:         [[MASK:%.+]] = tile.mask
// CHECK:         [[OK:%.+]] = tile.compare "ult"
// CHECK:         [[OTHERS:%.+]] = arith.xori [[MASK]]
// CHECK-NEXT:    [[ALL:%.+]] = arith.ori [[OK]], [[OTHERS]]
// CHECK-NEXT:    tile.assert [[ALL]]
// CHECK:         tile.gather %x[{{.*}}], [[MASK]]
func.func @rest(%x: tensor<9xf32>, %i: tensor<5xi64>) {
  %s = fusion.group ({
    %e = torch.aten.gather.default(%x, 0, %i) : (tensor<9xf32>, tensor<5xi64>) -> tensor<5xf32>
    %n = torch.aten.neg.default(%e) : (tensor<5xf32>) -> tensor<5xf32>
    fusion.yield %n : tensor<5xf32>
  }) -> tensor<5xf32>
  fx.output(%s) : (tensor<5xf32>) -> ()
}

// -----

/// What may lie outside is loaded under a mask, in even steps.
// CHECK-LABEL: tile.kernel @kernel_0
// CHECK:         [[IN:%.+]] = tile.compare "ult"
// CHECK:         [[X:%.+]] = tile.load %x[{{.*}}] strides [1], [[IN]]
// CHECK:         tile.select [[IN]], [[X]]
func.func @pad(%x: tensor<13xf32>) {
  %s = fusion.group ({
    %p = torch.aten.constant_pad_nd.default(%x, [2, 1], 1.5) : (tensor<13xf32>) -> tensor<16xf32>
    %n = torch.aten.neg.default(%p) : (tensor<16xf32>) -> tensor<16xf32>
    fusion.yield %n : tensor<16xf32>
  }) -> tensor<16xf32>
  fx.output(%s) : (tensor<16xf32>) -> ()
}

// -----

/// What is reduced and gathered is made by an earlier kernel.
// CHECK-LABEL: func.func @made_before
// CHECK-NEXT:    [[SUMS:%.+]] = tile.launch @kernel_0(%x) : (tensor<4x8xf32>) -> tensor<4xf32>
// CHECK-NEXT:    %t = tile.launch @kernel_1(%i, [[SUMS]])
func.func @made_before(%x: tensor<4x8xf32>, %i: tensor<6xi64>) {
  %t = fusion.group ({
    %e = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<4x8xf32>) -> tensor<4xf32>
    %g = torch.aten.index_select.default(%e, 0, %i) : (tensor<4xf32>, tensor<6xi64>) -> tensor<6xf32>
    %n = torch.aten.neg.default(%g) : (tensor<6xf32>) -> tensor<6xf32>
    fusion.yield %n : tensor<6xf32>
  }) -> tensor<6xf32>
  fx.output(%t) : (tensor<6xf32>) -> ()
}
