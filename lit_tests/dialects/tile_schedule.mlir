// RUN: fxc-opt %s | fxc-opt | filecheck %s
// RUN: fxc-opt %s --print-op-generic | fxc-opt | filecheck %s

// CHECK:      a = #tile.schedule<"inner", stages = [0, 2], lanes = 16, unroll = 4, block = 8>
// CHECK-SAME: b = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 1024, tile = 16>
// CHECK-SAME: c = #tile.schedule<"outer", stages = [0], lanes = 16, unroll = 1, block = 64, parts = 3>
// CHECK-SAME: d = #tile.schedule<"inner", stages = [0], lanes = 16, unroll = 1, block = 1, piece = 64, form = "online">
// CHECK-SAME: e = #tile.schedule<"elementwise", stages = [1], lanes = 4, unroll = 1, block = 4, program = "last">
builtin.module attributes {
  a = #tile.schedule<"inner", stages = [0, 2], lanes = 16, unroll = 4, block = 8, parts = 1>,
  b = #tile.schedule<"elementwise", stages = [0], lanes = 16, unroll = 1, block = 1024, tile = 16>,
  c = #tile.schedule<"outer", stages = [0], lanes = 16, unroll = 1, block = 64, parts = 3, form = "looped">,
  d = #tile.schedule<"inner", stages = [0], lanes = 16, unroll = 1, block = 1, form = "online", piece = 64>,
  e = #tile.schedule<"elementwise", stages = [1], lanes = 4, unroll = 1, block = 4, program = "last">
} {}
