// What blocks become: vectors, masks and immediate lanes; one helper function for each function of each type.
// RUN: fxc-opt %s --emit=llvm | filecheck %s

builtin.module attributes {fxc.target = #target.cpu<vector_bits = 512, features = "+avx512f,+avx512vl">} {
  // CHECK-LABEL: define internal <16 x float> @fxc.exp.v16f32(<16 x float> %a0) #1
  // CHECK:         call <16 x float> @llvm.x86.avx512.mask.scalef.ps.512

  // CHECK-LABEL: define internal void @tail.body(ptr noalias readonly align 16 %p0, ptr noalias %p1, i64 %first, i64 %last) #2
  // CHECK:         [[PROGRAM:%.*]] = phi i64 [ %first, %entry ]
  // CHECK:         icmp slt i64 [[PROGRAM]], %last
  // CHECK:         [[I:%.*]] = phi i64 [ 0, %program ]
  // CHECK:         [[LEFT:%.*]] = sub i64 100, [[I]]
  // CHECK:         call i64 @llvm.smin.i64(i64 [[LEFT]], i64 16)
  // CHECK:         [[MASK:%.*]] = icmp slt <16 x i32> <i32 0, i32 1,
  // CHECK:         [[X:%.*]] = call <16 x float> @llvm.masked.load.v16f32.p0(ptr {{.*}}, i32 4, <16 x i1> [[MASK]], <16 x float> splat (float 0x0000000000000000))
  // CHECK:         [[Y:%.*]] = call <16 x float> @fxc.exp.v16f32(<16 x float> [[X]])
  // CHECK:         call void @llvm.masked.store.v16f32.p0(<16 x float> [[Y]], ptr {{.*}}, i32 4, <16 x i1> [[MASK]])
  // CHECK-LABEL: define void @tail(ptr %arguments, i64 %first, i64 %last) #0
  // CHECK:         call void @tail.body(ptr {{.*}}, ptr {{.*}}, i64 %first, i64 %last)
  // CHECK-LABEL: define void @tail.call(ptr %p0, ptr %p1) #0
  // CHECK:         call void @tail.body(ptr %p0, ptr %p1, i64 0, i64 1)
  tile.kernel @tail(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 100, tile.divisible = 16}, %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 100}) attributes {grid = array<i64: 1>} {
    %c0 = arith.constant 0 : index
    %n = arith.constant 100 : index
    %w = arith.constant 16 : index
    %zero = arith.constant 0.0 : f32
    scf.for %i = %c0 to %n step %w {
      %m = tile.mask %i, %n {dim = 0} : vector<16xi1>
      %v = tile.load %x[%i] strides [1], %m, %zero : !tile.ptr<f32> -> vector<16xf32>
      %e = math.exp %v : vector<16xf32>
      tile.store %e, %y[%i] strides [1], %m : vector<16xf32>, !tile.ptr<f32>
    }
    tile.return
  }

  // Sums may be reordered, and nothing else; the accumulator is a phi.
  // CHECK-LABEL: define internal void @sum.body
  // CHECK:         [[ACC:%.*]] = phi <16 x float> [ splat (float 0x0000000000000000), %program ], [ [[NEXT:%.*]], %body
  // CHECK:         [[NEXT]] = fadd contract <16 x float> [[ACC]],
  // CHECK:         call reassoc contract float @llvm.vector.reduce.fadd.v16f32(float 0x8000000000000000, <16 x float> [[ACC]])
  tile.kernel @sum(%x: !tile.ptr<f32> {tile.access = "read", tile.elements = 96}, %y: !tile.ptr<f32> {tile.access = "write", tile.elements = 1}) attributes {grid = array<i64: 1>} {
    %c0 = arith.constant 0 : index
    %n = arith.constant 96 : index
    %w = arith.constant 16 : index
    %none = arith.constant dense<0.0> : vector<16xf32>
    %acc = scf.for %i = %c0 to %n step %w iter_args(%a = %none) -> (vector<16xf32>) {
      %v = tile.load %x[%i] strides [1] : !tile.ptr<f32> -> vector<16xf32>
      %next = arith.addf %a, %v : vector<16xf32>
      scf.yield %next : vector<16xf32>
    }
    %s = tile.reduce "add" %acc {dims = [0]} : vector<16xf32> -> f32
    tile.store %s, %y[%c0] : f32, !tile.ptr<f32>
    tile.return
  }

  // bf16 lies as 16 bits and is computed in float32; a boolean lies as a byte.
  // CHECK-LABEL: define internal void @types.body
  // CHECK:         [[H:%.*]] = load <8 x i16>, ptr %p0, align 2
  // CHECK:         zext <8 x i16> [[H]] to <8 x i32>
  // CHECK:         fmul <8 x float>
  // CHECK:         [[B:%.*]] = trunc <8 x i32> {{.*}} to <8 x i16>
  // CHECK:         store <8 x i16> [[B]], ptr %p1, align 2
  // CHECK:         fcmp olt <8 x float>
  // CHECK:         [[BYTES:%.*]] = zext <8 x i1> {{.*}} to <8 x i8>
  // CHECK:         store <8 x i8> [[BYTES]], ptr %p2, align 1
  tile.kernel @types(%x: !tile.ptr<bf16> {tile.access = "read", tile.elements = 8}, %y: !tile.ptr<bf16> {tile.access = "write", tile.elements = 8}, %z: !tile.ptr<i1> {tile.access = "write", tile.elements = 8}) attributes {grid = array<i64: 1>} {
    %c0 = arith.constant 0 : index
    %h = tile.load %x[%c0] strides [1] : !tile.ptr<bf16> -> vector<8xbf16>
    %v = arith.extf %h : vector<8xbf16> to vector<8xf32>
    %p = arith.mulf %v, %v : vector<8xf32>
    %b = arith.truncf %p : vector<8xf32> to vector<8xbf16>
    tile.store %b, %y[%c0] strides [1] : vector<8xbf16>, !tile.ptr<bf16>
    %less = tile.compare "olt" %v, %p : vector<8xf32>
    tile.store %less, %z[%c0] strides [1] : vector<8xi1>, !tile.ptr<i1>
    tile.return
  }
}
// CHECK: attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" "no-trapping-math"="true" }
