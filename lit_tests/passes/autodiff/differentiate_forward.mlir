// RUN: fxc-opt %s --pass-pipeline='differentiate{mode=forward}' | filecheck %s

/// Tangents come after the inputs, and go out after the outputs; one that is zero is undefined.
// CHECK-LABEL: func.func private @f(%x
// CHECK-LABEL: func.func private @f_jvp(%x: {{.*}}, %y: {{.*}}, %t_x: {{.*}}, %t_y: {{.*}})
// CHECK-NEXT:    %u = torch.aten.mul.Tensor(%x, %y)
// CHECK-NEXT:    %mul_1 = torch.aten.mul.Tensor(%t_x, %y)
// CHECK-NEXT:    %mul_2 = torch.aten.mul.Tensor(%t_y, %x)
// CHECK-NEXT:    %add = torch.aten.add.Tensor(%mul_2, %mul_1)
// CHECK:         %0 = autodiff.zero : tensor<2xf32>
// CHECK-NEXT:    func.return %u, %k, {{.*}}, %0
// CHECK:         autodiff.subgraph @f(%x, %y) {autodiff.jvp = @f_jvp}
func.func private @f(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %u = torch.aten.mul.Tensor(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %k = torch.aten.ones.default([2]) : () -> tensor<2xf32>
  func.return %u, %k : tensor<2xf32>, tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) {
  %u, %k = autodiff.subgraph @f(%x, %y) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  fx.output((%u, %k)) : (tensor<2xf32>, tensor<2xf32>) -> ()
}
