// RUN: fxc-opt %s -p distributed --print-ir-before=bucket-collectives --split-input-file 2>&1 | filecheck %s

/// The pipeline runs on modules with process groups only.

// CHECK:      IR Dump Before bucket-collectives
// CHECK:      func.func @with_a_group
// CHECK-NOT:  IR Dump
// CHECK:      func.func @without_a_group
dist.mesh @mesh "cpu" (dp = 2)
dist.group @dp "7" on @mesh(dp)
func.func @with_a_group(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = torch._c10d_functional.all_reduce.default(%x, "sum", "7") : (tensor<4xf32>) -> tensor<4xf32>
  %y = torch._c10d_functional.wait_tensor.default(%r) : (tensor<4xf32>) -> tensor<4xf32>
  fx.output(%y) : (tensor<4xf32>) -> ()
}

// -----

func.func @without_a_group(%x: tensor<4xf32>) -> tensor<4xf32> {
  fx.output(%x) : (tensor<4xf32>) -> ()
}
