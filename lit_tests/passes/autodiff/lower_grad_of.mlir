// RUN: fxc-opt %s --split-input-file --pass-pipeline=lower-grad-of | filecheck %s
// RUN: fxc-opt %s --split-input-file --pass-pipeline=lower-grad-of,lower-grad-of | filecheck %s

/// Two gradients in, one out: any of them is enough. The body sees what is around it.
// CHECK-LABEL: func.func @two_in
// CHECK-NEXT:    %0 = autodiff.any_nonzero(%g, %h) : (tensor<2xf32>, tensor<2xf32>) -> i1
// CHECK-NEXT:    %d = scf.if %0 -> (tensor<4xf32>) {
// CHECK-NEXT:      %c = torch.aten.cat.default([%g, %h])
// CHECK-NEXT:      scf.yield %c
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %1 = autodiff.zero : tensor<4xf32>
// CHECK-NEXT:      scf.yield %1
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %d
func.func @two_in(%g: tensor<2xf32>, %h: tensor<2xf32>) -> tensor<4xf32> {
  %d = autodiff.grad_of "split"(%g, %h) ({
    %c = torch.aten.cat.default([%g, %h]) : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    autodiff.yield %c : tensor<4xf32>
  }) : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  func.return %d : tensor<4xf32>
}

// -----

/// Results of one type share one zero; a result that nothing reads stays.
// CHECK-LABEL: func.func @unused
// CHECK:         %p, %q, %r = scf.if %0 -> (tensor<2xf32>, tensor<2xf32>, tensor<3xf32>) {
// CHECK-NEXT:      scf.yield %g, %g, %h
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %1 = autodiff.zero : tensor<2xf32>
// CHECK-NEXT:      %2 = autodiff.zero : tensor<3xf32>
// CHECK-NEXT:      scf.yield %1, %1, %2
// CHECK-NEXT:    }
func.func @unused(%g: tensor<2xf32>, %h: tensor<3xf32>) -> tensor<2xf32> {
  %p, %q, %r = autodiff.grad_of "two"(%g, %h) ({
    autodiff.yield %g, %g, %h : tensor<2xf32>, tensor<2xf32>, tensor<3xf32>
  }) : (tensor<2xf32>, tensor<3xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<3xf32>)
  func.return %p : tensor<2xf32>
}

// -----

/// Other ops stay as they are.
// CHECK-LABEL: func.func @others
// CHECK-NEXT:    %s = autodiff.add(%g, %g)
// CHECK-NEXT:    func.return %s
func.func @others(%g: tensor<2xf32>) -> tensor<2xf32> {
  %s = autodiff.add(%g, %g) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %s : tensor<2xf32>
}
