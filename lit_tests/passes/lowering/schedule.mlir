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

/// The innermost loop is reduced: what a row reduces, and what reads that, is one kernel.
// CHECK-LABEL: func.func @inner
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0, 1], lanes = 4, unroll = 4, block = 64>]
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
    %a = torch.aten.cumsum.default(%x, 0) : (tensor<4xf32>) -> tensor<4xf32>
    fusion.yield %a : tensor<4xf32>
  }) -> tensor<4xf32>
  fx.output(%s) : (tensor<4xf32>) -> ()
}

// -----

/// On a GPU a program has one block: of a whole row, where that is not too long.
// CHECK-LABEL: func.func @gpu
// CHECK:         tile.schedule = [#tile.schedule<"inner", stages = [0, 1], lanes = 128, unroll = 1, block = 1>]
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
