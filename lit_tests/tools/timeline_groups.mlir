// RUN: fxc timeline %s --links %S/../passes/dist/inputs/links.json --world=2,1024 | filecheck %s
// RUN: not fxc timeline %s --links %S/../passes/dist/inputs/links.json --world=2 --axis=dp 2>&1 | filecheck %s --check-prefix=AXIS

/// A group of ranks, without a mesh, grows as the one axis of a mesh.
// CHECK:       @main
// CHECK:       2 {{.*}} 0.024 ms
// CHECK-NEXT:  1024 {{.*}} 20.468 ms
// AXIS:        error: @mesh(ranks = 2) has no axis dp
dist.group @g "0" ranks [0, 1]
func.func @main(%p: tensor<16x32xf32>) -> tensor<32x32xf32> {
  %g = torch._c10d_functional.all_gather_into_tensor.default(%p, 2, "0") : (tensor<16x32xf32>) -> tensor<32x32xf32>
  %gw = torch._c10d_functional.wait_tensor.default(%g) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  fx.output(%gw) : (tensor<32x32xf32>) -> ()
}
