// RUN: fxc-opt %s --split-input-file --hoist-collectives | filecheck %s
// RUN: fxc-opt %s --split-input-file -p hoist-collectives,hoist-collectives | filecheck %s
// RUN: fxc-opt %s --split-input-file --hoist-collectives=32 | filecheck %s --check-prefix=BOUND

/// Gathers of arguments start at the top in the order of need; a bound of 32 bytes lets one of two wait at a time.
// CHECK-LABEL: func.func @gathers
// CHECK-NEXT:    %a = dist.all_gather over @dp (%p)
// CHECK-NEXT:    %b = dist.all_gather over @dp (%q)
// CHECK-NEXT:    %c = dist.all_gather over @dp (%p)
// CHECK-NEXT:    torch.aten.exp.default
// BOUND-LABEL: func.func @gathers
// BOUND-NEXT:    %a = dist.all_gather over @dp (%p)
// BOUND-NEXT:    %b = dist.all_gather over @dp (%q)
// BOUND-NEXT:    torch.aten.exp.default
// BOUND-NEXT:    %u = dist.wait %a
// BOUND-NEXT:    %c = dist.all_gather over @dp (%p)
// BOUND-NEXT:    torch.aten.mul.Tensor
// BOUND-NEXT:    %v = dist.wait %b
dist.group @dp "0" ranks [0, 1]
func.func @gathers(%x: tensor<4xf32>, %p: tensor<2xf32>, %q: tensor<2xf32>) {
  %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %a = dist.all_gather over @dp (%p) : (tensor<2xf32>) -> tensor<4xf32>
  %u = dist.wait %a : tensor<4xf32>
  %f = torch.aten.mul.Tensor(%e, %u) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = dist.all_gather over @dp (%q) : (tensor<2xf32>) -> tensor<4xf32>
  %v = dist.wait %b : tensor<4xf32>
  %g = torch.aten.mul.Tensor(%f, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = dist.all_gather over @dp (%p) : (tensor<2xf32>) -> tensor<4xf32>
  %w = dist.wait %c : tensor<4xf32>
  %h = torch.aten.mul.Tensor(%g, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output(%h) : (tensor<4xf32>) -> ()
}

// -----

/// A gather that is needed at once passes a reduction that only the end needs; a reduction starts right after its operand.
// CHECK-LABEL: func.func @passes
// CHECK-NEXT:    %b = dist.all_gather over @dp (%p)
// CHECK-NEXT:    %e = torch.aten.exp.default(%x)
// CHECK-NEXT:    %a = dist.all_reduce "sum" over @dp (%e)
// CHECK-NEXT:    torch.aten.neg.default
// CHECK-NEXT:    %v = dist.wait %b
dist.group @dp "0" ranks [0, 1]
func.func @passes(%x: tensor<4xf32>, %p: tensor<2xf32>) {
  %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %n = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %a = dist.all_reduce "sum" over @dp (%e) : (tensor<4xf32>) -> tensor<4xf32>
  %b = dist.all_gather over @dp (%p) : (tensor<2xf32>) -> tensor<4xf32>
  %v = dist.wait %b : tensor<4xf32>
  %g = torch.aten.mul.Tensor(%n, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %u = dist.wait %a : tensor<4xf32>
  fx.output(%g, %u) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Nothing starts before a write, which may be to its operand, nor before an assertion.
// CHECK-LABEL: func.func @barriers
// CHECK-NEXT:    torch.aten.relu_.default
// CHECK-NEXT:    dist.all_reduce
// CHECK-NEXT:    torch.aten.neg.default
// CHECK-NEXT:    torch.aten._assert_async.default
// CHECK-NEXT:    dist.all_reduce
// CHECK-NEXT:    torch.aten.exp.default
dist.group @dp "0" ranks [0, 1]
func.func @barriers(%x: tensor<4xf32>, %c: tensor<i1>) {
  %r = torch.aten.relu_.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %n = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %a = dist.all_reduce "sum" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  torch.aten._assert_async.default(%c) : (tensor<i1>) -> ()
  %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = dist.all_reduce "max" over @dp (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %u = dist.wait %a : tensor<4xf32>
  %v = dist.wait %b : tensor<4xf32>
  fx.output(%n, %e, %u, %v) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// The padding of a shard moves with its gather, as far as the gather of a rank without padding does; other operands do not.
// CHECK-LABEL: func.func @padded
// CHECK-NEXT:    %d = torch.aten.constant_pad_nd.default(%p
// CHECK-NEXT:    %a = dist.all_gather over @dp (%d)
// CHECK-NEXT:    %e = torch.aten.exp.default(%x)
// CHECK-NEXT:    %b = dist.all_gather over @dp (%e)
// CHECK-NEXT:    %u = dist.wait %a
dist.group @dp "0" ranks [0, 1]
func.func @padded(%x: tensor<4xf32>, %p: tensor<1xf32>) {
  %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.constant_pad_nd.default(%p, [0, 1]) : (tensor<1xf32>) -> tensor<2xf32>
  %a = dist.all_gather over @dp (%d) : (tensor<2xf32>) -> tensor<4xf32>
  %u = dist.wait %a : tensor<4xf32>
  %f = torch.aten.mul.Tensor(%e, %u) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = dist.all_gather over @dp (%e) : (tensor<4xf32>) -> tensor<8xf32>
  %v = dist.wait %b : tensor<8xf32>
  fx.output(%f, %v) : (tensor<4xf32>, tensor<8xf32>) -> ()
}
