// RUN: fxc-opt %s --verify-diagnostics --convert-torch-to-dist

dist.group @dp "0" ranks [0, 1, 2]
func.func @size(%x: tensor<4xf32>) {
  // expected-error@+1 {{the call is for 2 ranks, and its group @dp has 3}}
  %r = torch._c10d_functional.all_gather_into_tensor.default(%x, 2, "0") : (tensor<4xf32>) -> tensor<8xf32>
  fx.output() : () -> ()
}
