// RUN: fxc-opt %s | fxc-opt | filecheck %s
// RUN: fxc-opt %s --pass-pipeline=cse,dce | filecheck %s
// RUN: fxc-opt %s --emit=triton | filecheck %s --check-prefix=TRITON
// RUN: fxc-opt %s --emit=llvm | filecheck %s --check-prefix=LLVM

// CHECK-LABEL: tile.kernel @k
// CHECK:         tile.assert %ok, "index out of range" : vector<8xi1>
// CHECK-NEXT:    tile.assert %one, "a number" {hint = 1 : i64} : i1

// TRITON:      tl.device_assert(ok, "index out of range")
// TRITON-NEXT: tl.device_assert(one, "a number")

// LLVM:       store atomic i32 1, ptr %status monotonic, align 4
// LLVM:       store atomic i32 2, ptr %status monotonic, align 4
// LLVM:       define i32 @k.call(ptr %p0, ptr %p1)
tile.kernel @k(%i: !tile.ptr<i64> {tile.access = "read"}, %out: !tile.ptr<i64> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  %zero = arith.constant 0 : index
  %size = arith.constant dense<9> : vector<8xi64>
  %last = arith.constant 9 : i64
  %v = tile.load %i[%zero] strides [1] : !tile.ptr<i64> -> vector<8xi64>
  %w = tile.load %i[%zero] : !tile.ptr<i64> -> i64
  %ok = tile.compare "ult" %v, %size : vector<8xi64>
  %one = arith.cmpi ult, %w, %last : i64
  tile.assert %ok, "index out of range" : vector<8xi1>
  tile.assert %one, "a number" {hint = 1} : i1
  tile.store %v, %out[%zero] strides [1] : vector<8xi64>, !tile.ptr<i64>
  tile.return
}
