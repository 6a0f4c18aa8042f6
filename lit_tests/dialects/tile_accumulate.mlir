// RUN: fxc-opt %s | filecheck %s
// RUN: fxc-opt %s | fxc-opt | filecheck %s
// RUN: fxc-opt %s --print-op-generic | fxc-opt | filecheck %s

// CHECK:         %r = tile.accumulate "add" %x at %i into %z : tensor<8x4xf32>, tensor<8x4xi64>, tensor<5x4xf32> -> tensor<5x4xf32>
// CHECK-NEXT:    %s = tile.accumulate "max" %n at %j into %m : tensor<8xi32>, tensor<8xi64>, tensor<3xi32> -> tensor<3xi32>
func.func @accumulate(%x: tensor<8x4xf32>, %i: tensor<8x4xi64>, %z: tensor<5x4xf32>, %n: tensor<8xi32>, %j: tensor<8xi64>, %m: tensor<3xi32>) {
  %r = tile.accumulate "add" %x at %i into %z : tensor<8x4xf32>, tensor<8x4xi64>, tensor<5x4xf32> -> tensor<5x4xf32>
  %s = tile.accumulate "max" %n at %j into %m : tensor<8xi32>, tensor<8xi64>, tensor<3xi32> -> tensor<3xi32>
  func.return
}

// CHECK:         tile.atomic_max %v, %out[%o], %some : vector<8xi32>, !tile.ptr<i32>
// CHECK-NEXT:    tile.atomic_min %v, %out[%o] : vector<8xi32>, !tile.ptr<i32>
tile.kernel @atomics(%out: !tile.ptr<i32> {tile.access = "readwrite"}) attributes {grid = array<i64: 1>} {
  %v = arith.constant dense<3> : vector<8xi32>
  %o = tile.iota {dim = 0} : vector<8xi64>
  %some = tile.compare "sgt" %o, %o : vector<8xi64>
  tile.atomic_max %v, %out[%o], %some : vector<8xi32>, !tile.ptr<i32>
  tile.atomic_min %v, %out[%o] : vector<8xi32>, !tile.ptr<i32>
  tile.return
}
