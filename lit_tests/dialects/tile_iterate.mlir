// RUN: fxc-opt %s | fxc-opt | filecheck %s
// RUN: fxc-opt %s --pass-pipeline=cse,dce | filecheck %s
// RUN: fxc-opt %s --emit=triton | filecheck %s --check-prefix=TRITON
// RUN: fxc-opt %s --emit=llvm | filecheck %s --check-prefix=LLVM

// CHECK-LABEL: tile.kernel @halves
// CHECK:         %last, %count = tile.iterate %large (%v = %start, %n = %none) {hint = 1 : i64} : vector<8xi1>, vector<8xf32>, vector<8xi64> {
// CHECK-NEXT:      %h = arith.mulf %v, %half : vector<8xf32>
// CHECK-NEXT:      %m = arith.addi %n, %one : vector<8xi64>
// CHECK-NEXT:      %more = tile.compare "oge" %h, %whole : vector<8xf32>
// CHECK-NEXT:      tile.next %more, %h, %m : vector<8xi1>, vector<8xf32>, vector<8xi64>
// CHECK-NEXT:    }

// TRITON:      going = large
// TRITON-NEXT: v = start
// TRITON-NEXT: n = tl.full((8,), 0, tl.int64)
// TRITON-NEXT: while tl.max(going.to(tl.int32), axis=0) != 0:
// TRITON-NEXT:     h = v * 0.5
// TRITON-NEXT:     m = n + 1
// TRITON-NEXT:     more = h >= 1.0
// TRITON-NEXT:     v, n, going = tl.where(going, h, v), tl.where(going, m, n), going & more
// TRITON-NEXT: tl.store(out + tl.arange(0, 8), n)

// LLVM:      while{{.*}}:
// LLVM-NEXT:   %[[GOING:.*]] = phi <8 x i1> [ %{{.*}}, %program ], [ %[[STILL:.*]], %step{{.*}} ]
// LLVM-NEXT:   %[[V:.*]] = phi <8 x float>
// LLVM-NEXT:   phi <8 x i64>
// LLVM-NEXT:   %[[ANY:.*]] = call i1 @llvm.vector.reduce.or.v8i1(<8 x i1> %[[GOING]])
// LLVM-NEXT:   br i1 %[[ANY]], label %step{{.*}}, label %after{{.*}}
// LLVM:        select <8 x i1> %[[GOING]], <8 x float> %{{.*}}, <8 x float> %[[V]]
// LLVM:        %[[STILL]] = and <8 x i1> %[[GOING]], %{{.*}}
tile.kernel @halves(%x: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<i64> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  %zero = arith.constant 0 : index
  %half = arith.constant dense<0.5> : vector<8xf32>
  %whole = arith.constant dense<1.0> : vector<8xf32>
  %none = arith.constant dense<0> : vector<8xi64>
  %one = arith.constant dense<1> : vector<8xi64>
  %start = tile.load %x[%zero] strides [1] : !tile.ptr<f32> -> vector<8xf32>
  %large = tile.compare "oge" %start, %whole : vector<8xf32>
  %last, %count = tile.iterate %large (%v = %start, %n = %none) {hint = 1} : vector<8xi1>, vector<8xf32>, vector<8xi64> {
    %h = arith.mulf %v, %half : vector<8xf32>
    %m = arith.addi %n, %one : vector<8xi64>
    %more = tile.compare "oge" %h, %whole : vector<8xf32>
    tile.next %more, %h, %m : vector<8xi1>, vector<8xf32>, vector<8xi64>
  }
  tile.store %count, %out[%zero] strides [1] : vector<8xi64>, !tile.ptr<i64>
  tile.return
}

// A number is one lane.

// CHECK-LABEL: tile.kernel @number
// CHECK:         %r = tile.iterate %ok (%a = %v) : i1, i64 {

// TRITON:      while going_:
// TRITON-NEXT:     s = a >> 1
// TRITON-NEXT:     go = s > 7
// TRITON-NEXT:     a, going_ = tl.where(going_, s, a), going_ & go

// LLVM: br i1 %{{.*}}, label %step{{.*}}, label %after{{.*}}
tile.kernel @number(%x: !tile.ptr<i64> {tile.access = "read"}, %out: !tile.ptr<i64> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : i64
  %seven = arith.constant 7 : i64
  %v = tile.load %x[%zero] : !tile.ptr<i64> -> i64
  %going = arith.cmpi sgt, %v, %seven : i64
  %ok = arith.ori %going, %going : i1
  %r = tile.iterate %ok (%a = %v) : i1, i64 {
    %s = arith.shrsi %a, %one : i64
    %go = arith.cmpi sgt, %s, %seven : i64
    tile.next %go, %s : i1, i64
  }
  tile.store %r, %out[%zero] : i64, !tile.ptr<i64>
  tile.return
}
