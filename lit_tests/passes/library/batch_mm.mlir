// RUN: fxc-opt %s --split-input-file --pass-pipeline=batch-mm | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=batch-mm,batch-mm | filecheck %s

/// Four products, added one after the other.
// CHECK-LABEL: func.func @tree
// CHECK-NEXT:    [[l:%.*]] = torch.aten.cat.default([%a0, %a1, %a2, %a3], 1) : {{.*}} -> tensor<2x12xf32>
// CHECK-NEXT:    [[r:%.*]] = torch.aten.cat.default([%b0, %b1, %b2, %b3], 0) : {{.*}} -> tensor<12x2xf32>
// CHECK-NEXT:    %u = torch.aten.mm.default([[l]], [[r]]) : (tensor<2x12xf32>, tensor<12x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:    fx.output(%u)
func.func @tree(%a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %b0: tensor<3x2xf32>, %b1: tensor<3x2xf32>, %b2: tensor<3x2xf32>, %b3: tensor<3x2xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b2) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b3) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %s = torch.aten.add.Tensor(%p0, %p1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = torch.aten.add.Tensor(%s, %p2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %u = torch.aten.add.Tensor(%t, %p3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output(%u) : (tensor<2x2xf32>) -> ()
}

// -----

/// Three are not enough.
// CHECK-LABEL: func.func @three
// CHECK-NOT:     cat
// CHECK:         fx.output
func.func @three(%a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %b0: tensor<3x2xf32>, %b1: tensor<3x2xf32>, %b2: tensor<3x2xf32>, %b3: tensor<3x2xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b2) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %s = torch.aten.add.Tensor(%p0, %p1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = torch.aten.add.Tensor(%s, %p2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output(%t) : (tensor<2x2xf32>) -> ()
}

// -----

/// A sum that something else reads ends the tree.
// CHECK-LABEL: func.func @second_use
// CHECK-NOT:     cat
// CHECK:         fx.output
func.func @second_use(%a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %b0: tensor<3x2xf32>, %b1: tensor<3x2xf32>, %b2: tensor<3x2xf32>, %b3: tensor<3x2xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b2) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b3) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %s = torch.aten.add.Tensor(%p0, %p1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = torch.aten.add.Tensor(%s, %p2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %u = torch.aten.add.Tensor(%t, %p3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output((%u, %s)) : (tensor<2x2xf32>, tensor<2x2xf32>) -> ()
}

// -----

/// A factor: the sum is no sum of products.
// CHECK-LABEL: func.func @alpha
// CHECK-NOT:     cat
// CHECK:         fx.output
func.func @alpha(%a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %b0: tensor<3x2xf32>, %b1: tensor<3x2xf32>, %b2: tensor<3x2xf32>, %b3: tensor<3x2xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b2) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b3) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %s = torch.aten.add.Tensor(%p0, %p1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = torch.aten.add.Tensor(%s, %p2, alpha = 2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %u = torch.aten.add.Tensor(%t, %p3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output(%u) : (tensor<2x2xf32>) -> ()
}

// -----

/// A factor of one.
// CHECK-LABEL: func.func @alpha_one
// CHECK:         cat
// CHECK:         fx.output
func.func @alpha_one(%a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %b0: tensor<3x2xf32>, %b1: tensor<3x2xf32>, %b2: tensor<3x2xf32>, %b3: tensor<3x2xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b2) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b3) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %s = torch.aten.add.Tensor(%p0, %p1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = torch.aten.add.Tensor(%s, %p2, alpha = 1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %u = torch.aten.add.Tensor(%t, %p3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output(%u) : (tensor<2x2xf32>) -> ()
}

// -----

/// The transpose of a product is the product of the transposes, in the other order.
// CHECK-LABEL: func.func @transposed
// CHECK-NEXT:    [[b:%.*]] = torch.aten.t.default(%b1) : (tensor<2x2xf32>) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
// CHECK-NEXT:    [[a:%.*]] = torch.aten.t.default(%a1)
// CHECK-NEXT:    torch.aten.cat.default([%a0, [[b]], %a2, %a3], 1) : {{.*}} -> tensor<2x8xf32>
// CHECK-NEXT:    torch.aten.cat.default([%b0, [[a]], %b2, %b3], 0)
// CHECK-NEXT:    torch.aten.mm.default
// CHECK-NEXT:    fx.output
func.func @transposed(%a0: tensor<2x2xf32>, %a1: tensor<2x2xf32>, %a2: tensor<2x2xf32>, %a3: tensor<2x2xf32>, %b0: tensor<2x2xf32>, %b1: tensor<2x2xf32>, %b2: tensor<2x2xf32>, %b3: tensor<2x2xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %q1 = torch.aten.transpose.int(%p1, -1, 0) : (tensor<2x2xf32>) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
  %s = torch.aten.add.Tensor(%p0, %q1) : (tensor<2x2xf32>, tensor<2x2xf32, #torch.meta<strides = [1, 2]>>) -> tensor<2x2xf32>
  %t = torch.aten.add.Tensor(%s, %p2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %u = torch.aten.add.Tensor(%t, %p3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output(%u) : (tensor<2x2xf32>) -> ()
}

// -----

/// A sum with other strides stays.
// CHECK-LABEL: func.func @all_transposed
// CHECK-NOT:     cat
// CHECK:         fx.output
func.func @all_transposed(%a0: tensor<2x2xf32>, %a1: tensor<2x2xf32>, %a2: tensor<2x2xf32>, %a3: tensor<2x2xf32>, %b0: tensor<2x2xf32>, %b1: tensor<2x2xf32>, %b2: tensor<2x2xf32>, %b3: tensor<2x2xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %q0 = torch.aten.t.default(%p0) : (tensor<2x2xf32>) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
  %q1 = torch.aten.transpose.int(%p1, -1, 0) : (tensor<2x2xf32>) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
  %q2 = torch.aten.t.default(%p2) : (tensor<2x2xf32>) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
  %q3 = torch.aten.transpose.int(%p3, -1, 0) : (tensor<2x2xf32>) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
  %s = torch.aten.add.Tensor(%q0, %q1) : (tensor<2x2xf32, #torch.meta<strides = [1, 2]>>, tensor<2x2xf32, #torch.meta<strides = [1, 2]>>) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
  %t = torch.aten.add.Tensor(%s, %q2) : (tensor<2x2xf32, #torch.meta<strides = [1, 2]>>, tensor<2x2xf32, #torch.meta<strides = [1, 2]>>) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
  %u = torch.aten.add.Tensor(%t, %q3) : (tensor<2x2xf32, #torch.meta<strides = [1, 2]>>, tensor<2x2xf32, #torch.meta<strides = [1, 2]>>) -> tensor<2x2xf32, #torch.meta<strides = [1, 2]>>
  fx.output(%u) : (tensor<2x2xf32, #torch.meta<strides = [1, 2]>>) -> ()
}

// -----

/// A matrix that is written.
// CHECK-LABEL: func.func @written
// CHECK-NOT:     cat
// CHECK:         fx.output
func.func @written(%a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %b0: tensor<3x2xf32>, %b1: tensor<3x2xf32>, %b2: tensor<3x2xf32>, %b3: tensor<3x2xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b2) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b3) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %w = torch.aten.zero_.default(%b2) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %s = torch.aten.add.Tensor(%p0, %p1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = torch.aten.add.Tensor(%s, %p2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %u = torch.aten.add.Tensor(%t, %p3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output(%u) : (tensor<2x2xf32>) -> ()
}

// -----

/// A sum that is written on the way.
// CHECK-LABEL: func.func @sum_written
// CHECK-NOT:     cat
// CHECK:         fx.output
func.func @sum_written(%a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %b0: tensor<3x2xf32>, %b1: tensor<3x2xf32>, %b2: tensor<3x2xf32>, %b3: tensor<3x2xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b2) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b3) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %s = torch.aten.add.Tensor(%p0, %p1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = torch.aten.add_.Tensor(%s, %p2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %u = torch.aten.add.Tensor(%t, %p3) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output(%u) : (tensor<2x2xf32>) -> ()
}

// -----

/// One product, added to itself, has two uses.
// CHECK-LABEL: func.func @twice
// CHECK-NOT:     cat
// CHECK:         fx.output
func.func @twice(%a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %b0: tensor<3x2xf32>, %b1: tensor<3x2xf32>, %b2: tensor<3x2xf32>, %b3: tensor<3x2xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %s = torch.aten.add.Tensor(%p0, %p0) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = torch.aten.add.Tensor(%p1, %p1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %u = torch.aten.add.Tensor(%s, %t) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output(%u) : (tensor<2x2xf32>) -> ()
}

// -----

/// A sum that broadcasts, sizes without a number, and products too large to be worth a copy.
// CHECK-LABEL: func.func @other_shapes
// CHECK-NOT:     cat
// CHECK:         func.func @dynamic
// CHECK-NOT:     cat
// CHECK:         func.func @large
// CHECK-NOT:     cat
func.func @other_shapes(%a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %b0: tensor<3x2xf32>, %b1: tensor<3x2xf32>, %b2: tensor<3x2xf32>, %b3: tensor<3x2xf32>, %c: tensor<1x3xf32>, %d: tensor<3x2xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b2) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%c, %d) : (tensor<1x3xf32>, tensor<3x2xf32>) -> tensor<1x2xf32>
  %s = torch.aten.add.Tensor(%p0, %p1) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = torch.aten.add.Tensor(%s, %p2) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %u = torch.aten.add.Tensor(%t, %p3) : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  fx.output(%u) : (tensor<2x2xf32>) -> ()
}
func.func @dynamic(%a0: tensor<?x3xf32>, %a1: tensor<?x3xf32>, %a2: tensor<?x3xf32>, %a3: tensor<?x3xf32>, %b0: tensor<3x2xf32>, %b1: tensor<3x2xf32>, %b2: tensor<3x2xf32>, %b3: tensor<3x2xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b2) : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b3) : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  %s = torch.aten.add.Tensor(%p0, %p1) : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %t = torch.aten.add.Tensor(%s, %p2) : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %u = torch.aten.add.Tensor(%t, %p3) : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  fx.output(%u) : (tensor<?x2xf32>) -> ()
}
func.func @large(%a0: tensor<2x512xf32>, %a1: tensor<2x512xf32>, %a2: tensor<2x512xf32>, %a3: tensor<2x512xf32>, %b0: tensor<512x300xf32>, %b1: tensor<512x300xf32>, %b2: tensor<512x300xf32>, %b3: tensor<512x300xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b0) : (tensor<2x512xf32>, tensor<512x300xf32>) -> tensor<2x300xf32>
  %p1 = torch.aten.mm.default(%a1, %b1) : (tensor<2x512xf32>, tensor<512x300xf32>) -> tensor<2x300xf32>
  %p2 = torch.aten.mm.default(%a2, %b2) : (tensor<2x512xf32>, tensor<512x300xf32>) -> tensor<2x300xf32>
  %p3 = torch.aten.mm.default(%a3, %b3) : (tensor<2x512xf32>, tensor<512x300xf32>) -> tensor<2x300xf32>
  %s = torch.aten.add.Tensor(%p0, %p1) : (tensor<2x300xf32>, tensor<2x300xf32>) -> tensor<2x300xf32>
  %t = torch.aten.add.Tensor(%s, %p2) : (tensor<2x300xf32>, tensor<2x300xf32>) -> tensor<2x300xf32>
  %u = torch.aten.add.Tensor(%t, %p3) : (tensor<2x300xf32>, tensor<2x300xf32>) -> tensor<2x300xf32>
  fx.output(%u) : (tensor<2x300xf32>) -> ()
}

// -----

/// Eight products that share the right side, though their results are read in between.
// CHECK-LABEL: func.func @shared_right
// CHECK-NEXT:    [[c:%.*]] = torch.aten.cat.default([%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7], 0) : {{.*}} -> tensor<16x3xf32>
// CHECK-NEXT:    [[m:%.*]] = torch.aten.mm.default([[c]], %b) : (tensor<16x3xf32>, tensor<3x2xf32>) -> tensor<16x2xf32>
// CHECK-NEXT:    %p0, {{.*}}, %p7 = torch.aten.split.Tensor([[m]], 2) : (tensor<16x2xf32>)
// CHECK-NEXT:    %r0 = torch.aten.relu.default(%p0)
// CHECK-NOT:     mm
func.func @shared_right(%b: tensor<3x2xf32>, %a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %a4: tensor<2x3xf32>, %a5: tensor<2x3xf32>, %a6: tensor<2x3xf32>, %a7: tensor<2x3xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r0 = torch.aten.relu.default(%p0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r1 = torch.aten.relu.default(%p1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r2 = torch.aten.relu.default(%p2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r3 = torch.aten.relu.default(%p3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p4 = torch.aten.mm.default(%a4, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r4 = torch.aten.relu.default(%p4) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p5 = torch.aten.mm.default(%a5, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r5 = torch.aten.relu.default(%p5) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p6 = torch.aten.mm.default(%a6, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r6 = torch.aten.relu.default(%p6) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p7 = torch.aten.mm.default(%a7, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r7 = torch.aten.relu.default(%p7) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output((%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7)) : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> ()
}

// -----

/// The left side: results keep their strides.
// CHECK-LABEL: func.func @shared_left
// CHECK-NEXT:    [[s:%.*]] = torch.aten.stack.default([%b0, {{.*}}, %b7]) : {{.*}} -> tensor<8x3x2xf32>
// CHECK-NEXT:    [[e:%.*]] = torch.aten.expand.default(%a, [8, 2, 3]) : (tensor<2x3xf32>) -> tensor<8x2x3xf32, #torch.meta<strides = [0, 3, 1]>>
// CHECK-NEXT:    [[m:%.*]] = torch.aten.bmm.default([[e]], [[s]]) : {{.*}} -> tensor<8x2x2xf32>
// CHECK-NEXT:    %p0, {{.*}}, %p7 = torch.aten.unbind.int([[m]])
// CHECK-NEXT:    %r0 = torch.aten.relu.default(%p0)
// CHECK-NOT:     mm
func.func @shared_left(%a: tensor<2x3xf32>, %b0: tensor<3x2xf32>, %b1: tensor<3x2xf32>, %b2: tensor<3x2xf32>, %b3: tensor<3x2xf32>, %b4: tensor<3x2xf32>, %b5: tensor<3x2xf32>, %b6: tensor<3x2xf32>, %b7: tensor<3x2xf32>) {
  %p0 = torch.aten.mm.default(%a, %b0) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r0 = torch.aten.relu.default(%p0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a, %b1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r1 = torch.aten.relu.default(%p1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a, %b2) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r2 = torch.aten.relu.default(%p2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a, %b3) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r3 = torch.aten.relu.default(%p3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p4 = torch.aten.mm.default(%a, %b4) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r4 = torch.aten.relu.default(%p4) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p5 = torch.aten.mm.default(%a, %b5) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r5 = torch.aten.relu.default(%p5) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p6 = torch.aten.mm.default(%a, %b6) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r6 = torch.aten.relu.default(%p6) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p7 = torch.aten.mm.default(%a, %b7) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r7 = torch.aten.relu.default(%p7) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output((%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7)) : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> ()
}

// -----

/// Seven are not enough.
// CHECK-LABEL: func.func @seven
// CHECK-NOT:     split
// CHECK:         fx.output
func.func @seven(%b: tensor<3x2xf32>, %a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %a4: tensor<2x3xf32>, %a5: tensor<2x3xf32>, %a6: tensor<2x3xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r0 = torch.aten.relu.default(%p0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r1 = torch.aten.relu.default(%p1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r2 = torch.aten.relu.default(%p2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r3 = torch.aten.relu.default(%p3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p4 = torch.aten.mm.default(%a4, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r4 = torch.aten.relu.default(%p4) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p5 = torch.aten.mm.default(%a5, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r5 = torch.aten.relu.default(%p5) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p6 = torch.aten.mm.default(%a6, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r6 = torch.aten.relu.default(%p6) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output((%r0, %r1, %r2, %r3, %r4, %r5, %r6)) : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> ()
}

// -----

/// Results that are returned would share memory.
// CHECK-LABEL: func.func @returned
// CHECK-NOT:     split
// CHECK:         fx.output
func.func @returned(%b: tensor<3x2xf32>, %a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %a4: tensor<2x3xf32>, %a5: tensor<2x3xf32>, %a6: tensor<2x3xf32>, %a7: tensor<2x3xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p4 = torch.aten.mm.default(%a4, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p5 = torch.aten.mm.default(%a5, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p6 = torch.aten.mm.default(%a6, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %p7 = torch.aten.mm.default(%a7, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  fx.output((%p0, %p1, %p2, %p3, %p4, %p5, %p6, %p7)) : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> ()
}

// -----

/// A result that is written is left out, and seven are not enough.
// CHECK-LABEL: func.func @one_written
// CHECK-NOT:     split
// CHECK:         fx.output
func.func @one_written(%b: tensor<3x2xf32>, %a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %a4: tensor<2x3xf32>, %a5: tensor<2x3xf32>, %a6: tensor<2x3xf32>, %a7: tensor<2x3xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r0 = torch.aten.relu.default(%p0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r1 = torch.aten.relu.default(%p1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r2 = torch.aten.relu.default(%p2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %w = torch.aten.zero_.default(%p3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %r3 = torch.aten.relu.default(%p3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p4 = torch.aten.mm.default(%a4, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r4 = torch.aten.relu.default(%p4) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p5 = torch.aten.mm.default(%a5, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r5 = torch.aten.relu.default(%p5) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p6 = torch.aten.mm.default(%a6, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r6 = torch.aten.relu.default(%p6) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p7 = torch.aten.mm.default(%a7, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r7 = torch.aten.relu.default(%p7) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output((%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7)) : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> ()
}

// -----

/// An operand that is written.
// CHECK-LABEL: func.func @operand_written
// CHECK-NOT:     split
// CHECK:         fx.output
func.func @operand_written(%b: tensor<3x2xf32>, %a0: tensor<2x3xf32>, %a1: tensor<2x3xf32>, %a2: tensor<2x3xf32>, %a3: tensor<2x3xf32>, %a4: tensor<2x3xf32>, %a5: tensor<2x3xf32>, %a6: tensor<2x3xf32>, %a7: tensor<2x3xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r0 = torch.aten.relu.default(%p0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r1 = torch.aten.relu.default(%p1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r2 = torch.aten.relu.default(%p2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %w = torch.aten.zero_.default(%b) : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %r3 = torch.aten.relu.default(%p3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p4 = torch.aten.mm.default(%a4, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r4 = torch.aten.relu.default(%p4) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p5 = torch.aten.mm.default(%a5, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r5 = torch.aten.relu.default(%p5) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p6 = torch.aten.mm.default(%a6, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r6 = torch.aten.relu.default(%p6) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p7 = torch.aten.mm.default(%a7, %b) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %r7 = torch.aten.relu.default(%p7) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output((%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7)) : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> ()
}

// -----

/// Sides too large to be worth a copy.
// CHECK-LABEL: func.func @large_sides
// CHECK-NOT:     split
// CHECK:         fx.output
func.func @large_sides(%b: tensor<1048577x2xf32>, %a0: tensor<2x1048577xf32>, %a1: tensor<2x1048577xf32>, %a2: tensor<2x1048577xf32>, %a3: tensor<2x1048577xf32>, %a4: tensor<2x1048577xf32>, %a5: tensor<2x1048577xf32>, %a6: tensor<2x1048577xf32>, %a7: tensor<2x1048577xf32>) {
  %p0 = torch.aten.mm.default(%a0, %b) : (tensor<2x1048577xf32>, tensor<1048577x2xf32>) -> tensor<2x2xf32>
  %r0 = torch.aten.relu.default(%p0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%a1, %b) : (tensor<2x1048577xf32>, tensor<1048577x2xf32>) -> tensor<2x2xf32>
  %r1 = torch.aten.relu.default(%p1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%a2, %b) : (tensor<2x1048577xf32>, tensor<1048577x2xf32>) -> tensor<2x2xf32>
  %r2 = torch.aten.relu.default(%p2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%a3, %b) : (tensor<2x1048577xf32>, tensor<1048577x2xf32>) -> tensor<2x2xf32>
  %r3 = torch.aten.relu.default(%p3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p4 = torch.aten.mm.default(%a4, %b) : (tensor<2x1048577xf32>, tensor<1048577x2xf32>) -> tensor<2x2xf32>
  %r4 = torch.aten.relu.default(%p4) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p5 = torch.aten.mm.default(%a5, %b) : (tensor<2x1048577xf32>, tensor<1048577x2xf32>) -> tensor<2x2xf32>
  %r5 = torch.aten.relu.default(%p5) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p6 = torch.aten.mm.default(%a6, %b) : (tensor<2x1048577xf32>, tensor<1048577x2xf32>) -> tensor<2x2xf32>
  %r6 = torch.aten.relu.default(%p6) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p7 = torch.aten.mm.default(%a7, %b) : (tensor<2x1048577xf32>, tensor<1048577x2xf32>) -> tensor<2x2xf32>
  %r7 = torch.aten.relu.default(%p7) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output((%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7)) : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> ()
}

// -----

/// Products that need each other cannot be one.
// CHECK-LABEL: func.func @dependent
// CHECK-NOT:     split
// CHECK:         fx.output
func.func @dependent(%p0: tensor<2x2xf32>, %b: tensor<2x2xf32>) {
  %p1 = torch.aten.mm.default(%p0, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%p1, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%p2, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p4 = torch.aten.mm.default(%p3, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p5 = torch.aten.mm.default(%p4, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p6 = torch.aten.mm.default(%p5, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p7 = torch.aten.mm.default(%p6, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %p8 = torch.aten.mm.default(%p7, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %r = torch.aten.relu.default(%p8) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output(%r) : (tensor<2x2xf32>) -> ()
}

// -----

/// A matrix on both sides.
// CHECK-LABEL: func.func @both_sides
// CHECK-NOT:     split
// CHECK:         fx.output
func.func @both_sides(%b: tensor<2x2xf32>) {
  %p0 = torch.aten.mm.default(%b, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %r0 = torch.aten.relu.default(%p0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p1 = torch.aten.mm.default(%b, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %r1 = torch.aten.relu.default(%p1) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p2 = torch.aten.mm.default(%b, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %r2 = torch.aten.relu.default(%p2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p3 = torch.aten.mm.default(%b, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %r3 = torch.aten.relu.default(%p3) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p4 = torch.aten.mm.default(%b, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %r4 = torch.aten.relu.default(%p4) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p5 = torch.aten.mm.default(%b, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %r5 = torch.aten.relu.default(%p5) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p6 = torch.aten.mm.default(%b, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %r6 = torch.aten.relu.default(%p6) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %p7 = torch.aten.mm.default(%b, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %r7 = torch.aten.relu.default(%p7) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  fx.output((%r0, %r7)) : (tensor<2x2xf32>, tensor<2x2xf32>) -> ()
}

// -----

/// Left matrices without rows: a split of none has one result.
// CHECK-LABEL: func.func @no_rows
// CHECK-NOT:     split
// CHECK:         fx.output
func.func @no_rows(%a: tensor<0x3xf32>, %c: tensor<0x3xf32>, %b: tensor<3x2xf32>) {
  %p0 = torch.aten.mm.default(%a, %b) : (tensor<0x3xf32>, tensor<3x2xf32>) -> tensor<0x2xf32>
  %r0 = torch.aten.relu.default(%p0) : (tensor<0x2xf32>) -> tensor<0x2xf32>
  %p1 = torch.aten.mm.default(%c, %b) : (tensor<0x3xf32>, tensor<3x2xf32>) -> tensor<0x2xf32>
  %r1 = torch.aten.relu.default(%p1) : (tensor<0x2xf32>) -> tensor<0x2xf32>
  %p2 = torch.aten.mm.default(%a, %b) : (tensor<0x3xf32>, tensor<3x2xf32>) -> tensor<0x2xf32>
  %r2 = torch.aten.relu.default(%p2) : (tensor<0x2xf32>) -> tensor<0x2xf32>
  %p3 = torch.aten.mm.default(%c, %b) : (tensor<0x3xf32>, tensor<3x2xf32>) -> tensor<0x2xf32>
  %r3 = torch.aten.relu.default(%p3) : (tensor<0x2xf32>) -> tensor<0x2xf32>
  %p4 = torch.aten.mm.default(%a, %b) : (tensor<0x3xf32>, tensor<3x2xf32>) -> tensor<0x2xf32>
  %r4 = torch.aten.relu.default(%p4) : (tensor<0x2xf32>) -> tensor<0x2xf32>
  %p5 = torch.aten.mm.default(%c, %b) : (tensor<0x3xf32>, tensor<3x2xf32>) -> tensor<0x2xf32>
  %r5 = torch.aten.relu.default(%p5) : (tensor<0x2xf32>) -> tensor<0x2xf32>
  %p6 = torch.aten.mm.default(%a, %b) : (tensor<0x3xf32>, tensor<3x2xf32>) -> tensor<0x2xf32>
  %r6 = torch.aten.relu.default(%p6) : (tensor<0x2xf32>) -> tensor<0x2xf32>
  %p7 = torch.aten.mm.default(%c, %b) : (tensor<0x3xf32>, tensor<3x2xf32>) -> tensor<0x2xf32>
  %r7 = torch.aten.relu.default(%p7) : (tensor<0x2xf32>) -> tensor<0x2xf32>
  fx.output((%r0, %r7)) : (tensor<0x2xf32>, tensor<0x2xf32>) -> ()
}
