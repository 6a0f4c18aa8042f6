// RUN: fxc-opt %s --emit=triton | filecheck %s

/// Each program counts itself behind what it stored; the last one leaves the counter at 0 and goes on.
// CHECK:       def total(x, parts, y, counter):
// CHECK-NEXT:      i = tl.program_id(0)
// CHECK-NEXT:      start = i * 16
// CHECK-NEXT:      a = tl.load(x + start + tl.arange(0, 16))
// CHECK-NEXT:      sum = tl.sum(a, axis=0)
// CHECK-NEXT:      tl.store(parts + i, sum)
// CHECK-NEXT:      tl.debug_barrier()
// CHECK-NEXT:      before = tl.atomic_add(counter, 1, sem="acq_rel")
// CHECK-NEXT:      if before == 3:
// CHECK-NEXT:          tl.store(counter, 0)
// CHECK-NEXT:          p = tl.load(parts + tl.arange(0, 4))
// CHECK-NEXT:          total = tl.sum(p, axis=0)
// CHECK-NEXT:          tl.store(y, total)
// CHECK-NEXT:          tl.debug_barrier()
// CHECK-NEXT:          again = tl.load(y)
// CHECK-NEXT:          tl.store(y + 1, again)
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
    %one = arith.constant 1 : index
    %p = tile.load %q[%zero] strides [1] : !tile.ptr<f32> -> vector<4xf32>
    %total = tile.reduce "add" %p {dims = [0]} : vector<4xf32> -> f32
    tile.store %total, %z[%zero] : f32, !tile.ptr<f32>
    %again = tile.load %z[%zero] : !tile.ptr<f32> -> f32
    tile.store %again, %z[%one] : f32, !tile.ptr<f32>
  }
  tile.return
}
