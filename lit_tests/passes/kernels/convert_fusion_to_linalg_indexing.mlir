// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg | filecheck %s

/// An index that lies outside is an error, and reads element 0.
// CHECK-LABEL: func.func @embedding
// CHECK:           linalg.generic {{.*}} ins(%i : tensor<5xi64>)
// CHECK:             [[SIZE:%.+]] = arith.constant 9 : i64
// CHECK-NEXT:        [[OK:%.+]] = arith.cmpi ult, [[I:%.+]], [[SIZE]] : i64
// CHECK-NEXT:        cf.assert [[OK]], "index out of range: an index of aten.embedding.default is outside of a dimension of size 9"
// CHECK-NEXT:        [[ZERO:%.+]] = arith.constant 0 : i64
// CHECK-NEXT:        [[SAFE:%.+]] = arith.select [[OK]], [[I]], [[ZERO]] : i64
// CHECK:             tensor.extract %w[{{.*}}] : tensor<9x4xf32>
// CHECK-NEXT:        arith.negf
func.func @embedding(%w: tensor<9x4xf32>, %i: tensor<5xi64>) {
  %s = fusion.group ({
    %e = torch.aten.embedding.default(%w, %i) : (tensor<9x4xf32>, tensor<5xi64>) -> tensor<5x4xf32>
    %n = torch.aten.neg.default(%e) : (tensor<5x4xf32>) -> tensor<5x4xf32>
    fusion.yield %n : tensor<5x4xf32>
  }) -> tensor<5x4xf32>
  fx.output(%s) : (tensor<5x4xf32>) -> ()
}

// -----

/// Indices of this operator count from the end where they are negative; a view of what is read is in the place.
// CHECK-LABEL: func.func @index
// CHECK:             arith.extsi {{.*}} : i32 to i64
// CHECK:             arith.addi
// CHECK-NEXT:        arith.select
// CHECK:             cf.assert
// CHECK:             tensor.extract %x[{{.*}}] : tensor<9x4xf32>
func.func @index(%x: tensor<9x4xf32>, %i: tensor<5xi32>) {
  %s = fusion.group ({
    %t = torch.aten.t.default(%x) : (tensor<9x4xf32>) -> tensor<4x9xf32, #torch.meta<strides = [1, 4]>>
    %e = torch.aten.index.Tensor(%t, [none, %i]) : (tensor<4x9xf32, #torch.meta<strides = [1, 4]>>, tensor<5xi32>) -> tensor<4x5xf32>
    %n = torch.aten.neg.default(%e) : (tensor<4x5xf32>) -> tensor<4x5xf32>
    fusion.yield %n : tensor<4x5xf32>
  }) -> tensor<4x5xf32>
  fx.output(%s) : (tensor<4x5xf32>) -> ()
}

// -----

/// What may lie outside is read where it does not.
// CHECK-LABEL: func.func @pad
// CHECK:             [[AT:%.+]] = affine.apply affine_map<(d0) -> ((d0 + -2))>
// CHECK:             [[IN:%.+]] = arith.cmpi ult, {{.*}} : i64
// CHECK-NEXT:        [[X:%.+]] = scf.if [[IN]] -> (f32) {
// CHECK-NEXT:          tensor.extract %x{{\[}}[[AT]]] : tensor<5xf32>
// CHECK:             arith.select [[IN]], [[X]], {{.*}} : f32
func.func @pad(%x: tensor<5xf32>) {
  %s = fusion.group ({
    %p = torch.aten.constant_pad_nd.default(%x, [2, 1], 1.5) : (tensor<5xf32>) -> tensor<8xf32>
    %n = torch.aten.neg.default(%p) : (tensor<8xf32>) -> tensor<8xf32>
    fusion.yield %n : tensor<8xf32>
  }) -> tensor<8xf32>
  fx.output(%s) : (tensor<8xf32>) -> ()
}

// -----

/// A concatenation that others in the group read is a choice.
// CHECK-LABEL: func.func @cat
// CHECK:             tensor.extract %x
// CHECK:             math.exp
// CHECK:             tensor.extract %y
// CHECK:             arith.select
// CHECK-NEXT:        arith.negf
// CHECK-NOT:       tensor.concat
func.func @cat(%x: tensor<5xf32>, %y: tensor<3xf32>) {
  %s = fusion.group ({
    %e = torch.aten.exp.default(%x) : (tensor<5xf32>) -> tensor<5xf32>
    %c = torch.aten.cat.default([%e, %y]) : (tensor<5xf32>, tensor<3xf32>) -> tensor<8xf32>
    %n = torch.aten.neg.default(%c) : (tensor<8xf32>) -> tensor<8xf32>
    fusion.yield %n : tensor<8xf32>
  }) -> tensor<8xf32>
  fx.output(%s) : (tensor<8xf32>) -> ()
}

// -----

/// Each element looks for the update that meets it.
// CHECK-LABEL: func.func @scatter
// CHECK:             cf.assert
// CHECK:             [[MEETS:%.+]] = arith.cmpi eq
// CHECK-NEXT:        [[SUM:%.+]] = arith.addf
// CHECK-NEXT:        arith.select [[MEETS]], [[SUM]]
func.func @scatter(%x: tensor<2x5xf32>, %i: tensor<2x1xi64>, %y: tensor<2x1xf32>) {
  %s = fusion.group ({
    %c = torch.aten.scatter_add.default(%x, 1, %i, %y) : (tensor<2x5xf32>, tensor<2x1xi64>, tensor<2x1xf32>) -> tensor<2x5xf32>
    %n = torch.aten.neg.default(%c) : (tensor<2x5xf32>) -> tensor<2x5xf32>
    fusion.yield %n : tensor<2x5xf32>
  }) -> tensor<2x5xf32>
  fx.output(%s) : (tensor<2x5xf32>) -> ()
}

// -----

/// Updates that replace and are too many for that, a mask as an index, and a tensor without elements stay.
// CHECK-LABEL: func.func @many
// CHECK:           torch.aten.index_copy
// CHECK:           torch.aten.index.Tensor
// CHECK:           torch.aten.index_select
// CHECK-NOT:       linalg
func.func @many(%x: tensor<9xf32>, %i: tensor<8xi64>, %y: tensor<8xf32>, %m: tensor<9xi1>, %z: tensor<3x0xf32>) {
  %s = fusion.group ({
    %a = torch.aten.index_copy.default(%x, 0, %i, %y) : (tensor<9xf32>, tensor<8xi64>, tensor<8xf32>) -> tensor<9xf32>
    fusion.yield %a : tensor<9xf32>
  }) -> tensor<9xf32>
  %t = fusion.group ({
    %b = torch.aten.index.Tensor(%x, [%m]) : (tensor<9xf32>, tensor<9xi1>) -> tensor<?xf32>
    fusion.yield %b : tensor<?xf32>
  }) -> tensor<?xf32>
  %u = fusion.group ({
    %c = torch.aten.index_select.default(%z, 0, %i) : (tensor<3x0xf32>, tensor<8xi64>) -> tensor<8x0xf32>
    fusion.yield %c : tensor<8x0xf32>
  }) -> tensor<8x0xf32>
  fx.output((%s, %t, %u)) : (tensor<9xf32>, tensor<?xf32>, tensor<8x0xf32>) -> ()
}
