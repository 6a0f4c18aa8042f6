// RUN: not fxc-opt %s --pass-pipeline=lower-grad-of 2>&1 | filecheck %s

/// One in the body of another is an error, not two ifs.
// CHECK: autodiff.grad_of "outer" holds another autodiff.grad_of
func.func @nested(%g: tensor<2xf32>) -> tensor<2xf32> {
  %p = autodiff.grad_of "outer"(%g) ({
    %q = autodiff.grad_of "inner"(%g) ({
      autodiff.yield %g : tensor<2xf32>
    }) : (tensor<2xf32>) -> tensor<2xf32>
    autodiff.yield %q : tensor<2xf32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %p : tensor<2xf32>
}
