// RUN: fxc-opt %s --split-input-file --pass-pipeline=set-target,fuse | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=set-target,fuse,fuse | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=fuse | filecheck %s --check-prefix=ATEN

/// A chunk between ops moves up: no op stands between two groups. Without a target it stays, as PyTorch's kernels run: five
/// calls, and not seven.
// CHECK-LABEL: func.func @chunk_between
// CHECK-NEXT:    %m = fusion.group ({
// CHECK-NEXT:      %0, %1 = torch.aten.chunk.default(%x, 2, 0)
// CHECK-NEXT:      %2 = torch.aten.neg.default(%0)
// CHECK-NEXT:      %3 = torch.aten.neg.default(%1)
// CHECK-NEXT:      %4, %5 = torch.aten.chunk.default(%y, 2, 0)
// CHECK-NEXT:      %p = torch.aten.add.Tensor(%2, %4)
// CHECK-NEXT:      %q = torch.aten.add.Tensor(%3, %5)
// CHECK-NEXT:      %m_1 = torch.aten.mul.Tensor(%p, %q)
// ATEN-LABEL:  func.func @chunk_between
// ATEN-NEXT:     %b = fusion.group ({
// ATEN:          %p, %q = torch.aten.chunk.default(%b, 2)
// ATEN-NEXT:     %m = torch.aten.mul.Tensor(%p, %q)
func.func @chunk_between(%x: tensor<8xf32>, %y: tensor<8xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = torch.aten.add.Tensor(%a, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %p, %q = torch.aten.chunk.default(%b, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%m,)) : (tensor<4xf32>) -> ()
}

// -----

/// The other spellings of it: pieces of one length.
// CHECK-LABEL: func.func @chunk_spellings
// CHECK-NEXT:    %m = fusion.group ({
// CHECK-NEXT:      %0, %1 = torch.aten.tensor_split.sections(%x, 2, 0)
// CHECK-NEXT:      %p = torch.aten.neg
// CHECK-NEXT:      %q = torch.aten.neg
// CHECK-NEXT:      %m_1 = torch.aten.mul
// CHECK-NEXT:      fusion.yield
// CHECK-NEXT:    }) -> tensor<4xf32>
// CHECK-NEXT:    %n = fusion.group ({
// CHECK-NEXT:      %2, %3 = torch.aten.split_with_sizes.default(%x, [4, 4], 0)
func.func @chunk_spellings(%x: tensor<8xf32>) {
  %b = torch.aten.neg.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %p, %q = torch.aten.tensor_split.sections(%b, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.exp.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %u, %v = torch.aten.split_with_sizes.default(%c, [4, 4]) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %n = torch.aten.mul.Tensor(%u, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%m, %n)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// What is broadcast along the cut is passed whole; of the rest, its own dimension is cut.
// CHECK-LABEL: func.func @chunk_broadcast
// CHECK-NEXT:    %m = fusion.group ({
// CHECK-NEXT:      %0, %1 = torch.aten.chunk.default(%x, 2, 1)
// CHECK-NEXT:      %2, %3 = torch.aten.chunk.default(%y, 2, 0)
// CHECK:           torch.aten.add.Tensor(%{{.*}}, %z) : (tensor<4x2xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
// CHECK:           %p = torch.aten.add.Tensor(%{{.*}}, %s) : (tensor<4x2xf32>, tensor<f64>) -> tensor<4x2xf32>
func.func @chunk_broadcast(%x: tensor<4x4xf32>, %y: tensor<4xf32>, %z: tensor<4x1xf32>, %s: tensor<f64>) {
  %a = torch.aten.mul.Tensor(%x, %y) : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  %c = torch.aten.add.Tensor(%a, %z) : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  %b = torch.aten.add.Tensor(%c, %s) : (tensor<4x4xf32>, tensor<f64>) -> tensor<4x4xf32>
  %p, %q = torch.aten.chunk.default(%b, 2, -1) : (tensor<4x4xf32>) -> (tensor<4x2xf32, #torch.meta<strides = [4, 1]>>, tensor<4x2xf32, #torch.meta<strides = [4, 1]>>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4x2xf32, #torch.meta<strides = [4, 1]>>, tensor<4x2xf32, #torch.meta<strides = [4, 1]>>) -> tensor<4x2xf32>
  fx.output((%m,)) : (tensor<4x2xf32>) -> ()
}

// -----

/// Not where something else reads what is cut.
// CHECK-LABEL: func.func @chunk_source_read
// CHECK-NEXT:    %b = fusion.group ({
// CHECK:         %n = fusion.group ({
// CHECK-NEXT:      %p, %q = torch.aten.chunk.default(%b, 2)
func.func @chunk_source_read(%x: tensor<8xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %b = torch.aten.exp.default(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %p, %q = torch.aten.chunk.default(%b, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %n = torch.aten.tanh.default(%m) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%n, %b)) : (tensor<4xf32>, tensor<8xf32>) -> ()
}

// -----

/// Nor where something else reads a piece.
// CHECK-LABEL: func.func @chunk_piece_read
// CHECK-NEXT:    %b = torch.aten.neg.default(%x)
// CHECK-NEXT:    %p, %q = torch.aten.chunk.default(%b, 2)
// CHECK-NEXT:    %n = fusion.group ({
func.func @chunk_piece_read(%x: tensor<8xf32>) {
  %b = torch.aten.neg.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %p, %q = torch.aten.chunk.default(%b, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %n = torch.aten.tanh.default(%m) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%n, %p)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Nor where two ops that are in no group together read the pieces.
// CHECK-LABEL: func.func @chunk_two_readers
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @chunk_two_readers(%x: tensor<8xf32>) {
  %b = torch.aten.neg.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %p, %q = torch.aten.chunk.default(%b, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.tanh.default(%p) : (tensor<4xf32>) -> tensor<4xf32>
  %n = torch.aten.exp.default(%q) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%m, %n)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Nor past a write of what the op reads.
// CHECK-LABEL: func.func @chunk_write
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @chunk_write(%x: tensor<8xf32>) {
  %b = torch.aten.neg.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %w = torch.aten.zero_.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %p, %q = torch.aten.chunk.default(%b, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%m, %w)) : (tensor<4xf32>, tensor<8xf32>) -> ()
}

// -----

/// Nor into uneven pieces.
// CHECK-LABEL: func.func @chunk_motion_uneven
// CHECK-NEXT:    %b = torch.aten.neg
// CHECK-NEXT:    %p, %q = torch.aten.chunk.default(%b, 2)
func.func @chunk_motion_uneven(%x: tensor<5xf32>) {
  %b = torch.aten.neg.default(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %p, %q = torch.aten.chunk.default(%b, 2) : (tensor<5xf32>) -> (tensor<3xf32>, tensor<2xf32>)
  %m = torch.aten.exp.default(%p) : (tensor<3xf32>) -> tensor<3xf32>
  %n = torch.aten.exp.default(%q) : (tensor<2xf32>) -> tensor<2xf32>
  fx.output((%m, %n)) : (tensor<3xf32>, tensor<2xf32>) -> ()
}

// -----

/// Nor where the type of an operand does not say whether it is broadcast along the cut.
// CHECK-LABEL: func.func @chunk_unknown
// CHECK-NEXT:    %b = torch.aten.mul
// CHECK-NEXT:    %p, %q = torch.aten.chunk.default(%b, 2)
// CHECK-NEXT:    %m = torch.aten.mul
func.func @chunk_unknown(%x: tensor<8xf32>, %y: tensor<?xf32>) {
  %b = torch.aten.mul.Tensor(%x, %y) : (tensor<8xf32>, tensor<?xf32>) -> tensor<8xf32>
  %p, %q = torch.aten.chunk.default(%b, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%m,)) : (tensor<4xf32>) -> ()
}

// -----

/// A size query of what is cut is no reader.
// CHECK-LABEL: func.func @chunk_size
// CHECK-NEXT:    %k = torch.constant(8)
// CHECK-NEXT:    %m = fusion.group ({
// CHECK-NEXT:      %0, %1 = torch.aten.chunk.default(%x, 2, 0)
func.func @chunk_size(%x: tensor<8xf32>) {
  %b = torch.aten.neg.default(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %k = torch.aten.sym_size.int(%b, 0) : (tensor<8xf32>) -> !torch.int
  %p, %q = torch.aten.chunk.default(%b, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%m, %k)) : (tensor<4xf32>, !torch.int) -> ()
}
