// RUN: fxc-opt %s | fxc-opt | filecheck %s
// RUN: fxc-opt %s --print-op-generic | fxc-opt | filecheck %s
// RUN: fxc-opt %s --pass-pipeline=cse,dce | filecheck %s --check-prefix=CSE

/// What the last program does stands apart: it takes pointers, and none of the values of a program.
// CHECK:       tile.store %x_1, %p[%i] strides [1]
// CHECK-NEXT:  tile.last_program ([[X:%.+]] = %x, [[Y:%.+]] = %y) : !tile.ptr<f32>, !tile.ptr<f32> {
// CHECK-NEXT:    [[ZERO:%.+]] = arith.constant 0 : index
// CHECK-NEXT:    %a = tile.load [[X]]{{\[}}[[ZERO]]]
// CHECK-NEXT:    tile.store %a, [[Y]]{{\[}}[[ZERO]]]
// CHECK-NEXT:  }
// CHECK-NEXT:  tile.return

// CSE:         %zero = arith.constant 0 : index
// CSE:         tile.last_program (
// CSE-NEXT:      {{%.+}} = arith.constant 0 : index
// CSE-NEXT:      %a = tile.load
// CSE-NEXT:      tile.store
tile.kernel @k(
  %x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "write"}, %p: !tile.ptr<f32> {tile.access = "write"}
) attributes {grid = array<i64: 4>} {
  %zero = arith.constant 0 : index
  %i = tile.program_id {axis = 0} : index
  %x_1 = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<4xf32>
  tile.store %x_1, %p[%i] strides [1] : vector<4xf32>, !tile.ptr<f32>
  tile.last_program (%x = %x, %y = %y) : !tile.ptr<f32>, !tile.ptr<f32> {
    %zero = arith.constant 0 : index
    %a = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<4xf32>
    tile.store %a, %y[%zero] strides [1] : vector<4xf32>, !tile.ptr<f32>
  }
  tile.return
}

/// One that does nothing is printed without a block, with locations too.
// CHECK:       tile.kernel @nothing
// CHECK-NEXT:    tile.last_program ({{%.+}} = %x) : !tile.ptr<f32> {
// CHECK-NEXT:    }
tile.kernel @nothing(%x: !tile.ptr<f32> {tile.access = "read"}) attributes {grid = array<i64: 4>} {
  tile.last_program (%a = %x) : !tile.ptr<f32> {
  }
  tile.return
}
