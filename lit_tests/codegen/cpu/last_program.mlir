// RUN: fxc-opt %s --emit=llvm | filecheck %s

/// A function of its own, called behind all programs.
// CHECK-LABEL: define internal void @total.body
// CHECK:         call reassoc contract float @llvm.vector.reduce.fadd
// CHECK:       define internal void @total.last(ptr noalias readonly %p0, ptr noalias %p1, ptr noalias %p2)
// CHECK:         load <4 x float>, ptr %{{.*}}
// CHECK:         store float
// CHECK:       define void @total.call(
// CHECK:         call void @total.body(
// CHECK-NEXT:    call void @total.last(ptr %p0, ptr %p1, ptr %p2)
// CHECK-NEXT:    ret void
tile.kernel @total(
  %x: !tile.ptr<f32> {tile.access = "read"}, %parts: !tile.ptr<f32> {tile.access = "write"}, %y: !tile.ptr<f32> {tile.access = "write"}
) attributes {grid = array<i64: 4>} {
  %sixteen = arith.constant 16 : index
  %i = tile.program_id {axis = 0} : index
  %start = arith.muli %i, %sixteen : index
  %a = tile.load %x[%start] strides [1] : !tile.ptr<f32> -> vector<16xf32>
  %sum = tile.reduce "add" %a {dims = [0]} : vector<16xf32> -> f32
  tile.store %sum, %parts[%i] : f32, !tile.ptr<f32>
  tile.last_program (%q = %parts, %z = %y) : !tile.ptr<f32>, !tile.ptr<f32> {
    %zero = arith.constant 0 : index
    %p = tile.load %q[%zero] strides [1] : !tile.ptr<f32> -> vector<4xf32>
    %total = tile.reduce "add" %p {dims = [0]} : vector<4xf32> -> f32
    tile.store %total, %z[%zero] : f32, !tile.ptr<f32>
  }
  tile.return
}
