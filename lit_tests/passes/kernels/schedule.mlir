// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg,schedule | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=convert-fusion-to-linalg,schedule,schedule | filecheck %s

/// No loop is reduced: lanes fill four registers of the machine.
// CHECK-LABEL: func.func @elementwise
// CHECK:         tile.schedule = [#tile.schedule<"elementwise", stages = [0, 1], lanes = 32, unroll = 1, block = 1024>]
builtin.module attributes {fxc.target = #target.cpu<vector_bits = 256>} {
  func.func @elementwise(%x: tensor<4x8xf32>) {
    %s, %t = fusion.group ({
      %a = torch.aten.neg.default(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      %b = torch.aten.exp.default(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      fusion.yield %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
    }) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    fx.output((%s, %t)) : (tensor<4x8xf32>, tensor<4x8xf32>) -> ()
  }
}

// -----

/// Wider numbers: fewer lanes.
// CHECK-LABEL: func.func @double
// CHECK:         #tile.schedule<"elementwise", stages = [0], lanes = 8,
func.func @double(%x: tensor<4x8xf64>) {
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<4x8xf64>) -> tensor<4x8xf64>
    fusion.yield %a : tensor<4x8xf64>
  }) -> tensor<4x8xf64>
  fx.output(%s) : (tensor<4x8xf64>) -> ()
}

// -----

/// The innermost loop is reduced: what a row reduces, and what reads that, is one kernel. A short row is held.
// CHECK-LABEL: func.func @inner
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0, 1], lanes = 16, unroll = 1, block = 64, form = "held">]
func.func @inner(%x: tensor<256x16xf32>) {
  %s = fusion.group ({
    %m = torch.aten.amax.default(%x, [1], true) : (tensor<256x16xf32>) -> tensor<256x1xf32>
    %d = torch.aten.sub.Tensor(%x, %m) : (tensor<256x16xf32>, tensor<256x1xf32>) -> tensor<256x16xf32>
    fusion.yield %d : tensor<256x16xf32>
  }) -> tensor<256x16xf32>
  fx.output(%s) : (tensor<256x16xf32>) -> ()
}

// -----

/// Another loop is reduced.
// CHECK-LABEL: func.func @outer
// CHECK:         tile.schedule = [#tile.schedule<"outer", stages = [0], lanes = 4, unroll = 4, block = 16>]
func.func @outer(%x: tensor<256x16xf32>) {
  %s = fusion.group ({
    %m = torch.aten.sum.dim_IntList(%x, [0]) : (tensor<256x16xf32>) -> tensor<16xf32>
    fusion.yield %m : tensor<16xf32>
  }) -> tensor<16xf32>
  fx.output(%s) : (tensor<16xf32>) -> ()
}

// -----

/// Loops of different sizes are different kernels.
// CHECK-LABEL: func.func @shapes
// CHECK:         tile.schedule = [#tile.schedule<"elementwise", stages = [0],{{.*}}>, #tile.schedule<"elementwise", stages = [1],
func.func @shapes(%x: tensor<4x8xf32>, %y: tensor<8xf32>) {
  %s, %t = fusion.group ({
    %a = torch.aten.neg.default(%y) : (tensor<8xf32>) -> tensor<8xf32>
    %b = torch.aten.mul.Tensor(%x, %a) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    fusion.yield %a, %b : tensor<8xf32>, tensor<4x8xf32>
  }) -> (tensor<8xf32>, tensor<4x8xf32>)
  fx.output((%s, %t)) : (tensor<8xf32>, tensor<4x8xf32>) -> ()
}

// -----

/// One row, and much that reads what it reduces: not in one program.
// CHECK-LABEL: func.func @few_rows
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0],{{.*}}>, #tile.schedule<"elementwise", stages = [1],
func.func @few_rows(%x: tensor<8192xf32>) {
  %s = fusion.group ({
    %m = torch.aten.sum.default(%x) : (tensor<8192xf32>) -> tensor<f32>
    %d = torch.aten.div.Tensor(%x, %m) : (tensor<8192xf32>, tensor<f32>) -> tensor<8192xf32>
    fusion.yield %d : tensor<8192xf32>
  }) -> tensor<8192xf32>
  fx.output(%s) : (tensor<8192xf32>) -> ()
}

// -----

/// Pieces of a concatenation are one kernel, whatever their sizes.
// CHECK-LABEL: func.func @pieces
// CHECK:         tile.schedule = [#tile.schedule<"elementwise", stages = [0, 1],
func.func @pieces(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  %s = fusion.group ({
    %n = torch.aten.neg.default(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %c = torch.aten.cat.default([%n, %y], 1) : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<2x7xf32>
    fusion.yield %c : tensor<2x7xf32>
  }) -> tensor<2x7xf32>
  fx.output(%s) : (tensor<2x7xf32>) -> ()
}

// -----

/// A schedule that is there.
// CHECK-LABEL: func.func @written
// CHECK:         tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 64, unroll = 2, block = 7>]
func.func @written(%x: tensor<4x8xf32>) {
  %s = fusion.group ({
    %a = torch.aten.neg.default(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    fusion.yield %a : tensor<4x8xf32>
  }) {tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 64, unroll = 2, block = 7>]} -> tensor<4x8xf32>
  fx.output(%s) : (tensor<4x8xf32>) -> ()
}

// -----

/// A group of other ops.
// CHECK-LABEL: func.func @torch
// CHECK-NOT:     tile.schedule
// CHECK:         fx.output
func.func @torch(%x: tensor<4xf32>) {
  %s = fusion.group ({
    %a = torch.aten.logcumsumexp.default(%x, 0) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %a : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// On a GPU a program has one block: of a whole row, where that is not too long.
// CHECK-LABEL: func.func @gpu
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0, 1], lanes = 128, unroll = 1, block = 1, form = "held">]
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @gpu(%x: tensor<256x100xf32>) {
    %s = fusion.group ({
      %m = torch.aten.amax.default(%x, [1], true) : (tensor<256x100xf32>) -> tensor<256x1xf32>
      %d = torch.aten.sub.Tensor(%x, %m) : (tensor<256x100xf32>, tensor<256x1xf32>) -> tensor<256x100xf32>
      fusion.yield %d : tensor<256x100xf32>
    }) -> tensor<256x100xf32>
    fx.output(%s) : (tensor<256x100xf32>) -> ()
  }
}

// -----

/// A long row: what two passes compute of an element lies in memory in between.
// CHECK-LABEL: func.func @stored
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0, 1, 2], lanes = 4, unroll = 4, block = {{.*}}, form = "stored">]
func.func @stored(%x: tensor<64x1024xf32>) {
  %s = fusion.group ({
    %m = torch.aten._softmax.default(%x, 1, false) : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
    fusion.yield %m : tensor<64x1024xf32>
  }) -> tensor<64x1024xf32>
  fx.output(%s) : (tensor<64x1024xf32>) -> ()
}

// -----

/// Nothing costs much: each pass computes again.
// CHECK-LABEL: func.func @cheap
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0, 1], lanes = 4, unroll = 4, block = {{[0-9]+}}>]
func.func @cheap(%x: tensor<64x1024xf32>) {
  %s = fusion.group ({
    %m = torch.aten.amax.default(%x, [1], true) : (tensor<64x1024xf32>) -> tensor<64x1xf32>
    %d = torch.aten.sub.Tensor(%x, %m) : (tensor<64x1024xf32>, tensor<64x1xf32>) -> tensor<64x1024xf32>
    fusion.yield %d : tensor<64x1024xf32>
  }) -> tensor<64x1024xf32>
  fx.output(%s) : (tensor<64x1024xf32>) -> ()
}

// -----

/// No cache has a row: the maximum and the sum are one pass.
// CHECK-LABEL: func.func @online
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0, 1, 2], {{.*}}form = "online">]
builtin.module attributes {fxc.target = #target.cpu<l2 = 2048>} {
  func.func @online(%x: tensor<64x1024xf32>) {
    %s = fusion.group ({
      %m = torch.aten._softmax.default(%x, 1, false) : (tensor<64x1024xf32>) -> tensor<64x1024xf32>
      fusion.yield %m : tensor<64x1024xf32>
    }) -> tensor<64x1024xf32>
    fx.output(%s) : (tensor<64x1024xf32>) -> ()
  }
}

// -----

/// A row and two threads: two parts.
// CHECK-LABEL: func.func @parts
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0], lanes = 4, unroll = 4, block = {{.*}}, parts = 2>]
builtin.module attributes {fxc.target = #target.cpu<threads = 2>} {
  func.func @parts(%x: tensor<1x100000xf32>) {
    %s = fusion.group ({
      %m = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<1x100000xf32>) -> tensor<1xf32>
      fusion.yield %m : tensor<1xf32>
    }) -> tensor<1xf32>
    fx.output(%s) : (tensor<1xf32>) -> ()
  }
}

// -----

/// A row and one thread.
// CHECK-LABEL: func.func @one_thread
// CHECK-NOT:     parts
// CHECK:         fx.output
func.func @one_thread(%x: tensor<1x100000xf32>) {
  %s = fusion.group ({
    %m = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<1x100000xf32>) -> tensor<1xf32>
    fusion.yield %m : tensor<1xf32>
  }) -> tensor<1xf32>
  fx.output(%s) : (tensor<1xf32>) -> ()
}

// -----

/// A row that is not worth a thread.
// CHECK-LABEL: func.func @short
// CHECK-NOT:     parts
// CHECK:         fx.output
builtin.module attributes {fxc.target = #target.cpu<threads = 2>} {
  func.func @short(%x: tensor<1x10000xf32>) {
    %s = fusion.group ({
      %m = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<1x10000xf32>) -> tensor<1xf32>
      fusion.yield %m : tensor<1xf32>
    }) -> tensor<1xf32>
    fx.output(%s) : (tensor<1xf32>) -> ()
  }
}

// -----

/// Columns, too few for the threads.
// CHECK-LABEL: func.func @few_columns
// CHECK:         tile.schedule = [#tile.schedule<"outer", stages = [0], lanes = 4, unroll = 2, block = 16, parts = 2>]
builtin.module attributes {fxc.target = #target.cpu<threads = 2>} {
  func.func @few_columns(%x: tensor<100000x8xf32>) {
    %s = fusion.group ({
      %m = torch.aten.sum.dim_IntList(%x, [0]) : (tensor<100000x8xf32>) -> tensor<8xf32>
      fusion.yield %m : tensor<8xf32>
    }) -> tensor<8xf32>
    fx.output(%s) : (tensor<8xf32>) -> ()
  }
}

// -----

/// Whole rows side by side, where a function is computed of more than a cache holds: memory is gone through in its order.
// CHECK-LABEL: func.func @side_by_side
// CHECK:         tile.schedule = [#tile.schedule<"outer", stages = [0, 1], lanes = 16, unroll = 12, block = 192, parts = 2>]
builtin.module attributes {fxc.target = #target.cpu<vector_bits = 512, threads = 2>} {
  func.func @side_by_side(%x: tensor<12544x192xf32>) {
    %p, %q = fusion.group ({
      %e = torch.aten.exp.default(%x) : (tensor<12544x192xf32>) -> tensor<12544x192xf32>
      %m = torch.aten.sum.dim_IntList(%e, [0]) : (tensor<12544x192xf32>) -> tensor<192xf32>
      fusion.yield %e, %m : tensor<12544x192xf32>, tensor<192xf32>
    }) -> (tensor<12544x192xf32>, tensor<192xf32>)
    fx.output((%p, %q)) : (tensor<12544x192xf32>, tensor<192xf32>) -> ()
  }
}

// -----

/// Less: a few vectors, of which the columns are a multiple.
// CHECK-LABEL: func.func @few_side_by_side
// CHECK:         tile.schedule = [#tile.schedule<"outer", stages = [0], lanes = 16, unroll = 5, block = 80>]
builtin.module attributes {fxc.target = #target.cpu<vector_bits = 512, threads = 2>} {
  func.func @few_side_by_side(%x: tensor<300x160xf32>) {
    %s = fusion.group ({
      %m = torch.aten.sum.dim_IntList(%x, [0]) : (tensor<300x160xf32>) -> tensor<160xf32>
      fusion.yield %m : tensor<160xf32>
    }) -> tensor<160xf32>
    fx.output(%s) : (tensor<160xf32>) -> ()
  }
}

// -----

/// One by one, where an operand lies across: a vector of it has as many lines of the cache as lanes.
// CHECK-LABEL: func.func @lies_across
// CHECK:         tile.schedule = [#tile.schedule<"outer", stages = [0], lanes = 16, unroll = 1, block = 64>]
builtin.module attributes {fxc.target = #target.cpu<vector_bits = 512>} {
  func.func @lies_across(%x: tensor<3000x100xf32>, %y: tensor<100x3000xf32>) {
    %s = fusion.group ({
      %t = torch.aten.t.default(%y) : (tensor<100x3000xf32>) -> tensor<3000x100xf32, #torch.meta<strides = [1, 3000]>>
      %p = torch.aten.mul.Tensor(%x, %t) : (tensor<3000x100xf32>, tensor<3000x100xf32, #torch.meta<strides = [1, 3000]>>) -> tensor<3000x100xf32>
      %m = torch.aten.sum.dim_IntList(%p, [0]) : (tensor<3000x100xf32>) -> tensor<100xf32>
      fusion.yield %m : tensor<100xf32>
    }) -> tensor<100xf32>
    fx.output(%s) : (tensor<100xf32>) -> ()
  }
}

// -----

/// What is reduced is a number for each row, so that the rows of the other operand say how they lie.
// CHECK-LABEL: func.func @not_in_memory
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0, 1]
builtin.module attributes {fxc.target = #target.cpu<vector_bits = 512>} {
  func.func @not_in_memory(%x: tensor<40x1000xf32>, %y: tensor<40xf32>) {
    %s = fusion.group ({
      %u = torch.aten.unsqueeze.default(%y, 1) : (tensor<40xf32>) -> tensor<40x1xf32>
      %v = torch.aten.expand.default(%u, [40, 1000]) : (tensor<40x1xf32>) -> tensor<40x1000xf32, #torch.meta<strides = [1, 0]>>
      %m = torch.aten.sum.dim_IntList(%v, [1], true) : (tensor<40x1000xf32, #torch.meta<strides = [1, 0]>>) -> tensor<40x1xf32>
      %r = torch.aten.mul.Tensor(%x, %m) : (tensor<40x1000xf32>, tensor<40x1xf32>) -> tensor<40x1000xf32>
      fusion.yield %r : tensor<40x1000xf32>
    }) -> tensor<40x1000xf32>
    fx.output(%s) : (tensor<40x1000xf32>) -> ()
  }
}

// -----

/// A division of two numbers of the row is none of its elements: nothing is stored to be read again.
// CHECK-LABEL: func.func @same_along_the_row
// CHECK-NOT:     form = "stored"
// CHECK:         fx.output
builtin.module attributes {fxc.target = #target.cpu<vector_bits = 512>} {
  func.func @same_along_the_row(%x: tensor<40x1000xf32>, %y: tensor<40x1xf32>, %z: tensor<40x1xf32>) {
    %s = fusion.group ({
      %d = torch.aten.div.Tensor(%y, %z) : (tensor<40x1xf32>, tensor<40x1xf32>) -> tensor<40x1xf32>
      %p = torch.aten.mul.Tensor(%x, %d) : (tensor<40x1000xf32>, tensor<40x1xf32>) -> tensor<40x1000xf32>
      %m = torch.aten.amax.default(%p, [1], true) : (tensor<40x1000xf32>) -> tensor<40x1xf32>
      %r = torch.aten.sub.Tensor(%p, %m) : (tensor<40x1000xf32>, tensor<40x1xf32>) -> tensor<40x1000xf32>
      fusion.yield %r : tensor<40x1000xf32>
    }) -> tensor<40x1000xf32>
    fx.output(%s) : (tensor<40x1000xf32>) -> ()
  }
}

// -----

/// As many columns as the threads need.
// CHECK-LABEL: func.func @many_columns
// CHECK-NOT:     parts
// CHECK:         fx.output
builtin.module attributes {fxc.target = #target.cpu<threads = 2>} {
  func.func @many_columns(%x: tensor<10000x64xf32>) {
    %s = fusion.group ({
      %m = torch.aten.sum.dim_IntList(%x, [0]) : (tensor<10000x64xf32>) -> tensor<64xf32>
      fusion.yield %m : tensor<64xf32>
    }) -> tensor<64xf32>
    fx.output(%s) : (tensor<64xf32>) -> ()
  }
}

// -----

/// What is in parts is a kernel of its own, and so is what needs the total.
// CHECK-LABEL: func.func @passes
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0], {{.*}}parts = 2>, #tile.schedule<"inner", stages = [1], {{.*}}parts = 2>, #tile.schedule<"elementwise", stages = [2],
builtin.module attributes {fxc.target = #target.cpu<threads = 2>} {
  func.func @passes(%x: tensor<1x100000xf32>) {
    %s = fusion.group ({
      %m = torch.aten._softmax.default(%x, 1, false) : (tensor<1x100000xf32>) -> tensor<1x100000xf32>
      fusion.yield %m : tensor<1x100000xf32>
    }) -> tensor<1x100000xf32>
    fx.output(%s) : (tensor<1x100000xf32>) -> ()
  }
}

// -----

/// An operand across the other: tiles.
// CHECK-LABEL: func.func @across
// CHECK:         tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 8, unroll = 1, block = 1024, tile = 8>]
builtin.module attributes {fxc.target = #target.cpu<vector_bits = 256>} {
  func.func @across(%x: tensor<64x32xf32>, %y: tensor<32x64xf32>) {
    %s = fusion.group ({
      %t = torch.aten.t.default(%y) : (tensor<32x64xf32>) -> tensor<64x32xf32, #torch.meta<strides = [1, 64]>>
      %a = torch.aten.add.Tensor(%x, %t) : (tensor<64x32xf32>, tensor<64x32xf32, #torch.meta<strides = [1, 64]>>) -> tensor<64x32xf32>
      fusion.yield %a : tensor<64x32xf32>
    }) -> tensor<64x32xf32>
    fx.output(%s) : (tensor<64x32xf32>) -> ()
  }
}

// -----

/// Too small for a tile.
// CHECK-LABEL: func.func @narrow
// CHECK-NOT:     tile = 8
// CHECK:         fx.output
builtin.module attributes {fxc.target = #target.cpu<vector_bits = 256>} {
  func.func @narrow(%x: tensor<64x3xf32>, %y: tensor<3x64xf32>) {
    %s = fusion.group ({
      %t = torch.aten.t.default(%y) : (tensor<3x64xf32>) -> tensor<64x3xf32, #torch.meta<strides = [1, 64]>>
      %a = torch.aten.add.Tensor(%x, %t) : (tensor<64x3xf32>, tensor<64x3xf32, #torch.meta<strides = [1, 64]>>) -> tensor<64x3xf32>
      fusion.yield %a : tensor<64x3xf32>
    }) -> tensor<64x3xf32>
    fx.output(%s) : (tensor<64x3xf32>) -> ()
  }
}

// -----

/// Tiles of a GPU are a block each.
// CHECK-LABEL: func.func @across_on_gpu
// CHECK:         tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 32, unroll = 1, block = 1024, tile = 32>]
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @across_on_gpu(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) {
    %s = fusion.group ({
      %t = torch.aten.t.default(%y) : (tensor<64x64xf32>) -> tensor<64x64xf32, #torch.meta<strides = [1, 64]>>
      %a = torch.aten.add.Tensor(%x, %t) : (tensor<64x64xf32>, tensor<64x64xf32, #torch.meta<strides = [1, 64]>>) -> tensor<64x64xf32>
      fusion.yield %a : tensor<64x64xf32>
    }) -> tensor<64x64xf32>
    fx.output(%s) : (tensor<64x64xf32>) -> ()
  }
}

// -----

/// A block of a GPU has several rows, where one is short.
// CHECK-LABEL: func.func @short_rows_on_gpu
// CHECK:         tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 64, unroll = 1, block = 1024, tile = 16>]
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @short_rows_on_gpu(%x: tensor<8x512x49xf32>, %b: tensor<512x1xf32>) {
    %s = fusion.group ({
      %a = torch.aten.add.Tensor(%x, %b) : (tensor<8x512x49xf32>, tensor<512x1xf32>) -> tensor<8x512x49xf32>
      fusion.yield %a : tensor<8x512x49xf32>
    }) -> tensor<8x512x49xf32>
    fx.output(%s) : (tensor<8x512x49xf32>) -> ()
  }
}

// -----

/// A row that registers have not is gone through in blocks, online.
// CHECK-LABEL: func.func @long_on_gpu
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0, 1, 2], lanes = 2048, unroll = 1, block = 1, piece = 1, form = "online">]
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @long_on_gpu(%x: tensor<4096x20000xf32>) {
    %s = fusion.group ({
      %m = torch.aten._softmax.default(%x, 1, false) : (tensor<4096x20000xf32>) -> tensor<4096x20000xf32>
      fusion.yield %m : tensor<4096x20000xf32>
    }) -> tensor<4096x20000xf32>
    fx.output(%s) : (tensor<4096x20000xf32>) -> ()
  }
}

// -----

/// Few rows for many multiprocessors.
// CHECK-LABEL: func.func @parts_on_gpu
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0], lanes = 2048, unroll = 1, block = 1, parts = 216>]
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @parts_on_gpu(%x: tensor<1x10000000xf32>) {
    %s = fusion.group ({
      %m = torch.aten.sum.dim_IntList(%x, [1]) : (tensor<1x10000000xf32>) -> tensor<1xf32>
      fusion.yield %m : tensor<1xf32>
    }) -> tensor<1xf32>
    fx.output(%s) : (tensor<1xf32>) -> ()
  }
}

// -----

/// Rows that one multiprocessor passes over before other kernels start are not split; longer ones are, in each pass.
// CHECK-LABEL: func.func @few_rows_on_gpu
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0, 1], lanes = 8192, unroll = 1, block = 1, form = "held">]
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0], lanes = 2048, unroll = 1, block = 1, parts = 7>,
// CHECK-SAME:    #tile.schedule<"elementwise", stages = [1]
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @few_rows_on_gpu(%x: tensor<32x8000xf32>, %y: tensor<32x900000xf32>) {
    %s = fusion.group ({
      %m = torch.aten.amax.default(%x, [1], true) : (tensor<32x8000xf32>) -> tensor<32x1xf32>
      %d = torch.aten.sub.Tensor(%x, %m) : (tensor<32x8000xf32>, tensor<32x1xf32>) -> tensor<32x8000xf32>
      fusion.yield %d : tensor<32x8000xf32>
    }) -> tensor<32x8000xf32>
    %t = fusion.group ({
      %m = torch.aten.amax.default(%y, [1], true) : (tensor<32x900000xf32>) -> tensor<32x1xf32>
      %d = torch.aten.sub.Tensor(%y, %m) : (tensor<32x900000xf32>, tensor<32x1xf32>) -> tensor<32x900000xf32>
      fusion.yield %d : tensor<32x900000xf32>
    }) -> tensor<32x900000xf32>
    fx.output((%s, %t)) : (tensor<32x8000xf32>, tensor<32x900000xf32>) -> ()
  }
}

// -----

/// Columns on a GPU: blocks have rows, too, and parts give each multiprocessor two programs.
// CHECK-LABEL: func.func @columns_on_gpu
// CHECK:         tile.schedule = [#tile.schedule<"outer", stages = [0], lanes = 64, unroll = 1, block = 64, tile = 64, parts = 14>]
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @columns_on_gpu(%x: tensor<16384x1024xf32>) {
    %s = fusion.group ({
      %m = torch.aten.sum.dim_IntList(%x, [0]) : (tensor<16384x1024xf32>) -> tensor<1024xf32>
      fusion.yield %m : tensor<1024xf32>
    }) -> tensor<1024xf32>
    fx.output(%s) : (tensor<1024xf32>) -> ()
  }
}

// -----

/// Another pass reads the total of each column: the blocks of all passes are of columns.
// CHECK-LABEL: func.func @columns_in_passes_on_gpu
// CHECK:         tile.schedule = [#tile.schedule<"outer", stages = [0, 1], lanes = 64, unroll = 1, block = 64>]
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @columns_in_passes_on_gpu(%x: tensor<512x16384xf32>) {
    %s = fusion.group ({
      %m = torch.aten.amax.default(%x, [0], true) : (tensor<512x16384xf32>) -> tensor<1x16384xf32>
      %d = torch.aten.sub.Tensor(%x, %m) : (tensor<512x16384xf32>, tensor<1x16384xf32>) -> tensor<512x16384xf32>
      fusion.yield %d : tensor<512x16384xf32>
    }) -> tensor<512x16384xf32>
    fx.output(%s) : (tensor<512x16384xf32>) -> ()
  }
}

// -----

/// What says where updates go reads any element of the first stage: it is in another kernel, and so are the updates.
// CHECK-LABEL: func.func @places_on_gpu
// CHECK:         tile.schedule = [#tile.schedule<"elementwise", stages = [0], lanes = 1024, unroll = 1, block = 1024>,
// CHECK-SAME:    #tile.schedule<"elementwise", stages = [1, 2], lanes = 1024, unroll = 1, block = 1024>]
builtin.module attributes {fxc.target = #target.gpu} {
  func.func @places_on_gpu(%x: tensor<4096xf32>, %k: tensor<4096xi64>, %i: tensor<4096xi64>) {
    %n, %s = fusion.group ({
      %a = torch.aten.gather.default(%k, 0, %i) : (tensor<4096xi64>, tensor<4096xi64>) -> tensor<4096xi64>
      %g = torch.aten.flip.default(%a, [0]) : (tensor<4096xi64>) -> tensor<4096xi64>
      %z = torch.aten.zeros_like.default(%x) : (tensor<4096xf32>) -> tensor<4096xf32>
      %r = torch.aten.scatter_add.default(%z, 0, %g, %x) : (tensor<4096xf32>, tensor<4096xi64>, tensor<4096xf32>) -> tensor<4096xf32>
      fusion.yield %a, %r : tensor<4096xi64>, tensor<4096xf32>
    }) -> (tensor<4096xi64>, tensor<4096xf32>)
    fx.output((%n, %s)) : (tensor<4096xi64>, tensor<4096xf32>) -> ()
  }
}
