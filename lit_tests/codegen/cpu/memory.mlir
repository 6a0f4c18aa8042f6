// How strides become accesses: rows by vector loads, columns by vector loads and a transpose, one number by a splat, the rest lane by lane.
// RUN: fxc-opt %s --emit=llvm | filecheck %s

// CHECK-LABEL: define internal void @rows.body
// CHECK-COUNT-4: load <8 x float>, ptr {{.*}}, align 4
// CHECK-NOT:   gather
// CHECK:       store <32 x float>
// CHECK:       ret void
tile.kernel @rows(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 400}, %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 32}) attributes {grid = array<i64: 1>} {
  %c0 = arith.constant 0 : index
  %s = arith.constant 100 : index
  %v = tile.load %x[%c0] strides [%s, 1] : !tile.ptr<f32> -> vector<4x8xf32>
  tile.store %v, %y[%c0] strides [8, 1] : vector<4x8xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: define internal void @columns.body
// CHECK-COUNT-4: load <4 x float>, ptr {{.*}}, align 4
// CHECK:       shufflevector <4 x float> {{.*}} <4 x i32> <i32 0, i32 4, i32 2, i32 6>
// CHECK-NOT:   gather
// CHECK:       store <16 x float>
// CHECK:       ret void
tile.kernel @columns(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 400}, %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 16}) attributes {grid = array<i64: 1>} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] strides [1, 100] : !tile.ptr<f32> -> vector<4x4xf32>
  tile.store %v, %y[%c0] strides [4, 1] : vector<4x4xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: define internal void @repeated.body
// CHECK:       [[ONE:%.*]] = load <1 x float>, ptr
// CHECK:       shufflevector <1 x float> [[ONE]], <1 x float> poison, <16 x i32> <i32 0, i32 0,
// CHECK:       ret void
tile.kernel @repeated(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 1}, %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 16}) attributes {grid = array<i64: 1>} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] strides [0] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %v, %y[%c0] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}

// Lanes that lie close to each other: whole registers, of which lanes are picked, none behind the last.
// CHECK-LABEL: define internal void @steps.body
// CHECK-NOT:   masked.gather
// CHECK:       load <4 x float>, ptr %p0
// CHECK:       shufflevector <4 x float> {{.*}}, <4 x i32> <i32 0, i32 3, i32 poison, i32 poison>
// CHECK:       add i64 0, 42
// CHECK-NOT:   add i64 0, 4{{[3-9]}}
// CHECK:       call void @llvm.masked.scatter.v16f32.v16p0(<16 x float>
// CHECK:       ret void
tile.kernel @steps(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 46}, %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 31}) attributes {grid = array<i64: 1>} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] strides [3] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %v, %y[%c0] strides [2] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}

// CHECK-LABEL: define internal void @far.body
// CHECK:       call <16 x float> @llvm.masked.gather.v16f32.v16p0(<16 x ptr>
// CHECK:       ret void
tile.kernel @far(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 136}, %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 16}) attributes {grid = array<i64: 1>} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] strides [9] : !tile.ptr<f32> -> vector<16xf32>
  tile.store %v, %y[%c0] strides [1] : vector<16xf32>, !tile.ptr<f32>
  tile.return
}

// A large kernel calls OpenMP's pool; each thread runs an equal share of the programs.
// CHECK-LABEL: define internal void @shared.team(ptr %arguments)
// CHECK:       call i32 @omp_get_thread_num()
// CHECK:       call i32 @omp_get_num_threads()
// CHECK:       call void @shared(ptr %arguments, i64
// CHECK-LABEL: define void @shared.call(ptr %p0)
// CHECK:       call void @GOMP_parallel(ptr @shared.team, ptr
tile.kernel @shared(%y: !tile.ptr<f32> {tile.access = "write", tile.elements = 1000000}) attributes {grid = array<i64: 1000000>} {
  %i = tile.program_id {axis = 0} : index
  %zero = arith.constant 0.0 : f32
  tile.store %zero, %y[%i] : f32, !tile.ptr<f32>
  tile.return
}
// CHECK: attributes #0 = { nounwind "no-trapping-math"="true" }
