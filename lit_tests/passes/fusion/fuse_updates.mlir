// RUN: fxc-opt %s --split-input-file -p 'set-target{to=cuda:sm_90},fuse{reductions=true}' | filecheck %s
// RUN: fxc-opt %s --split-input-file -p 'set-target{to=cuda:sm_90 deterministic=true},fuse{reductions=true}' --remarks=fuse -o %t 2>&1 | filecheck %s --check-prefix=SAME
// RUN: fxc-opt %s --split-input-file -p 'set-target{to=cpu},fuse{reductions=true}' --remarks=fuse -o %t 2>&1 | filecheck %s --check-prefix=CPU

/// What computes updates is in a group with them, what reads the result is not.
// CHECK-LABEL: func.func @sum
// CHECK:         fusion.group
// CHECK:           torch.aten.exp
// CHECK:           torch.aten.index_add
// CHECK-NEXT:      fusion.yield
// CHECK:         torch.aten.neg
// SAME: order: floats that are added in any order differ from run to run, {{.*}}: %a = aten.index_add.default
// CPU:  updates: programs of a CPU would wait for each other, {{.*}}: %a = aten.index_add.default
func.func @sum(%x: tensor<90xf32>, %i: tensor<80xi64>, %y: tensor<80xf32>) {
  %e = torch.aten.exp.default(%y) : (tensor<80xf32>) -> tensor<80xf32>
  %z = torch.aten.zeros_like.default(%x) : (tensor<90xf32>) -> tensor<90xf32>
  %a = torch.aten.index_add.default(%z, 0, %i, %e) : (tensor<90xf32>, tensor<80xi64>, tensor<80xf32>) -> tensor<90xf32>
  %n = torch.aten.neg.default(%a) : (tensor<90xf32>) -> tensor<90xf32>
  fx.output(%n) : (tensor<90xf32>) -> ()
}

// -----

/// Sums of integers do not depend on the order.
// CHECK-LABEL: func.func @count
// CHECK:         fusion.group
// SAME-NOT: order: {{.*}}%c = aten.index_add.default
func.func @count(%x: tensor<90xi64>, %i: tensor<80xi64>, %y: tensor<80xi64>) {
  %d = torch.aten.mul.Tensor(%y, 2) : (tensor<80xi64>) -> tensor<80xi64>
  %c = torch.aten.index_add.default(%x, 0, %i, %d) : (tensor<90xi64>, tensor<80xi64>, tensor<80xi64>) -> tensor<90xi64>
  fx.output(%c) : (tensor<90xi64>) -> ()
}

// -----

/// Of so many updates of each element, PyTorch's call is faster, which sorts them.
// CHECK-LABEL: func.func @few_elements
// CHECK-NOT:     fusion.group
func.func @few_elements(%g: tensor<60000x4xf32>, %i: tensor<60000xi64>) {
  %m = torch.aten.mul.Tensor(%g, 2.0) : (tensor<60000x4xf32>) -> tensor<60000x4xf32>
  %e = torch.aten.embedding_dense_backward.default(%m, %i, 2, -1, false) : (tensor<60000x4xf32>, tensor<60000xi64>) -> tensor<2x4xf32>
  fx.output(%e) : (tensor<2x4xf32>) -> ()
}

// -----

/// Which of several updates replaces an element is left to PyTorch.
// CHECK-LABEL: func.func @replaced
// CHECK-NOT:     fusion.group
func.func @replaced(%x: tensor<90xf32>, %i: tensor<80xi64>, %y: tensor<80xf32>) {
  %e = torch.aten.mul.Tensor(%y, 2.0) : (tensor<80xf32>) -> tensor<80xf32>
  %a = torch.aten.index_put.default(%x, [%i], %e) : (tensor<90xf32>, tensor<80xi64>, tensor<80xf32>) -> tensor<90xf32>
  fx.output(%a) : (tensor<90xf32>) -> ()
}
