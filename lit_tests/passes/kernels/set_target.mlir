// RUN: fxc-opt %s -p set-target{to=cuda:sm_90} | filecheck %s --check-prefix=GPU
// RUN: fxc-opt %s -p 'set-target{to=cpu:avx512},set-target{to=cpu:avx2}' | filecheck %s --check-prefix=CPU
// RUN: fxc-opt %s -p 'set-target{to=cuda:sm_80 deterministic=true tf32=true}' | filecheck %s --check-prefix=SAME
// RUN: fxc-opt %s -p set-target{to=cpu} | filecheck %s --check-prefix=ANY
// RUN: fxc-opt %s -p set-target{to=interpret} | filecheck %s --check-prefix=CHECKED
// RUN: fxc-opt %s -p set-target{to=rocm:gfx942} | filecheck %s --check-prefix=AMD
// RUN: not fxc-opt %s -p set-target{to=tpu} 2>&1 | filecheck %s --check-prefix=NONE

// GPU:  builtin.module attributes {fxc.target = #target.gpu<arch = "sm_90"
// CPU:  builtin.module attributes {fxc.target = #target.cpu<vector_bits = 256
// SAME: builtin.module attributes {fxc.target = #target.gpu, fxc.deterministic, fxc.tf32}
// ANY:  builtin.module attributes {fxc.target = #target.cpu}
// CHECKED: builtin.module attributes {fxc.target = #target.cpu<cpu = "interpreter">}
// AMD:  builtin.module attributes {fxc.target = #target.gpu<arch = "gfx942", warp = 64
// NONE: there is no target 'tpu', but cpu, cpu:avx2
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
