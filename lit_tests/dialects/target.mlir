// RUN: fxc-opt %s --split-input-file --verify-diagnostics | filecheck %s
// RUN: fxc-opt %s --split-input-file --verify-diagnostics --print-op-generic | fxc-opt --split-input-file | filecheck %s

/// What is as by default is left out.
// CHECK: builtin.module attributes {fxc.target = #target.cpu<vector_bits = 512, threads = 2, features = "+avx512f">}
builtin.module attributes {fxc.target = #target.cpu<features = "+avx512f", threads = 2, l1 = 32768, vector_bits = 512>} {}

// -----

// CHECK: builtin.module attributes {fxc.target = #target.cpu, other = #target.gpu<arch = "sm_90", multiprocessors = 132>}
builtin.module attributes {fxc.target = #target.cpu, other = #target.gpu<arch = "sm_90", multiprocessors = 132>} {}
