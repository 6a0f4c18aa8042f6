// RUN: fxc-opt %s --split-input-file --sink-waits | filecheck %s
// RUN: fxc-opt %s --split-input-file --sink-waits --sink-waits | filecheck %s

/// Waits sink to their users, in their order; one that nothing uses sinks to the end.
// CHECK-LABEL: func.func @sink
// CHECK-NEXT:    dist.all_reduce
// CHECK-NEXT:    dist.all_reduce
// CHECK-NEXT:    dist.all_reduce
// CHECK-NEXT:    %e = torch.aten.exp.default
// CHECK-NEXT:    %u = dist.wait %a
// CHECK-NEXT:    %v = dist.wait %b
// CHECK-NEXT:    %s = torch.aten.add.Tensor(%u, %v)
// CHECK-NEXT:    %w = dist.wait %c
// CHECK-NEXT:    fx.output(%s, %e)
dist.group @dp "0" ranks [0, 1]
func.func @sink(%x: tensor<4xf32>) {
  %a = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %u = dist.wait %a : tensor<4xf32>
  %b = dist.all_reduce "max" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %v = dist.wait %b : tensor<4xf32>
  %c = dist.all_reduce "min" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %w = dist.wait %c : tensor<4xf32>
  %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.add.Tensor(%u, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%s, %e) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A random operator is crossed; one that writes memory, which may be that of the operand, is not. A user in a region counts.
// CHECK-LABEL: func.func @barriers
// CHECK:         torch.aten.rand_like.default
// CHECK-NEXT:    %u = dist.wait %a
// CHECK-NEXT:    torch.aten.relu_.default
// CHECK-NEXT:    dist.all_reduce
// CHECK-NEXT:    torch.aten.exp.default
// CHECK-NEXT:    %v = dist.wait %b
// CHECK-NEXT:    fusion.group
dist.group @dp "0" ranks [0, 1]
func.func @barriers(%x: tensor<4xf32>, %m: tensor<4xf32>) {
  %a = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %u = dist.wait %a : tensor<4xf32>
  %n = torch.aten.rand_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %r = torch.aten.relu_.default(%m) : (tensor<4xf32>) -> tensor<4xf32>
  %b = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %v = dist.wait %b : tensor<4xf32>
  %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %g = fusion.group ({
    %i = torch.aten.neg.default(%v) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %i : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%g, %u, %n, %e) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// The slice of a padded shard, and a cast, sink with their waits; a sum, and what has another operand, do not.
// CHECK-LABEL: func.func @followers
// CHECK-NEXT:    dist.reduce_scatter
// CHECK-NEXT:    dist.reduce_scatter
// CHECK-NEXT:    %u = dist.wait %a
// CHECK-NEXT:    %t = torch.aten.sum.default(%u)
// CHECK-NEXT:    %e = torch.aten.exp.default(%x)
// CHECK-NEXT:    %v = dist.wait %b
// CHECK-NEXT:    %s = torch.aten.slice.Tensor(%v, 0, 0, 1)
// CHECK-NEXT:    %c = torch.aten._to_copy.default(%s
// CHECK-NEXT:    fx.output(%t, %c, %e)
dist.group @dp "0" ranks [0, 1]
func.func @followers(%x: tensor<4xf32>) {
  %a = dist.reduce_scatter "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<2xf32>
  %u = dist.wait %a : tensor<2xf32>
  %b = dist.reduce_scatter "avg" over @dp (%x) : (tensor<4xf32>) -> tensor<2xf32>
  %v = dist.wait %b : tensor<2xf32>
  %s = torch.aten.slice.Tensor(%v, 0, 0, 1) : (tensor<2xf32>) -> tensor<1xf32>
  %c = torch.aten._to_copy.default(%s, dtype = f64) : (tensor<1xf32>) -> tensor<1xf64>
  %t = torch.aten.sum.default(%u) : (tensor<2xf32>) -> tensor<f32>
  %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%t, %c, %e) : (tensor<f32>, tensor<1xf64>, tensor<4xf32>) -> ()
}
