// RUN: fxc-opt %s --split-input-file -p narrow-positions | filecheck %s
// RUN: fxc-opt %s --split-input-file -p narrow-positions,narrow-positions | filecheck %s
// RUN: fxc-opt %s --split-input-file -p narrow-positions,split-joint | filecheck %s --check-prefix=SPLIT
// RUN: fxc-opt %s --split-input-file -p narrow-positions,split-joint --remarks=split-joint 2>&1 | filecheck %s --check-prefix=REMARK

/// Positions 0 to 127 need 8 bits. A mark of another result stays, and the conversion is at the place of the operation.
// REMARK:      saves 16384 bytes, because %i is read by aten.max_pool2d_with_indices_backward.default: {{.*}} (pool.py:7:1)
// CHECK-LABEL: func.func @pool
// CHECK:         %y, %i = torch.aten.max_pool2d_with_indices.default(%x, [2, 2]) {autodiff.saved = array<i64: 0>}
// CHECK-NEXT:    [[N:%i_[0-9]+]] = torch.aten._to_copy.default(%i, dtype = torch.int8) {autodiff.saved = array<i64: 0>}
// CHECK-NEXT:    [[W:%i_[0-9]+]] = torch.aten._to_copy.default([[N]], dtype = torch.int64) :
// CHECK:         torch.aten.max_pool2d_with_indices_backward.default(%e, %x, [2, 2], [2, 2], [0, 0], [1, 1], false, [[W]])
// SPLIT-LABEL: builtin.module @forward
// SPLIT:         fx.output((%z, %x, %y, %i_{{[0-9]+}})) : (tensor<512x4x8xf32>, tensor<512x8x16xf32>, tensor<512x4x8xf32>, tensor<512x4x8xi8>)
// SPLIT-LABEL: builtin.module @backward
// SPLIT:         [[W:%i_[0-9]+]] = torch.aten._to_copy.default(%i, dtype = torch.int64)
// SPLIT:         torch.aten.max_pool2d_with_indices_backward.default({{.*}}, [[W]])
func.func @pool(%x: tensor<512x8x16xf32>, %d: tensor<512x4x8xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %y, %i = torch.aten.max_pool2d_with_indices.default(%x, [2, 2]) {autodiff.saved = array<i64: 0, 1>} : (tensor<512x8x16xf32>) -> (tensor<512x4x8xf32>, tensor<512x4x8xi64>) loc("pool.py":7:1)
  %z = torch.aten.exp.default(%y) : (tensor<512x4x8xf32>) -> tensor<512x4x8xf32> loc("exp.py":9:1)
  %e = torch.aten.mul.Tensor(%d, %y) : (tensor<512x4x8xf32>, tensor<512x4x8xf32>) -> tensor<512x4x8xf32>
  %g = torch.aten.max_pool2d_with_indices_backward.default(%e, %x, [2, 2], [2, 2], [0, 0], [1, 1], false, %i) : (tensor<512x4x8xf32>, tensor<512x8x16xf32>, tensor<512x4x8xi64>) -> tensor<512x8x16xf32>
  fx.output([%z, %g]) : (tensor<512x4x8xf32>, tensor<512x8x16xf32>) -> ()
}

// -----

/// One position more needs 16 bits; the last dimension is the default. The forward still reads the wide positions.
// CHECK-LABEL: func.func @sort
// CHECK:         %y, %i = torch.aten.sort.default(%x) : (tensor<64x129xf32>)
// CHECK-NEXT:    [[N:%i_[0-9]+]] = torch.aten._to_copy.default(%i, dtype = torch.int16) {autodiff.saved = array<i64: 0>}
// CHECK-NEXT:    [[W:%i_[0-9]+]] = torch.aten._to_copy.default([[N]], dtype = torch.int64) :
// CHECK:         torch.aten.add.Tensor(%i, %i)
// CHECK:         torch.aten.scatter.src(%o, -1, [[W]], %d)
func.func @sort(%x: tensor<64x129xf32>, %d: tensor<64x129xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 2 : i64} {
  %y, %i = torch.aten.sort.default(%x) {autodiff.saved = array<i64: 1>} : (tensor<64x129xf32>) -> (tensor<64x129xf32>, tensor<64x129xi64>)
  %j = torch.aten.add.Tensor(%i, %i) : (tensor<64x129xi64>, tensor<64x129xi64>) -> tensor<64x129xi64>
  %o = torch.aten.new_zeros.default(%d, [64, 129]) : (tensor<64x129xf32>) -> tensor<64x129xf32>
  %g = torch.aten.scatter.src(%o, -1, %i, %d) : (tensor<64x129xf32>, tensor<64x129xi64>, tensor<64x129xf32>) -> tensor<64x129xf32>
  fx.output([%y, %j, %g]) : (tensor<64x129xf32>, tensor<64x129xi64>, tensor<64x129xf32>) -> ()
}

// -----

/// A free size.
// CHECK-LABEL: func.func @free
// CHECK:         torch.aten.sort.default(%x, 0) {autodiff.saved = array<i64: 1>}
// CHECK-NOT:     _to_copy
func.func @free(%x: tensor<?x9999xf32, #torch.meta<sizes = ["s0", 9999]>>, %d: tensor<?x9999xf32, #torch.meta<sizes = ["s0", 9999]>> {autodiff.tangent}) attributes {autodiff.forward_results = 1 : i64} {
  %y, %i = torch.aten.sort.default(%x, 0) {autodiff.saved = array<i64: 1>} : (tensor<?x9999xf32, #torch.meta<sizes = ["s0", 9999]>>) -> (tensor<?x9999xf32, #torch.meta<sizes = ["s0", 9999]>>, tensor<?x9999xi64, #torch.meta<sizes = ["s0", 9999]>>)
  %g = torch.aten.scatter.src(%d, 0, %i, %d) : (tensor<?x9999xf32, #torch.meta<sizes = ["s0", 9999]>>, tensor<?x9999xi64, #torch.meta<sizes = ["s0", 9999]>>, tensor<?x9999xf32, #torch.meta<sizes = ["s0", 9999]>>) -> tensor<?x9999xf32, #torch.meta<sizes = ["s0", 9999]>>
  fx.output([%y, %g]) : (tensor<?x9999xf32, #torch.meta<sizes = ["s0", 9999]>>, tensor<?x9999xf32, #torch.meta<sizes = ["s0", 9999]>>) -> ()
}

// -----

/// The caller holds the positions; saved values that are no positions.
// CHECK-LABEL: func.func @returned
// CHECK:         torch.aten.sort.default(%x) {autodiff.saved = array<i64: 0, 1>}
// CHECK-NOT:     _to_copy
func.func @returned(%x: tensor<2048x4xf32>, %d: tensor<2048x4xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 2 : i64} {
  %y, %i = torch.aten.sort.default(%x) {autodiff.saved = array<i64: 0, 1>} : (tensor<2048x4xf32>) -> (tensor<2048x4xf32>, tensor<2048x4xi64>)
  %z = torch.aten.exp.default(%y) : (tensor<2048x4xf32>) -> tensor<2048x4xf32>
  %e = torch.aten.mul.Tensor(%d, %y) : (tensor<2048x4xf32>, tensor<2048x4xf32>) -> tensor<2048x4xf32>
  %g = torch.aten.scatter.src(%d, -1, %i, %e) : (tensor<2048x4xf32>, tensor<2048x4xi64>, tensor<2048x4xf32>) -> tensor<2048x4xf32>
  fx.output([%z, %i, %g]) : (tensor<2048x4xf32>, tensor<2048x4xi64>, tensor<2048x4xf32>) -> ()
}

// -----

/// An operation that runs in both parts reads the positions; positions that go to the host.
// CHECK-LABEL: func.func @both
// CHECK-NOT:     _to_copy
func.func @both(%x: tensor<2048x4xf32>, %d: tensor<2048x4xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 2 : i64} {
  %y, %i = torch.aten.sort.default(%x) {autodiff.saved = array<i64: 1>} : (tensor<2048x4xf32>) -> (tensor<2048x4xf32>, tensor<2048x4xi64>)
  %v, %j = torch.aten.sort.default(%x, 0) {autodiff.saved = array<i64: 1>, autodiff.offloaded = array<i64: 1>} : (tensor<2048x4xf32>) -> (tensor<2048x4xf32>, tensor<2048x4xi64>)
  %z = torch.aten.gather.default(%x, 1, %i) {autodiff.recomputed} : (tensor<2048x4xf32>, tensor<2048x4xi64>) -> tensor<2048x4xf32>
  %e = torch.aten.mul.Tensor(%d, %z) : (tensor<2048x4xf32>, tensor<2048x4xf32>) -> tensor<2048x4xf32>
  %f = torch.aten.scatter.src(%d, 0, %j, %e) : (tensor<2048x4xf32>, tensor<2048x4xi64>, tensor<2048x4xf32>) -> tensor<2048x4xf32>
  %g = torch.aten.scatter.src(%f, -1, %i, %e) : (tensor<2048x4xf32>, tensor<2048x4xi64>, tensor<2048x4xf32>) -> tensor<2048x4xf32>
  fx.output([%y, %z, %g]) : (tensor<2048x4xf32>, tensor<2048x4xf32>, tensor<2048x4xf32>) -> ()
}

// -----

/// Too few bytes.
// CHECK-LABEL: func.func @small
// CHECK-NOT:     _to_copy
func.func @small(%x: tensor<62x129xf32>, %d: tensor<62x129xf32> {autodiff.tangent}) attributes {autodiff.forward_results = 2 : i64} {
  %y, %i = torch.aten.sort.default(%x) {autodiff.saved = array<i64: 1>} : (tensor<62x129xf32>) -> (tensor<62x129xf32>, tensor<62x129xi64>)
  %j = torch.aten.add.Tensor(%i, %i) : (tensor<62x129xi64>, tensor<62x129xi64>) -> tensor<62x129xi64>
  %o = torch.aten.new_zeros.default(%d, [62, 129]) : (tensor<62x129xf32>) -> tensor<62x129xf32>
  %g = torch.aten.scatter.src(%o, -1, %i, %d) : (tensor<62x129xf32>, tensor<62x129xi64>, tensor<62x129xf32>) -> tensor<62x129xf32>
  fx.output([%y, %j, %g]) : (tensor<62x129xf32>, tensor<62x129xi64>, tensor<62x129xf32>) -> ()
}
