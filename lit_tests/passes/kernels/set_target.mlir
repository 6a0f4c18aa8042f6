// RUN: fxc-opt %s -p set-target{to=cuda:sm_90} | filecheck %s --check-prefix=GPU
// RUN: fxc-opt %s -p 'set-target{to=cpu:avx512},set-target{to=cpu:avx2}' | filecheck %s --check-prefix=CPU
// RUN: fxc-opt %s -p 'set-target{to=cuda:sm_80 deterministic=true}' | filecheck %s --check-prefix=SAME
// RUN: not fxc-opt %s -p set-target{to=tpu} 2>&1 | filecheck %s --check-prefix=NONE

// GPU:  builtin.module attributes {fxc.target = #target.gpu<arch = "sm_90"
// CPU:  builtin.module attributes {fxc.target = #target.cpu<vector_bits = 256
// SAME: builtin.module attributes {fxc.target = #target.gpu, fxc.deterministic}
// NONE: there is no target 'tpu', but cpu, cpu:avx2
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
