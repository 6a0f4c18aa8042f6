// RUN: fxc-opt %s --split-input-file -p "set-links{file=%S/inputs/links.json},choose-reductions" | filecheck %s
// RUN: fxc-opt %s --split-input-file -p "set-links{file=%S/inputs/links.json},choose-reductions,choose-reductions" | filecheck %s
// RUN: fxc-opt %s --split-input-file --choose-reductions | filecheck %s --check-prefix=ASSUMED

/// In the links of the file an all_reduce takes longer than both; near ones make it one. Nothing measured: one.
// CHECK-LABEL: func.func @split
// CHECK-NEXT:    %0, %1 = dist.reduce_scatter "sum" over @far (%x, %m) : (tensor<4xf32>, tensor<2x3xf32>) -> (tensor<2xf32>, tensor<1x3xf32>)
// CHECK-NEXT:    dist.all_reduce "sum" over @near (%x)
// CHECK-NEXT:    torch.aten.exp.default
// CHECK-NEXT:    %[[A:.*]] = dist.wait
// CHECK-NEXT:    %[[B:.*]] = dist.wait
// CHECK-NEXT:    %r, %s = dist.all_gather over @far (%[[A]], %[[B]])
// CHECK-NEXT:    %u = dist.wait %r
// ASSUMED-LABEL: func.func @split
// ASSUMED:         dist.all_reduce "sum" over @far (%x, %m)
dist.mesh @mesh "cpu" (near = 2, far = 2)
dist.group @near "0" on @mesh(near)
dist.group @far "1" on @mesh(far)
func.func @split(%x: tensor<4xf32>, %m: tensor<2x3xf32>) {
  %r, %s = dist.all_reduce "sum" over @far (%x, %m) : (tensor<4xf32>, tensor<2x3xf32>) -> (tensor<4xf32>, tensor<2x3xf32>)
  %t = dist.all_reduce "sum" over @near (%x) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %u = dist.wait %r : tensor<4xf32>
  %v = dist.wait %s : tensor<2x3xf32>
  %w = dist.wait %t : tensor<4xf32>
  fx.output(%e, %u, %v, %w) : (tensor<4xf32>, tensor<4xf32>, tensor<2x3xf32>, tensor<4xf32>) -> ()
}

// -----

/// Three elements have no halves; a number has no dimension; a transposed tensor has other parts in memory.
// CHECK-LABEL: func.func @indivisible
// CHECK-COUNT-3: dist.all_reduce
dist.group @dp "0" ranks [0, 1]
func.func @indivisible(%x: tensor<3xf32>, %n: tensor<f32>, %t: tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) {
  %a = dist.all_reduce "sum" over @dp (%x) : (tensor<3xf32>) -> tensor<3xf32>
  %b = dist.all_reduce "sum" over @dp (%n) : (tensor<f32>) -> tensor<f32>
  %c = dist.all_reduce "sum" over @dp (%t) : (tensor<2x3xf32, #torch.meta<strides = [1, 2]>>) -> tensor<2x3xf32, #torch.meta<strides = [1, 2]>>
  fx.output() : () -> ()
}

// -----

/// A scatter and a gather stay where one reduction takes longer, where a part has another reader, and in other groups.
// CHECK-LABEL: func.func @join
// CHECK-NOT:     dist.all_reduce
// ASSUMED-LABEL: func.func @join
// ASSUMED-NEXT:    %g = dist.all_reduce "sum" over @a (%x)
// ASSUMED-NEXT:    %y = dist.wait %g
// ASSUMED-NEXT:    dist.reduce_scatter "sum" over @a (%x)
// ASSUMED-NOT:     dist.all_reduce
dist.group @a "0" ranks [0, 1]
dist.group @b "1" ranks [0, 2]
func.func @join(%x: tensor<4xf32>) {
  %r = dist.reduce_scatter "sum" over @a (%x) : (tensor<4xf32>) -> tensor<2xf32>
  %p = dist.wait %r : tensor<2xf32>
  %g = dist.all_gather over @a (%p) : (tensor<2xf32>) -> tensor<4xf32>
  %y = dist.wait %g : tensor<4xf32>
  %s = dist.reduce_scatter "sum" over @a (%x) : (tensor<4xf32>) -> tensor<2xf32>
  %q = dist.wait %s : tensor<2xf32>
  %h = dist.all_gather over @a (%q) : (tensor<2xf32>) -> tensor<4xf32>
  %z = dist.wait %h : tensor<4xf32>
  %t = dist.reduce_scatter "sum" over @a (%x) : (tensor<4xf32>) -> tensor<2xf32>
  %o = dist.wait %t : tensor<2xf32>
  %i = dist.all_gather over @b (%o) : (tensor<2xf32>) -> tensor<4xf32>
  %v = dist.wait %i : tensor<4xf32>
  fx.output(%y, %z, %q, %v) : (tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<4xf32>) -> ()
}
