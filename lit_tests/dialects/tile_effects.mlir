// RUN: fxc-opt %s --split-input-file --pass-pipeline=cse,dce | filecheck %s

/// Equal loads of memory that is not written in between are one; a load that nothing reads goes; stores stay.
// CHECK-LABEL: tile.kernel @loads
// CHECK-NEXT:    %i = arith.constant 0 : index
// CHECK-NEXT:    %a = tile.load %x[%i] strides [1]
// CHECK-NEXT:    %s = arith.addf %a, %a : vector<4xf32>
// CHECK-NEXT:    tile.store %s, %out[%i]
// CHECK-NEXT:    tile.return
tile.kernel @loads(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  %i = arith.constant 0 : index
  %a = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> vector<4xf32>
  %b = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> vector<4xf32>
  %s = arith.addf %a, %b : vector<4xf32>
  %c = tile.load %x[%i] strides [2] : !tile.ptr<f32> -> vector<4xf32>
  tile.store %s, %out[%i] strides [1] : vector<4xf32>, !tile.ptr<f32>
  tile.return
}

// -----

/// A store in between: the second load may read something else.
// CHECK-LABEL: tile.kernel @stored
// CHECK:         %a = tile.load
// CHECK-NEXT:    tile.store %a
// CHECK-NEXT:    %b = tile.load
// CHECK-NEXT:    tile.atomic_add %b
// CHECK-NEXT:    %c = tile.load
// CHECK-NEXT:    tile.store %c
tile.kernel @stored(%out: !tile.ptr<f32> {tile.access = "readwrite"}, %i: index, %j: index) attributes {grid = array<i64: 1>} {
  %o = tile.iota {dim = 0} : vector<4xi64>
  %a = tile.load %out[%i] strides [1] : !tile.ptr<f32> -> vector<4xf32>
  tile.store %a, %out[%j] strides [1] : vector<4xf32>, !tile.ptr<f32>
  %b = tile.load %out[%i] strides [1] : !tile.ptr<f32> -> vector<4xf32>
  tile.atomic_add %b, %out[%o] : vector<4xf32>, !tile.ptr<f32>
  %c = tile.load %out[%i] strides [1] : !tile.ptr<f32> -> vector<4xf32>
  tile.store %c, %out[%j] strides [1] : vector<4xf32>, !tile.ptr<f32>
  tile.return
}

// -----

/// A store later in a loop is before a load of its next iteration.
// CHECK-LABEL: tile.kernel @loop
// CHECK:         %a = tile.load
// CHECK-NEXT:    scf.for
// CHECK-NEXT:      %b = tile.load
// CHECK-NEXT:      arith.addf %b, %a
tile.kernel @loop(%out: !tile.ptr<f32> {tile.access = "readwrite"}, %i: index, %j: index) attributes {grid = array<i64: 1>} {
  %a = tile.load %out[%i] strides [1] : !tile.ptr<f32> -> vector<4xf32>
  scf.for %k = %i to %j step %j {
    %b = tile.load %out[%i] strides [1] : !tile.ptr<f32> -> vector<4xf32>
    %s = arith.addf %b, %a : vector<4xf32>
    tile.store %s, %out[%i] strides [1] : vector<4xf32>, !tile.ptr<f32>
  }
  tile.return
}

// -----

tile.kernel @copy(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  tile.return
}
/// A launch does nothing but compute; each result is memory of its own, so that two which are returned stay two.
// CHECK-LABEL: func.func @launches
// CHECK-NEXT:    %a = tile.launch @copy(%x)
// CHECK-NEXT:    %s = torch.aten.add.Tensor(%a, %a)
// CHECK-NEXT:    %d = tile.launch @copy(%s)
// CHECK-NEXT:    %e = tile.launch @copy(%s)
// CHECK-NEXT:    func.return %d, %e
func.func @launches(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = tile.launch @copy(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = tile.launch @copy(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = tile.launch @copy(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.add.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = tile.launch @copy(%s) : (tensor<4xf32>) -> tensor<4xf32>
  %e = tile.launch @copy(%s) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %d, %e : tensor<4xf32>, tensor<4xf32>
}
