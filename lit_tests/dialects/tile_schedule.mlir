// RUN: fxc-opt %s | fxc-opt | filecheck %s
// RUN: fxc-opt %s --print-op-generic | fxc-opt | filecheck %s

// CHECK: a = #tile.schedule<"inner", stages = [0, 2], lanes = 16, unroll = 4, block = 8>
builtin.module attributes {a = #tile.schedule<"inner", stages = [0, 2], lanes = 16, unroll = 4, block = 8>} {}
