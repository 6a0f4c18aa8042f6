// RUN: fxc-opt %s --split-input-file --pass-pipeline=fuse{reductions=true} | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=fuse{reductions=true},fuse{reductions=true} | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=fuse{reductions=true} --remarks=fuse -o %t 2>&1 | filecheck %s --check-prefix=WHY

/// A reduction of rows, and what goes on with the same rows.
// CHECK-LABEL: func.func @softmax
// CHECK-NEXT:    %d = fusion.group ({
// CHECK-NEXT:      torch.aten.amax.default
// CHECK:           torch.aten.div.Tensor
// CHECK-NEXT:      fusion.yield %d_1 : tensor<64x256xf32>
// CHECK-NEXT:    }) -> tensor<64x256xf32>
// CHECK-NEXT:    fx.output
// WHY-NOT:       @softmax
func.func @softmax(%x: tensor<64x256xf32>) {
  %m = torch.aten.amax.default(%x, [1], true) : (tensor<64x256xf32>) -> tensor<64x1xf32>
  %s = torch.aten.sub.Tensor(%x, %m) : (tensor<64x256xf32>, tensor<64x1xf32>) -> tensor<64x256xf32>
  %e = torch.aten.exp.default(%s) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<64x256xf32>) -> tensor<64x1xf32>
  %d = torch.aten.div.Tensor(%e, %t) : (tensor<64x256xf32>, tensor<64x1xf32>) -> tensor<64x256xf32>
  fx.output((%d,)) : (tensor<64x256xf32>) -> ()
}

// -----

/// Reductions that keep other dimensions, of a square too.
// CHECK-LABEL: func.func @rows
// CHECK-NEXT:    %c = fusion.group
// CHECK-NEXT:      torch.aten.sum.dim_IntList(%x, [0], true)
// CHECK-NEXT:      fusion.yield
// CHECK:         %e = fusion.group
// CHECK-NOT:       [0]
// CHECK:         fx.output
// WHY:           remark: fuse: rows: two reductions with different dimensions left: %c = aten.sum.dim_IntList (in @rows), %e = aten.mul.Tensor (in @rows)
func.func @rows(%x: tensor<128x128xf32>) {
  %c = torch.aten.sum.dim_IntList(%x, [0], true) : (tensor<128x128xf32>) -> tensor<1x128xf32>
  %r = torch.aten.sum.dim_IntList(%x, [1], true) : (tensor<128x128xf32>) -> tensor<128x1xf32>
  %d = torch.aten.mul.Tensor(%x, %r) : (tensor<128x128xf32>, tensor<128x1xf32>) -> tensor<128x128xf32>
  %e = torch.aten.mul.Tensor(%d, %c) : (tensor<128x128xf32>, tensor<1x128xf32>) -> tensor<128x128xf32>
  fx.output((%e,)) : (tensor<128x128xf32>) -> ()
}

// -----

/// A full reduction takes its producers in. What reads it over a large tensor would have one row; over a small one it may.
// CHECK-LABEL: func.func @parallelism
// CHECK-NEXT:    %t = fusion.group ({
// CHECK-NEXT:      torch.aten.abs.default
// CHECK-NEXT:      torch.aten.sum.default
// CHECK:         %n = fusion.group ({
// CHECK-NEXT:      torch.aten.div.Tensor
// WHY:           remark: fuse: parallelism: too few rows for the work of each: %t = aten.sum.default (in @parallelism), %d = aten.div.Tensor
func.func @parallelism(%x: tensor<256x256xf32>) {
  %a = torch.aten.abs.default(%x) : (tensor<256x256xf32>) -> tensor<256x256xf32>
  %t = torch.aten.sum.default(%a) : (tensor<256x256xf32>) -> tensor<f32>
  %d = torch.aten.div.Tensor(%x, %t) : (tensor<256x256xf32>, tensor<f32>) -> tensor<256x256xf32>
  %n = torch.aten.neg.default(%d) : (tensor<256x256xf32>) -> tensor<256x256xf32>
  fx.output((%n,)) : (tensor<256x256xf32>) -> ()
}

// -----

/// Of a small tensor one program does all.
// CHECK-LABEL: func.func @small
// CHECK-NEXT:    %n = fusion.group ({
// CHECK-NEXT:      torch.aten.sum.default
// CHECK-NEXT:      torch.aten.div.Tensor
// CHECK-NEXT:      torch.aten.neg.default
// WHY-NOT:       @small
func.func @small(%x: tensor<16x16xf32>) {
  %t = torch.aten.sum.default(%x) : (tensor<16x16xf32>) -> tensor<f32>
  %d = torch.aten.div.Tensor(%x, %t) : (tensor<16x16xf32>, tensor<f32>) -> tensor<16x16xf32>
  %n = torch.aten.neg.default(%d) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  fx.output((%n,)) : (tensor<16x16xf32>) -> ()
}

// -----

/// What is reduced is broadcast over more than it was reduced from.
// CHECK-LABEL: func.func @domain
// CHECK-NEXT:    %s = fusion.group
// CHECK-NEXT:      torch.aten.sum.dim_IntList
// CHECK-NEXT:      fusion.yield
// CHECK:         %n = fusion.group
// WHY:           remark: fuse: domain: one reduces, and the other has other loops than its operand: %s = aten.sum.dim_IntList (in @domain)
func.func @domain(%x: tensor<8x64xf32>, %y: tensor<4096x64xf32>) {
  %s = torch.aten.sum.dim_IntList(%x, [0]) : (tensor<8x64xf32>) -> tensor<64xf32>
  %a = torch.aten.add.Tensor(%y, %s) : (tensor<4096x64xf32>, tensor<64xf32>) -> tensor<4096x64xf32>
  %n = torch.aten.neg.default(%a) : (tensor<4096x64xf32>) -> tensor<4096x64xf32>
  fx.output((%n,)) : (tensor<4096x64xf32>) -> ()
}

// -----

/// A result that others read, and that a reader of other loops would compute again.
// CHECK-LABEL: func.func @shape
// CHECK-NEXT:    %a = torch.aten.neg.default
// CHECK-NEXT:    %c = fusion.group
// WHY:           remark: fuse: shape: a result and its reader have different loops: %a = aten.neg.default (in @shape)
func.func @shape(%x: tensor<64x96xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<64x96xf32>) -> tensor<64x96xf32>
  %v = torch.aten.slice.Tensor(%a, 1, 32, 96) : (tensor<64x96xf32>) -> tensor<64x64xf32, #torch.meta<strides = [96, 1]>>
  %b = torch.aten.abs.default(%v) : (tensor<64x64xf32, #torch.meta<strides = [96, 1]>>) -> tensor<64x64xf32>
  %c = torch.aten.exp.default(%b) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  fx.output((%c, %a)) : (tensor<64x64xf32>, tensor<64x96xf32>) -> ()
}

// -----

/// A chain of costly ops that every stage would compute again: it is stored once.
// CHECK-LABEL: func.func @work
// CHECK-COUNT-2: fusion.group
// WHY:           remark: fuse: work: recomputation takes longer than a load and a store
func.func @work(%x: tensor<64x256xf32>) {
  %a = torch.aten.gelu.default(%x) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %b = torch.aten.gelu.default(%a) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c = torch.aten.gelu.default(%b) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %d = torch.aten.gelu.default(%c) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %m = torch.aten.amax.default(%d, [1], true) : (tensor<64x256xf32>) -> tensor<64x1xf32>
  %s = torch.aten.sub.Tensor(%d, %m) : (tensor<64x256xf32>, tensor<64x1xf32>) -> tensor<64x256xf32>
  %e = torch.aten.exp.default(%s) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<64x256xf32>) -> tensor<64x1xf32>
  %r = torch.aten.div.Tensor(%e, %t) : (tensor<64x256xf32>, tensor<64x1xf32>) -> tensor<64x256xf32>
  fx.output((%r,)) : (tensor<64x256xf32>) -> ()
}

// -----

/// Another machine, which computes more in the time of a launch, takes the same chain whole.
// CHECK-LABEL: func.func @wide
// CHECK-COUNT-1: fusion.group
// CHECK-NOT:     fusion.group
// CHECK:         fx.output
// WHY-NOT:       @wide
builtin.module attributes {fxc.target = #target.cpu<vector_bits = 512, launch = 40000>} {
  func.func @wide(%x: tensor<64x256xf32>) {
    %a = torch.aten.gelu.default(%x) : (tensor<64x256xf32>) -> tensor<64x256xf32>
    %b = torch.aten.gelu.default(%a) : (tensor<64x256xf32>) -> tensor<64x256xf32>
    %c = torch.aten.gelu.default(%b) : (tensor<64x256xf32>) -> tensor<64x256xf32>
    %d = torch.aten.gelu.default(%c) : (tensor<64x256xf32>) -> tensor<64x256xf32>
    %m = torch.aten.amax.default(%d, [1], true) : (tensor<64x256xf32>) -> tensor<64x1xf32>
    %s = torch.aten.sub.Tensor(%d, %m) : (tensor<64x256xf32>, tensor<64x1xf32>) -> tensor<64x256xf32>
    %e = torch.aten.exp.default(%s) : (tensor<64x256xf32>) -> tensor<64x256xf32>
    %t = torch.aten.sum.dim_IntList(%e, [1], true) : (tensor<64x256xf32>) -> tensor<64x1xf32>
    %r = torch.aten.div.Tensor(%e, %t) : (tensor<64x256xf32>, tensor<64x1xf32>) -> tensor<64x256xf32>
    fx.output((%r,)) : (tensor<64x256xf32>) -> ()
  }
}

// -----

/// Few rows may do little each; on a GPU, too, where their length is not known.
// CHECK-LABEL: func.func @few_rows
// CHECK-NEXT:    %a = torch.aten.amax.default
// CHECK-NEXT:    %b = fusion.group
// CHECK-NEXT:      torch.aten.sub.Tensor(%x, %a)
// CHECK:         %d = fusion.group
// CHECK-NEXT:      torch.aten.amax.default
// WHY:           remark: fuse: parallelism: too few rows for the work of each: %a = aten.amax.default (in @few_rows)
// WHY-NOT:       %c = aten.amax
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @few_rows(%x: tensor<8x?x64xf32, #torch.meta<sizes = [8, "s0", 64]>>, %y: tensor<8x256xf32>) {
    %a = torch.aten.amax.default(%x, [1, 2], true) : (tensor<8x?x64xf32, #torch.meta<sizes = [8, "s0", 64]>>) -> tensor<8x1x1xf32>
    %s = torch.aten.sub.Tensor(%x, %a) : (tensor<8x?x64xf32, #torch.meta<sizes = [8, "s0", 64]>>, tensor<8x1x1xf32>) -> tensor<8x?x64xf32, #torch.meta<sizes = [8, "s0", 64]>>
    %b = torch.aten.exp.default(%s) : (tensor<8x?x64xf32, #torch.meta<sizes = [8, "s0", 64]>>) -> tensor<8x?x64xf32, #torch.meta<sizes = [8, "s0", 64]>>
    %c = torch.aten.amax.default(%y, [1], true) : (tensor<8x256xf32>) -> tensor<8x1xf32>
    %d = torch.aten.sub.Tensor(%y, %c) : (tensor<8x256xf32>, tensor<8x1xf32>) -> tensor<8x256xf32>
    fx.output((%b, %d)) : (tensor<8x?x64xf32, #torch.meta<sizes = [8, "s0", 64]>>, tensor<8x256xf32>) -> ()
  }
}

// -----

/// Concatenations are as pointwise ops are.
// CHECK-LABEL: func.func @concatenations
// CHECK-NEXT:    %g = fusion.group ({
// CHECK-NEXT:      torch.aten.neg.default
// CHECK-NEXT:      torch.aten.cat.default
// CHECK-NEXT:      torch.aten.exp.default
// CHECK-NEXT:      torch.aten.cat.default
// CHECK-NEXT:      torch.aten.exp.default
// CHECK:         fx.output
func.func @concatenations(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.cat.default([%a, %x]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %d = torch.aten.exp.default(%c) : (tensor<8xf32>) -> tensor<8xf32>
  %e = torch.aten.cat.default([%x, %d]) : (tensor<4xf32>, tensor<8xf32>) -> tensor<12xf32>
  %g = torch.aten.exp.default(%e) : (tensor<12xf32>) -> tensor<12xf32>
  fx.output((%g,)) : (tensor<12xf32>) -> ()
}

// -----

/// A costly op is a group alone; one that takes no longer than its operand takes to be read is not.
// CHECK-LABEL: func.func @alone
// CHECK-NEXT:    %a = fusion.group ({
// CHECK-NEXT:      torch.aten.gelu.default
// CHECK:         %b = torch.aten.neg.default(%y)
// CHECK-NEXT:    fx.output
func.func @alone(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %a = torch.aten.gelu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A bias that no group took in goes back into the product; through the view that was moved above it, too. Not where the
/// product has another reader, or where a bias of two dimensions would give the sum its strides.
// CHECK-LABEL: func.func @bias
// CHECK-NEXT:    %a = torch.aten.addmm.default(%b, %x, %w) : (tensor<4xf32>, tensor<6x3xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
// CHECK-NEXT:    %[[M:.*]] = torch.aten.addmm.default(%b, %y, %w)
// CHECK-NEXT:    %d = torch.aten.view.default(%[[M]], [2, 3, 4]) : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
// CHECK-NEXT:    %n = torch.aten.mm.default(%z, %w)
// CHECK-NEXT:    %e = torch.aten.add.Tensor(%b, %n)
// CHECK-NEXT:    %o = torch.aten.mm.default(%x, %w)
// CHECK-NEXT:    %f = torch.aten.add.Tensor(%c, %o)
// CHECK-NEXT:    fx.output
func.func @bias(%b: tensor<4xf32>, %c: tensor<6x4xf32>, %x: tensor<6x3xf32>, %y: tensor<6x3xf32>, %z: tensor<6x3xf32>, %w: tensor<3x4xf32>) {
  %m = torch.aten.mm.default(%x, %w) : (tensor<6x3xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
  %a = torch.aten.add.Tensor(%b, %m) : (tensor<4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %k = torch.aten.mm.default(%y, %w) : (tensor<6x3xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
  %v = torch.aten.view.default(%k, [2, 3, 4]) : (tensor<6x4xf32>) -> tensor<2x3x4xf32>
  %d = torch.aten.add.Tensor(%b, %v) : (tensor<4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %n = torch.aten.mm.default(%z, %w) : (tensor<6x3xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
  %e = torch.aten.add.Tensor(%b, %n) : (tensor<4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %o = torch.aten.mm.default(%x, %w) : (tensor<6x3xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
  %f = torch.aten.add.Tensor(%c, %o) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  fx.output((%a, %d, %e, %n, %f)) : (tensor<6x4xf32>, tensor<2x3x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>) -> ()
}

// -----

/// Views between members, and before them.
// CHECK-LABEL: func.func @views
// CHECK-NEXT:    %c = fusion.group ({
// CHECK-NEXT:      torch.aten.unsqueeze.default(%w, 0)
// CHECK-NEXT:      torch.aten.mul.Tensor
// CHECK-NEXT:      torch.aten.t.default
// CHECK-NEXT:      torch.aten.add.Tensor
// CHECK:         fx.output
func.func @views(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %z: tensor<8x4xf32>) {
  %u = torch.aten.unsqueeze.default(%w, 0) : (tensor<8xf32>) -> tensor<1x8xf32>
  %a = torch.aten.mul.Tensor(%x, %u) : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  %v = torch.aten.t.default(%a) : (tensor<4x8xf32>) -> tensor<8x4xf32, #torch.meta<strides = [1, 8]>>
  %c = torch.aten.add.Tensor(%z, %v) : (tensor<8x4xf32>, tensor<8x4xf32, #torch.meta<strides = [1, 8]>>) -> tensor<8x4xf32>
  fx.output((%c,)) : (tensor<8x4xf32>) -> ()
}

// -----

/// A view that is a result stays outside, and the group has a copy of one that it reads too.
// CHECK-LABEL: func.func @view_outside
// CHECK-NEXT:    %a, %d = fusion.group ({
// CHECK-NEXT:      %[[A:.*]] = torch.aten.neg.default(%x)
// CHECK-NEXT:      %[[V:.*]] = torch.aten.unsqueeze.default(%[[A]], 0)
// CHECK-NEXT:      %[[D:.*]] = torch.aten.exp.default(%[[V]])
// CHECK-NEXT:      fusion.yield %[[A]], %[[D]] : 
// CHECK:         %[[O:.*]] = torch.aten.unsqueeze.default(%a, 0)
// CHECK-NEXT:    fx.output((%d, %[[O]]))
func.func @view_outside(%x: tensor<4x8xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = torch.aten.unsqueeze.default(%a, 0) : (tensor<4x8xf32>) -> tensor<1x4x8xf32>
  %d = torch.aten.exp.default(%v) : (tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  fx.output((%d, %v)) : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> ()
}

// -----

/// One op and views of it are no group, and a view that was copied for its readers is one again.
// CHECK-LABEL: func.func @only_views
// CHECK-NEXT:    %v = torch.aten.unsqueeze.default(%x, 0)
// CHECK-NEXT:    %a = torch.aten.neg.default(%v)
// CHECK-NEXT:    %b = torch.aten.cumsum.default(%v, 0)
// CHECK-NEXT:    %c = torch.aten.cumsum.default(%v, 1)
// CHECK-NEXT:    fx.output
func.func @only_views(%x: tensor<4xf32>) {
  %v = torch.aten.unsqueeze.default(%x, 0) : (tensor<4xf32>) -> tensor<1x4xf32>
  %a = torch.aten.neg.default(%v) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %b = torch.aten.cumsum.default(%v, 0) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %c = torch.aten.cumsum.default(%v, 1) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  fx.output((%a, %b, %c)) : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> ()
}

// -----

/// Siblings that read the same large tensor.
// CHECK-LABEL: func.func @siblings
// CHECK-NEXT:    %m, %s = fusion.group
// CHECK-NEXT:      torch.aten.amax.default
// CHECK-NEXT:      torch.aten.sum.dim_IntList
func.func @siblings(%x: tensor<64x256xf32>) {
  %m = torch.aten.amax.default(%x, [1]) : (tensor<64x256xf32>) -> tensor<64xf32>
  %s = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<64x256xf32>) -> tensor<64xf32>
  fx.output((%m, %s)) : (tensor<64xf32>, tensor<64xf32>) -> ()
}

// -----

/// A small one too: it saves a launch. One that is broadcast for them saves next to nothing.
// CHECK-LABEL: func.func @small_siblings
// CHECK-NEXT:    %m, %s = fusion.group
// CHECK:         torch.aten.add.Tensor(%p, %b)
// CHECK-NEXT:    torch.aten.add.Tensor(%q, %b)
// CHECK-NEXT:    fx.output
func.func @small_siblings(%x: tensor<8x8xf32>, %p: tensor<8x8xf32>, %q: tensor<8x8xf32>, %b: tensor<8xf32>) {
  %m = torch.aten.amax.default(%x, [1]) : (tensor<8x8xf32>) -> tensor<8xf32>
  %s = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<8x8xf32>) -> tensor<8xf32>
  %c = torch.aten.add.Tensor(%p, %b) : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %d = torch.aten.add.Tensor(%q, %b) : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  fx.output((%m, %s, %c, %d)) : (tensor<8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> ()
}

// -----

/// Siblings of other rows.
// CHECK-LABEL: func.func @other_siblings
// CHECK-NOT:     fusion.group
// CHECK:         fx.output
// WHY:           remark: fuse: rows: two reductions with different dimensions left: %m = aten.amax.default (in @other_siblings), %s = aten.amin.default
func.func @other_siblings(%x: tensor<64x256xf32>) {
  %m = torch.aten.amax.default(%x, [1]) : (tensor<64x256xf32>) -> tensor<64xf32>
  %s = torch.aten.amin.default(%x, [0]) : (tensor<64x256xf32>) -> tensor<256xf32>
  fx.output((%m, %s)) : (tensor<64xf32>, tensor<256xf32>) -> ()
}

// -----

/// No kernel has a rule for it, at these operands; a number that the program does not state; sizes that are not known.
// CHECK-LABEL: func.func @uncovered
// CHECK-NOT:     fusion.group
// CHECK:         fx.output
func.func @uncovered(%x: tensor<4xcomplex<f32>>, %y: tensor<4xf32>, %f: !torch.float, %z: tensor<?xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %b = torch.aten.exp.default(%a) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %c = torch.aten.add.Scalar(%y, %f) : (tensor<4xf32>, !torch.float) -> tensor<4xf32>
  %d = torch.aten.abs.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.neg.default(%z) : (tensor<?xf32>) -> tensor<?xf32>
  %g = torch.aten.abs.default(%e) : (tensor<?xf32>) -> tensor<?xf32>
  fx.output((%b, %d, %g)) : (tensor<4xcomplex<f32>>, tensor<4xf32>, tensor<?xf32>) -> ()
}

// -----

/// Not past a write.
// CHECK-LABEL: func.func @effects
// CHECK-NOT:     fusion.group
// CHECK:         fx.output
func.func @effects(%x: tensor<64x256xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %w = torch.aten.zero_.default(%x) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %s = torch.aten.amax.default(%a, [1]) : (tensor<64x256xf32>) -> tensor<64xf32>
  fx.output((%s, %w)) : (tensor<64xf32>, tensor<64x256xf32>) -> ()
}

// -----

/// A cycle: the sum that is between is in no group.
// CHECK-LABEL: func.func @cycle
// CHECK-NOT:     fusion.group
// CHECK:         fx.output
// WHY:           remark: fuse: cycle: an op between the two would depend on the group, and the group on it: %a = aten.neg.default (in @cycle)
func.func @cycle(%x: tensor<64x256xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %s = torch.aten.cumsum.default(%a, 0) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c = torch.aten.mul.Tensor(%a, %s) : (tensor<64x256xf32>, tensor<64x256xf32>) -> tensor<64x256xf32>
  fx.output((%c,)) : (tensor<64x256xf32>) -> ()
}

// -----

/// Some operators a CPU computes faster than PyTorch does where they are alone too: sums, gathers, copies in another order.
// CHECK-LABEL: func.func @alone_on_cpu
// CHECK-NEXT:    %m = torch.aten.amax.default
// CHECK-NEXT:    %s = fusion.group ({
// CHECK-NEXT:      torch.aten.sum.dim_IntList
// CHECK-NEXT:      fusion.yield
// CHECK-NEXT:    }) -> tensor<64xf32>
// CHECK-NEXT:    %c = fusion.group ({
// CHECK-NEXT:      torch.aten.t.default
// CHECK-NEXT:      torch.aten.clone.default
// CHECK-NEXT:      fusion.yield
func.func @alone_on_cpu(%x: tensor<64x256xf32>, %y: tensor<32x16xf32>, %z: tensor<32x16xf32>) {
  %m = torch.aten.amax.default(%z, [1]) : (tensor<32x16xf32>) -> tensor<32xf32>
  %s = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<64x256xf32>) -> tensor<64xf32>
  %t = torch.aten.t.default(%y) : (tensor<32x16xf32>) -> tensor<16x32xf32, #torch.meta<strides = [1, 16]>>
  %c = torch.aten.clone.default(%t, memory_format = torch.contiguous_format) : (tensor<16x32xf32, #torch.meta<strides = [1, 16]>>) -> tensor<16x32xf32>
  fx.output((%m, %s, %c)) : (tensor<32xf32>, tensor<64xf32>, tensor<16x32xf32>) -> ()
}

// -----

/// On a GPU a sum of columns alone is a kernel, where its sizes are known: programs share it.
// CHECK-LABEL: func.func @sums_on_gpu
// CHECK-NEXT:    %a = fusion.group ({
// CHECK:         }) -> tensor<1024xf32>
// CHECK-NOT:     fusion.group
// CHECK:         fx.output
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @sums_on_gpu(%x: tensor<4096x1024xf32>, %y: tensor<?x1024xf32, #torch.meta<sizes = ["s0", 1024]>>) {
    %a = torch.aten.sum.dim_IntList(%x, [0]) : (tensor<4096x1024xf32>) -> tensor<1024xf32>
    %b = torch.aten.sum.dim_IntList(%y, [0]) : (tensor<?x1024xf32, #torch.meta<sizes = ["s0", 1024]>>) -> tensor<1024xf32>
    %c = torch.aten.argmax.default(%x) : (tensor<4096x1024xf32>) -> tensor<i64>
    fx.output((%a, %b, %c)) : (tensor<1024xf32>, tensor<1024xf32>, tensor<i64>) -> ()
  }
}

// -----

/// Few long rows on a GPU are one group, which becomes kernels of parts.
// CHECK-LABEL: func.func @few_rows_on_gpu
// CHECK-NEXT:    fusion.group
// CHECK-NOT:     fusion.group
// CHECK:         fx.output
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @few_rows_on_gpu(%x: tensor<2x99999xf32>) {
    %m = torch.aten.amax.default(%x, [1], true) : (tensor<2x99999xf32>) -> tensor<2x1xf32>
    %d = torch.aten.sub.Tensor(%x, %m) : (tensor<2x99999xf32>, tensor<2x1xf32>) -> tensor<2x99999xf32>
    fx.output((%d,)) : (tensor<2x99999xf32>) -> ()
  }
}

// -----

/// On a GPU PyTorch's sums of rows are as fast.
// CHECK-LABEL: func.func @alone_on_gpu
// CHECK-NEXT:    %s = torch.aten.sum.dim_IntList
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @alone_on_gpu(%x: tensor<64x256xf32>) {
    %s = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<64x256xf32>) -> tensor<64xf32>
    fx.output((%s,)) : (tensor<64xf32>) -> ()
  }
}

// -----

/// A lone op that gives the new value of an argument is a group: its kernel writes there. Another one is PyTorch's.
/// So is one of a single element that a larger one reads, though others read it: it is another kernel.
// CHECK-LABEL: func.func @update
// CHECK-NEXT:    %n = fusion.group ({
// CHECK-NEXT:      torch.aten.add.Tensor(%s, 1)
// CHECK-NEXT:      fusion.yield
// CHECK-NEXT:    }) -> tensor<f32>
// CHECK-NEXT:    %p = fusion.group ({
// CHECK-NEXT:      torch.aten.mul.Tensor(%x, %n)
// CHECK-NEXT:      fusion.yield
// CHECK-NEXT:    }) -> tensor<64xf32>
// CHECK-NEXT:    %q = torch.aten.mul.Tensor(%y, %y)
// CHECK-NEXT:    fx.output
func.func @update(%s: tensor<f32>, %x: tensor<64xf32>, %y: tensor<32xf32>) -> (tensor<f32> {fx.mutates = 0 : i64}, tensor<64xf32> {fx.mutates = 1 : i64}, tensor<32xf32>) {
  %n = torch.aten.add.Tensor(%s, 1) : (tensor<f32>) -> tensor<f32>
  %p = torch.aten.mul.Tensor(%x, %n) : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  %q = torch.aten.mul.Tensor(%y, %y) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  fx.output((%n, %p, %q)) : (tensor<f32>, tensor<64xf32>, tensor<32xf32>) -> ()
}

// -----

/// Half precision made wide for two groups, of other rows: each reads the narrow elements. To make them narrower is done once.
// CHECK-LABEL: func.func @wide
// CHECK-NOT:     torch.aten._to_copy.default(%x
// CHECK:         fusion.group ({
// CHECK:           torch.aten._to_copy.default(%x
// CHECK:           torch.aten.sum.dim_IntList
// CHECK:         fusion.group ({
// CHECK:           torch.aten._to_copy.default(%x
// CHECK:           torch.aten.sum.dim_IntList
// CHECK:         torch.aten._to_copy.default(%y
// CHECK-NOT:     torch.aten._to_copy.default(%y
func.func @wide(%x: tensor<64x256xbf16>, %y: tensor<256x64xf32>) {
  %w = torch.aten._to_copy.default(%x, dtype = torch.float32) : (tensor<64x256xbf16>) -> tensor<64x256xf32>
  %a = torch.aten.exp.default(%w) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %r = torch.aten.sum.dim_IntList(%a, [1]) : (tensor<64x256xf32>) -> tensor<64xf32>
  %b = torch.aten.sin.default(%w) : (tensor<64x256xf32>) -> tensor<64x256xf32>
  %c = torch.aten.sum.dim_IntList(%b, [0]) : (tensor<64x256xf32>) -> tensor<256xf32>
  %n = torch.aten._to_copy.default(%y, dtype = torch.bfloat16) : (tensor<256x64xf32>) -> tensor<256x64xbf16>
  %d = torch.aten.mm.default(%n, %x) : (tensor<256x64xbf16>, tensor<64x256xbf16>) -> tensor<256x256xbf16>
  %e = torch.aten.mm.default(%x, %n) : (tensor<64x256xbf16>, tensor<256x64xbf16>) -> tensor<64x64xbf16>
  fx.output((%r, %c, %d, %e)) : (tensor<64xf32>, tensor<256xf32>, tensor<256x256xbf16>, tensor<64x64xbf16>) -> ()
}

// -----

/// Not where a row of the view is no row of the product.
// CHECK-LABEL: func.func @flat
// CHECK-NEXT:    %m = torch.aten.mm.default(%x, %w)
// CHECK-NEXT:    %d = torch.aten.view.default(%m, [24])
// CHECK-NEXT:    %a = torch.aten.add.Tensor(%b, %d)
func.func @flat(%b: tensor<24xf32>, %x: tensor<6x3xf32>, %w: tensor<3x4xf32>) {
  %m = torch.aten.mm.default(%x, %w) : (tensor<6x3xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
  %d = torch.aten.view.default(%m, [24]) : (tensor<6x4xf32>) -> tensor<24xf32>
  %a = torch.aten.add.Tensor(%b, %d) : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
  fx.output(%a) : (tensor<24xf32>) -> ()
}
