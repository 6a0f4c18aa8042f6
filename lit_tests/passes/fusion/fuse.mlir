// RUN: fxc-opt %s --split-input-file --pass-pipeline=fuse | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=fuse,fuse | filecheck %s

/// A chain.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %c = fusion.group ({
// CHECK-NEXT:      %a = torch.aten.add.Tensor(%x, %y)
// CHECK-NEXT:      %b = torch.aten.neg.default(%a)
// CHECK-NEXT:      %c_1 = torch.aten.sigmoid.default(%b)
// CHECK-NEXT:      fusion.yield %c_1 : tensor<4xf32>
// CHECK-NEXT:    }) -> tensor<4xf32>
// CHECK-NEXT:    fx.output((%c,))
func.func @chain(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %a = torch.aten.add.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.sigmoid.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%c,)) : (tensor<4xf32>) -> ()
}

// -----

/// A diamond, whose top another op reads too: it becomes a result.
// CHECK-LABEL: func.func @diamond
// CHECK-NEXT:    %a, %d = fusion.group ({
// CHECK:              fusion.yield %a_1, %d_1 : 
// CHECK:              torch.aten.cumsum.default(%a, 0)
func.func @diamond(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %a = torch.aten.add.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.mul.Tensor(%b, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.cumsum.default(%a, 0) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%d, %s)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A comparison and a choice, and a float of the host.
// CHECK-LABEL: func.func @where
// CHECK-NEXT:    %c = fusion.group ({
// CHECK-NEXT:      %a = torch.aten.add.Scalar(%x, %f)
// CHECK-NEXT:      %b = torch.aten.gt.Tensor(%a, %y)
// CHECK-NEXT:      %c_1 = torch.aten.where.self(%b, %a, %y)
func.func @where(%x: tensor<4xf32>, %y: tensor<4xf32>, %f: !torch.float) {
  %a = torch.aten.add.Scalar(%x, %f) : (tensor<4xf32>, !torch.float) -> tensor<4xf32>
  %b = torch.aten.gt.Tensor(%a, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %c = torch.aten.where.self(%b, %a, %y) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%c,)) : (tensor<4xf32>) -> ()
}

// -----

/// A number that the program states is copied in.
// CHECK-LABEL: func.func @constant
// CHECK-NEXT:    %k = torch.constant(2)
// CHECK-NEXT:    %b = fusion.group ({
// CHECK-NEXT:      %k_1 = torch.constant(2)
// CHECK-NEXT:      %a = torch.aten.add.Tensor(%x, %y, alpha = %k_1)
func.func @constant(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %k = torch.constant(2) : !torch.int
  %a = torch.aten.add.Tensor(%x, %y, alpha = %k) : (tensor<4xf32>, tensor<4xf32>, !torch.int) -> tensor<4xf32>
  %b = torch.aten.neg.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%b,)) : (tensor<4xf32>) -> ()
}

// -----

/// A tensor that it states is read from outside.
// CHECK-LABEL: func.func @tensor_constant
// CHECK-NEXT:    %k = torch.constant
// CHECK-NEXT:    %b = fusion.group ({
// CHECK-NEXT:      %a = torch.aten.add.Tensor(%x, %k)
func.func @tensor_constant(%x: tensor<4xf32>) {
  %k = torch.constant([1.0, 2.0, 3.0, 4.0]) : tensor<4xf32>
  %a = torch.aten.add.Tensor(%x, %k) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%b,)) : (tensor<4xf32>) -> ()
}

// -----

/// An integer that it does not state keeps its op out.
// CHECK-LABEL: func.func @integer
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @integer(%x: tensor<4xf32>, %y: tensor<4xf32>, %k: !torch.int) {
  %a = torch.aten.add.Tensor(%x, %y, alpha = %k) : (tensor<4xf32>, tensor<4xf32>, !torch.int) -> tensor<4xf32>
  %b = torch.aten.neg.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%b,)) : (tensor<4xf32>) -> ()
}

// -----

/// A lone op is no group.
// CHECK-LABEL: func.func @lone
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @lone(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%a,)) : (tensor<4xf32>) -> ()
}

// -----

/// An op that nothing reads is in none.
// CHECK-LABEL: func.func @dead
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @dead(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%a,)) : (tensor<4xf32>) -> ()
}

// -----

/// Two ops that read the same value, but not each other.
// CHECK-LABEL: func.func @siblings
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @siblings(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%a, %b)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A random op is in no group.
// CHECK-LABEL: func.func @random
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @random(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.rand_like.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.exp.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%c,)) : (tensor<4xf32>) -> ()
}

// -----

/// Pure ops may move past a draw.
// CHECK-LABEL: func.func @past_a_draw
// CHECK-NEXT:    %c = fusion.group ({
// CHECK:              %r = torch.aten.rand_like.default(%x)
func.func @past_a_draw(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %r = torch.aten.rand_like.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%c, %r)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Nothing moves past a write.
// CHECK-LABEL: func.func @write
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @write(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %a = torch.aten.add.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.zero_.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.mul.Tensor(%a, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%b, %w)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// An op that writes is in no group.
// CHECK-LABEL: func.func @writer
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @writer(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %a = torch.aten.add.Tensor(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %w = torch.aten.relu_.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%b,)) : (tensor<4xf32>) -> ()
}

// -----

/// Nor past an assertion.
// CHECK-LABEL: func.func @effect
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @effect(%x: tensor<4xf32>, %p: tensor<i1>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  torch.aten._assert_async.default(%p) : (tensor<i1>) -> ()
  %b = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%b,)) : (tensor<4xf32>) -> ()
}

// -----

/// No cycle: what stays outside lies between. The consumer takes one producer of two.
// CHECK-LABEL: func.func @cycle
// CHECK-NEXT:    %a = torch.aten.neg.default(%x)
// CHECK-NEXT:    %s = torch.aten.cumsum.default(%a, 0)
// CHECK-NEXT:    %c = fusion.group ({
// CHECK-NEXT:      %b = torch.aten.exp.default(%s)
// CHECK-NEXT:      %c_1 = torch.aten.mul.Tensor(%a, %b)
func.func @cycle(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.cumsum.default(%a, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.exp.default(%s) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.mul.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%c,)) : (tensor<4xf32>) -> ()
}

// -----

/// An op between that is not of the group moves out of the way.
// CHECK-LABEL: func.func @between
// CHECK-NEXT:    %a, %b = fusion.group ({
// CHECK:              }) -> 
// CHECK-NEXT:    %s = torch.aten.cumsum.default(%a, 0)
func.func @between(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %s = torch.aten.cumsum.default(%a, 0) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%b, %s)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// One device: a scalar of another stays outside.
// CHECK-LABEL: func.func @devices
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @devices(%x: tensor<4xf32, #torch.meta<device = "cuda:0">>, %s: tensor<f32>) {
  %a = torch.aten.neg.default(%s) : (tensor<f32>) -> tensor<f32>
  %b = torch.aten.mul.Tensor(%x, %a) : (tensor<4xf32, #torch.meta<device = "cuda:0">>, tensor<f32>) -> tensor<4xf32, #torch.meta<device = "cuda:0">>
  fx.output((%b,)) : (tensor<4xf32, #torch.meta<device = "cuda:0">>) -> ()
}

// -----

/// A concatenation takes in its producers, and is the last op.
// CHECK-LABEL: func.func @cat
// CHECK-NEXT:    %c = fusion.group ({
// CHECK-NEXT:      %a = torch.aten.neg
// CHECK-NEXT:      %b = torch.aten.exp
// CHECK-NEXT:      %c_1 = torch.aten.cat.default([%a, %b])
// CHECK-NEXT:      fusion.yield %c_1
// CHECK:              %e = fusion.group ({
// CHECK-NEXT:      %d = torch.aten.tanh.default(%c)
func.func @cat(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.cat.default([%a, %b]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %d = torch.aten.tanh.default(%c) : (tensor<8xf32>) -> tensor<8xf32>
  %e = torch.aten.sin.default(%d) : (tensor<8xf32>) -> tensor<8xf32>
  fx.output((%e,)) : (tensor<8xf32>) -> ()
}

// -----

/// Without producers it stays alone, and so does what reads it.
// CHECK-LABEL: func.func @cat_alone
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @cat_alone(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %c = torch.aten.cat.default([%x, %y]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %d = torch.aten.tanh.default(%c) : (tensor<8xf32>) -> tensor<8xf32>
  fx.output((%d,)) : (tensor<8xf32>) -> ()
}

// -----

/// A concatenation of a concatenation: the first ends its group.
// CHECK-LABEL: func.func @cat_cat
// CHECK-NEXT:    %c = fusion.group ({
// CHECK:              }) -> tensor<8xf32>
// CHECK-NEXT:    %d = torch.aten.cat.default([%c, %c])
func.func @cat_cat(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.cat.default([%a, %x]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %d = torch.aten.cat.default([%c, %c]) : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  fx.output((%d,)) : (tensor<16xf32>) -> ()
}

// -----

/// Its operands do not broadcast: those of different shapes are not fused.
// CHECK-LABEL: func.func @cat_shapes
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @cat_shapes(%x: tensor<1x4xf32>, %y: tensor<2x4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %b = torch.aten.exp.default(%y) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %c = torch.aten.cat.default([%a, %b]) : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
  fx.output((%c,)) : (tensor<3x4xf32>) -> ()
}

// -----

/// Nor those of different dtypes.
// CHECK-LABEL: func.func @cat_dtypes
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @cat_dtypes(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.exp.default(%y) : (tensor<4xf64>) -> tensor<4xf64>
  %c = torch.aten.cat.default([%a, %b]) : (tensor<4xf32>, tensor<4xf64>) -> tensor<8xf64>
  fx.output((%c,)) : (tensor<8xf64>) -> ()
}

// -----

/// A chunk moves in where one group reads all pieces.
// CHECK-LABEL: func.func @chunk
// CHECK-NEXT:    %n = fusion.group ({
// CHECK-NEXT:      %p, %q = torch.aten.chunk.default(%x, 2)
// CHECK-NEXT:      %m = torch.aten.mul.Tensor(%p, %q)
func.func @chunk(%x: tensor<8xf32>) {
  %p, %q = torch.aten.chunk.default(%x, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %n = torch.aten.tanh.default(%m) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%n,)) : (tensor<4xf32>) -> ()
}

// -----

/// A piece that something else reads keeps it out.
// CHECK-LABEL: func.func @chunk_read
// CHECK-NEXT:    %p, %q = torch.aten.chunk.default(%x, 2)
// CHECK-NEXT:    %n = fusion.group ({
func.func @chunk_read(%x: tensor<8xf32>) {
  %p, %q = torch.aten.chunk.default(%x, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %n = torch.aten.tanh.default(%m) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%n, %p)) : (tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// A lone op is no group with a chunk.
// CHECK-LABEL: func.func @chunk_lone
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @chunk_lone(%x: tensor<8xf32>) {
  %p, %q = torch.aten.chunk.default(%x, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%m,)) : (tensor<4xf32>) -> ()
}

// -----

/// Pieces of different shapes.
// CHECK-LABEL: func.func @chunk_uneven
// CHECK-NEXT:    %p, %q = torch.aten.split.Tensor(%x, 4)
// CHECK-NEXT:    %n = fusion.group ({
func.func @chunk_uneven(%x: tensor<5xf32>) {
  %p, %q = torch.aten.split.Tensor(%x, 4) : (tensor<5xf32>) -> (tensor<4xf32>, tensor<1xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %n = torch.aten.tanh.default(%m) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%n,)) : (tensor<4xf32>) -> ()
}

// -----

/// A second chunk of a tensor is the first.
// CHECK-LABEL: func.func @chunk_twice
// CHECK-NEXT:    %o = fusion.group ({
// CHECK-NEXT:      %p, %q = torch.aten.chunk.default(%x, 2)
// CHECK-NEXT:      %m = torch.aten.mul.Tensor(%p, %q)
// CHECK-NEXT:      %n = torch.aten.add.Tensor(%p, %q)
func.func @chunk_twice(%x: tensor<8xf32>) {
  %p, %q = torch.aten.chunk.default(%x, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %r, %s = torch.aten.chunk.default(%x, 2) : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %n = torch.aten.add.Tensor(%r, %s) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %o = torch.aten.sub.Tensor(%m, %n) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%o,)) : (tensor<4xf32>) -> ()
}

// -----

/// What only size queries read is no result: they ask an input, before the group, or are constants.
// CHECK-LABEL: func.func @sizes
// CHECK-NEXT:    %l = torch.constant(4)
// CHECK-NEXT:    %k = torch.aten.sym_size.int(%x, 0)
// CHECK-NEXT:    %b = fusion.group ({
// CHECK:           fusion.yield %b_1 :
// CHECK:         %d = fusion.group ({
// CHECK:           fusion.yield %d_1 :
func.func @sizes(%x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>, %y: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %b = torch.aten.exp.default(%a) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %k = torch.aten.sym_size.int(%a, 0) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> !torch.int<"s0">
  %c = torch.aten.neg.default(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.exp.default(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %l = torch.aten.size.int(%c, 0) : (tensor<4xf32>) -> !torch.int
  fx.output((%b, %d, %k, %l)) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<4xf32>, !torch.int<"s0">, !torch.int) -> ()
}

// -----

/// Each size is asked of the operand that has it.
// CHECK-LABEL: func.func @sizes_broadcast
// CHECK-NEXT:    %r = torch.constant(2)
// CHECK-NEXT:    %u = torch.aten.sym_size.int(%x, 0)
// CHECK-NEXT:    %v = torch.aten.sym_size.int(%y, 0)
// CHECK-NEXT:    %b = fusion.group ({
// CHECK:           fusion.yield %b_1 :
func.func @sizes_broadcast(%x: tensor<?x1xf32, #torch.meta<sizes = ["s0", 1]>>, %y: tensor<?xf32, #torch.meta<sizes = ["s1"]>>) {
  %a = torch.aten.mul.Tensor(%x, %y) : (tensor<?x1xf32, #torch.meta<sizes = ["s0", 1]>>, tensor<?xf32, #torch.meta<sizes = ["s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
  %b = torch.aten.neg.default(%a) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>
  %u, %v = torch.aten.size.default(%a) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> (!torch.int<"s0">, !torch.int<"s1">)
  %r = torch.aten.dim.default(%a) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>) -> !torch.int
  fx.output((%b, %u, %v, %r)) : (tensor<?x?xf32, #torch.meta<sizes = ["s0", "s1"]>>, !torch.int<"s0">, !torch.int<"s1">, !torch.int) -> ()
}

// -----

/// Not where no type says whose size it is: either may be broadcast.
// CHECK-LABEL: func.func @sizes_unknown
// CHECK-NEXT:    %a, %b = fusion.group ({
// CHECK:         %k = torch.aten.sym_size.int(%a, 0)
func.func @sizes_unknown(%x: tensor<?xf32>, %y: tensor<?xf32>) {
  %a = torch.aten.mul.Tensor(%x, %y) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  %b = torch.aten.neg.default(%a) : (tensor<?xf32>) -> tensor<?xf32>
  %k = torch.aten.sym_size.int(%a, 0) : (tensor<?xf32>) -> !torch.int
  fx.output((%b, %k)) : (tensor<?xf32>, !torch.int) -> ()
}

// -----

/// An output that others read keeps its queries; strides are not sizes.
// CHECK-LABEL: func.func @sizes_read
// CHECK-NEXT:    %a, %b, %c = fusion.group ({
// CHECK:         %k = torch.aten.sym_size.int(%a, 0)
// CHECK-NEXT:    %l = torch.aten.sym_stride.int(%b, 0)
func.func @sizes_read(%x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>) {
  %a = torch.aten.neg.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %b = torch.aten.exp.default(%a) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %c = torch.aten.tanh.default(%b) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %k = torch.aten.sym_size.int(%a, 0) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> !torch.int<"s0">
  %l = torch.aten.sym_stride.int(%b, 0) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> !torch.int
  fx.output((%a, %c, %k, %l)) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, tensor<?xf32, #torch.meta<sizes = ["s0"]>>, !torch.int<"s0">, !torch.int) -> ()
}

// -----

/// An input may be resized after the group: it is asked before.
// CHECK-LABEL: func.func @sizes_resized
// CHECK-NEXT:    %k = torch.aten.sym_size.int(%x, 0)
// CHECK-NEXT:    %b = fusion.group ({
// CHECK:         torch.aten.resize_.default
func.func @sizes_resized(%x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>) {
  %a = torch.aten.neg.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %b = torch.aten.exp.default(%a) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %w = torch.aten.resize_.default(%x, [2]) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<2xf32>
  %k = torch.aten.sym_size.int(%a, 0) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> !torch.int<"s0">
  fx.output((%b, %k)) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, !torch.int<"s0">) -> ()
}

// -----

/// What was needed for its size only is gone, and a lone op is left.
// CHECK-LABEL: func.func @sizes_only
// CHECK-NEXT:    %a = torch.aten.neg.default(%x)
// CHECK-NEXT:    %k = torch.aten.sym_size.int(%a, 0)
// CHECK-NEXT:    fx.output
func.func @sizes_only(%x: tensor<?xf32, #torch.meta<sizes = ["s0"]>>) {
  %a = torch.aten.neg.default(%x) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %b = torch.aten.exp.default(%a) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> tensor<?xf32, #torch.meta<sizes = ["s0"]>>
  %k = torch.aten.sym_size.int(%b, 0) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>) -> !torch.int<"s0">
  fx.output((%a, %k)) : (tensor<?xf32, #torch.meta<sizes = ["s0"]>>, !torch.int<"s0">) -> ()
}

// -----

/// Equal ops in a group are one.
// CHECK-LABEL: func.func @equal
// CHECK-NEXT:    %c = fusion.group ({
// CHECK-NEXT:      %a = torch.aten.neg.default(%x)
// CHECK-NEXT:      %c_1 = torch.aten.mul.Tensor(%a, %a)
func.func @equal(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.mul.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%c,)) : (tensor<4xf32>) -> ()
}

// -----

/// Not two that others read: one of them may be written. Nor -0.0 and 0.0.
// CHECK-LABEL: func.func @equal_read
// CHECK-NEXT:    %a, %b, %c = fusion.group ({
// CHECK-NEXT:      %a_1 = torch.aten.neg
// CHECK-NEXT:      %b_1 = torch.aten.neg
// CHECK:         %f = fusion.group ({
// CHECK-NEXT:      %d = torch.aten.add.Scalar(%x, 0.0)
// CHECK-NEXT:      %e = torch.aten.add.Scalar(%x, -0.0)
func.func @equal_read(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.mul.Tensor(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = torch.aten.add.Scalar(%x, 0.0) : (tensor<4xf32>) -> tensor<4xf32>
  %e = torch.aten.add.Scalar(%x, -0.0) : (tensor<4xf32>) -> tensor<4xf32>
  %f = torch.aten.mul.Tensor(%d, %e) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%a, %b, %c, %f)) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}

// -----

/// Autograd sees no op in a group: those that need a gradient stay.
// CHECK-LABEL: func.func @gradient
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @gradient(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) {requires_grad = [true]} : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.exp.default(%a) {requires_grad = [true]} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%b,)) : (tensor<4xf32>) -> ()
}

// -----

/// Those that need none are free.
// CHECK-LABEL: func.func @no_gradient
// CHECK-NEXT:    %b = fusion.group ({
func.func @no_gradient(%x: tensor<4xf32>) {
  %a = torch.aten.neg.default(%x) {requires_grad = [false]} : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.exp.default(%a) {requires_grad = [false]} : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%b,)) : (tensor<4xf32>) -> ()
}

// -----

/// Nor a concatenation or a chunk that needs one.
// CHECK-LABEL: func.func @gradient_cat
// CHECK-NEXT:    %a = torch.aten.neg
// CHECK-NEXT:    %c = torch.aten.cat
// CHECK-NEXT:    %p, %q = torch.aten.chunk.default(%z, 2)
// CHECK-NEXT:    %n = fusion.group ({
// CHECK-NEXT:      %m = torch.aten.mul
func.func @gradient_cat(%x: tensor<4xf32>, %z: tensor<8xf32>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.cat.default([%a, %x]) {requires_grad = [true]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %p, %q = torch.aten.chunk.default(%z, 2) {requires_grad = [true, true]} : (tensor<8xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %m = torch.aten.mul.Tensor(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %n = torch.aten.tanh.default(%m) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output((%c, %n)) : (tensor<8xf32>, tensor<4xf32>) -> ()
}

// -----

/// Regions are searched by themselves: no group reaches into one or out of it.
// CHECK-LABEL: func.func @regions
// CHECK-NEXT:    %a = torch.aten.neg.default(%x)
// CHECK-NEXT:    %r = scf.if
// CHECK-NEXT:      %d = fusion.group ({
// CHECK-NEXT:        %b = torch.aten.exp.default(%a)
// CHECK:              } else {
// CHECK-NEXT:      %e = torch.aten.tanh.default(%a)
func.func @regions(%x: tensor<4xf32>, %c: i1) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %r = scf.if %c -> (tensor<4xf32>) {
    %b = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %d = torch.aten.sin.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %d : tensor<4xf32>
  } else {
    %e = torch.aten.tanh.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %e : tensor<4xf32>
  }
  fx.output((%r,)) : (tensor<4xf32>) -> ()
}

// -----

/// Sparse tensors are left alone.
// CHECK-LABEL: func.func @sparse
// CHECK-NOT:     fusion
// CHECK:         fx.output
func.func @sparse(%x: tensor<4xf32, #torch.meta<layout = "sparse_coo">>) {
  %a = torch.aten.neg.default(%x) : (tensor<4xf32, #torch.meta<layout = "sparse_coo">>) -> tensor<4xf32, #torch.meta<layout = "sparse_coo">>
  %b = torch.aten.sin.default(%a) : (tensor<4xf32, #torch.meta<layout = "sparse_coo">>) -> tensor<4xf32, #torch.meta<layout = "sparse_coo">>
  fx.output((%b,)) : (tensor<4xf32, #torch.meta<layout = "sparse_coo">>) -> ()
}

// -----

/// At most 128 inputs and outputs: the last 126 of these sums read 127 values and give one.
// CHECK-LABEL: func.func @limit
// CHECK-NEXT:    %s13 = fusion.group ({
// CHECK:              fusion.yield %s13_1 : tensor<4xf32>
// CHECK:              %s139 = fusion.group ({
// CHECK-NEXT:      %s14 = torch.aten.add.Tensor(%s13, %x14)
func.func @limit(%x0: tensor<4xf32>, %x1: tensor<4xf32>, %x2: tensor<4xf32>, %x3: tensor<4xf32>, %x4: tensor<4xf32>, %x5: tensor<4xf32>, %x6: tensor<4xf32>, %x7: tensor<4xf32>, %x8: tensor<4xf32>, %x9: tensor<4xf32>, %x10: tensor<4xf32>, %x11: tensor<4xf32>, %x12: tensor<4xf32>, %x13: tensor<4xf32>, %x14: tensor<4xf32>, %x15: tensor<4xf32>, %x16: tensor<4xf32>, %x17: tensor<4xf32>, %x18: tensor<4xf32>, %x19: tensor<4xf32>, %x20: tensor<4xf32>, %x21: tensor<4xf32>, %x22: tensor<4xf32>, %x23: tensor<4xf32>, %x24: tensor<4xf32>, %x25: tensor<4xf32>, %x26: tensor<4xf32>, %x27: tensor<4xf32>, %x28: tensor<4xf32>, %x29: tensor<4xf32>, %x30: tensor<4xf32>, %x31: tensor<4xf32>, %x32: tensor<4xf32>, %x33: tensor<4xf32>, %x34: tensor<4xf32>, %x35: tensor<4xf32>, %x36: tensor<4xf32>, %x37: tensor<4xf32>, %x38: tensor<4xf32>, %x39: tensor<4xf32>, %x40: tensor<4xf32>, %x41: tensor<4xf32>, %x42: tensor<4xf32>, %x43: tensor<4xf32>, %x44: tensor<4xf32>, %x45: tensor<4xf32>, %x46: tensor<4xf32>, %x47: tensor<4xf32>, %x48: tensor<4xf32>, %x49: tensor<4xf32>, %x50: tensor<4xf32>, %x51: tensor<4xf32>, %x52: tensor<4xf32>, %x53: tensor<4xf32>, %x54: tensor<4xf32>, %x55: tensor<4xf32>, %x56: tensor<4xf32>, %x57: tensor<4xf32>, %x58: tensor<4xf32>, %x59: tensor<4xf32>, %x60: tensor<4xf32>, %x61: tensor<4xf32>, %x62: tensor<4xf32>, %x63: tensor<4xf32>, %x64: tensor<4xf32>, %x65: tensor<4xf32>, %x66: tensor<4xf32>, %x67: tensor<4xf32>, %x68: tensor<4xf32>, %x69: tensor<4xf32>, %x70: tensor<4xf32>, %x71: tensor<4xf32>, %x72: tensor<4xf32>, %x73: tensor<4xf32>, %x74: tensor<4xf32>, %x75: tensor<4xf32>, %x76: tensor<4xf32>, %x77: tensor<4xf32>, %x78: tensor<4xf32>, %x79: tensor<4xf32>, %x80: tensor<4xf32>, %x81: tensor<4xf32>, %x82: tensor<4xf32>, %x83: tensor<4xf32>, %x84: tensor<4xf32>, %x85: tensor<4xf32>, %x86: tensor<4xf32>, %x87: tensor<4xf32>, %x88: tensor<4xf32>, %x89: tensor<4xf32>, %x90: tensor<4xf32>, %x91: tensor<4xf32>, %x92: tensor<4xf32>, %x93: tensor<4xf32>, %x94: tensor<4xf32>, %x95: tensor<4xf32>, %x96: tensor<4xf32>, %x97: tensor<4xf32>, %x98: tensor<4xf32>, %x99: tensor<4xf32>, %x100: tensor<4xf32>, %x101: tensor<4xf32>, %x102: tensor<4xf32>, %x103: tensor<4xf32>, %x104: tensor<4xf32>, %x105: tensor<4xf32>, %x106: tensor<4xf32>, %x107: tensor<4xf32>, %x108: tensor<4xf32>, %x109: tensor<4xf32>, %x110: tensor<4xf32>, %x111: tensor<4xf32>, %x112: tensor<4xf32>, %x113: tensor<4xf32>, %x114: tensor<4xf32>, %x115: tensor<4xf32>, %x116: tensor<4xf32>, %x117: tensor<4xf32>, %x118: tensor<4xf32>, %x119: tensor<4xf32>, %x120: tensor<4xf32>, %x121: tensor<4xf32>, %x122: tensor<4xf32>, %x123: tensor<4xf32>, %x124: tensor<4xf32>, %x125: tensor<4xf32>, %x126: tensor<4xf32>, %x127: tensor<4xf32>, %x128: tensor<4xf32>, %x129: tensor<4xf32>, %x130: tensor<4xf32>, %x131: tensor<4xf32>, %x132: tensor<4xf32>, %x133: tensor<4xf32>, %x134: tensor<4xf32>, %x135: tensor<4xf32>, %x136: tensor<4xf32>, %x137: tensor<4xf32>, %x138: tensor<4xf32>, %x139: tensor<4xf32>) {
  %s1 = torch.aten.add.Tensor(%x0, %x1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s2 = torch.aten.add.Tensor(%s1, %x2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s3 = torch.aten.add.Tensor(%s2, %x3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s4 = torch.aten.add.Tensor(%s3, %x4) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s5 = torch.aten.add.Tensor(%s4, %x5) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s6 = torch.aten.add.Tensor(%s5, %x6) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s7 = torch.aten.add.Tensor(%s6, %x7) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s8 = torch.aten.add.Tensor(%s7, %x8) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s9 = torch.aten.add.Tensor(%s8, %x9) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s10 = torch.aten.add.Tensor(%s9, %x10) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s11 = torch.aten.add.Tensor(%s10, %x11) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s12 = torch.aten.add.Tensor(%s11, %x12) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s13 = torch.aten.add.Tensor(%s12, %x13) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s14 = torch.aten.add.Tensor(%s13, %x14) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s15 = torch.aten.add.Tensor(%s14, %x15) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s16 = torch.aten.add.Tensor(%s15, %x16) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s17 = torch.aten.add.Tensor(%s16, %x17) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s18 = torch.aten.add.Tensor(%s17, %x18) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s19 = torch.aten.add.Tensor(%s18, %x19) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s20 = torch.aten.add.Tensor(%s19, %x20) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s21 = torch.aten.add.Tensor(%s20, %x21) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s22 = torch.aten.add.Tensor(%s21, %x22) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s23 = torch.aten.add.Tensor(%s22, %x23) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s24 = torch.aten.add.Tensor(%s23, %x24) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s25 = torch.aten.add.Tensor(%s24, %x25) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s26 = torch.aten.add.Tensor(%s25, %x26) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s27 = torch.aten.add.Tensor(%s26, %x27) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s28 = torch.aten.add.Tensor(%s27, %x28) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s29 = torch.aten.add.Tensor(%s28, %x29) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s30 = torch.aten.add.Tensor(%s29, %x30) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s31 = torch.aten.add.Tensor(%s30, %x31) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s32 = torch.aten.add.Tensor(%s31, %x32) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s33 = torch.aten.add.Tensor(%s32, %x33) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s34 = torch.aten.add.Tensor(%s33, %x34) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s35 = torch.aten.add.Tensor(%s34, %x35) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s36 = torch.aten.add.Tensor(%s35, %x36) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s37 = torch.aten.add.Tensor(%s36, %x37) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s38 = torch.aten.add.Tensor(%s37, %x38) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s39 = torch.aten.add.Tensor(%s38, %x39) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s40 = torch.aten.add.Tensor(%s39, %x40) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s41 = torch.aten.add.Tensor(%s40, %x41) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s42 = torch.aten.add.Tensor(%s41, %x42) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s43 = torch.aten.add.Tensor(%s42, %x43) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s44 = torch.aten.add.Tensor(%s43, %x44) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s45 = torch.aten.add.Tensor(%s44, %x45) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s46 = torch.aten.add.Tensor(%s45, %x46) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s47 = torch.aten.add.Tensor(%s46, %x47) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s48 = torch.aten.add.Tensor(%s47, %x48) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s49 = torch.aten.add.Tensor(%s48, %x49) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s50 = torch.aten.add.Tensor(%s49, %x50) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s51 = torch.aten.add.Tensor(%s50, %x51) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s52 = torch.aten.add.Tensor(%s51, %x52) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s53 = torch.aten.add.Tensor(%s52, %x53) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s54 = torch.aten.add.Tensor(%s53, %x54) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s55 = torch.aten.add.Tensor(%s54, %x55) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s56 = torch.aten.add.Tensor(%s55, %x56) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s57 = torch.aten.add.Tensor(%s56, %x57) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s58 = torch.aten.add.Tensor(%s57, %x58) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s59 = torch.aten.add.Tensor(%s58, %x59) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s60 = torch.aten.add.Tensor(%s59, %x60) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s61 = torch.aten.add.Tensor(%s60, %x61) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s62 = torch.aten.add.Tensor(%s61, %x62) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s63 = torch.aten.add.Tensor(%s62, %x63) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s64 = torch.aten.add.Tensor(%s63, %x64) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s65 = torch.aten.add.Tensor(%s64, %x65) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s66 = torch.aten.add.Tensor(%s65, %x66) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s67 = torch.aten.add.Tensor(%s66, %x67) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s68 = torch.aten.add.Tensor(%s67, %x68) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s69 = torch.aten.add.Tensor(%s68, %x69) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s70 = torch.aten.add.Tensor(%s69, %x70) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s71 = torch.aten.add.Tensor(%s70, %x71) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s72 = torch.aten.add.Tensor(%s71, %x72) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s73 = torch.aten.add.Tensor(%s72, %x73) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s74 = torch.aten.add.Tensor(%s73, %x74) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s75 = torch.aten.add.Tensor(%s74, %x75) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s76 = torch.aten.add.Tensor(%s75, %x76) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s77 = torch.aten.add.Tensor(%s76, %x77) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s78 = torch.aten.add.Tensor(%s77, %x78) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s79 = torch.aten.add.Tensor(%s78, %x79) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s80 = torch.aten.add.Tensor(%s79, %x80) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s81 = torch.aten.add.Tensor(%s80, %x81) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s82 = torch.aten.add.Tensor(%s81, %x82) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s83 = torch.aten.add.Tensor(%s82, %x83) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s84 = torch.aten.add.Tensor(%s83, %x84) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s85 = torch.aten.add.Tensor(%s84, %x85) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s86 = torch.aten.add.Tensor(%s85, %x86) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s87 = torch.aten.add.Tensor(%s86, %x87) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s88 = torch.aten.add.Tensor(%s87, %x88) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s89 = torch.aten.add.Tensor(%s88, %x89) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s90 = torch.aten.add.Tensor(%s89, %x90) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s91 = torch.aten.add.Tensor(%s90, %x91) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s92 = torch.aten.add.Tensor(%s91, %x92) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s93 = torch.aten.add.Tensor(%s92, %x93) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s94 = torch.aten.add.Tensor(%s93, %x94) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s95 = torch.aten.add.Tensor(%s94, %x95) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s96 = torch.aten.add.Tensor(%s95, %x96) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s97 = torch.aten.add.Tensor(%s96, %x97) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s98 = torch.aten.add.Tensor(%s97, %x98) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s99 = torch.aten.add.Tensor(%s98, %x99) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s100 = torch.aten.add.Tensor(%s99, %x100) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s101 = torch.aten.add.Tensor(%s100, %x101) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s102 = torch.aten.add.Tensor(%s101, %x102) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s103 = torch.aten.add.Tensor(%s102, %x103) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s104 = torch.aten.add.Tensor(%s103, %x104) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s105 = torch.aten.add.Tensor(%s104, %x105) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s106 = torch.aten.add.Tensor(%s105, %x106) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s107 = torch.aten.add.Tensor(%s106, %x107) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s108 = torch.aten.add.Tensor(%s107, %x108) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s109 = torch.aten.add.Tensor(%s108, %x109) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s110 = torch.aten.add.Tensor(%s109, %x110) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s111 = torch.aten.add.Tensor(%s110, %x111) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s112 = torch.aten.add.Tensor(%s111, %x112) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s113 = torch.aten.add.Tensor(%s112, %x113) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s114 = torch.aten.add.Tensor(%s113, %x114) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s115 = torch.aten.add.Tensor(%s114, %x115) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s116 = torch.aten.add.Tensor(%s115, %x116) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s117 = torch.aten.add.Tensor(%s116, %x117) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s118 = torch.aten.add.Tensor(%s117, %x118) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s119 = torch.aten.add.Tensor(%s118, %x119) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s120 = torch.aten.add.Tensor(%s119, %x120) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s121 = torch.aten.add.Tensor(%s120, %x121) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s122 = torch.aten.add.Tensor(%s121, %x122) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s123 = torch.aten.add.Tensor(%s122, %x123) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s124 = torch.aten.add.Tensor(%s123, %x124) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s125 = torch.aten.add.Tensor(%s124, %x125) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s126 = torch.aten.add.Tensor(%s125, %x126) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s127 = torch.aten.add.Tensor(%s126, %x127) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s128 = torch.aten.add.Tensor(%s127, %x128) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s129 = torch.aten.add.Tensor(%s128, %x129) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s130 = torch.aten.add.Tensor(%s129, %x130) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s131 = torch.aten.add.Tensor(%s130, %x131) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s132 = torch.aten.add.Tensor(%s131, %x132) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s133 = torch.aten.add.Tensor(%s132, %x133) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s134 = torch.aten.add.Tensor(%s133, %x134) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s135 = torch.aten.add.Tensor(%s134, %x135) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s136 = torch.aten.add.Tensor(%s135, %x136) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s137 = torch.aten.add.Tensor(%s136, %x137) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s138 = torch.aten.add.Tensor(%s137, %x138) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s139 = torch.aten.add.Tensor(%s138, %x139) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  fx.output((%s139,)) : (tensor<4xf32>) -> ()
}

// -----

/// A derivative waits until it is known which of its gradients are there: it may have to be differentiated again.
// CHECK-LABEL: func.func private @waits_df
// CHECK-NOT:     fusion.group
// CHECK-LABEL: func.func @main
func.func private @waits(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func private @waits_df(%g: tensor<4xf32>) -> tensor<4xf32> {
  %a = torch.aten.neg.default(%g) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.exp.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %b : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = autodiff.subgraph @waits(%x) {gradient = #autodiff.gradient<@waits_df, real_outputs = 1, input_vjps = [0],
                                     captured_inputs = [], captured_outputs = [], output_vjps = [0]>} : (tensor<4xf32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}

// -----

/// What is computed when a plan is made is no kernel, nor what that alone calls.
// CHECK-LABEL: func.func private @frozen
// CHECK-NOT:     fusion.group
// CHECK-LABEL: func.func private @again
// CHECK-NOT:     fusion.group
// CHECK-LABEL: func.func @main
// CHECK:         fusion.group
func.func private @frozen(%w: tensor<4xf32>) -> tensor<4xf32> {
  %a = func.call @again(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.exp.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}
func.func private @again(%w: tensor<4xf32>) -> tensor<4xf32> {
  %b = torch.aten.neg.default(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.exp.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}
func.func @main(%w: tensor<4xf32> {fx.kind = "parameter", fx.name = "w"}) -> tensor<4xf32> {
  %a = func.call @frozen(%w) {fx.once} : (tensor<4xf32>) -> tensor<4xf32>
  %b = torch.aten.neg.default(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = torch.aten.exp.default(%b) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %c : tensor<4xf32>
}
