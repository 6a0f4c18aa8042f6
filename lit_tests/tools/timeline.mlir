// RUN: fxc timeline %s --links %S/../passes/dist/inputs/links.json --events | filecheck %s
// RUN: fxc-opt %s -p distributed | fxc timeline - --links %S/../passes/dist/inputs/links.json | filecheck %s --check-prefix=MERGED
// RUN: fxc timeline %s --links %S/../passes/dist/inputs/links.json --world=2,1024 --axis=dp | filecheck %s --check-prefix=WORLD
// RUN: fxc timeline %s --world=2,8,64 -o %t.svg 2>&1 | filecheck %s --check-prefix=PLOT
// RUN: fxc timeline %s --measure | filecheck %s --check-prefix=MEASURED
// RUN: not fxc timeline %s --world=3 --axis=tp 2>&1 | filecheck %s --check-prefix=AXIS
// RUN: not fxc timeline %s --world=many 2>&1 | filecheck %s --check-prefix=NUMBER
// RUN: not fxc timeline %S/../passes/simplify/dce.mlir 2>&1 | filecheck %s --check-prefix=MESH
// RUN: not fxc measure-links --ranks=1 2>&1 | filecheck %s --check-prefix=RANKS

/// Two gathers of 4 KiB take 20 us and 4.096 us each; the first product waits for the first.
// CHECK:       @main
// CHECK-NEXT:  ranks step compute communication exposed messages in flight
// CHECK-NEXT:  2 0.{{[0-9]+}} ms 0.{{[0-9]+}} ms 0.048 ms 0.048 ms 2 4.0 KiB
// CHECK-NEXT:  0.0 24.1 us communication %g = dist.all_gather
// CHECK-NEXT:  0.0 24.1 us waiting %gw = dist.wait
// CHECK-NEXT:  24.1 {{[0-9.]+}} us compute %y = aten.mm.default
// MERGED:      0.028 ms 0.028 ms 1 8.0 KiB
// WORLD:       2 {{.*}} 0.048 ms
// WORLD-NEXT:  1024 {{.*}} 40.936 ms
// MEASURED:    2 0.{{[0-9]+}} ms 0.{{[0-9]+}} ms 0.{{[0-9]+}} ms 0.{{[0-9]+}} ms 2 4.0 KiB
// PLOT:        {{^}}wrote {{.*}}.svg
// AXIS:        error: @mesh(dp = 2) has no axis tp
// NUMBER:      error: --world=many: 'many' is no number of ranks of @mesh(dp = 2)
// MESH:        error: the program has no dist.mesh
// RANKS:       error: --ranks=1: a link joins 2 to 1024 ranks
dist.mesh @mesh "cpu" (dp = 2)
dist.group @dp "0" on @mesh(dp)
func.func @main(%x: tensor<32x32xf32>, %p: tensor<16x32xf32>, %q: tensor<16x32xf32>) -> tensor<32x32xf32> {
  %g = torch._c10d_functional.all_gather_into_tensor.default(%p, 2, "0") : (tensor<16x32xf32>) -> tensor<32x32xf32>
  %gw = torch._c10d_functional.wait_tensor.default(%g) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %y = torch.aten.mm.default(%x, %gw) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %h = torch._c10d_functional.all_gather_into_tensor.default(%q, 2, "0") : (tensor<16x32xf32>) -> tensor<32x32xf32>
  %hw = torch._c10d_functional.wait_tensor.default(%h) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %z = torch.aten.mm.default(%y, %hw) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  fx.output(%z) : (tensor<32x32xf32>) -> ()
}
