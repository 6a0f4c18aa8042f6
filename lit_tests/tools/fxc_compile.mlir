// RUN: fxc compile %S/inputs/models/pointwise.py --target=interpret --emit=mlir | filecheck %s
// RUN: fxc compile %S/inputs/models/pointwise.py --target=cuda:sm_90 --emit=triton | filecheck %s --check-prefix=TRITON
// RUN: fxc compile %S/inputs/models/pointwise.py --target=cpu:avx2 --emit=llvm | filecheck %s --check-prefix=LLVM
// RUN: fxc compile %S/inputs/models/pointwise.py --target=interpret -o %t 2>&1 | filecheck %s --check-prefix=FILES
// RUN: fxc run %t/01-captured.mlir --compare %S/inputs/models/pointwise.py | filecheck %s --check-prefix=RES
// RUN: fxc run %t/11-linalg.mlir --compare %S/inputs/models/pointwise.py | filecheck %s --check-prefix=RES
// RUN: fxc-opt %t/11-linalg.mlir -p schedule,group-kernels,append-kernels,tile | filecheck %s
// RUN: not fxc compile %S/inputs/models/pointwise.py -p simplify --emit=llvm 2>&1 | filecheck %s --check-prefix=NONE

// CHECK:       builtin.module attributes {fxc.target = #target.cpu<cpu = "interpreter">} {
// CHECK:       {{tile|plan}}.launch @[[NAME:[a-z_0-9]+]](
// CHECK:       tile.kernel @[[NAME]](

// TRITON:      # mul = aten.mul.Tensor: return torch.relu(x * y - 1)  (pointwise.py:8)
// TRITON:      @triton.jit
// TRITON-NEXT: def {{.*}}(x, y,

// LLVM:        <{{[0-9]+}} x float>

// FILES:       01-captured.mlir
// FILES-NEXT:  02-torch.mlir
// FILES:       -fused.mlir
// FILES-NEXT:  11-linalg.mlir
// FILES-NEXT:  12-scheduled.mlir
// FILES-NEXT:  13-tile.mlir
// FILES-NEXT:  14-plan.mlir
// FILES:       graph.py
// FILES:       plan.zip

// RES:         close to eager: no difference

// NONE:        error: the module has no tile.kernel to print
