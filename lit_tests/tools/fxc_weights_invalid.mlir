// RUN: not fxc run %s 2>&1 | filecheck %s
// RUN: not fxc translate %s --to=fx -o %t 2>&1 | filecheck %s
// RUN: not fxc run - < %s 2>&1 | filecheck %s --check-prefix=STDIN
// RUN: fxc run %s --lifted | filecheck %s --check-prefix=LIFTED

/// The weights file lies beside the text; without it the program can only run on made-up weights.
func.func @main(%w: tensor<2xf32> {fx.kind = "parameter", fx.name = "w"}, %x: tensor<2xf32>) -> tensor<2xf32> {
  %y = torch.aten.mul.Tensor(%x, %w) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// CHECK:      error: {{.*}}fxc_weights_invalid.mlir names 1 tensors, but fxc_weights_invalid.safetensors is missing
// CHECK-NEXT: hint: {{.*}}--lifted
// STDIN:      error: <stdin> names 1 tensors, but stdin has no weights
// LIFTED:     result[0]: tensor<2xf32>
