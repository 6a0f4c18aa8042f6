// RUN: fxc-opt %s --emit=triton | filecheck %s

/// Products of blocks: float32 keeps its precision, a sum goes on through the loop.
// CHECK:      sum = tl.full((16, 16), 0.0, tl.float32)
// CHECK-NEXT: for k in range(0, 64, 32):
// CHECK-NEXT:     a = tl.load(x + k + tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 32)[None, :])
// CHECK-NEXT:     at = k * 16
// CHECK-NEXT:     b = tl.load(y + at + tl.arange(0, 32)[:, None] * 16 + tl.arange(0, 16)[None, :])
// CHECK-NEXT:     sum = tl.dot(a, b, sum, input_precision="ieee")
// CHECK-NEXT: tl.store(out + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :], sum)
tile.kernel @product(%x: !tile.ptr<f32> {tile.access = "read"}, %y: !tile.ptr<f32> {tile.access = "read"}, %out: !tile.ptr<f32> {tile.access = "write"}) attributes {grid = array<i64: 1>} {
  %zero = arith.constant 0 : index
  %columns = arith.constant 16 : index
  %step = arith.constant 32 : index
  %end = arith.constant 64 : index
  %zeros = arith.constant dense<0.0> : vector<16x16xf32>
  %sum = scf.for %k = %zero to %end step %step iter_args(%total = %zeros) -> (vector<16x16xf32>) {
    %a = tile.load %x[%k] strides [64, 1] : !tile.ptr<f32> -> vector<16x32xf32>
    %at = arith.muli %k, %columns : index
    %b = tile.load %y[%at] strides [16, 1] : !tile.ptr<f32> -> vector<32x16xf32>
    %next = tile.dot %a, %b, %total : vector<16x32xf32>, vector<32x16xf32> -> vector<16x16xf32>
    scf.yield %next : vector<16x16xf32>
  }
  tile.store %sum, %out[%zero] strides [16, 1] : vector<16x16xf32>, !tile.ptr<f32>
  tile.return
}
